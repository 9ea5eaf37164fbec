// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/process_capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dump/blocked_registers.h"
#include "agent/dump/process_pause.h"

enum {
	ROUNDS_MAX = 6, // each unwinds further than the one before
};

static bool has_exited(const struct thread *thread)
{
	return thread->state == 'Z' || thread->state == 'X';
}

bool process_capture_wants(const struct process_capture *capture, const struct thread *thread)
{
	return !capture->options.tid || capture->options.tid == thread->tid;
}

pid_t process_capture_living_thread(const struct process_capture *capture)
{
	for (uint32_t i = 0; i < capture->list.count; i++)
		if (!has_exited(&capture->list.threads[i]))
			return capture->list.threads[i].tid;
	return capture->summary.pid;
}

/* ---- before the pause ---------------------------------------------------------------------- */

void process_capture_prepare(struct process_capture *capture)
{
	for (uint32_t i = 0; i < capture->list.count; i++) {
		const struct thread *thread = &capture->list.threads[i];

		if (thread->has_registers && process_capture_wants(capture, thread))
			live_unwind_scan(capture->unwind, thread->registers.pc,
					 thread_registers_sp(&thread->registers));
	}
	live_unwind_build_missing(capture->unwind);
}

/* ---- during the pause ---------------------------------------------------------------------- */

static bool has_moved(const struct thread *thread, const struct thread_registers *registers)
{
	return !thread->has_registers || thread->registers.pc != registers->pc ||
	       thread_registers_sp(&thread->registers) != thread_registers_sp(registers);
}

static int capture_thread(struct process_capture *capture, uint32_t index,
			  const struct thread_registers *registers)
{
	const struct thread *thread = &capture->list.threads[index];
	struct thread_capture *seen = &capture->threads[index];

	seen->moved = has_moved(thread, registers);
	seen->registers = *registers;
	seen->has_stack = true;
	// An interrupted call may be restart_syscall() by now: the one read before is right.
	wait_memory_read(process_capture_living_thread(capture), thread,
			 seen->moved ? registers : &thread->registers, &seen->memory);
	seen->holds_gil = live_unwind_holds_gil(capture->unwind, registers);
	return live_unwind_thread(capture->unwind, registers, &seen->stack);
}

/* Unknown registers are 0: that the stack ends there says nothing. */
static void mark_unknown_registers(struct live_stack *stack)
{
	if (stack->end == STACK_END_FAULT || stack->end == STACK_END_BAD_FRAME ||
	    stack->end == STACK_END_NO_FRAME_POINTER || stack->end == STACK_END_UNSUPPORTED)
		stack->end = STACK_END_NO_REGISTERS;
}

/*
 * A blocked thread that we did not stop. Only the registers saved by the kernel have its frame pointer. If it
 * has not run meanwhile, its stack is as good as a stopped thread's.
 */
static int capture_sleeper(struct process_capture *capture, uint32_t index,
			   const struct blocked_registers *saved)
{
	const struct thread *thread = &capture->list.threads[index];
	const struct thread_registers *whole = blocked_registers_find(saved, &thread->registers);
	struct thread_registers registers = whole ? *whole : thread->registers;

	if (!registers.thread_pointer)
		registers.thread_pointer = thread_pointer_find(thread->tid);
	live_unwind_clear_memory(capture->unwind);
	int rc = capture_thread(capture, index, &registers);
	capture->threads[index].consistent = !rc && thread_has_slept(&capture->proc, thread);
	if (registers.partial)
		mark_unknown_registers(&capture->threads[index].stack);
	return rc;
}

static int capture_sleepers(struct process_capture *capture)
{
	struct blocked_registers saved = { 0 };
	bool has_asked = false;
	int rc = 0;

	for (uint32_t i = 0; i < capture->list.count && !rc; i++) {
		const struct thread *thread = &capture->list.threads[i];

		if (!process_capture_wants(capture, thread) || capture->threads[i].consistent ||
		    !thread->has_registers || has_exited(thread))
			continue;
		if (!has_asked)
			blocked_registers_read(capture->summary.pid,
					       &saved); // may fail: then there are none
		has_asked = true;
		rc = capture_sleeper(capture, i, &saved);
	}
	blocked_registers_deinit(&saved);
	return rc;
}

