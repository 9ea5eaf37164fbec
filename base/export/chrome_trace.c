// SPDX-License-Identifier: Apache-2.0
// A sample says how long a stack ran within a slot, not when. So a thread's samples follow each other: a slice begins
// at its slot, or when the one before has ended; where the next sample has the same outer frames, they go on.
#include "base/export/chrome_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_type.h"
#include "base/contract/thread_states.h"
#include "base/contract/wait_classes.h"
#include "base/export/named_stacks.h"
#include "base/export/thread_rows.h"
#include "base/json_text.h"
#include "base/version.h"

/** One line of slices: a thread, or one of several threads that have the same name. */
struct lane {
	uint64_t end_ns;     // of its last slice, since the first slot
	uint32_t *functions; // of the open slices, outermost first
	uint32_t open_count, open_capacity;
	uint32_t thread; // number in the file; 0: the lane has no slice yet
};

#define NO_STATE UINT32_MAX

#define THREADS_WINDOW_NS (5 * NS_PER_SECOND) // an export interval: what is measured in it adds up

enum { STATE_BYTES = 64 };

struct writer {
	const struct profile *profile;
	const struct thread_rows *rows;
	struct named_stacks stacks;
	uint32_t *
		states; // by the profile's series: the function that stands for its thread state, NO_STATE: none
	struct buffer *buffer;
	struct lane lanes[TRACE_LANES_MAX]; // of one row
	uint32_t lane_count;
	uint32_t row_threads; // that the row's wall-clock time says there are; 0: unknown
	uint32_t threads;     // numbers given
	uint64_t origin_ns;   // Unix time of the first slot
	uint32_t events;
};

static void writer_free(struct writer **writer)
{
	if (!*writer)
		return;
	for (uint32_t i = 0; i < TRACE_LANES_MAX; i++)
		free((*writer)->lanes[i].functions);
	named_stacks_deinit(&(*writer)->stacks);
	free((*writer)->states);
	free(*writer);
}

// ---- events ---------------------------------------------------------------------------------

static void begin_event(struct writer *writer, const char *kind, uint32_t process, uint32_t thread)
{
	buffer_append_string(writer->buffer, writer->events++ ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	buffer_append_string(writer->buffer, kind);
	buffer_append_string(writer->buffer, "\",\"pid\":");
	json_append_uint(writer->buffer, process);
	buffer_append_string(writer->buffer, ",\"tid\":");
	json_append_uint(writer->buffer, thread);
}

/** Microseconds with three decimals. */
static void append_time(struct writer *writer, uint64_t ns)
{
	buffer_append_string(writer->buffer, ",\"ts\":");
	json_append_uint(writer->buffer, ns / 1000);
	if (ns % 1000)
		buffer_printf(writer->buffer, ".%03u", (unsigned int)(ns % 1000));
}

static void append_name_of(struct writer *writer, const char *what, uint32_t process,
			   uint32_t thread, const char *name, uint32_t copy)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	buffer_append_string(&text, name);
	if (copy)
		buffer_printf(&text, " %u", copy + 1);
	begin_event(writer, "M", process, thread);
	buffer_append_string(writer->buffer, ",\"name\":\"");
	buffer_append_string(writer->buffer, what);
	buffer_append_string(writer->buffer, "\",\"args\":{\"name\":");
	json_append_string(writer->buffer, buffer_string(&text));
	buffer_append_string(writer->buffer, "}}");
}

/** A function's name, of Python's with the file: "run (loop.py)". */
static void append_function(struct writer *writer, uint32_t function)
{
	const struct named_stacks *stacks = &writer->stacks;
	const char *file = named_function_file(stacks, function), *slash = strrchr(file, '/');
	_cleanup_(buffer_deinit) struct buffer name = { 0 };

	buffer_append_string(&name, named_function_name(stacks, function));
	if (stacks->functions[function].kind == FRAME_KIND_PYTHON && *file)
		buffer_printf(&name, " (%s)", slash ? slash + 1 : file);
	buffer_append_string(writer->buffer, ",\"name\":");
	json_append_string(writer->buffer, buffer_string(&name));
}

