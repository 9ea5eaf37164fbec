// SPDX-License-Identifier: Apache-2.0
// What threads did over time: a row for each thread name of a process, a part for each profile type and wait class. Reads the store's
// activity, no stacks.
#include "collector/query/query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/wait_classes.h"
#include "base/id128.h"
#include "base/saturating.h"
#include "collector/query/query_steps.h"

/* Who a thread is. Series of one tell apart what was measured, not whose it is. */
static const char *const names[] = {
	LABEL_TENANT,    LABEL_SERVICE,  LABEL_NODE,    LABEL_NAMESPACE, LABEL_POD,
	LABEL_CONTAINER, LABEL_INSTANCE, LABEL_PROCESS, LABEL_THREAD,
};

/* The last has a part for each wait class. */
static const char *const types[] = {
	PROFILE_TYPE_WALL,        PROFILE_TYPE_CPU,     PROFILE_TYPE_GPU_SPIN,
	PROFILE_TYPE_SCHED_DELAY, PROFILE_TYPE_OFF_CPU,
};

enum {
	TYPE_COUNT = ARRAY_SIZE(types),
	PART_WALL = 0,
	PART_BLOCKED = TYPE_COUNT - 1, // + enum wait_class
	PART_COUNT = PART_BLOCKED + WAIT_CLASS_COUNT,
};

#define LINE_NONE UINT32_MAX

/** A thread's place in the answer. */
struct ranked_thread {
	uint32_t number;
	int64_t active;
	int64_t wall;
};

struct reading {
	const struct query *query;
	struct error *err;
	struct time_range range; // in whole slots
	struct store_selection *selections[TYPE_COUNT];
	struct string_table keys;             // of threads: its numbers, less 1, are theirs
	uint32_t *cell_of_series[TYPE_COUNT]; // thread * PART_COUNT + part
	uint32_t thread_count;
	struct ranked_thread *ranked; // those that have time
	uint32_t ranked_count;
};

static void reading_deinit(struct reading *reading)
{
	for (int type = 0; type < TYPE_COUNT; type++) {
		store_selection_freep(&reading->selections[type]);
		free(reading->cell_of_series[type]);
	}
	string_table_deinit(&reading->keys);
	free(reading->ranked);
}

static int out_of_memory(struct reading *reading)
{
	return error_set(reading->err, -ENOMEM, "out of memory for %u threads",
			 reading->thread_count);
}

/** The number of the thread that has a series with @labels: a new one if it has none yet. */
static int find_thread(struct reading *reading, const struct labels *labels, uint32_t *ret_number)
{
	_cleanup_(buffer_deinit) struct buffer values = { 0 };
	char key[ID128_HEX_BYTES];
	uint32_t number;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = labels_get(labels, names[i]);

		// With its NUL: "ab", "c" is not "a", "bc".
		buffer_append(&values, value ? value : "", value ? strlen(value) + 1 : 1);
	}
	if (values.rc)
		return values.rc;
	struct id128 id = id128_of(values.bytes, values.size);
	snprintf(key, sizeof(key), "%016" PRIx64 "%016" PRIx64, id.high, id.low);
	int rc = string_table_add(&reading->keys, key, strlen(key), &number);
	if (rc)
		return rc;
	*ret_number = number - 1; // number 0 is "", which is no key
	return number > QUERY_THREADS_SELECTED_MAX ? -E2BIG : 0;
}

static uint32_t part_of(int type, const struct labels *labels)
{
	const char *wait = labels_get(labels, LABEL_WAIT);

	if (type != PART_BLOCKED)
		return (uint32_t)type;
	return PART_BLOCKED + (uint32_t)(wait ? wait_class_find(wait) : WAIT_CLASS_OTHER);
}

static int select_type(struct reading *reading, int type)
{
	struct query query = *reading->query;

	query.type = types[type];
	query.range = reading->range;
	int rc = query_select(&query, &reading->selections[type], reading->err);
	if (rc)
		return rc;
	const struct store_selection *selection = reading->selections[type];
	rc = array_allocate(&reading->cell_of_series[type], selection->series_count + 1ULL,
			    sizeof(uint32_t));
	for (uint32_t i = 0; !rc && i < selection->series_count; i++) {
		const struct labels *labels = &selection->series[i].labels;
		uint32_t thread;

		rc = find_thread(reading, labels, &thread);
		if (!rc)
			reading->cell_of_series[type][i] =
				thread * PART_COUNT + part_of(type, labels);
	}
	reading->thread_count = reading->keys.count - 1;
	if (rc == -E2BIG)
		return error_set(reading->err, rc,
				 "more than %d threads are selected; choose a service, a pod or a "
				 "process",
				 QUERY_THREADS_SELECTED_MAX);
	return rc ? out_of_memory(reading) : 0;
}

