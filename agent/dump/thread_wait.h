// SPDX-License-Identifier: Apache-2.0
// What a blocked thread waits for: its system call, what the arguments mean, and the holder of a lock, as far
// as memory and the functions on its stack show. All of it may be wrong: it is a text for people, never a
// decision.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "agent/dump/file_target.h"
#include "agent/dump/thread_list.h"
#include "agent/dump/thread_registers.h"

enum {
	WAIT_MEMORY_BYTES = 384, // three sets of 1,024 descriptors for select()
	WAIT_TEXT_BYTES = 512,
	WAIT_FILES_SHOWN = 4, // of those that poll() and the like watch
};

enum wait_kind {
	WAIT_NOTHING, // running or runnable
	WAIT_FUTEX,   // a lock of unknown kind
	WAIT_MUTEX,   // address, and owner where known
	WAIT_GIL,
	WAIT_CONDITION, // of the address
	WAIT_SEMAPHORE,
	WAIT_THREAD, // owner: the thread that is joined
	WAIT_FILE,   // fd
	WAIT_FILES,  // any of several; fd of the epoll descriptor, or -1
	WAIT_TIME,
	WAIT_PROCESS, // a child
	WAIT_SIGNAL,
	WAIT_MEMORY, // a page fault, or a change of mappings
	WAIT_OTHER,
};

/** The call, and what its arguments point to, copied while the thread was stopped. */
struct wait_memory {
	int64_t syscall; // number, or SYSCALL_NONE
	uint8_t bytes[WAIT_MEMORY_BYTES];
	uint32_t size;
	bool has_time;
	struct timespec time;
};

struct thread_wait {
	enum wait_kind kind;
	int64_t syscall;            // number, or SYSCALL_NONE
	const char *call;           // its name; NULL: unknown or none
	uint64_t address;           // of a lock, else 0
	int fd;                     // -1: none
	pid_t owner;                // tid; 0: unknown
	char text[WAIT_TEXT_BYTES]; // "waits for the GIL", "in read of fd 3 (pipe 4711)", "runs"
};

/**
 * Copy from process @pid (or a living thread of it) what the call's arguments point to; what cannot be read is
 * left out. Cheap: the process is paused.
 */
void wait_memory_read(pid_t pid, const struct thread *thread,
		      const struct thread_registers *registers, struct wait_memory *ret_memory);

/** A function on the stack; "": unknown. */
struct wait_function {
	const char *name;
	const char *module;
};

struct wait_context {
	const struct thread_list *threads;
	struct file_targets *files;
	const struct wait_function *functions; // on its stack, leaf first
	uint32_t function_count;
	const struct thread *gil_holder; // NULL: none, or unknown
	bool moved;                      // it ran since its state was read
};

/** @thread's state and wait channel were read before it was stopped, @registers and @memory after. */
void thread_wait_describe(const struct thread *thread, const struct thread_registers *registers,
			  const struct wait_memory *memory, const struct wait_context *context,
			  struct thread_wait *ret_wait);

/** "mutex", "gil": the token in JSON. */
const char *wait_kind_name(enum wait_kind kind);
