// SPDX-License-Identifier: Apache-2.0
// Options and result of a dump.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/dump/thread_list.h"
#include "agent/dump/thread_wait.h"
#include "base/error.h"
#include "base/profile/profile.h"

struct confined_launcher;

struct dump_options {
	pid_t tid;     // only this thread; 0: all
	bool no_pause; // do not stop it: only blocked threads have stacks, which may be inconsistent
	bool no_python; // the interpreter's C frames instead of Python frames
	bool no_kernel;
	const char *cache_folder; // for large unwind tables; NULL: none
	struct confined_launcher
		*line_launcher; // for source lines and inlined functions of native code; NULL: none
};

/** One line of a stack. Strings live as long as the dump. */
struct dump_frame {
	enum frame_kind kind;
	bool inlined;       // into the frame that follows
	uint64_t address;   // in the process; 0 for Python and kernel frames
	uint64_t offset;    // in the module's file; of kernel frames: in the function
	const char *name;   // of the function; "": not known
	const char *module; // path of the file, "": none
	const char *build_id;
	const char *file; // of source, "": not known
	uint32_t line;    // 0: not known
};

struct dump_thread {
	const struct thread *thread;
	struct thread_wait wait;
	struct dump_frame *frames; // leaf first
	uint32_t frame_count;
	enum stack_end end; // of the user stack
	bool has_stack;     // false: it ran and was not stopped, or has exited
	bool holds_gil;     // of its interpreter; false also if unknown
	bool consistent;    // it did not run while its stack was read
};

struct dump_summary {
	pid_t pid;
	pid_t namespace_pid;
	char name[PROC_NAME_BYTES];
	char executable[1024]; // path in the process's mount namespace; "": unknown
	bool paused;
	char pause_error[ERROR_TEXT_BYTES];  // "": it was paused, or not to be
	char python_error[ERROR_TEXT_BYTES]; // why there are no Python frames; "": no error
	uint32_t rounds;   // pauses; another one when a stack needs one more unwind table
	uint64_t pause_ns; // sum
	uint64_t longest_pause_ns;
	bool expired; // a pause reached its time limit before all stacks were unwound
	uint64_t total_ns;
	uint64_t tables_ns; // building unwind tables, of the total
	uint32_t tables;
	uint32_t mappings;
	uint32_t threads_left_out;
};
