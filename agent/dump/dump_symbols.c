// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/dump_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbols/executable.h"
#include "agent/dump/file_target.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum {
	LINES_WAIT_MS = 30000, // debug information may be gigabytes
	LEAF_FUNCTIONS = 8,    // enough to recognize a lock
};

/* ---- tables -------------------------------------------------------------------- */

static int find_interpreter(void *context, const struct process_key *process,
			    struct python_interpreter *ret_interpreter)
{
	const struct dump_symbols *names = context;
	const struct python_interpreter *interpreter =
		live_unwind_interpreter(names->capture->unwind);

	(void)process; // there is only one
	if (!interpreter)
		return -ENOENT;
	*ret_interpreter = *interpreter;
	return 0;
}

static int open_lines(struct dump_symbols *names)
{
	struct confined_launcher *launcher = names->capture->options.line_launcher;

	if (!launcher)
		return 0;
	names->lines = source_line_reader_new(names->executables, launcher, NULL);
	if (!names->lines)
		return -ENOMEM;
	location_table_use_lines(names->locations, names->lines);
	return 0;
}

int dump_symbols_open(struct dump_symbols *names, struct process_capture *capture)
{
	const struct labels no_labels = { 0 };
	const struct process_key key = {
		.pid = (uint32_t)capture->summary.pid,
		.start_ns =
			capture->proc.stat.start_ticks * (NS_PER_SECOND / PROC_TICKS_PER_SECOND),
	};

	names->capture = capture;
	names->threads = calloc(capture->list.count, sizeof(*names->threads));
	names->executables = executable_table_new();
	if (!names->threads || !names->executables)
		return -ENOMEM;
	names->processes = process_table_new(names->executables, &no_labels);
	names->locations = location_table_new(names->executables, NULL);
	names->python_codes = python_code_cache_new(find_interpreter, names);
	if (!names->processes || !names->locations || !names->python_codes)
		return -ENOMEM;
	names->locator = (struct frame_resolver){
		.processes = names->processes,
		.locations = names->locations,
		.python_codes = names->python_codes,
	};
	names->process = process_table_get(names->processes, &key, capture->summary.name);
	return names->process ? open_lines(names) : -ENOMEM;
}

/* ---- stacks --------------------------------------------------------------------------- */

static int locate_stack(struct dump_symbols *names, struct thread_capture *seen)
{
	struct live_stack *stack = &seen->stack;

	seen->locations = calloc(stack->frame_count + 1, sizeof(*seen->locations));
	if (!seen->locations)
		return -ENOMEM;
	for (uint32_t i = 0; i < stack->frame_count; i++) {
		enum stack_end end;
		int rc = frame_resolve_caller(&names->locator, names->process, &stack->frames[i],
					      &seen->locations[i], &end);

		if (rc == -ENOENT) {
			stack->end = end;
			return 0;
		}
		if (rc)
			return rc;
		seen->location_count++;
	}
	return 0;
}

/* Give each location its place in @profile. */
static int put_names(struct dump_symbols *names, struct profile *profile, bool keep)
{
	location_table_begin_profile(names->locations);
	for (uint32_t i = 0; i < names->capture->list.count; i++) {
		struct thread_capture *seen = &names->capture->threads[i];

		for (uint32_t at = 0; at < seen->location_count; at++) {
			uint32_t position;
			int rc = location_table_put(names->locations, seen->locations[at], profile,
						    &position);

			if (rc)
				return rc;
			if (keep)
				seen->locations[at] = position;
		}
	}
	return 0;
}

