// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/process_look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dump/blocked_registers.h"
#include "agent/dump/process_pause.h"

enum {
	ROUNDS_MAX = 6, // each walks further than the one before
};

static bool has_exited(const struct thread *thread)
{
	return thread->state == 'Z' || thread->state == 'X';
}

bool process_look_wants(const struct process_look *look, const struct thread *thread)
{
	return !look->options.tid || look->options.tid == thread->tid;
}

pid_t process_look_living_thread(const struct process_look *look)
{
	for (uint32_t i = 0; i < look->list.count; i++)
		if (!has_exited(&look->list.threads[i]))
			return look->list.threads[i].tid;
	return look->summary.pid;
}

/* ---- before the pause ---------------------------------------------------------------------- */

void process_look_prepare(struct process_look *look)
{
	for (uint32_t i = 0; i < look->list.count; i++) {
		const struct thread *thread = &look->list.threads[i];

		if (thread->has_registers && process_look_wants(look, thread))
			live_unwind_scan(look->unwind, thread->registers.pc,
					 thread_registers_sp(&thread->registers));
	}
	live_unwind_build_missing(look->unwind);
}

/* ---- during the pause ---------------------------------------------------------------------- */

static bool has_moved(const struct thread *thread, const struct thread_registers *registers)
{
	return !thread->has_registers || thread->registers.pc != registers->pc ||
	       thread_registers_sp(&thread->registers) != thread_registers_sp(registers);
}

static int look_at_thread(struct process_look *look, uint32_t index,
			  const struct thread_registers *registers)
{
	const struct thread *thread = &look->list.threads[index];
	struct thread_look *seen = &look->threads[index];

	seen->moved = has_moved(thread, registers);
	seen->registers = *registers;
	seen->has_stack = true;
	// An interrupted call may show as restart_syscall() by now: what was read before is the call.
	wait_memory_read(process_look_living_thread(look), thread,
			 seen->moved ? registers : &thread->registers, &seen->memory);
	seen->holds_gil = live_unwind_holds_gil(look->unwind, registers);
	return live_unwind_thread(look->unwind, registers, &seen->stack);
}

/* A register of which only 0 is known leads nowhere, which says nothing of the stack. */
static void blame_registers(struct live_stack *stack)
{
	if (stack->end == STACK_END_FAULT || stack->end == STACK_END_BAD_FRAME ||
	    stack->end == STACK_END_NO_FRAME_POINTER || stack->end == STACK_END_UNSUPPORTED)
		stack->end = STACK_END_NO_REGISTERS;
}

/*
 * One that is blocked, and not stopped by us. Without the registers that the kernel has saved its
 * frame pointer is not known. If it has not run meanwhile, its stack is as good as a stopped one's.
 */
static int look_at_sleeper(struct process_look *look, uint32_t index,
			   const struct blocked_registers *saved)
{
	const struct thread *thread = &look->list.threads[index];
	const struct thread_registers *whole = blocked_registers_find(saved, &thread->registers);
	struct thread_registers registers = whole ? *whole : thread->registers;

	if (!registers.thread_pointer)
		registers.thread_pointer = thread_pointer_find(thread->tid);
	live_unwind_forget_memory(look->unwind);
	int rc = look_at_thread(look, index, &registers);
	look->threads[index].stood_still = !rc && thread_has_slept(&look->proc, thread);
	if (registers.partial)
		blame_registers(&look->threads[index].stack);
	return rc;
}

static int look_at_sleepers(struct process_look *look)
{
	struct blocked_registers saved = { 0 };
	bool has_asked = false;
	int rc = 0;

	for (uint32_t i = 0; i < look->list.count && !rc; i++) {
		const struct thread *thread = &look->list.threads[i];

		if (!process_look_wants(look, thread) || look->threads[i].stood_still ||
		    !thread->has_registers || has_exited(thread))
			continue;
		if (!has_asked)
			blocked_registers_read(look->summary.pid, &saved); // or there are none
		has_asked = true;
		rc = look_at_sleeper(look, i, &saved);
	}
	blocked_registers_deinit(&saved);
	return rc;
}

static int look_at_stopped(struct process_look *look, const struct process_pause *pause)
{
	int rc = 0;

	live_unwind_forget_memory(look->unwind);
	for (uint32_t i = 0; i < look->list.count && !rc; i++) {
		const struct thread *thread = &look->list.threads[i];
		const struct paused_thread *paused = process_pause_find(pause, thread->tid);

		if (!process_look_wants(look, thread) || !paused || !paused->stopped)
			continue;
		rc = look_at_thread(look, i, &paused->registers);
		look->threads[i].stood_still = true;
	}
	return rc;
}

static int look_paused(struct process_look *look, struct error *err)
{
	struct dump_summary *summary = &look->summary;
	struct process_pause *pause;
	bool expired;
	int rc = process_pause_begin(summary->pid, &pause, err);

	if (rc)
		return rc;
	rc = look_at_stopped(look, pause);
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

static bool is_missing_a_table(const struct process_look *look)
{
	for (uint32_t i = 0; i < look->list.count; i++)
		if (look->threads[i].has_stack &&
		    look->threads[i].stack.end == STACK_END_NO_MAPPING)
			return true;
	return false;
}

/* A stack that ended for want of a table: its other files are looked for too, so that one more round does. */
static bool build_missing_tables(struct process_look *look)
{
	for (uint32_t i = 0; i < look->list.count; i++) {
		const struct thread_look *seen = &look->threads[i];

		if (seen->has_stack && seen->stack.end == STACK_END_NO_MAPPING)
			live_unwind_scan(look->unwind, seen->registers.pc,
					 thread_registers_sp(&seen->registers));
	}
	return live_unwind_build_missing(look->unwind) > 0;
}

/* What threads do is read last, so that it is true of those that are blocked when they are stopped. */
static void refresh(struct process_look *look)
{
	thread_list_refresh(&look->proc, !look->options.no_kernel, &look->list);
	for (uint32_t i = 0; i < look->list.count; i++) {
		look->threads[i].has_stack = false;
		look->threads[i].stood_still = false;
	}
}

/* Why a process cannot be paused is said, and then it is looked at as it runs. */
static int look_once(struct process_look *look, struct error *err)
{
	int rc = look->options.no_pause ? 0 : look_paused(look, err);

	if (rc == -ENOMEM || rc == -ESRCH)
		return rc;
	if (rc) {
		memcpy(look->summary.why_not_paused, err->text, sizeof(err->text));
		look->options.no_pause = true;
	}
	return look_at_sleepers(look);
}

int process_look_take(struct process_look *look, struct error *err)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		refresh(look);
		int rc = look_once(look, err);
		if (rc)
			return rc;
		if (!is_missing_a_table(look) || !build_missing_tables(look))
			break;
	}
	return 0;
}

void process_look_deinit(struct process_look *look)
{
	for (uint32_t i = 0; look->threads && i < look->list.count; i++) {
		live_stack_deinit(&look->threads[i].stack);
		free(look->threads[i].locations);
	}
	free(look->threads);
	live_unwind_close(look->unwind);
	thread_list_deinit(&look->list);
	proc_close(&look->proc);
}
