// SPDX-License-Identifier: Apache-2.0
// Events are read into intervals, sorted by thread and time, and nested: an interval's own time is what the intervals directly inside of it
// leave. https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#include "base/import/chrome_trace_import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/import/json_reader.h"

enum {
	HEAD_BYTES = 64 * 1024,
	DEPTH_MAX = 64 * 1024,
	THREADS_MAX = 64 * 1024,
};

#define TYPE_WALL "wall:wall:nanoseconds:wall:nanoseconds"
#define OPEN_END  INT64_MAX             // of a "B" whose "E" has not come
#define EPOCH_NS  1000000000000000000LL // times above are of this century, others since some start
#define NONE      UINT32_MAX

/** An interval of a thread. */
struct interval {
	int64_t from_ns, to_ns;
	uint32_t thread, location;
	uint32_t order; // in the file
	bool is_gpu;
};

/** A process's thread, or a GPU's stream. */
struct thread {
	struct id128 id;
	uint32_t name;   // string; 0: none
	uint32_t series; // NONE: not added yet
	uint32_t gpu_series;
	uint32_t open; // the innermost "B" without an "E": an interval; NONE: none
};

struct trace {
	struct importer *importer;
	const struct import_source *source;
	struct error *err;
	int64_t base_ns; // of Kineto: times count from it
	struct interval *intervals;
	uint32_t count, capacity;
	uint32_t *parents; // of open intervals: the one around it
	uint32_t parent_capacity;
	struct thread *threads;
	uint32_t thread_count, thread_capacity;
	struct hash_table thread_index, name_index;
	struct id128 *names; // of distinct frames
	uint32_t *name_locations;
	uint32_t name_count, name_capacity, name_location_capacity;
};

static void trace_deinit(struct trace *trace)
{
	free(trace->intervals);
	free(trace->parents);
	free(trace->threads);
	free(trace->names);
	free(trace->name_locations);
	hash_table_deinit(&trace->thread_index);
	hash_table_deinit(&trace->name_index);
}

static int malformed(struct trace *trace, const char *what)
{
	return error_set(trace->err, -EBADMSG, "Chrome trace: %s: malformed", what);
}

static int out_of(struct trace *trace, int rc, const char *what)
{
	char where[64];

	snprintf(where, sizeof(where), "Chrome trace: %s", what);
	return import_failed(rc, trace->err, where);
}

// ---- threads and names ------------------------------------------------------------------------

static bool thread_is(const void *context, uint32_t item, const void *key)
{
	return id128_equal(((const struct trace *)context)->threads[item].id,
			   *(const struct id128 *)key);
}

/** A pid or tid as it is written: a number or a text. */
static struct json_text read_raw(struct json_reader *reader)
{
	json_peek(reader);
	const char *begin = reader->at;

	json_skip(reader);
	return (struct json_text){ begin, (size_t)(reader->at - begin) };
}

static int find_thread(struct trace *trace, struct json_text pid, struct json_text tid,
		       uint32_t *ret_thread)
{
	const struct id128 parts[] = { id128_of(pid.at, pid.size), id128_of(tid.at, tid.size) };
	struct id128 id = id128_of(parts, sizeof(parts));
	uint32_t at = hash_table_find(&trace->thread_index, id128_hash(id), thread_is, trace, &id);

	if (at == HASH_TABLE_NONE) {
		at = trace->thread_count;
		int rc = array_reserve(&trace->threads, sizeof(*trace->threads),
				       &trace->thread_capacity, at, 1, THREADS_MAX);
		if (!rc)
			rc = hash_table_add(&trace->thread_index, id128_hash(id), at);
		if (rc)
			return out_of(trace, rc, "threads");
		trace->threads[trace->thread_count++] = (struct thread){
			.id = id, .series = NONE, .gpu_series = NONE, .open = NONE
		};
	}
	*ret_thread = at;
	return 0;
}

static bool name_is(const void *context, uint32_t item, const void *key)
{
	return id128_equal(((const struct trace *)context)->names[item],
			   *(const struct id128 *)key);
}

struct frame_text {
	struct json_text name, file;
	int64_t line;
};