/* Another thread reads lines: request them, wait, ask again. */
static int read_lines(struct dump_symbols *names)
{
	_cleanup_(profile_freep) struct profile *unused = profile_new(NS_PER_SECOND);
	int rc = unused ? put_names(names, unused, false) : -ENOMEM;

	source_line_reader_wait(names->lines, LINES_WAIT_MS);
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
static void add_frames(const struct dump_symbols *names, struct dump_thread *thread,
		       const struct location *location, const struct raw_frame *raw)
{
	const struct profile *profile = names->profile;
	uint32_t count = location->line_count ? location->line_count : 1;

	for (uint32_t i = 0; i < count; i++) {
		struct line line = { 0 };

		if (location->line_count)
			line = profile->lines[location->first_line + i];
		thread->frames[thread->frame_count++] = (struct dump_frame){
			.kind = location->kind,
			.inlined = i + 1 < count,
			.address = location->kind == FRAME_KIND_PYTHON ? 0 : raw->address,
			.offset = location->offset,
			.name = profile_string(profile, line.name),
			.module = profile_string(profile, location->module),
			.build_id = profile_string(profile, location->build_id),
			.file = profile_string(profile, line.file),
			.line = line.number,
		};
	}
}

/* Strings of names do not move once all locations are added. */
static int name_thread(struct dump_symbols *names, uint32_t index)
{
	const struct thread_capture *seen = &names->capture->threads[index];
	struct dump_thread *thread = &names->threads[names->thread_count];
	char *kernel_stack = names->capture->options.no_kernel
				     ? NULL
				     : names->capture->list.threads[index].kernel_stack;
	uint32_t count = count_lines(kernel_stack);

	for (uint32_t i = 0; i < seen->location_count; i++)
		count += 1 + names->profile->locations[seen->locations[i]].line_count;
	*thread = (struct dump_thread){
		.thread = &names->capture->list.threads[index],
		.frames = calloc(count + 1, sizeof(*thread->frames)),
		.end = seen->stack.end,
		.has_stack = seen->has_stack,
		.consistent = seen->consistent,
		.holds_gil = seen->holds_gil,
	};
	if (!thread->frames)
		return -ENOMEM;
	names->thread_count++;
	if (kernel_stack && seen->has_stack && !seen->moved)
		add_kernel_frames(thread, kernel_stack);
	for (uint32_t i = 0; i < seen->location_count; i++)
		add_frames(names, thread, &names->profile->locations[seen->locations[i]],
			   &seen->stack.frames[i]);
	return 0;
}

static const struct thread *gil_holder(const struct dump_symbols *names)
{
	for (uint32_t i = 0; i < names->capture->list.count; i++)
		if (names->capture->threads[i].holds_gil)
			return &names->capture->list.threads[i];
	return NULL;
}

static void describe_wait(struct dump_symbols *names, struct dump_thread *thread,
			  const struct thread *holder, struct file_targets *files)
{
	const struct thread_capture *seen =
		&names->capture->threads[thread->thread - names->capture->list.threads];
	struct wait_function functions[LEAF_FUNCTIONS];
	struct wait_context context = {
		.threads = &names->capture->list,
		.files = files,
		.functions = functions,
		.gil_holder = holder,
		.moved = seen->moved,
	};

	for (uint32_t i = 0; i < thread->frame_count; i++)
		if (thread->frames[i].kind != FRAME_KIND_KERNEL &&
		    context.function_count < LEAF_FUNCTIONS)
			functions[context.function_count++] = (struct wait_function){
				.name = thread->frames[i].name,
				.module = thread->frames[i].module,
			};
	thread_wait_describe(thread->thread,
			     seen->moved ? &seen->registers : &thread->thread->registers,
			     &seen->memory, &context, &thread->wait);
}

int dump_symbols_resolve(struct dump_symbols *names)
{
	const struct thread *holder = gil_holder(names);
	struct file_targets files;
	int rc = 0;

	for (uint32_t i = 0; i < names->capture->list.count && !rc; i++)
		rc = locate_stack(names, &names->capture->threads[i]);
	if (!rc && names->lines)
		rc = read_lines(names);
	names->profile = profile_new(NS_PER_SECOND);
	if (!rc)
		rc = names->profile ? put_names(names, names->profile, true) : -ENOMEM;
	for (uint32_t i = 0; i < names->capture->list.count && !rc; i++)
		if (process_capture_wants(names->capture, &names->capture->list.threads[i]))
			rc = name_thread(names, i);
	if (rc)
		return rc;
	file_targets_init(&files, &names->capture->proc);
	for (uint32_t i = 0; i < names->thread_count; i++)
		describe_wait(names, &names->threads[i], holder, &files);
	file_targets_deinit(&files);
	return 0;
}

void dump_symbols_deinit(struct dump_symbols *names)
{
	for (uint32_t i = 0; i < names->thread_count; i++)
		free(names->threads[i].frames);
	free(names->threads);
	profile_free(names->profile);
	python_code_cache_free(names->python_codes);
	location_table_free(names->locations);
	source_line_reader_free(names->lines);
	process_table_free(names->processes);
	executable_table_free(names->executables);
}
