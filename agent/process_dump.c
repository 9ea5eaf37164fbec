// SPDX-License-Identifier: Apache-2.0
#include "process_dump.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/blocked_registers.h"
#include "agent/executable.h"
#include "agent/file_target.h"
#include "agent/frame_locator.h"
#include "agent/line_reader.h"
#include "agent/live_unwind.h"
#include "agent/location_table.h"
#include "agent/process.h"
#include "agent/process_pause.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"

enum {
	ROUNDS_MAX = 6,        // each walks further than the one before
	LINES_WAIT_MS = 30000, // debug information may be gigabytes
	STATUS_BYTES = 8192,
	LEAF_FUNCTIONS = 8, // enough to tell a lock by
};

/* What is noted of one thread while the process is paused. */
struct thread_look {
	struct thread_registers registers;
	struct live_stack stack;
	struct wait_memory memory;
	uint32_t *
		locations; // of the stack's frames: numbers of the table, then positions in the names
	uint32_t location_count;
	bool has_stack;
	bool stood_still; // while it was looked at
	bool moved;       // since its state was read
	bool holds_gil;
};

struct process_dump {
	struct dump_options options;
	struct dump_summary summary;
	struct proc proc;
	struct thread_list list;
	struct thread_look *looks; // one for each thread
	struct dump_thread *threads;
	uint32_t thread_count;

	struct executable_table *executables;
	struct process_table *processes;
	struct location_table *locations;
	struct line_reader *lines; // NULL: of functions only
	struct python_code_table *python_codes;
	struct frame_locator locator;
	struct process *process;
	struct live_unwind *unwind;
	struct profile *names;
};

/* ---- which process ------------------------------------------------------------------------- */

static long status_number(const struct proc *proc, const char *name)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	if (proc_read(proc->fd, "status", STATUS_BYTES, &text))
		return -1;
	const char *at = strstr(buffer_string(&text), name);
	return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

static int refuse(pid_t pid, const struct proc *proc, struct error *err)
{
	long leader = status_number(proc, "\nTgid:");

	if (proc->stat.kernel_thread)
		return error_set(err, -EINVAL,
				 "%d (%s) is a thread of the kernel, which has no "
				 "user stack",
				 pid, proc->stat.name);
	if (leader > 0 && leader != pid)
		return error_set(err, -EINVAL,
				 "%d is a thread of process %ld; give %ld, with --thread %d to see "
				 "it alone",
				 pid, leader, leader, pid);
	if (proc->files == proc->fd && (proc->stat.state == 'Z' || proc->stat.state == 'X'))
		return error_set(err, -ESRCH,
				 "process %d (%s) has exited; its parent %ld has not waited for it "
				 "yet",
				 pid, proc->stat.name, status_number(proc, "\nPPid:"));
	return 0;
}

static int open_process(struct process_dump *dump, pid_t pid, struct error *err)
{
	int rc = proc_open(pid, &dump->proc);

	if (rc == -ESRCH)
		return error_set(err, rc, "there is no process %d", pid);
	if (rc)
		return error_errno(err, rc, "process %d", pid);
	rc = refuse(pid, &dump->proc, err);
	if (rc)
		return rc;

	struct dump_summary *summary = &dump->summary;
	summary->pid = pid;
	memcpy(summary->name, dump->proc.stat.name, sizeof(summary->name));
	utf8_clean(summary->name);
	if (proc_read_link(dump->proc.files, "exe", summary->executable,
			   sizeof(summary->executable)))
		summary->executable[0] = '\0';
	utf8_clean(summary->executable);
	return 0;
}

static int read_threads(struct process_dump *dump, struct error *err)
{
	pid_t pid = dump->summary.pid, tid = dump->options.tid;
	int rc = thread_list_read(&dump->proc, !dump->options.no_kernel, &dump->list);

	if (rc == -ESRCH)
		return error_set(err, rc, "process %d has exited", pid);
	if (rc)
		return error_errno(err, rc, "threads of process %d", pid);
	if (tid && !thread_list_find(&dump->list, tid))
		return error_set(err, -EINVAL, "--thread: process %d has no thread %d", pid, tid);
	const struct thread *main_thread = thread_list_find(&dump->list, pid);
	dump->summary.namespace_pid = main_thread ? main_thread->namespace_tid : pid;
	dump->summary.threads_left_out = dump->list.left_out;
	dump->looks = calloc(dump->list.count, sizeof(*dump->looks));
	dump->threads = calloc(dump->list.count, sizeof(*dump->threads));
	for (uint32_t i = 0; dump->looks && i < dump->list.count; i++)
		dump->looks[i].memory.syscall = SYSCALL_NONE; // unless it is found in one
	return dump->looks && dump->threads ? 0 : -ENOMEM;
}