static int capture_stopped(struct process_capture *capture, const struct process_pause *pause)
{
	int rc = 0;

	live_unwind_clear_memory(capture->unwind);
	for (uint32_t i = 0; i < capture->list.count && !rc; i++) {
		const struct thread *thread = &capture->list.threads[i];
		const struct paused_thread *paused = process_pause_find(pause, thread->tid);

		if (!process_capture_wants(capture, thread) || !paused || !paused->stopped)
			continue;
		rc = capture_thread(capture, i, &paused->registers);
		capture->threads[i].consistent = true;
	}
	return rc;
}

static int capture_paused(struct process_capture *capture, struct error *err)
{
	struct dump_summary *summary = &capture->summary;
	struct process_pause *pause;
	bool expired;
	int rc = process_pause_begin(summary->pid, &pause, err);

	if (rc)
		return rc;
	rc = capture_stopped(capture, pause);
	uint64_t pause_ns = process_pause_end(pause, &expired);
	process_pause_free(pause);
	summary->paused = true;
	summary->rounds++;
	summary->pause_ns += pause_ns;
	if (pause_ns > summary->longest_pause_ns)
		summary->longest_pause_ns = pause_ns;
	summary->expired = expired;
	return rc ? error_set(err, rc, "out of memory") : 0;
}

static bool is_missing_a_table(const struct process_capture *capture)
{
	for (uint32_t i = 0; i < capture->list.count; i++)
		if (capture->threads[i].has_stack &&
		    capture->threads[i].stack.end == STACK_END_NO_MAPPING)
			return true;
	return false;
}

/* A stack that lacked a table is scanned for others, so that one more round suffices. */
static bool build_missing_tables(struct process_capture *capture)
{
	for (uint32_t i = 0; i < capture->list.count; i++) {
		const struct thread_capture *seen = &capture->threads[i];

		if (seen->has_stack && seen->stack.end == STACK_END_NO_MAPPING)
			live_unwind_scan(capture->unwind, seen->registers.pc,
					 thread_registers_sp(&seen->registers));
	}
	return live_unwind_build_missing(capture->unwind) > 0;
}

/* States are read last, so that those of blocked threads are still true when they are stopped. */
static void refresh(struct process_capture *capture)
{
	thread_list_refresh(&capture->proc, !capture->options.no_kernel, &capture->list);
	for (uint32_t i = 0; i < capture->list.count; i++) {
		capture->threads[i].has_stack = false;
		capture->threads[i].consistent = false;
	}
}

/* Without a pause, the error is kept and the process captured as it runs. */
static int capture_once(struct process_capture *capture, struct error *err)
{
	int rc = capture->options.no_pause ? 0 : capture_paused(capture, err);

	if (rc == -ENOMEM || rc == -ESRCH)
		return rc;
	if (rc) {
		memcpy(capture->summary.pause_error, err->text, sizeof(err->text));
		capture->options.no_pause = true;
	}
	return capture_sleepers(capture);
}

int process_capture_run(struct process_capture *capture, struct error *err)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		refresh(capture);
		int rc = capture_once(capture, err);
		if (rc)
			return rc;
		if (!is_missing_a_table(capture) || !build_missing_tables(capture))
			break;
	}
	return 0;
}

void process_capture_deinit(struct process_capture *capture)
{
	for (uint32_t i = 0; capture->threads && i < capture->list.count; i++) {
		live_stack_deinit(&capture->threads[i].stack);
		free(capture->threads[i].locations);
	}
	free(capture->threads);
	live_unwind_close(capture->unwind);
	thread_list_deinit(&capture->list);
	proc_close(&capture->proc);
}
