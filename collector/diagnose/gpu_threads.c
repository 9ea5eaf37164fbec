// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/diagnose/gpu_frame.h"
#include "collector/store/selector.h"
#include "collector/diagnose/verdict.h"
#include "base/contract/label_names.h"
#include "base/saturating.h"

/*
 * A thread that calls the driver for less than this of what the busiest one does is a helper: NCCL's
 * watchdog that asks for events, a monitor. Its waits would dilute those of the threads that matter.
 */
#define HELPER_PART 0.05

/** Called for each node of a tree with a self value, with the marks of its stack. */
typedef void (*row_fn)(struct thread_row *row, unsigned int marks, int64_t value);

void gpu_threads_deinit(struct gpu_threads *threads)
{
	string_table_deinit(&threads->names);
	free(threads->rows);
	threads->rows = NULL;
}

const char *gpu_type_find(const struct name_list *types, const char *prefix)
{
	for (uint32_t i = 0; i < types->count; i++) {
		if (strncmp(types->names[i], prefix, strlen(prefix)) == 0)
			return types->names[i];
	}
	return NULL;
}

static int find_row(struct gpu_threads *threads, const char *name, struct thread_row **ret_row)
{
	uint32_t number = string_table_find(&threads->names, name);

	if (number == HASH_TABLE_NONE && threads->names.count < GPU_THREADS_MAX) {
		int rc = string_table_add(&threads->names, name, strlen(name), &number);

		if (rc)
			return rc;
	}
	*ret_row = &threads->rows[number < GPU_THREADS_MAX ? number : GPU_THREADS_MAX];
	return 0;
}

// Which thread a node is of, and the marks of the frames from the root to it: parents come first.
struct node_place {
	struct thread_row *row;
	unsigned int marks;
};

static int add_tree(struct gpu_threads *threads, const struct flame_tree *tree, row_fn add)
{
	_cleanup_free_ struct node_place *places = calloc(tree->node_count, sizeof(*places));

	if (!places)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];
		const char *name = string_table_get(&tree->strings, node->name);

		if (node->parent == 0) {
			int rc = find_row(threads, name, &places[i].row);

			if (rc)
				return rc;
		} else {
			places[i] = places[node->parent];
			places[i].marks |= gpu_frame_marks(
				name, string_table_get(&tree->strings, node->module));
		}
		if (node->self)
			add(places[i].row, places[i].marks, node->self);
	}
	return 0;
}

// The values of @type, those with @value of @label only if that is not NULL.
static int read_tree(const struct query *query, const char *type, const char *label,
		     const char *value, struct gpu_threads *threads, row_fn add, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 1];
	struct selector selector = *query->selector;
	struct query by_thread = *query;

	selector.matchers = matchers;
	if (selector.count)
		memcpy(matchers, query->selector->matchers, selector.count * sizeof(matchers[0]));
	if (label) // the copy is shallow, and never deinitialized
		matchers[selector.count++] = (struct matcher){ .name = (char *)label,
							       .op = MATCH_EQUAL,
							       .value = (char *)value };
	by_thread.type = type;
	by_thread.selector = &selector;
	by_thread.group_by = LABEL_THREAD;
	int rc = query_flame_tree(&by_thread, &tree, err);
	if (rc)
		return rc;
	rc = add_tree(threads, &tree, add);
	return rc ? error_set(err, rc, "out of memory for the threads' sums") : 0;
}

// ---- what is added up -----------------------------------------------------------------------

static void add_wall(struct thread_row *row, unsigned int marks, int64_t value)
{
	(void)marks;
	add_to_saturating(&row->sums[THREAD_SUM_WALL], value);
}

static void add_running(struct thread_row *row, unsigned int marks, int64_t value)
{
	(void)marks;
	add_to_saturating(&row->sums[THREAD_SUM_RUNNING], value);
}

static void add_cpu(struct thread_row *row, unsigned int marks, int64_t value)
{
	add_to_saturating(&row->sums[THREAD_SUM_CPU], value);
	if (marks & GPU_MARK_DRIVER)
		add_to_saturating(&row->sums[THREAD_SUM_CPU_DRIVER], value);
	if (marks & GPU_MARK_LAUNCH)
		add_to_saturating(&row->sums[THREAD_SUM_CPU_LAUNCH], value);
	if (marks & GPU_MARK_LAUNCH && !(marks & GPU_MARK_GRAPH))
		add_to_saturating(&row->sums[THREAD_SUM_CPU_KERNELS], value);
	if (marks & GPU_MARK_COPY_IN)
		add_to_saturating(&row->sums[THREAD_SUM_CPU_COPY_IN], value);
	if (marks & GPU_MARK_ALLOCATION)
		add_to_saturating(&row->sums[THREAD_SUM_CPU_ALLOCATION], value);
}

