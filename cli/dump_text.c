// SPDX-License-Identifier: Apache-2.0
#include "cli/dump_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"

enum { FOLDED_SHOWN = 8 }; // threads listed of those with an equal stack

/* What the parts of a line are coloured as, by ECMA-48's numbers. */
#define COLOUR_HEAD   "\033[1m"
#define COLOUR_PYTHON "\033[32m"
#define COLOUR_DIM    "\033[2m"
#define COLOUR_WARN   "\033[33m"
#define COLOUR_END    "\033[0m"

struct writer {
	const struct dump_text_options *options;
	struct buffer *text;
};

static void begin_colour(const struct writer *writer, const char *colour)
{
	if (writer->options->colour && colour)
		buffer_append_string(writer->text, colour);
}

static void end_colour(const struct writer *writer, const char *colour)
{
	if (writer->options->colour && colour)
		buffer_append_string(writer->text, COLOUR_END);
}

/* ---- paths --------------------------------------------------------------------------------- */

static const char *after(const char *path, const char *folder)
{
	const char *found = strstr(path, folder);

	return found ? found + strlen(folder) : NULL;
}

const char *dump_text_short_path(const char *path)
{
	const char *rest = after(path, "/site-packages/");

	if (!rest)
		rest = after(path, "/dist-packages/");
	if (rest)
		return rest;
	rest = after(path, "/lib/python3");
	if (rest && strchr(rest, '/')) // "/lib/python3.11/threading.py"
		return strchr(rest, '/') + 1;
	return path;
}

/* ---- frames -------------------------------------------------------------------------------- */

static const char *frame_colour(const struct dump_frame *frame)
{
	switch (frame->kind) {
	case FRAME_KIND_PYTHON:
		return COLOUR_PYTHON;
	case FRAME_KIND_KERNEL:
		return COLOUR_DIM;
	default:
		return NULL;
	}
}

/* "main (app.py:12)" */
static void write_python(struct buffer *text, const struct dump_frame *frame)
{
	buffer_printf(text, "%s", frame->name[0] ? frame->name : "?");
	if (!frame->file[0])
		return;
	buffer_printf(text, " (%s", dump_text_short_path(frame->file));
	if (frame->line)
		buffer_printf(text, ":%u", frame->line);
	buffer_append_string(text, ")");
}

/* "PyObject_Call (libpython3.11.so.1.0) object.c:123", "libfoo.so+0x1234" */
static void write_native(struct buffer *text, const struct dump_frame *frame)
{
	const char *module = path_shown_name(frame->module);

	if (!frame->name[0] && frame->kind != FRAME_KIND_NATIVE)
		buffer_printf(text, "0x%" PRIx64 " (%s)", frame->address, module);
	else if (!frame->name[0])
		buffer_printf(text, "%s+0x%" PRIx64, module, frame->offset);
	else if (frame->inlined)
		buffer_printf(text, "%s (inlined)", frame->name);
	else
		buffer_printf(text, "%s (%s)", frame->name, module);
	if (frame->file[0])
		buffer_printf(text, " %s", path_shown_name(frame->file));
	if (frame->file[0] && frame->line)
		buffer_printf(text, ":%u", frame->line);
}

/* Names come from the process: nothing in them may act on a terminal. */
static void clean_from(struct buffer *text, size_t start)
{
	if (buffer_string(text)[0])
		utf8_clean((char *)text->bytes + start);
}

static void write_frame(const struct writer *writer, const struct dump_frame *frame)
{
	const char *colour = frame_colour(frame);

	buffer_append_string(writer->text, "  ");
	begin_colour(writer, colour);
	size_t start = writer->text->size;
	if (frame->kind == FRAME_KIND_PYTHON)
		write_python(writer->text, frame);
	else if (frame->kind == FRAME_KIND_KERNEL)
		buffer_printf(writer->text, "%s [kernel]", frame->name);
	else
		write_native(writer->text, frame);
	clean_from(writer->text, start);
	end_colour(writer, colour);
	buffer_append_string(writer->text, "\n");
}

static void write_remark(const struct writer *writer, const char *before, const char *remark,
			 const char *behind)
{
	begin_colour(writer, COLOUR_WARN);
	buffer_printf(writer->text, "%s%s%s", before, remark, behind);
	end_colour(writer, COLOUR_WARN);
	buffer_append_string(writer->text, "\n");
}

static void write_frames(const struct writer *writer, const struct dump_thread *thread)
{
	bool python_only = writer->options->python_only;
	uint32_t shown = 0;

	for (uint32_t i = 0; i < thread->frame_count; i++) {
		if (python_only && thread->frames[i].kind != FRAME_KIND_PYTHON)
			continue;
		write_frame(writer, &thread->frames[i]);
		shown++;
	}
	if (thread->thread->state == 'Z' || thread->thread->state == 'X')
		return;
	if (!thread->has_stack)
		write_remark(writer, "  ", "[no stack: the thread ran and was not paused]", "");
	else if (thread->end != STACK_END_COMPLETE)
		write_remark(writer, "  [truncated: ", stack_end_name(thread->end), "]");
	else if (!thread->consistent)
		write_remark(writer, "  ",
			     "[the thread ran meanwhile: the stack may be inconsistent]", "");
	else if (python_only && !shown)
		buffer_append_string(writer->text, "  (no Python frames)\n");
}

/* ---- threads ------------------------------------------------------------------------------- */

static bool is_same_frame(const struct dump_frame *a, const struct dump_frame *b)
{
	return a->kind == b->kind && a->line == b->line && a->offset == b->offset &&
	       strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0 &&
	       strcmp(a->module, b->module) == 0 &&
	       (a->kind != FRAME_KIND_JIT || a->address == b->address);
}