static int make_frame(struct trace *trace, const struct frame_text *text, uint32_t *ret_location)
{
	_cleanup_(buffer_deinit) struct buffer name = { 0 }, file = { 0 };
	struct location frame = { .kind = FRAME_KIND_UNKNOWN };
	struct line line = { 0 };

	json_append_unescaped(&name, text->name);
	json_append_unescaped(&file, text->file);
	if (name.rc || file.rc)
		return -ENOMEM;
	if (!file.size)
		return import_named_frame(trace->importer, (const char *)name.bytes, name.size,
					  ret_location);
	if (file.size > 3 && memcmp(file.bytes + file.size - 3, ".py", 3) == 0)
		frame.kind = FRAME_KIND_PYTHON;
	line.number = text->line > 0 && text->line <= UINT32_MAX ? (uint32_t)text->line : 0;
	int rc = import_string(trace->importer, (const char *)name.bytes, name.size, &line.name);
	if (!rc)
		rc = import_string(trace->importer, (const char *)file.bytes, file.size,
				   &line.file);
	return rc ? rc : import_frame(trace->importer, &frame, &line, 1, ret_location);
}

static int find_frame(struct trace *trace, const struct frame_text *text, uint32_t *ret_location)
{
	const struct id128 parts[] = { id128_of(text->name.at, text->name.size),
				       id128_of(text->file.at, text->file.size),
				       { 0, (uint64_t)text->line } };
	struct id128 id = id128_of(parts, sizeof(parts));
	uint32_t at = hash_table_find(&trace->name_index, id128_hash(id), name_is, trace, &id);

	if (at != HASH_TABLE_NONE) {
		*ret_location = trace->name_locations[at];
		return 0;
	}
	at = trace->name_count;
	int rc = make_frame(trace, text, ret_location);
	if (!rc)
		rc = array_reserve(&trace->names, sizeof(id), &trace->name_capacity, at, 1,
				   PROFILE_LOCATIONS_MAX);
	if (!rc)
		rc = array_reserve(&trace->name_locations, sizeof(uint32_t),
				   &trace->name_location_capacity, at, 1, PROFILE_LOCATIONS_MAX);
	if (!rc)
		rc = hash_table_add(&trace->name_index, id128_hash(id), at);
	if (rc)
		return out_of(trace, rc, "names");
	trace->names[at] = id;
	trace->name_locations[at] = *ret_location;
	trace->name_count++;
	return 0;
}

// ---- events -----------------------------------------------------------------------------------

struct event {
	struct json_text phase, category, pid, tid;
	struct frame_text frame;
	struct json_text thread_name; // args.name, of a metadata event
	int64_t ts_ns, duration_ns;
	bool has_ts, has_duration;
};

static void read_args(struct json_reader *reader, struct event *event)
{
	struct json_text key;
	bool is_first = true;

	json_enter(reader, '{');
	while (json_next_member(reader, &is_first, &key)) {
		bool is_text = json_peek(reader) == JSON_IS_STRING;

		if (json_text_is(key, "filename") && is_text)
			json_read_string(reader, &event->frame.file);
		else if (json_text_is(key, "name") && is_text)
			json_read_string(reader, &event->thread_name);
		else if (json_text_is(key, "line") && json_peek(reader) == JSON_IS_NUMBER)
			json_read_integer(reader, &event->frame.line);
		else
			json_skip(reader);
	}
}

static bool read_event(struct json_reader *reader, struct event *ret_event)
{
	struct event event = { .phase = { "", 0 } };
	struct json_text key;
	bool is_first = true;

	json_enter(reader, '{');
	while (json_next_member(reader, &is_first, &key)) {
		bool is_text = json_peek(reader) == JSON_IS_STRING;

		if (json_text_is(key, "ph") && is_text)
			json_read_string(reader, &event.phase);
		else if (json_text_is(key, "cat") && is_text)
			json_read_string(reader, &event.category);
		else if (json_text_is(key, "name") && is_text)
			json_read_string(reader, &event.frame.name);
		else if (json_text_is(key, "ts"))
			event.has_ts = json_read_scaled(reader, (int64_t)NS_PER_US, &event.ts_ns);
		else if (json_text_is(key, "dur"))
			event.has_duration =
				json_read_scaled(reader, (int64_t)NS_PER_US, &event.duration_ns);
		else if (json_text_is(key, "pid"))
			event.pid = read_raw(reader);
		else if (json_text_is(key, "tid"))
			event.tid = read_raw(reader);
		else if (json_text_is(key, "args") && json_peek(reader) == JSON_IS_OBJECT)
			read_args(reader, &event);
		else
			json_skip(reader);
	}
	*ret_event = event;
	return !reader->failed;
}