static bool is_wanted(const struct process_dump *dump, const struct thread *thread)
{
	return !dump->options.tid || dump->options.tid == thread->tid;
}

static bool has_exited(const struct thread *thread)
{
	return thread->state == 'Z' || thread->state == 'X';
}

/* Memory is had by any living thread's id, but not by a main thread's that has exited. */
static pid_t living_thread(const struct process_dump *dump)
{
	for (uint32_t i = 0; i < dump->list.count; i++)
		if (!has_exited(&dump->list.threads[i]))
			return dump->list.threads[i].tid;
	return dump->summary.pid;
}

/* ---- before the pause ---------------------------------------------------------------------- */

static int find_interpreter(void *context, const struct process_key *process,
			    struct python_interpreter *ret_interpreter)
{
	const struct process_dump *dump = context;
	const struct python_interpreter *interpreter = live_unwind_interpreter(dump->unwind);

	(void)process; // there is but one
	if (!interpreter)
		return -ENOENT;
	*ret_interpreter = *interpreter;
	return 0;
}

static int open_lines(struct process_dump *dump)
{
	if (!dump->options.lines)
		return 0;
	dump->lines = line_reader_new(dump->executables);
	if (!dump->lines)
		return -ENOMEM;
	location_table_use_lines(dump->locations, dump->lines);
	return 0;
}

static int open_tables(struct process_dump *dump)
{
	const struct labels no_labels = { 0 };
	const struct process_key key = {
		.pid = (uint32_t)dump->summary.pid,
		.start_ns = dump->proc.stat.start_ticks * (NS_PER_SECOND / PROC_TICKS_PER_SECOND),
	};

	dump->executables = executable_table_new();
	if (!dump->executables)
		return -ENOMEM;
	dump->processes = process_table_new(dump->executables, &no_labels);
	dump->locations = location_table_new(dump->executables, NULL);
	dump->python_codes = python_code_table_new(find_interpreter, dump);
	if (!dump->processes || !dump->locations || !dump->python_codes)
		return -ENOMEM;
	dump->locator = (struct frame_locator){
		.processes = dump->processes,
		.locations = dump->locations,
		.python_codes = dump->python_codes,
	};
	dump->process = process_table_get(dump->processes, &key, dump->summary.name);
	return dump->process ? open_lines(dump) : -ENOMEM;
}

static int open_unwind(struct process_dump *dump, struct error *err)
{
	const struct live_unwind_options options = {
		.no_python = dump->options.no_python,
		.cache_folder = dump->options.cache_folder,
	};
	struct error notice = { 0 };
	int rc = open_tables(dump);

	if (rc)
		return error_set(err, rc, "out of memory");
	rc = live_unwind_open(dump->processes, dump->process, living_thread(dump), &options,
			      &dump->unwind, &notice);
	if (rc == -ESRCH)
		return error_set(err, rc,
				 "the mappings of process %d cannot be read: run as root, or with "
				 "CAP_SYS_PTRACE",
				 dump->summary.pid);
	if (rc)
		return error_set(err, rc, "%s", notice.text);
	memcpy(dump->summary.python_notice, notice.text, sizeof(notice.text));
	return 0;
}

/* Most files that stacks go through are found before anybody is paused. */
static void build_expected_tables(struct process_dump *dump)
{
	for (uint32_t i = 0; i < dump->list.count; i++) {
		const struct thread *thread = &dump->list.threads[i];

		if (thread->has_registers && is_wanted(dump, thread))
			live_unwind_scan(dump->unwind, thread->registers.pc,
					 thread_registers_sp(&thread->registers));
	}
	live_unwind_build_missing(dump->unwind);
}

/* ---- during the pause ---------------------------------------------------------------------- */

static bool has_moved(const struct thread *thread, const struct thread_registers *registers)
{
	return !thread->has_registers || thread->registers.pc != registers->pc ||
	       thread_registers_sp(&thread->registers) != thread_registers_sp(registers);
}