/* Do both have the same stack and the same kind of wait? */
static bool is_like(const struct dump_thread *a, const struct dump_thread *b)
{
	if (a->frame_count != b->frame_count || a->end != b->end || !a->frame_count ||
	    a->wait.kind != b->wait.kind || a->wait.syscall != b->wait.syscall ||
	    a->wait.owner != b->wait.owner || a->holds_gil != b->holds_gil ||
	    a->thread->state != b->thread->state)
		return false;
	for (uint32_t i = 0; i < a->frame_count; i++)
		if (!is_same_frame(&a->frames[i], &b->frames[i]))
			return false;
	return true;
}

static void write_head(const struct writer *writer, const struct dump_thread *thread,
		       bool in_namespace)
{
	begin_colour(writer, COLOUR_HEAD);
	buffer_printf(writer->text, "Thread %d", thread->thread->tid);
	if (in_namespace)
		buffer_printf(writer->text, " (%d inside)", thread->thread->namespace_tid);
	buffer_printf(writer->text, " \"%s\"", thread->thread->name);
	end_colour(writer, COLOUR_HEAD);
	buffer_printf(writer->text, " %c: %s%s\n", thread->thread->state, thread->wait.text,
		      thread->holds_gil ? "; holds the GIL" : "");
}

/* Mark the threads from @first on that are like it in @shown, and list some. */
static void write_folded(const struct writer *writer, const struct dump_thread *threads,
			 uint32_t count, uint32_t first, bool *shown)
{
	uint32_t like = 0;

	for (uint32_t i = first + 1; i < count; i++) {
		if (shown[i] || !is_like(&threads[first], &threads[i]))
			continue;
		shown[i] = true;
		if (!like++)
			buffer_append_string(writer->text, "  and so ");
		else if (like <= FOLDED_SHOWN)
			buffer_append_string(writer->text, ", ");
		if (like <= FOLDED_SHOWN)
			buffer_printf(writer->text, "%d \"%s\"", threads[i].thread->tid,
				      threads[i].thread->name);
	}
	if (like > FOLDED_SHOWN)
		buffer_printf(writer->text, " and %u more", like - FOLDED_SHOWN);
	if (like)
		buffer_printf(writer->text, ": %u thread%s with this stack; --all shows each\n",
			      like + 1, "s");
}

static void write_threads(const struct writer *writer, const struct process_dump *dump)
{
	uint32_t count;
	const struct dump_thread *threads = process_dump_threads(dump, &count);
	const struct dump_summary *summary = process_dump_summary(dump);
	bool in_namespace = summary->namespace_pid != summary->pid;
	_cleanup_free_ bool *shown = calloc(count + 1, sizeof(*shown));

	for (uint32_t i = 0; i < count; i++) {
		if (shown && shown[i])
			continue;
		buffer_append_string(writer->text, "\n");
		write_head(writer, &threads[i], in_namespace);
		write_frames(writer, &threads[i]);
		if (shown && !writer->options->all)
			write_folded(writer, threads, count, i, shown);
	}
	if (summary->threads_left_out)
		buffer_printf(writer->text, "\n%u more threads omitted\n",
			      summary->threads_left_out);
}

static bool is_unlisted(const struct dump_frame *frame)
{
	return frame->kind == FRAME_KIND_JIT && !frame->name[0];
}

/* JIT code has no names unless its process lists them. */
static void write_remedy(const struct writer *writer, const struct dump_thread *threads,
			 uint32_t count)
{
	bool found = false;

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < threads[i].frame_count && !found; k++)
			found = is_unlisted(&threads[i].frames[k]);
	if (!found || writer->options->python_only)
		return;
	buffer_append_string(writer->text, "\n");
	write_remark(writer, "", "[anon] is JIT code without names: its process can list them",
		     " (node --perf-basic-prof, jcmd PID Compiler.perfmap; docs/interpret.md)");
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void write_cost(const struct writer *writer, const struct dump_summary *summary,
		       uint32_t thread_count)
{
	double ms = 1.0 / NS_PER_MS;

	buffer_printf(writer->text,
		      "\npaused %u time%s: %.2f ms in total, %.2f ms at most; %u threads\n"
		      "built %u unwind tables in %.0f ms; %u mappings; %.0f ms in total\n",
		      summary->rounds, summary->rounds == 1 ? "" : "s",
		      (double)summary->pause_ns * ms, (double)summary->longest_pause_ns * ms,
		      thread_count, summary->tables, (double)summary->tables_ns * ms,
		      summary->mappings, (double)summary->total_ns * ms);
}

void dump_text_write(const struct process_dump *dump, const struct dump_text_options *options,
		     struct buffer *text)
{
	const struct dump_summary *summary = process_dump_summary(dump);
	const struct writer writer = {
		.options = options,
		.text = text,
	};
	uint32_t count;

	process_dump_threads(dump, &count);
	buffer_printf(text, "Process %d \"%s\"", summary->pid, summary->name);
	if (summary->namespace_pid != summary->pid)
		buffer_printf(text, " (%d inside)", summary->namespace_pid);
	if (summary->executable[0])
		buffer_printf(text, ", %s", summary->executable);
	buffer_printf(text, ", %u thread%s\n", count, count == 1 ? "" : "s");
	if (summary->pause_error[0])
		write_remark(&writer,
			     "not paused, running threads have no stack: ", summary->pause_error,
			     "");
	if (summary->expired)
		write_remark(
			&writer, "",
			"the pause timed out before all stacks were read: some may be inconsistent",
			"");
	if (summary->python_error[0])
		write_remark(&writer, "", summary->python_error, "");
	write_threads(&writer, dump);
	write_remedy(&writer, process_dump_threads(dump, &count), count);
	if (options->verbose)
		write_cost(&writer, summary, count);
}