static void append_begin(struct writer *writer, uint32_t process, uint32_t thread,
			 uint32_t function, bool is_state, uint64_t at_ns)
{
	begin_event(writer, "B", process, thread);
	append_time(writer, at_ns);
	buffer_append_string(writer->buffer, ",\"cat\":\"");
	buffer_append_string(writer->buffer,
			     is_state ? "state"
				      : frame_kind_name(writer->stacks.functions[function].kind));
	buffer_append_byte(writer->buffer, '"');
	append_function(writer, function);
	buffer_append_byte(writer->buffer, '}');
}

/** An end has the name, too: speedscope pairs events by it. */
static void close_slices(struct writer *writer, struct lane *lane, uint32_t process, uint32_t kept)
{
	while (lane->open_count > kept) {
		lane->open_count--;
		begin_event(writer, "E", process, lane->thread);
		append_time(writer, lane->end_ns);
		append_function(writer, lane->functions[lane->open_count]);
		buffer_append_byte(writer->buffer, '}');
	}
}

// ---- lanes ----------------------------------------------------------------------------------

/**
 * May a sample of @slot_ns begin when @lane is free? Of sampled waits some slots have too much, others too little: where the
 * row's threads have lanes, a sample waits longer than for uneven ticks.
 */
static bool is_free(const struct writer *writer, const struct lane *lane, uint64_t slot_ns)
{
	bool has_all = writer->row_threads && writer->lane_count >= writer->row_threads;
	uint64_t late_ns = (has_all ? TRACE_OVERLAP_MS : TRACE_LATE_MS) * NS_PER_MS;

	return lane->end_ns <= slot_ns + late_ns;
}

/** The lane that has been free for longest; a new one if that is busy long after @slot_ns. */
static int find_lane(struct writer *writer, const struct thread_row *row, uint64_t slot_ns,
		     struct lane **ret_lane)
{
	struct lane *best = NULL;

	for (uint32_t i = 0; i < writer->lane_count; i++)
		if (!best || writer->lanes[i].end_ns < best->end_ns)
			best = &writer->lanes[i];
	// The first lane, if it is free: a single thread stays on it.
	if (best && writer->lanes[0].end_ns <= slot_ns)
		best = &writer->lanes[0];
	if (!best || !is_free(writer, best, slot_ns)) {
		if (writer->lane_count == TRACE_LANES_MAX)
			return -E2BIG;
		best = &writer->lanes[writer->lane_count];
		best->end_ns = 0;
		best->open_count = 0;
		best->thread = ++writer->threads;
		append_name_of(writer, "thread_name", row->process, best->thread,
			       string_table_get(&writer->rows->strings, row->thread_name),
			       writer->lane_count);
		writer->lane_count++;
	}
	*ret_lane = best;
	return 0;
}

/** The slice at @depth of the stack read last: below the thread's state, if that is known. */
static uint32_t function_at(const struct writer *writer, uint32_t state, uint32_t depth)
{
	if (state == NO_STATE)
		return writer->stacks.frames[depth].function;
	return depth ? writer->stacks.frames[depth - 1].function : state;
}

static int open_slices(struct writer *writer, struct lane *lane, uint32_t process, uint32_t state,
		       uint64_t start_ns)
{
	uint32_t count = writer->stacks.frame_count + (state != NO_STATE), kept = 0;

	// After a gap nothing goes on.
	while (start_ns == lane->end_ns && kept < lane->open_count && kept < count &&
	       lane->functions[kept] == function_at(writer, state, kept))
		kept++;
	close_slices(writer, lane, process, kept);
	int rc = array_reserve(&lane->functions, sizeof(*lane->functions), &lane->open_capacity, 0,
			       count, UINT32_MAX / 2);
	for (; !rc && lane->open_count < count; lane->open_count++) {
		uint32_t function = function_at(writer, state, lane->open_count);

		lane->functions[lane->open_count] = function;
		append_begin(writer, process, lane->thread, function,
			     state != NO_STATE && lane->open_count == 0, start_ns);
	}
	return rc;
}