static bool is_gpu(struct json_text category)
{
	return json_text_is(category, "kernel") || json_text_is(category, "gpu_memcpy") ||
	       json_text_is(category, "gpu_memset");
}

static int add_interval(struct trace *trace, const struct event *event, int64_t to_ns,
			uint32_t *ret_at)
{
	struct interval interval = { .from_ns = event->ts_ns,
				     .to_ns = to_ns,
				     .order = trace->count,
				     .is_gpu = is_gpu(event->category) };
	int rc = find_thread(trace, event->pid, event->tid, &interval.thread);

	if (!rc)
		rc = find_frame(trace, &event->frame, &interval.location);
	if (rc)
		return rc;
	rc = array_reserve(&trace->intervals, sizeof(interval), &trace->capacity, trace->count, 1,
			   TRACE_EVENTS_MAX);
	if (rc)
		return out_of(trace, rc, "events");
	*ret_at = trace->count;
	trace->intervals[trace->count++] = interval;
	return 0;
}

static int open_interval(struct trace *trace, const struct event *event)
{
	uint32_t at;
	int rc = add_interval(trace, event, OPEN_END, &at);

	if (!rc && array_reserve(&trace->parents, sizeof(at), &trace->parent_capacity, 0, at + 1,
				 TRACE_EVENTS_MAX))
		rc = out_of(trace, -ENOMEM, "events");
	if (rc)
		return rc;
	struct thread *thread = &trace->threads[trace->intervals[at].thread];
	trace->parents[at] = thread->open;
	thread->open = at;
	return 0;
}

/** An "E" without its "B" began before the trace did. */
static int close_interval(struct trace *trace, const struct event *event)
{
	uint32_t number;
	int rc = find_thread(trace, event->pid, event->tid, &number);

	if (rc || trace->threads[number].open == NONE)
		return rc;
	uint32_t at = trace->threads[number].open;
	trace->intervals[at].to_ns = event->ts_ns > trace->intervals[at].from_ns
					     ? event->ts_ns
					     : trace->intervals[at].from_ns;
	trace->threads[number].open = trace->parents[at];
	return 0;
}

static int name_thread(struct trace *trace, const struct event *event)
{
	_cleanup_(buffer_deinit) struct buffer name = { 0 };
	uint32_t number;
	int rc = find_thread(trace, event->pid, event->tid, &number);

	json_append_unescaped(&name, event->thread_name);
	if (!rc && name.size)
		rc = import_string(trace->importer, (const char *)name.bytes, name.size,
				   &trace->threads[number].name);
	return rc;
}

static int add_event(struct trace *trace, const struct event *event)
{
	uint32_t at;

	if (json_text_is(event->phase, "M"))
		return json_text_is(event->frame.name, "thread_name") ? name_thread(trace, event)
								      : 0;
	bool is_begin = json_text_is(event->phase, "B"), is_end = json_text_is(event->phase, "E");
	if (!is_begin && !is_end && !json_text_is(event->phase, "X"))
		return 0; // counters, flows, instants
	if (!event->has_ts || event->ts_ns > INT64_MAX / 4 || event->ts_ns < -INT64_MAX / 4)
		return malformed(trace, "ts");
	if (is_end)
		return close_interval(trace, event);
	if (is_begin)
		return open_interval(trace, event);
	if (!event->has_duration || event->duration_ns < 0 || event->duration_ns > INT64_MAX / 4)
		return event->has_duration ? malformed(trace, "dur") : 0;
	return add_interval(trace, event, event->ts_ns + event->duration_ns, &at);
}

static int read_events(struct trace *trace, struct json_reader *reader)
{
	struct event event;
	bool is_first = true;
	int rc = 0;

	json_enter(reader, '[');
	while (!rc && json_next_item(reader, &is_first))
		rc = read_event(reader, &event) ? add_event(trace, &event)
						: malformed(trace, "traceEvents");
	// py-spy and tracers that were killed leave the array without its end.
	bool is_cut = reader->failed && reader->at == reader->end && trace->count;
	return !rc && reader->failed && !is_cut ? malformed(trace, "traceEvents") : rc;
}