// A wait has one cause: the most particular of its stack's. @sums begin with all of them.
static void add_wait_to(int64_t *sums, unsigned int marks, int64_t value)
{
	add_to_saturating(&sums[0], value);
	if (marks & GPU_MARK_COLLECTIVE)
		add_to_saturating(&sums[THREAD_SUM_WAIT_COLLECTIVE - THREAD_SUM_WAIT], value);
	else if (marks & GPU_MARK_ALLOCATION)
		add_to_saturating(&sums[THREAD_SUM_WAIT_ALLOCATION - THREAD_SUM_WAIT], value);
	else if (marks & GPU_MARK_COPY_IN)
		add_to_saturating(&sums[THREAD_SUM_WAIT_COPY_IN - THREAD_SUM_WAIT], value);
	else if (marks & GPU_MARK_IMPLICIT)
		add_to_saturating(&sums[THREAD_SUM_WAIT_IMPLICIT - THREAD_SUM_WAIT], value);
}

static void add_spin(struct thread_row *row, unsigned int marks, int64_t value)
{
	add_to_saturating(&row->sums[THREAD_SUM_SPIN], value);
	add_wait_to(&row->sums[THREAD_SUM_WAIT], marks, value);
}

static void add_blocked(struct thread_row *row, unsigned int marks, int64_t value)
{
	add_to_saturating(&row->sums[THREAD_SUM_BLOCKED], value);
	add_wait_to(&row->sums[THREAD_SUM_WAIT], marks, value);
}

static void add_counted(struct thread_row *row, unsigned int marks, int64_t value)
{
	add_wait_to(&row->sums[THREAD_SUM_COUNTED], marks, value);
}

static void add_lock(struct thread_row *row, unsigned int marks, int64_t value)
{
	(void)marks;
	add_to_saturating(&row->sums[THREAD_SUM_LOCK], value);
}

static void add_gil(struct thread_row *row, unsigned int marks, int64_t value)
{
	(void)marks;
	add_to_saturating(&row->sums[THREAD_SUM_GIL], value);
}

static void add_input(struct thread_row *row, unsigned int marks, int64_t value)
{
	(void)marks;
	add_to_saturating(&row->sums[THREAD_SUM_INPUT], value);
}

static void add_storage(struct thread_row *row, unsigned int marks, int64_t value)
{
	add_input(row, marks, value);
	add_to_saturating(&row->sums[THREAD_SUM_STORAGE], value);
}

static void add_launches(struct thread_row *row, unsigned int marks, int64_t value)
{
	(void)marks;
	add_to_saturating(&row->sums[THREAD_SUM_LAUNCHES], value);
	if (value > row->sums[THREAD_SUM_LAUNCHES_REPEATED])
		row->sums[THREAD_SUM_LAUNCHES_REPEATED] = value;
}

static void add_allocations(struct thread_row *row, unsigned int marks, int64_t value)
{
	(void)marks;
	add_to_saturating(&row->sums[THREAD_SUM_ALLOCATIONS], value);
}

// Sleeping is by the thread's own choice, and a thread that waits for a child does nothing else.
static const row_fn add_of_wait[WAIT_CLASS_COUNT] = {
	[WAIT_CLASS_LOCK] = add_lock,     [WAIT_CLASS_GIL] = add_gil,
	[WAIT_CLASS_DISK] = add_storage,  [WAIT_CLASS_PAGE_FAULT] = add_storage,
	[WAIT_CLASS_NETWORK] = add_input, [WAIT_CLASS_POLL] = add_input,
	[WAIT_CLASS_PIPE] = add_input,    [WAIT_CLASS_IDLE] = add_input,
	[WAIT_CLASS_OTHER] = add_input,
};

static int read_waits(const struct query *query, struct gpu_threads *threads, struct error *err)
{
	int rc = 0;

	for (int i = 0; i < WAIT_CLASS_COUNT && !rc; i++) {
		if (add_of_wait[i])
			rc = read_tree(query, PROFILE_TYPE_OFF_CPU, LABEL_WAIT,
				       wait_class_name((enum wait_class)i), threads, add_of_wait[i],
				       err);
	}
	return rc;
}

// Sampled, and counted at the calls by agents that do so: not those of a process's first moments, nor of one
// that the driver was not probed for.
static int read_gpu_waits(const struct query *query, const struct name_list *types,
			  struct gpu_threads *threads, struct error *err)
{
	const char *stored = gpu_type_find(types, PROFILE_TYPE_GPU_WAIT);
	int rc = read_tree(query, PROFILE_TYPE_GPU_SPIN, NULL, NULL, threads, add_spin, err);

	if (!rc)
		rc = read_tree(query, PROFILE_TYPE_OFF_CPU, LABEL_WAIT,
			       wait_class_name(WAIT_CLASS_GPU), threads, add_blocked, err);
	if (!rc && stored)
		rc = read_tree(query, stored, NULL, NULL, threads, add_counted, err);
	return rc;
}