/** Add the types' values per slot to @values, at the line that @lines has for each cell; NULL: each cell is a line. */
static int read_activity(struct reading *reading, uint64_t slot_ns, const uint32_t *lines,
			 int64_t *values)
{
	int rc = 0;

	for (int type = 0; !rc && type < TYPE_COUNT; type++) {
		const struct store_selection *selection = reading->selections[type];
		_cleanup_free_ uint32_t *rows = NULL;

		if (!selection->series_count)
			continue;
		if (array_allocate(&rows, selection->series_count, sizeof(*rows)))
			return out_of_memory(reading);
		for (uint32_t i = 0; i < selection->series_count; i++) {
			uint32_t cell = reading->cell_of_series[type][i];

			rows[i] = lines ? lines[cell] : cell;
		}
		rc = store_activity(reading->query->store, selection, reading->range, slot_ns, rows,
				    values, reading->err);
	}
	return rc;
}

static int compare_threads(const void *a, const void *b)
{
	const struct ranked_thread *x = a, *y = b;

	if (x->active != y->active)
		return x->active < y->active ? 1 : -1;
	if (x->wall != y->wall)
		return x->wall < y->wall ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

/** Put the threads in order. @totals: of each cell. */
static int rank_threads(struct reading *reading, const int64_t *totals)
{
	if (array_allocate(&reading->ranked, reading->thread_count + 1ULL,
			   sizeof(*reading->ranked)))
		return out_of_memory(reading);
	for (uint32_t i = 0; i < reading->thread_count; i++) {
		const int64_t *parts = totals + (size_t)i * PART_COUNT;
		struct ranked_thread thread = { .number = i, .wall = parts[PART_WALL] };
		int64_t idle = parts[PART_BLOCKED + WAIT_CLASS_IDLE];

		for (uint32_t part = PART_WALL + 1; part < PART_COUNT; part++)
			thread.active = add_saturating(thread.active, parts[part]);
		thread.active = subtract_saturating(thread.active, idle);
		if (thread.active || thread.wall || idle)
			reading->ranked[reading->ranked_count++] = thread;
	}
	qsort(reading->ranked, reading->ranked_count, sizeof(*reading->ranked), compare_threads);
	return 0;
}

/** Number the lines of values: those of the chosen threads that have time. The rest share the last. */
static uint32_t number_lines(const struct reading *reading, uint32_t chosen, const int64_t *totals,
			     uint32_t *lines)
{
	uint32_t count = 0;

	for (size_t i = 0; i < (size_t)reading->thread_count * PART_COUNT; i++)
		lines[i] = LINE_NONE;
	for (uint32_t i = 0; i < chosen; i++) {
		size_t first = (size_t)reading->ranked[i].number * PART_COUNT;

		for (size_t cell = first; cell < first + PART_COUNT; cell++)
			if (totals[cell])
				lines[cell] = count++;
	}
	for (size_t i = 0; i < (size_t)reading->thread_count * PART_COUNT; i++)
		if (lines[i] == LINE_NONE)
			lines[i] = count;
	return count;
}

/** The labels of thread @number, of the first series that is one of its. */
static int copy_names(const struct reading *reading, uint32_t number, struct labels *ret_labels)
{
	for (int type = 0; type < TYPE_COUNT; type++) {
		const struct store_selection *selection = reading->selections[type];

		for (uint32_t i = 0; i < selection->series_count; i++) {
			if (reading->cell_of_series[type][i] / PART_COUNT != number)
				continue;
			for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
				const char *value =
					labels_get(&selection->series[i].labels, names[n]);
				int rc = value ? labels_set(ret_labels, names[n], value) : 0;

				if (rc)
					return rc;
			}
			return 0;
		}
	}
	return 0;
}

static int add_thread(const struct reading *reading, const struct ranked_thread *ranked,
		      const int64_t *totals, const uint32_t *lines,
		      struct thread_timeline *timeline)
{
	struct timeline_thread *thread = &timeline->threads[timeline->thread_count++];
	size_t first = (size_t)ranked->number * PART_COUNT;