static int look_at_thread(struct process_dump *dump, uint32_t index,
			  const struct thread_registers *registers)
{
	const struct thread *thread = &dump->list.threads[index];
	struct thread_look *look = &dump->looks[index];

	look->moved = has_moved(thread, registers);
	look->registers = *registers;
	look->has_stack = true;
	// An interrupted call may show as restart_syscall() by now: what was read before is the call.
	wait_memory_read(living_thread(dump), thread, look->moved ? registers : &thread->registers,
			 &look->memory);
	look->holds_gil = live_unwind_holds_gil(dump->unwind, registers);
	return live_unwind_thread(dump->unwind, registers, &look->stack);
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
static int look_at_sleeper(struct process_dump *dump, uint32_t index,
			   const struct blocked_registers *saved)
{
	const struct thread *thread = &dump->list.threads[index];
	const struct thread_registers *whole = blocked_registers_find(saved, &thread->registers);
	struct thread_registers registers = whole ? *whole : thread->registers;

	if (!registers.thread_pointer)
		registers.thread_pointer = thread_pointer_find(thread->tid);
	live_unwind_forget_memory(dump->unwind);
	int rc = look_at_thread(dump, index, &registers);
	dump->looks[index].stood_still = !rc && thread_has_slept(&dump->proc, thread);
	if (registers.partial)
		blame_registers(&dump->looks[index].stack);
	return rc;
}

static int look_at_sleepers(struct process_dump *dump)
{
	struct blocked_registers saved = { 0 };
	bool has_asked = false;
	int rc = 0;

	for (uint32_t i = 0; i < dump->list.count && !rc; i++) {
		const struct thread *thread = &dump->list.threads[i];

		if (!is_wanted(dump, thread) || dump->looks[i].stood_still ||
		    !thread->has_registers || has_exited(thread))
			continue;
		if (!has_asked)
			blocked_registers_read(dump->summary.pid, &saved); // or there are none
		has_asked = true;
		rc = look_at_sleeper(dump, i, &saved);
	}
	blocked_registers_deinit(&saved);
	return rc;
}

static int look_at_stopped(struct process_dump *dump, const struct process_pause *pause)
{
	int rc = 0;

	live_unwind_forget_memory(dump->unwind);
	for (uint32_t i = 0; i < dump->list.count && !rc; i++) {
		const struct thread *thread = &dump->list.threads[i];
		const struct paused_thread *paused = process_pause_find(pause, thread->tid);

		if (!is_wanted(dump, thread) || !paused || !paused->stopped)
			continue;
		rc = look_at_thread(dump, i, &paused->registers);
		dump->looks[i].stood_still = true;
	}
	return rc;
}

static int look_paused(struct process_dump *dump, struct error *err)
{
	struct dump_summary *summary = &dump->summary;
	struct process_pause *pause;
	bool expired;
	int rc = process_pause_begin(summary->pid, &pause, err);

	if (rc)
		return rc;
	rc = look_at_stopped(dump, pause);
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

static bool is_missing_a_table(const struct process_dump *dump)
{
	for (uint32_t i = 0; i < dump->list.count; i++)
		if (dump->looks[i].has_stack && dump->looks[i].stack.end == STACK_END_NO_MAPPING)
			return true;
	return false;
}

/* A stack that ended for want of a table: its other files are looked for too, so that one more round does. */
static bool build_missing_tables(struct process_dump *dump)
{
	for (uint32_t i = 0; i < dump->list.count; i++) {
		const struct thread_look *look = &dump->looks[i];

		if (look->has_stack && look->stack.end == STACK_END_NO_MAPPING)
			live_unwind_scan(dump->unwind, look->registers.pc,
					 thread_registers_sp(&look->registers));
	}
	return live_unwind_build_missing(dump->unwind) > 0;
}

/* What threads do is read last, so that it is true of those that are blocked when they are stopped. */
static void refresh(struct process_dump *dump)
{
	thread_list_refresh(&dump->proc, !dump->options.no_kernel, &dump->list);
	for (uint32_t i = 0; i < dump->list.count; i++) {
		dump->looks[i].has_stack = false;
		dump->looks[i].stood_still = false;
	}
}

/* Why a process cannot be paused is said, and then it is looked at as it runs. */
static int look_once(struct process_dump *dump, struct error *err)
{
	int rc = dump->options.no_pause ? 0 : look_paused(dump, err);

	if (rc == -ENOMEM || rc == -ESRCH)
		return rc;
	if (rc) {
		memcpy(dump->summary.why_not_paused, err->text, sizeof(err->text));
		dump->options.no_pause = true;
	}
	return look_at_sleepers(dump);
}

static int look(struct process_dump *dump, struct error *err)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		refresh(dump);
		int rc = look_once(dump, err);
		if (rc)
			return rc;
		if (!is_missing_a_table(dump) || !build_missing_tables(dump))
			break;
	}
	return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

static int locate_stack(struct process_dump *dump, struct thread_look *look)
{
	struct live_stack *stack = &look->stack;

	look->locations = calloc(stack->frame_count + 1, sizeof(*look->locations));
	if (!look->locations)
		return -ENOMEM;
	for (uint32_t i = 0; i < stack->frame_count; i++) {
		enum stack_end end;
		int rc = frame_locate_caller(&dump->locator, dump->process, &stack->frames[i],
					     &look->locations[i], &end);

		if (rc == -ENOENT) {
			stack->end = end;
			return 0;
		}
		if (rc)
			return rc;
		look->location_count++;
	}
	return 0;
}

/* Give each location its place in @names. */
static int put_names(struct process_dump *dump, struct profile *names, bool keep)
{
	location_table_begin_profile(dump->locations);
	for (uint32_t i = 0; i < dump->list.count; i++) {
		struct thread_look *look = &dump->looks[i];

		for (uint32_t at = 0; at < look->location_count; at++) {
			uint32_t position;
			int rc = location_table_put(dump->locations, look->locations[at], names,
						    &position);

			if (rc)
				return rc;
			if (keep)
				look->locations[at] = position;
		}
	}
	return 0;
}

/* Lines are read by another thread: they are asked for, waited for, and there the next time. */
static int read_lines(struct process_dump *dump)
{
	_cleanup_(profile_freep) struct profile *unused = profile_new(NS_PER_SECOND);
	int rc = unused ? put_names(dump, unused, false) : -ENOMEM;

	line_reader_wait(dump->lines, LINES_WAIT_MS);
	return rc;
}

static uint32_t count_lines(const char *text)
{
	uint32_t count = 0;

	for (; text && *text; text++)
		count += *text == '\n';
	return count;
}

/* "futex_wait_queue+0x60": cut in place. */
static void add_kernel_frames(struct dump_thread *thread, char *text)
{
	char *rest = text, *line;

	while (rest && (line = strsep(&rest, "\n")) && *line) {
		char *plus = strchr(line, '+');
		struct dump_frame *frame = &thread->frames[thread->frame_count++];

		*frame = (struct dump_frame){
			.kind = FRAME_KIND_KERNEL,
			.offset = plus ? strtoull(plus + 1, NULL, 16) : 0,
			.name = line,
			.module = "[kernel]",
			.build_id = "",
			.file = "",
		};
		if (plus)
			*plus = '\0';
	}
}

/* One frame for each function that is inlined at the location, innermost first. */
static void add_frames(const struct process_dump *dump, struct dump_thread *thread,
		       const struct location *location, const struct raw_frame *raw)
{
	const struct profile *names = dump->names;
	uint32_t count = location->line_count ? location->line_count : 1;

	for (uint32_t i = 0; i < count; i++) {
		struct line line = { 0 };

		if (location->line_count)
			line = names->lines[location->first_line + i];
		thread->frames[thread->frame_count++] = (struct dump_frame){
			.kind = location->kind,
			.inlined = i + 1 < count,
			.address = location->kind == FRAME_KIND_PYTHON ? 0 : raw->address,
			.offset = location->offset,
			.name = profile_string(names, line.name),
			.module = profile_string(names, location->module),
			.build_id = profile_string(names, location->build_id),
			.file = profile_string(names, line.file),
			.line = line.number,
		};
	}
}

/* Strings of names stay where they are once all locations are there. */
static int name_thread(struct process_dump *dump, uint32_t index)
{
	const struct thread_look *look = &dump->looks[index];
	struct dump_thread *thread = &dump->threads[dump->thread_count];
	char *kernel_stack =
		dump->options.no_kernel ? NULL : dump->list.threads[index].kernel_stack;
	uint32_t count = count_lines(kernel_stack);

	for (uint32_t i = 0; i < look->location_count; i++)
		count += 1 + dump->names->locations[look->locations[i]].line_count;
	*thread = (struct dump_thread){
		.thread = &dump->list.threads[index],
		.frames = calloc(count + 1, sizeof(*thread->frames)),
		.end = look->stack.end,
		.has_stack = look->has_stack,
		.stood_still = look->stood_still,
		.holds_gil = look->holds_gil,
	};
	if (!thread->frames)
		return -ENOMEM;
	dump->thread_count++;
	if (kernel_stack && look->has_stack && !look->moved)
		add_kernel_frames(thread, kernel_stack);
	for (uint32_t i = 0; i < look->location_count; i++)
		add_frames(dump, thread, &dump->names->locations[look->locations[i]],
			   &look->stack.frames[i]);
	return 0;
}

static const struct thread *gil_holder(const struct process_dump *dump)
{
	for (uint32_t i = 0; i < dump->list.count; i++)
		if (dump->looks[i].holds_gil)
			return &dump->list.threads[i];
	return NULL;
}

static void describe_wait(struct process_dump *dump, struct dump_thread *thread,
			  const struct thread *holder, struct file_targets *files)
{
	const struct thread_look *look = &dump->looks[thread->thread - dump->list.threads];
	struct wait_function functions[LEAF_FUNCTIONS];
	struct wait_circumstances circumstances = {
		.threads = &dump->list,
		.files = files,
		.functions = functions,
		.gil_holder = holder,
		.moved = look->moved,
	};

	for (uint32_t i = 0; i < thread->frame_count; i++)
		if (thread->frames[i].kind != FRAME_KIND_KERNEL &&
		    circumstances.function_count < LEAF_FUNCTIONS)
			functions[circumstances.function_count++] = (struct wait_function){
				.name = thread->frames[i].name,
				.module = thread->frames[i].module,
			};
	thread_wait_describe(thread->thread,
			     look->moved ? &look->registers : &thread->thread->registers,
			     &look->memory, &circumstances, &thread->wait);
}

static int name_all(struct process_dump *dump)
{
	const struct thread *holder = gil_holder(dump);
	struct file_targets files;
	int rc = 0;

	for (uint32_t i = 0; i < dump->list.count && !rc; i++)
		rc = locate_stack(dump, &dump->looks[i]);
	if (!rc && dump->lines)
		rc = read_lines(dump);
	dump->names = profile_new(NS_PER_SECOND);
	if (!rc)
		rc = dump->names ? put_names(dump, dump->names, true) : -ENOMEM;
	for (uint32_t i = 0; i < dump->list.count && !rc; i++)
		if (is_wanted(dump, &dump->list.threads[i]))
			rc = name_thread(dump, i);
	if (rc)
		return rc;
	file_targets_init(&files, &dump->proc);
	for (uint32_t i = 0; i < dump->thread_count; i++)
		describe_wait(dump, &dump->threads[i], holder, &files);
	file_targets_deinit(&files);
	return 0;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void freep(struct process_dump **dump)
{
	process_dump_free(*dump);
}

static void sum_up(struct process_dump *dump, uint64_t began_ns)
{
	struct live_unwind_stats stats;

	live_unwind_read_stats(dump->unwind, &stats);
	dump->summary.tables = stats.tables;
	dump->summary.tables_ns = stats.build_ns;
	dump->summary.mappings = stats.mappings;
	dump->summary.total_ns = clock_monotonic_ns() - began_ns;
}

int process_dump_take(pid_t pid, const struct dump_options *options, struct process_dump **ret_dump,
		      struct error *err)
{
	_cleanup_(freep) struct process_dump *dump = calloc(1, sizeof(*dump));
	uint64_t began_ns = clock_monotonic_ns();

	if (!dump)
		return error_set(err, -ENOMEM, "out of memory");
	dump->options = *options;
	dump->proc.fd = dump->proc.files = -1;
	int rc = open_process(dump, pid, err);
	if (!rc)
		rc = read_threads(dump, err);
	if (!rc)
		rc = open_unwind(dump, err);
	if (!rc) {
		build_expected_tables(dump);
		rc = look(dump, err);
	}
	if (!rc)
		rc = name_all(dump);
	if (rc)
		return err->code == rc ? rc : error_set(err, rc, "out of memory");
	sum_up(dump, began_ns);
	*ret_dump = take(dump);
	return 0;
}

void process_dump_free(struct process_dump *dump)
{
	if (!dump)
		return;
	for (uint32_t i = 0; i < dump->thread_count; i++)
		free(dump->threads[i].frames);
	for (uint32_t i = 0; dump->looks && i < dump->list.count; i++) {
		live_stack_deinit(&dump->looks[i].stack);
		free(dump->looks[i].locations);
	}
	free(dump->threads);
	free(dump->looks);
	live_unwind_close(dump->unwind);
	profile_free(dump->names);
	python_code_table_free(dump->python_codes);
	location_table_free(dump->locations);
	line_reader_free(dump->lines);
	process_table_free(dump->processes);
	executable_table_free(dump->executables);
	thread_list_deinit(&dump->list);
	proc_close(&dump->proc);
	free(dump);
}

const struct dump_summary *process_dump_summary(const struct process_dump *dump)
{
	return &dump->summary;
}

const struct dump_thread *process_dump_threads(const struct process_dump *dump, uint32_t *ret_count)
{
	*ret_count = dump->thread_count;
	return dump->threads;
}
