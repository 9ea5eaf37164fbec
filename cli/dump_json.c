// SPDX-License-Identifier: Apache-2.0
#include "cli/dump_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

enum { DUMP_JSON_VERSION = 1 };

/* 64 bits do not fit JavaScript's numbers. */
static json_t *hex(uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, number);
	return json_string(text);
}

/* Names come from the process, and need not be UTF-8. */
static json_t *string(const char *text)
{
	_cleanup_free_ char *repaired = strdup(text);

	if (!repaired)
		return NULL;
	utf8_repair(repaired, strlen(repaired));
	return json_string(repaired);
}

static void set_text(json_t *object, const char *name, const char *text)
{
	if (text[0])
		json_object_set_new(object, name, string(text));
}

static void set_number(json_t *object, const char *name, uint64_t number)
{
	json_object_set_new(object, name, json_integer((json_int_t)number));
}

static json_t *frame_json(const struct dump_frame *frame)
{
	json_t *object = json_object();

	set_text(object, "kind", frame_kind_name(frame->kind));
	set_text(object, "name", frame->name);
	set_text(object, "module", frame->module);
	set_text(object, "build_id", frame->build_id);
	if (frame->kind != FRAME_KIND_PYTHON)
		json_object_set_new(object, "offset", hex(frame->offset));
	if (frame->address)
		json_object_set_new(object, "address", hex(frame->address));
	set_text(object, "file", frame->file);
	if (frame->line)
		set_number(object, "line", frame->line);
	if (frame->inlined)
		json_object_set_new(object, "inlined", json_true());
	return object;
}

static json_t *wait_json(const struct dump_thread *thread)
{
	const struct thread_wait *wait = &thread->wait;
	json_t *object = json_object();

	set_text(object, "kind", wait_kind_name(wait->kind));
	set_text(object, "text", wait->text);
	if (wait->call)
		set_text(object, "call", wait->call);
	if (wait->syscall >= 0)
		set_number(object, "call_number", (uint64_t)wait->syscall);
	if (wait->fd >= 0)
		set_number(object, "fd", (uint64_t)wait->fd);
	if (wait->address)
		json_object_set_new(object, "address", hex(wait->address));
	if (wait->owner)
		set_number(object, "owner", (uint64_t)wait->owner);
	set_text(object, "kernel_function", thread->thread->wait_channel);
	return object;
}

static json_t *thread_json(const struct dump_thread *thread, bool python_only)
{
	const char state[] = { thread->thread->state, '\0' };
	json_t *object = json_object(), *frames = json_array();

	set_number(object, "tid", (uint64_t)thread->thread->tid);
	set_number(object, "namespace_tid", (uint64_t)thread->thread->namespace_tid);
	json_object_set_new(object, "name", string(thread->thread->name));
	set_text(object, "state", state);
	json_object_set_new(object, "wait", wait_json(thread));
	json_object_set_new(object, "holds_gil", json_boolean(thread->holds_gil));
	json_object_set_new(object, "consistent", json_boolean(thread->consistent));
	set_text(object, "end",
		 thread->has_stack ? stack_end_spec(thread->end)->token : "no_stack");
	for (uint32_t i = 0; i < thread->frame_count; i++)
		if (!python_only || thread->frames[i].kind == FRAME_KIND_PYTHON)
			json_array_append_new(frames, frame_json(&thread->frames[i]));
	json_object_set_new(object, "frames", frames);
	return object;
}

static json_t *summary_json(const struct dump_summary *summary)
{
	json_t *object = json_object();

	set_number(object, "version", DUMP_JSON_VERSION);
	set_number(object, "pid", (uint64_t)summary->pid);
	set_number(object, "namespace_pid", (uint64_t)summary->namespace_pid);
	json_object_set_new(object, "name", string(summary->name));
	set_text(object, "executable", summary->executable);
	json_object_set_new(object, "paused", json_boolean(summary->paused));
	set_text(object, "pause_error", summary->pause_error);
	set_text(object, "python_error", summary->python_error);
	set_number(object, "pauses", summary->rounds);
	set_number(object, "pause_ns", summary->pause_ns);
	set_number(object, "longest_pause_ns", summary->longest_pause_ns);
	json_object_set_new(object, "pause_expired", json_boolean(summary->expired));
	set_number(object, "total_ns", summary->total_ns);
	set_number(object, "threads_left_out", summary->threads_left_out);
	return object;
}

int dump_json_write(const struct process_dump *dump, bool python_only, struct buffer *text)
{
	uint32_t count;
	const struct dump_thread *threads = process_dump_threads(dump, &count);
	json_t *object = summary_json(process_dump_summary(dump)), *array = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(array, thread_json(&threads[i], python_only));
	json_object_set_new(object, "threads", array);
	_cleanup_free_ char *written = json_dumps(object, JSON_INDENT(1));
	json_decref(object);
	if (!written)
		return -ENOMEM;
	buffer_append_string(text, written);
	buffer_append_byte(text, '\n');
	return text->rc;
}