static int read_file(struct trace *trace, const char *text, size_t size)
{
	struct json_reader reader = { text, text + size, false };
	struct json_text key;
	bool is_first = true;
	int rc = 0;

	if (json_peek(&reader) == JSON_IS_ARRAY)
		return read_events(trace, &reader);
	json_enter(&reader, '{');
	while (!rc && json_next_member(&reader, &is_first, &key)) {
		if (json_text_is(key, "traceEvents"))
			rc = read_events(trace, &reader);
		else if (json_text_is(key, "baseTimeNanoseconds"))
			json_read_integer(&reader, &trace->base_ns);
		else
			json_skip(&reader);
	}
	return !rc && reader.failed && !trace->count ? malformed(trace, "file") : rc;
}

// ---- nesting ----------------------------------------------------------------------------------

/** By thread, GPU or not, and time: outer ones before those inside. */
static int by_place(const void *a, const void *b)
{
	const struct interval *left = a, *right = b;

	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	if (left->is_gpu != right->is_gpu)
		return left->is_gpu ? 1 : -1;
	if (left->from_ns != right->from_ns)
		return left->from_ns < right->from_ns ? -1 : 1;
	if (left->to_ns != right->to_ns)
		return left->to_ns > right->to_ns ? -1 : 1;
	return (left->order > right->order) - (left->order < right->order);
}

static int series_of(struct trace *trace, uint32_t number, bool of_gpu, uint32_t *ret_series)
{
	struct thread *thread = &trace->threads[number];
	uint32_t *series = of_gpu ? &thread->gpu_series : &thread->series;
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	const char *type = of_gpu                ? PROFILE_TYPE_GPU_KERNEL
			   : trace->source->type ? trace->source->type
						 : TYPE_WALL;
	int rc = 0;

	if (*series == NONE) {
		const char *name = profile_string(trace->importer->profile, thread->name);

		rc = labels_copy(trace->source->labels, &labels);
		if (!rc && *name && !of_gpu)
			import_label(&labels, LABEL_THREAD, strlen(LABEL_THREAD), name,
				     strlen(name));
		if (!rc)
			rc = profile_add_series(trace->importer->profile, &labels, type, series);
	}
	*ret_series = *series;
	return rc ? out_of(trace, rc, "series") : 0;
}

/** The open intervals of a thread, outermost first. */
struct nesting {
	uint32_t *open; // intervals
	uint32_t depth, capacity;
	uint32_t leaf_first[STACK_FRAMES_MAX];
	int64_t at_ns; // until where time is accounted for
	int64_t shift_ns;
};

/** Time from where we are until @to_ns belongs to the innermost open interval. */
static int account(struct trace *trace, struct nesting *nesting, int64_t to_ns)
{
	uint32_t series = 0, stack = 0;

	if (!nesting->depth || to_ns <= nesting->at_ns) {
		nesting->at_ns = to_ns > nesting->at_ns ? to_ns : nesting->at_ns;
		return 0;
	}
	for (uint32_t i = 0; i < nesting->depth && i < STACK_FRAMES_MAX; i++)
		nesting->leaf_first[i] =
			trace->intervals[nesting->open[nesting->depth - 1 - i]].location;
	const struct interval *innermost = &trace->intervals[nesting->open[nesting->depth - 1]];
	int rc = series_of(trace, innermost->thread, innermost->is_gpu, &series);
	if (!rc && import_stack(trace->importer, nesting->leaf_first, nesting->depth, &stack))
		rc = out_of(trace, -ENOMEM, "stacks");
	if (!rc)
		rc = import_interval(trace->importer, series, stack,
				     (uint64_t)(nesting->at_ns + nesting->shift_ns),
				     (uint64_t)(to_ns + nesting->shift_ns), to_ns - nesting->at_ns,
				     trace->err);
	trace->importer->samples++;
	nesting->at_ns = to_ns;
	return rc;
}

/** Close what has ended before @ns. */
static int close_until(struct trace *trace, struct nesting *nesting, int64_t ns)
{
	int rc = 0;

	while (!rc && nesting->depth) {
		const struct interval *innermost =
			&trace->intervals[nesting->open[nesting->depth - 1]];

		if (innermost->to_ns > ns)
			break;
		rc = account(trace, nesting, innermost->to_ns);
		nesting->depth--;
	}
	return rc;
}