static int append_sample(struct writer *writer, const struct thread_row *row,
			 const struct sample *sample)
{
	uint64_t slot_ns = sample->slot * writer->profile->slot_ns - writer->origin_ns;
	struct lane *lane;

	if (sample->value <= 0)
		return 0;
	int rc = named_stacks_read(&writer->stacks, sample->stack);
	if (!rc)
		rc = find_lane(writer, row, slot_ns, &lane);
	if (rc)
		return rc;

	uint64_t start_ns = lane->end_ns > slot_ns ? lane->end_ns : slot_ns;
	rc = open_slices(writer, lane, row->process, writer->states[sample->series], start_ns);
	lane->end_ns = start_ns + (uint64_t)sample->value;
	return rc ? rc : writer->buffer->rc;
}

static void close_row(struct writer *writer, const struct thread_row *row)
{
	for (uint32_t i = 0; i < writer->lane_count; i++)
		close_slices(writer, &writer->lanes[i], row->process, 0);
	writer->lane_count = 0;
}

// ---- the whole ------------------------------------------------------------------------------

static void append_processes(struct writer *writer)
{
	const struct thread_rows *rows = writer->rows;
	uint32_t named = 0; // numbers rise

	for (uint32_t i = 0; i < rows->count; i++) {
		if (rows->rows[i].process <= named)
			continue;
		named = rows->rows[i].process;
		append_name_of(writer, "process_name", named, 0,
			       string_table_get(&rows->strings, rows->rows[i].process_name), 0);
	}
}

/** The time of @samples of one row from slot @from on, in @slots slots. */
static double time_in(const struct writer *writer, const uint32_t *order, uint32_t count,
		      uint64_t from, uint64_t slots)
{
	double sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct sample *sample = &writer->profile->samples[order[i]];
		uint64_t begin = sample->slot > from ? sample->slot : from;
		uint64_t end = sample->slot + sample->more_slots + 1;

		if (sample->slot >= from + slots)
			break; // they are in order
		end = end < from + slots ? end : from + slots;
		if (begin < end)
			sum += (double)sample->value * (double)(end - begin) /
			       (sample->more_slots + 1.0);
	}
	return sum;
}

/** How many threads the @count samples of a row are of, at most at a time; 0 where they are not all of their time. */
static uint32_t threads_of(const struct writer *writer, const uint32_t *order, uint32_t count)
{
	const struct profile *profile = writer->profile;
	const struct sample *first = &profile->samples[order[0]];
	uint64_t slots = THREADS_WINDOW_NS / profile->slot_ns, last = 0;
	double most = 0;

	if (writer->states[first->series] == NO_STATE)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct sample *sample = &profile->samples[order[i]];

		if (sample->slot + sample->more_slots > last)
			last = sample->slot + sample->more_slots;
	}
	if (last - first->slot + 1 < slots)
		slots = last - first->slot + 1;
	// A window begins with a sample, and the next one after it.
	for (uint32_t i = 0; i < count;) {
		uint64_t from = profile->samples[order[i]].slot;
		double sum = time_in(writer, order + i, count - i, from, slots);

		most = sum > most ? sum : most;
		while (i < count && profile->samples[order[i]].slot < from + slots)
			i++;
	}
	most = most / (double)(slots * profile->slot_ns) + 0.5;
	return most < 1 ? 1 : most < TRACE_LANES_MAX ? (uint32_t)most : TRACE_LANES_MAX;
}