static int read_counts(const struct query *query, const struct name_list *types,
		       struct gpu_threads *threads, struct error *err)
{
	const char *launches = gpu_type_find(types, PROFILE_TYPE_GPU_LAUNCH);
	const char *allocations = gpu_type_find(types, PROFILE_TYPE_GPU_ALLOCATIONS);
	int rc = 0;

	threads->has_launches = launches != NULL;
	threads->has_allocations = allocations != NULL;
	if (launches)
		rc = read_tree(query, launches, NULL, NULL, threads, add_launches, err);
	if (!rc && allocations)
		rc = read_tree(query, allocations, NULL, NULL, threads, add_allocations, err);
	return rc;
}

// ---- whose ----------------------------------------------------------------------------------

static int64_t calls_of(const struct thread_row *row)
{
	return add_saturating(row->sums[THREAD_SUM_CPU_DRIVER], row->sums[THREAD_SUM_WAIT]);
}

// Both are lower bounds of the same: samples of waits lack names now and then, counts their beginnings.
static void choose_waits(struct gpu_threads *threads)
{
	int64_t sampled = 0, counted = 0;

	for (uint32_t i = 0; i <= GPU_THREADS_MAX; i++) {
		add_to_saturating(&sampled, threads->rows[i].sums[THREAD_SUM_WAIT]);
		add_to_saturating(&counted, threads->rows[i].sums[THREAD_SUM_COUNTED]);
	}
	threads->has_counted = counted > sampled;
	for (uint32_t i = 0; i <= GPU_THREADS_MAX && threads->has_counted; i++) {
		int64_t *sums = threads->rows[i].sums;

		memcpy(&sums[THREAD_SUM_WAIT], &sums[THREAD_SUM_COUNTED],
		       (THREAD_SUM_COUNTED_LAST - THREAD_SUM_COUNTED + 1) * sizeof(*sums));
	}
}

static void find_launching(struct gpu_threads *threads)
{
	int64_t calls_max = 0, launches_max = 0;

	for (uint32_t i = 0; i < GPU_THREADS_MAX; i++) {
		if (calls_of(&threads->rows[i]) > calls_max)
			calls_max = calls_of(&threads->rows[i]);
		if (threads->rows[i].sums[THREAD_SUM_LAUNCHES] > launches_max)
			launches_max = threads->rows[i].sums[THREAD_SUM_LAUNCHES];
	}
	for (uint32_t i = 0; i <= GPU_THREADS_MAX; i++) {
		struct thread_row *row = &threads->rows[i];
		double calls = (double)calls_of(row);
		double launches = (double)row->sums[THREAD_SUM_LAUNCHES];

		row->launches = i < GPU_THREADS_MAX &&
				((calls > 0 && calls >= HELPER_PART * (double)calls_max) ||
				 (launches > 0 && launches >= HELPER_PART * (double)launches_max));
		for (int k = 0; k < THREAD_SUM_COUNT; k++)
			add_to_saturating(
				&(row->launches ? threads->launching : threads->others)[k],
				row->sums[k]);
		if (row->sums[THREAD_SUM_WALL])
			threads->has_wall = true;
	}
	threads->has_waits = threads->launching[THREAD_SUM_WAIT] || threads->has_launches;
}

static int read_all(const struct query *query, const struct name_list *types,
		    struct gpu_threads *threads, struct error *err)
{
	int rc = read_tree(query, PROFILE_TYPE_WALL, NULL, NULL, threads, add_wall, err);

	if (!rc)
		rc = read_tree(query, PROFILE_TYPE_WALL, LABEL_STATE, "running", threads,
			       add_running, err);
	if (!rc)
		rc = read_tree(query, PROFILE_TYPE_CPU, NULL, NULL, threads, add_cpu, err);
	if (!rc)
		rc = read_gpu_waits(query, types, threads, err);
	if (!rc)
		rc = read_waits(query, threads, err);
	return rc ? rc : read_counts(query, types, threads, err);
}

int gpu_threads_read(const struct query *query, const struct name_list *types,
		     struct gpu_threads *ret_threads, struct error *err)
{
	struct gpu_threads threads = { .rows = calloc(GPU_THREADS_MAX + 1, sizeof(*threads.rows)) };
	int rc = threads.rows ? string_table_init(&threads.names) : -ENOMEM;

	if (rc)
		error_set(err, rc, "out of memory for the threads");
	else
		rc = read_all(query, types, &threads, err);
	if (rc) {
		gpu_threads_deinit(&threads);
		return rc;
	}
	choose_waits(&threads);
	find_launching(&threads);
	*ret_threads = threads;
	return 0;
}

bool gpu_threads_launch(const struct gpu_threads *threads, const char *name)
{
	uint32_t number = string_table_find(&threads->names, name);

	return number < GPU_THREADS_MAX && threads->rows[number].launches;
}