/** Intervals that overlap without nesting end with the one around them. */
static int enter(struct trace *trace, struct nesting *nesting, uint32_t at)
{
	struct interval *interval = &trace->intervals[at];
	int rc = close_until(trace, nesting, interval->from_ns);

	if (!rc)
		rc = account(trace, nesting, interval->from_ns);
	if (rc)
		return rc;
	if (nesting->depth) {
		int64_t outer_ns = trace->intervals[nesting->open[nesting->depth - 1]].to_ns;

		interval->to_ns = interval->to_ns < outer_ns ? interval->to_ns : outer_ns;
	} else {
		nesting->at_ns = interval->from_ns;
	}
	rc = array_reserve(&nesting->open, sizeof(at), &nesting->capacity, nesting->depth, 1,
			   DEPTH_MAX);
	if (rc)
		return out_of(trace, rc, "nesting");
	nesting->open[nesting->depth++] = at;
	return 0;
}

static int nest(struct trace *trace, int64_t shift_ns)
{
	struct nesting nesting = { .shift_ns = shift_ns };
	int rc = 0;

	for (uint32_t i = 0; i < trace->count && !rc; i++) {
		const struct interval *now = &trace->intervals[i], *before = i ? now - 1 : NULL;

		if (before && (before->thread != now->thread || before->is_gpu != now->is_gpu))
			rc = close_until(trace, &nesting, INT64_MAX);
		if (!rc)
			rc = enter(trace, &nesting, i);
	}
	if (!rc)
		rc = close_until(trace, &nesting, INT64_MAX);
	free(nesting.open);
	return rc;
}

// ---- the whole --------------------------------------------------------------------------------

/** What was still open ends with the trace. Finds the range of times. */
static bool close_open(struct trace *trace, int64_t *ret_first_ns, int64_t *ret_last_ns)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (uint32_t i = 0; i < trace->count; i++) {
		const struct interval *interval = &trace->intervals[i];
		int64_t end = interval->to_ns == OPEN_END ? interval->from_ns : interval->to_ns;

		first = interval->from_ns < first ? interval->from_ns : first;
		last = end > last ? end : last;
	}
	for (uint32_t i = 0; i < trace->count; i++)
		if (trace->intervals[i].to_ns == OPEN_END)
			trace->intervals[i].to_ns = last;
	*ret_first_ns = first;
	*ret_last_ns = last;
	return trace->count;
}

/** What is to be added to the file's times, so that they are Unix time. */
static int64_t shift_of(const struct trace *trace, int64_t first_ns, int64_t last_ns)
{
	const struct import_source *source = trace->source;
	uint64_t end_ns = source->end_ns ? source->end_ns : trace->importer->now_ns;
	uint64_t span_ns = (uint64_t)(last_ns - first_ns);

	if (source->from_ns)
		return (int64_t)source->from_ns - first_ns;
	if (first_ns > EPOCH_NS)
		return 0;
	if (trace->base_ns > 0 && trace->base_ns < INT64_MAX / 2 &&
	    first_ns + trace->base_ns > EPOCH_NS)
		return trace->base_ns;
	return (int64_t)ns_before(end_ns, span_ns) - first_ns;
}

bool chrome_trace_is_likely(const char *text, size_t size)
{
	size_t head = size < HEAD_BYTES ? size : HEAD_BYTES;
	struct json_reader reader = { text, text + head, false };
	enum json_kind kind = json_peek(&reader);

	return (kind == JSON_IS_ARRAY && memmem(text, head, "\"ph\"", 4)) ||
	       (kind == JSON_IS_OBJECT && memmem(text, head, "\"traceEvents\"", 13));
}

int chrome_trace_import(struct importer *importer, const struct import_source *source,
			const char *text, size_t size, struct error *err)
{
	_cleanup_(trace_deinit) struct trace trace = { .importer = importer,
						       .source = source,
						       .err = err };
	int64_t first_ns, last_ns;
	int rc = read_file(&trace, text, size);

	if (rc || !close_open(&trace, &first_ns, &last_ns))
		return rc;
	qsort(trace.intervals, trace.count, sizeof(*trace.intervals), by_place);
	return nest(&trace, shift_of(&trace, first_ns, last_ns));
}