	thread->active = ranked->active;
	thread->parts = calloc(PART_COUNT, sizeof(*thread->parts));
	if (!thread->parts)
		return -ENOMEM;
	for (uint32_t part = 0; part < PART_COUNT; part++) {
		bool is_blocked = part >= PART_BLOCKED;

		if (!totals[first + part])
			continue;
		thread->parts[thread->part_count++] = (struct thread_part){
			.type = types[is_blocked ? PART_BLOCKED : part],
			.wait = is_blocked ? wait_class_name((enum wait_class)(part - PART_BLOCKED))
					   : "",
			.total = totals[first + part],
			.values = timeline->values +
				  (size_t)lines[first + part] * timeline->slot_count,
		};
	}
	return copy_names(reading, ranked->number, &thread->labels);
}

static int fill(struct reading *reading, uint32_t threads_max, const int64_t *totals,
		struct thread_timeline *timeline)
{
	uint32_t count = reading->ranked_count, chosen = count < threads_max ? count : threads_max;
	_cleanup_free_ uint32_t *lines = NULL;

	if (array_allocate(&lines, (size_t)reading->thread_count * PART_COUNT + 1, sizeof(*lines)))
		return out_of_memory(reading);
	uint64_t line_count = number_lines(reading, chosen, totals, lines) + 1ULL;
	if (line_count * timeline->slot_count > QUERY_THREAD_CELLS_MAX)
		return error_set(reading->err, -E2BIG,
				 "%u threads in %u slots are more than a timeline holds (limit %d "
				 "values); choose fewer threads, longer slots or a shorter range",
				 chosen, timeline->slot_count, QUERY_THREAD_CELLS_MAX);
	timeline->values = calloc(line_count * timeline->slot_count, sizeof(*timeline->values));
	timeline->threads = calloc(chosen + 1ULL, sizeof(*timeline->threads));
	if (!timeline->values || !timeline->threads)
		return out_of_memory(reading);
	int rc = read_activity(reading, timeline->slot_ns, lines, timeline->values);

	for (uint32_t i = 0; !rc && i < chosen; i++)
		if (add_thread(reading, &reading->ranked[i], totals, lines, timeline))
			rc = out_of_memory(reading);
	timeline->left_out = count - chosen;
	for (uint32_t i = chosen; i < count; i++)
		timeline->left_out_active =
			add_saturating(timeline->left_out_active, reading->ranked[i].active);
	return rc;
}

void thread_timeline_deinit(struct thread_timeline *timeline)
{
	for (uint32_t i = 0; i < timeline->thread_count; i++) {
		labels_deinit(&timeline->threads[i].labels);
		free(timeline->threads[i].parts);
	}
	free(timeline->threads);
	free(timeline->values);
	*timeline = (struct thread_timeline){ 0 };
}

int query_threads(const struct query *query, uint64_t slot_ns, uint32_t threads_max,
		  struct thread_timeline *ret_timeline, struct error *err)
{
	_cleanup_(thread_timeline_deinit) struct thread_timeline timeline = { .slot_ns = slot_ns };
	_cleanup_(reading_deinit) struct reading reading = { .query = query, .err = err };
	_cleanup_free_ int64_t *totals = NULL;
	int rc = query_steps_align(query->range, slot_ns, QUERY_THREAD_SLOTS_MAX, &reading.range,
				   err);

	if (!rc && string_table_init(&reading.keys))
		rc = out_of_memory(&reading);
	for (int type = 0; !rc && type < TYPE_COUNT; type++)
		rc = select_type(&reading, type);
	if (rc)
		return rc;
	timeline.from_ns = reading.range.from_ns;
	timeline.slot_count = (uint32_t)((reading.range.to_ns - reading.range.from_ns) / slot_ns);
	totals = calloc((size_t)reading.thread_count * PART_COUNT + 1, sizeof(*totals));
	if (!totals)
		return out_of_memory(&reading);
	rc = read_activity(&reading, reading.range.to_ns - reading.range.from_ns, NULL, totals);
	if (!rc)
		rc = rank_threads(&reading, totals);
	if (!rc)
		rc = fill(&reading, threads_max, totals, &timeline);
	if (rc)
		return rc;
	*ret_timeline = timeline;
	timeline = (struct thread_timeline){ 0 };
	return 0;
}