static int append_row(struct writer *writer, const struct thread_row *row, const uint32_t *order,
		      uint32_t count)
{
	int rc = 0;

	writer->row_threads = threads_of(writer, order, count);
	for (uint32_t i = 0; !rc && i < count; i++)
		rc = append_sample(writer, row, &writer->profile->samples[order[i]]);
	if (!rc)
		close_row(writer, row);
	return rc;
}

static int append_rows(struct writer *writer, const uint32_t *order, uint32_t count)
{
	const struct thread_rows *rows = writer->rows;
	int rc = 0;

	for (uint32_t first = 0, end; !rc && first < count; first = end) {
		uint32_t row = rows->of_series[writer->profile->samples[order[first]].series];

		for (end = first + 1; end < count; end++)
			if (rows->of_series[writer->profile->samples[order[end]].series] != row)
				break;
		rc = append_row(writer, &rows->rows[row], order + first, end - first);
	}
	return rc;
}

static int find_origin(struct writer *writer, const uint32_t *order, uint32_t count)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < count; i++)
		if (writer->profile->samples[order[i]].slot < first)
			first = writer->profile->samples[order[i]].slot;
	if (count && first == 0)
		return -ENODATA;
	writer->origin_ns = count ? first * writer->profile->slot_ns : 0;
	return 0;
}

/** "running", "blocked: disk"; "" of a series without a state. */
static void state_text(const struct labels *labels, char *text, size_t size)
{
	const char *state = labels_get(labels, LABEL_STATE), *wait = labels_get(labels, LABEL_WAIT);

	*text = '\0';
	for (int i = 0; state && i < THREAD_STATE_COUNT; i++)
		if (strcmp(state, thread_states[i].token) == 0)
			snprintf(text, size, "%s%s%s", thread_states[i].title, wait ? ": " : "",
				 wait ? wait_class_spec(wait_class_find(wait))->title : "");
}

static int find_states(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	int rc = array_allocate(&writer->states, profile->series_count, sizeof(*writer->states));

	for (uint32_t i = 0; !rc && i < profile->series_count; i++) {
		char text[STATE_BYTES];

		state_text(&profile->series[i].labels, text, sizeof(text));
		writer->states[i] = NO_STATE;
		if (*text)
			rc = named_stacks_add(&writer->stacks, text, &writer->states[i]);
	}
	return rc;
}

static int check_type(const char *type)
{
	struct profile_type parts;
	int rc = profile_type_parse(type, &parts, NULL);

	return rc || strcmp(parts.sample_unit, "nanoseconds") != 0 ? -EINVAL : 0;
}

int chrome_trace_encode(const struct profile *profile, const char *type, struct buffer *buffer)
{
	_cleanup_(thread_rows_deinit) struct thread_rows rows = { 0 };
	_cleanup_(writer_free) struct writer *writer = calloc(1, sizeof(*writer));
	_cleanup_free_ uint32_t *order = NULL;
	uint32_t count;
	int rc = writer ? check_type(type) : -ENOMEM;

	if (!rc)
		rc = thread_rows_init(&rows, profile, type);
	if (!rc)
		rc = thread_rows_order(&rows, profile, type, &order, &count);
	if (!rc)
		rc = named_stacks_init(&writer->stacks, profile);
	if (rc)
		return rc;
	writer->profile = profile;
	writer->rows = &rows;
	writer->buffer = buffer;
	rc = find_states(writer);
	if (!rc)
		rc = find_origin(writer, order, count);
	if (rc)
		return rc;

	buffer_printf(buffer,
		      "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"creator\":\"cairn %s\","
		      "\"origin_unix_ns\":\"%" PRIu64 "\"},\"traceEvents\":[",
		      CAIRN_VERSION, writer->origin_ns);
	append_processes(writer);
	rc = append_rows(writer, order, count);
	buffer_append_string(buffer, "]}\n");
	return rc ? rc : buffer->rc;
}
