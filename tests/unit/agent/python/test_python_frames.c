// SPDX-License-Identifier: Apache-2.0
// The unwinder over live interpreters, every one of this machine: it must find the frames that CPython reports
// of its own threads, address by address and instruction by instruction.
// Subject: bpf/unwind/unwind_python.h

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/dump/live_unwind.h"
#include "agent/process/proc.h"
#include "agent/process/process_table.h"
#include "agent/dump/process_pause.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "bpf/unwind/python.h"
#include "tests/test.h"
#include "tests/unit/agent/python/pythons.h"
#include "tests/unit/agent/process/new_process_table.h"

#define SCRIPT "tests/truth/python_frames/threads.py"

/* Of a frame whose code is known, but not where in it. */
#define ANYWHERE 0xffffffffU

enum {
	FRAMES_MAX = 2048,
	THREADS_MAX = 64,
	SCRIPT_SECONDS_MAX = 60, // it ends by itself
};

/* ---- CPython's frames - -------------------------------------------------------------------------- */

struct true_frame {
	uint64_t code;
	uint32_t index;
	char name[64];
};

struct true_thread {
	pid_t tid;
	char name[64];
	uint32_t frame_count;
	struct true_frame *frames;
};

struct interpreter {
	pid_t pid;
	FILE *output;
	struct true_thread threads[THREADS_MAX];
	uint32_t thread_count;
};

static void read_truth(struct interpreter *interpreter)
{
	char line[256];
	struct true_thread *thread = NULL;

	while (fgets(line, sizeof(line), interpreter->output)) {
		struct true_frame frame = { 0 };
		int tid;
		char name[64];

		if (sscanf(line, "thread %d %63s", &tid, name) == 2 &&
		    interpreter->thread_count < THREADS_MAX) {
			thread = &interpreter->threads[interpreter->thread_count++];
			thread->tid = tid;
			strcpy(thread->name, name);
			thread->frames = calloc(FRAMES_MAX, sizeof(*thread->frames));
		} else if (thread && thread->frame_count < FRAMES_MAX &&
			   sscanf(line, "frame %" SCNu64 " %u %63s", &frame.code, &frame.index,
				  frame.name) == 3) {
			thread->frames[thread->frame_count++] = frame;
		} else if (strcmp(line, "ready\n") == 0) {
			return;
		}
	}
	fail_msg("the interpreter ended early");
}

static void start(struct interpreter *interpreter, const char *path)
{
	int ends[2];

	assert_int_equal(0, pipe2(ends, O_CLOEXEC));
	interpreter->pid = fork();
	if (!interpreter->pid) {
		dup2(ends[1], STDOUT_FILENO);
		alarm(SCRIPT_SECONDS_MAX);
		execl(path, path, SCRIPT, NULL);
		_exit(127);
	}
	close(ends[1]);
	interpreter->output = fdopen(ends[0], "r");
}

static void stop(struct interpreter *interpreter)
{
	kill(interpreter->pid, SIGKILL);
	waitpid(interpreter->pid, NULL, 0);
	fclose(interpreter->output);
	for (uint32_t i = 0; i < interpreter->thread_count; i++)
		free(interpreter->threads[i].frames);
}

/* ---- the comparison ----------------------------------------------------------------------------- */

static uint32_t mismatches;

static void mismatch(const char *path, const struct true_thread *thread, uint32_t at,
		     const struct raw_frame *found)
{
	if (++mismatches > 20)
		return;
	if (at >= thread->frame_count)
		print_error("%s: %s: frame %u too many: %llx\n", path, thread->name, at,
			    (unsigned long long)found->address);
	else
		print_error("%s: %s: frame %u of %u is %s %llx+%u, found %llx+%u\n", path,
			    thread->name, at, thread->frame_count, thread->frames[at].name,
			    (unsigned long long)thread->frames[at].code, thread->frames[at].index,
			    found ? (unsigned long long)found->address : 0,
			    found ? PYTHON_DETAIL_INDEX(found->detail) : 0);
}

static bool is_same(const struct true_frame *truth, const struct raw_frame *found)
{
	return truth->code == found->address &&
	       (truth->index == ANYWHERE || truth->index == PYTHON_DETAIL_INDEX(found->detail)) &&
	       PYTHON_DETAIL_CHECKSUM(found->detail);
}

/* Python frames must be the true ones; native ones may lie between. */
static void compare(const char *path, const struct true_thread *thread,
		    const struct live_stack *stack)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < stack->frame_count; i++) {
		const struct raw_frame *found = &stack->frames[i];

		if (found->tag != FRAME_TAG_PYTHON)
			continue;
		if (at >= thread->frame_count || !is_same(&thread->frames[at], found))
			return mismatch(path, thread, at, found);
		at++;
	}
	if (at != thread->frame_count)
		return mismatch(path, thread, at, NULL);
	if (stack->end != STACK_END_COMPLETE && ++mismatches < 20)
		print_error("%s: %s: ended by %u after %u frames\n", path, thread->name, stack->end,
			    stack->frame_count);
}

static void compare_threads(const struct interpreter *interpreter, struct live_unwind *unwind,
			    const struct process_pause *pause, const char *path)
{
	struct live_stack stack = { 0 };

	for (uint32_t i = 0; i < interpreter->thread_count; i++) {
		const struct true_thread *thread = &interpreter->threads[i];
		const struct paused_thread *paused = process_pause_find(pause, thread->tid);

		assert_non_null(paused);
		assert_true(paused->stopped);
		assert_int_equal(0, live_unwind_thread(unwind, &paused->registers, &stack));
		compare(path, thread, &stack);
	}
	live_stack_deinit(&stack);
}

static void check_interpreter(const char *path)
{
	const struct labels no_labels = { 0 };
	struct interpreter interpreter = { 0 };
	struct live_unwind *unwind = NULL;
	struct process_pause *pause = NULL;
	struct error err = { 0 };
	struct proc proc;

	start(&interpreter, path);
	read_truth(&interpreter);

	struct executable_table *executables = executable_table_new();
	struct process_table *processes = new_process_table(executables, &no_labels);

	assert_int_equal(0, proc_open(interpreter.pid, &proc));
	const struct process_key key = {
		.pid = (uint32_t)interpreter.pid,
		.start_ns = proc.stat.start_ticks * (NS_PER_SECOND / PROC_TICKS_PER_SECOND),
	};
	struct process *process = process_table_get(processes, &key, proc.stat.name);
	const struct live_unwind_options options = { .build_at_once = true };

	assert_int_equal(
		0, live_unwind_open(processes, process, interpreter.pid, &options, &unwind, &err));
	if (err.text[0])
		fail_msg("%s: %s", path, err.text);
	if (process_pause_begin(interpreter.pid, &pause, &err))
		fail_msg("%s: %s", path, err.text);
	compare_threads(&interpreter, unwind, pause, path);
	print_message("%s: %u threads\n", path, interpreter.thread_count);
	process_pause_free(pause);
	live_unwind_close(unwind);
	proc_close(&proc);
	process_table_free(processes);
	executable_table_free(executables);
	stop(&interpreter);
}

TEST(unwinds_the_frames_each_interpreter_reports)
{
	find_pythons();
	if (!python_program_count)
		SKIP("no CPython here");
	for (uint32_t i = 0; i < python_program_count; i++)
		check_interpreter(python_programs[i].path);
	assert_int_equal(0, mismatches);
}

RUN_TESTS(cmocka_unit_test(unwinds_the_frames_each_interpreter_reports))
