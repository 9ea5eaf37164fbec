// SPDX-License-Identifier: Apache-2.0
#include "collector/gpu_diagnosis.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/gpu_frame.h"
#include "collector/gpu_gauges.h"

#define LABEL_TYPE      "__type__"
#define LABEL_DIRECTION "direction"
#define LABEL_MEMORY    "memory"

/* All types of lanes that only threads with a GPU have begin so; what GPUs do by themselves is "gpu:". */
#define TYPES_OF_USERS "gpu_"

#define LANE_WAIT       "gpu_wait:wait:nanoseconds:"
#define LANE_LAUNCHES   "gpu_launch:launches:count:"
#define LANE_COPY_BYTES "gpu_copy:bytes:bytes:"
#define LANE_COPIES     "gpu_copy:copies:count:"
#define LANE_MEMORY \
	"gpu_memory:alloc:bytes:" // what is in use is a level, and levels have no stacks
#define LANE_IDLE        "gpu_idle:time:nanoseconds:"
#define LANE_IDLE_STACKS "gpu_idle:idle:nanoseconds:"
#define LANE_LAG         "nccl:lag:nanoseconds:"

#define LABEL_COMMUNICATOR "communicator"
#define LABEL_RANK         "rank"

#define TO_DEVICE "host_to_device"
#define TO_HOST   "device_to_host"
#define PAGEABLE  "pageable"

void gpu_diagnosis_deinit(struct gpu_diagnosis *diagnosis)
{
	gpu_threads_deinit(&diagnosis->threads);
	name_list_deinit(&diagnosis->types);
}

// ---- figures of threads ---------------------------------------------------------------------

static void set_share(struct gpu_figures *figures, enum gpu_figure figure, int64_t part,
		      int64_t whole)
{
	if (whole > 0)
		gpu_figures_set(figures, figure, part > 0 ? (double)part / (double)whole : 0);
}

// Of the time of threads that launch. Without the wall clock it is unknown how much that was.
static void set_wall_shares(struct gpu_diagnosis *diagnosis)
{
	struct gpu_figures *figures = &diagnosis->figures;
	const int64_t *sums = diagnosis->threads.launching;
	int64_t wall = sums[THREAD_SUM_WALL];
	int64_t driver = sums[THREAD_SUM_CPU_DRIVER] + sums[THREAD_SUM_SPIN];

	set_share(figures, GPU_FIGURE_OWN_CPU, sums[THREAD_SUM_RUNNING] - driver, wall);
	set_share(figures, GPU_FIGURE_INPUT, sums[THREAD_SUM_INPUT], wall);
	set_share(figures, GPU_FIGURE_LOCK, sums[THREAD_SUM_LOCK], wall);
	set_share(figures, GPU_FIGURE_GIL, sums[THREAD_SUM_GIL], wall);
	set_share(figures, GPU_FIGURE_ALLOCATION,
		  sums[THREAD_SUM_CPU_ALLOCATION] + sums[THREAD_SUM_WAIT_ALLOCATION], wall);
	set_share(figures, GPU_FIGURE_COPY_IN,
		  sums[THREAD_SUM_CPU_COPY_IN] + sums[THREAD_SUM_WAIT_COPY_IN], wall);
	if (!diagnosis->threads.has_waits)
		return;
	set_share(figures, GPU_FIGURE_WAIT, sums[THREAD_SUM_WAIT], wall);
	set_share(figures, GPU_FIGURE_IMPLICIT, sums[THREAD_SUM_WAIT_IMPLICIT], wall);
	set_share(figures, GPU_FIGURE_COLLECTIVE, sums[THREAD_SUM_WAIT_COLLECTIVE], wall);
}

static void set_rates(struct gpu_diagnosis *diagnosis)
{
	struct gpu_figures *figures = &diagnosis->figures;
	const struct gpu_threads *threads = &diagnosis->threads;
	const int64_t *launching = threads->launching, *others = threads->others;
	double seconds = (double)figures->range_ns / NS_PER_SECOND;
	double thread_seconds = (double)launching[THREAD_SUM_WALL] / NS_PER_SECOND;

	if (threads->has_wall && seconds > 0)
		gpu_figures_set(figures, GPU_FIGURE_FEEDERS,
				(double)(others[THREAD_SUM_RUNNING] + others[THREAD_SUM_STORAGE] +
					 launching[THREAD_SUM_STORAGE]) /
					(double)figures->range_ns);
	set_share(figures, GPU_FIGURE_LAUNCH_CALLS, launching[THREAD_SUM_CPU_LAUNCH],
		  launching[THREAD_SUM_CPU]);
	if (threads->has_launches && thread_seconds > 0)
		gpu_figures_set(figures, GPU_FIGURE_LAUNCH_RATE,
				(double)launching[THREAD_SUM_LAUNCHES] / thread_seconds);
	if (threads->has_allocations && thread_seconds > 0)
		gpu_figures_set(figures, GPU_FIGURE_ALLOCATION_RATE,
				(double)launching[THREAD_SUM_ALLOCATIONS] / thread_seconds);
}

// ---- figures of copies ----------------------------------------------------------------------

// The sum of @lane's values, of those series that have @value of @label; -1: no such lane.
static int read_sum(const struct query *query, const struct gpu_diagnosis *diagnosis,
		    const char *lane, const char *direction, const char *memory, int64_t *ret_sum,
		    struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 2];
	struct selector selector = { .matchers = matchers, .count = query->selector->count };
	struct query sums = *query;

	*ret_sum = -1;
	sums.type = gpu_type_find(&diagnosis->types, lane);
	if (!sums.type)
		return 0;
	if (selector.count)
		memcpy(matchers, query->selector->matchers, selector.count * sizeof(matchers[0]));
	if (direction) // shallow copies
		matchers[selector.count++] = (struct matcher){ (char *)LABEL_DIRECTION, MATCH_EQUAL,
							       (char *)direction, NULL };
	if (memory)
		matchers[selector.count++] =
			(struct matcher){ (char *)LABEL_MEMORY, MATCH_EQUAL, (char *)memory, NULL };
	sums.selector = &selector;
	sums.group_by = NULL;
	int rc = query_flame_tree(&sums, &tree, err);
	if (!rc)
		*ret_sum = tree.node_count ? tree.nodes[0].total : 0;
	return rc;
}

static int read_copies(const struct query *query, struct gpu_diagnosis *diagnosis,
		       struct error *err)
{
	struct gpu_figures *figures = &diagnosis->figures;
	int64_t in = -1, pageable = -1, out = -1, copies = -1;
	int rc = read_sum(query, diagnosis, LANE_COPY_BYTES, TO_DEVICE, NULL, &in, err);

	if (!rc)
		rc = read_sum(query, diagnosis, LANE_COPY_BYTES, TO_DEVICE, PAGEABLE, &pageable,
			      err);
	if (!rc)
		rc = read_sum(query, diagnosis, LANE_COPY_BYTES, TO_HOST, NULL, &out, err);
	if (!rc)
		rc = read_sum(query, diagnosis, LANE_COPIES, TO_HOST, NULL, &copies, err);
	if (rc)
		return rc;
	if (in > 0 && pageable >= 0)
		set_share(figures, GPU_FIGURE_PAGEABLE, pageable, in);
	if (copies > 0 && out >= 0)
		gpu_figures_set(figures, GPU_FIGURE_COPY_OUT_BYTES, (double)out / (double)copies);
	return 0;
}

/* Of a lower bound only what is large says something: below it the GPU may have been idle all the same. */
#define IDLE_BOUND_MIN 0.20

// Where no gauge says how busy the GPU was: it had certainly nothing to do for so long.
static int read_idle(const struct query *query, struct gpu_diagnosis *diagnosis, struct error *err)
{
	int64_t idle_ns = -1;

	if (gpu_figures_know(&diagnosis->figures, GPU_FIGURE_IDLE))
		return 0;
	int rc = read_sum(query, diagnosis, LANE_IDLE, NULL, NULL, &idle_ns, err);
	int64_t wall = diagnosis->threads.launching[THREAD_SUM_WALL];
	if (!rc && wall > 0 && (double)idle_ns >= IDLE_BOUND_MIN * (double)wall)
		set_share(&diagnosis->figures, GPU_FIGURE_IDLE, idle_ns < wall ? idle_ns : wall,
			  wall);
	return rc;
}

// ---- figures of collective calls --------------------------------------------------------------

enum { LARGEST_BYTES = 64 }; // of a communicator's name, and of a rank's

// The value of @label with the most of @type's time, and how much that is; "": none has any.
static int read_largest(const struct query *query, const char *type, const char *label,
			const struct matcher *also, char ret_value[LARGEST_BYTES], int64_t *ret_ns,
			struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 1];
	struct selector selector = { .matchers = matchers, .count = query->selector->count };
	struct query by_label = *query;

	*ret_ns = 0;
	ret_value[0] = 0;
	if (selector.count)
		memcpy(matchers, query->selector->matchers, selector.count * sizeof(matchers[0]));
	if (also)
		matchers[selector.count++] = *also; // a shallow copy
	by_label.type = type;
	by_label.selector = &selector;
	by_label.group_by = label;
	int rc = query_flame_tree(&by_label, &tree, err);
	for (uint32_t i = 1; !rc && i < tree.node_count; i++) {
		if (tree.nodes[i].parent || tree.nodes[i].total <= *ret_ns)
			continue;
		*ret_ns = tree.nodes[i].total;
		snprintf(ret_value, LARGEST_BYTES, "%s",
			 string_table_get(&tree.strings, tree.nodes[i].name));
	}
	return rc;
}

// Of the communicator that is held up most: the time that its latest rank has others wait.
static int read_lag(const struct query *query, struct gpu_diagnosis *diagnosis, struct error *err)
{
	const char *type = gpu_type_find(&diagnosis->types, LANE_LAG);
	char communicator[LARGEST_BYTES] = "", rank[LARGEST_BYTES];
	int64_t ns = 0;

	if (!type)
		return 0;
	int rc = read_largest(query, type, LABEL_COMMUNICATOR, NULL, communicator, &ns, err);
	const struct matcher one = { (char *)LABEL_COMMUNICATOR, MATCH_EQUAL, communicator, NULL };
	if (!rc)
		rc = read_largest(query, type, LABEL_RANK, &one, rank, &ns, err);
	if (!rc)
		set_share(&diagnosis->figures, GPU_FIGURE_LAG, ns,
			  (int64_t)diagnosis->figures.range_ns);
	return rc;
}

// ---- the diagnosis --------------------------------------------------------------------------

static int read_figures(const struct query *query, struct gpu_diagnosis *diagnosis,
			struct error *err)
{
	int rc = gpu_threads_read(query, &diagnosis->types, &diagnosis->threads, err);

	if (rc)
		return rc;
	set_wall_shares(diagnosis);
	set_rates(diagnosis);
	rc = gpu_gauges_read(query, &diagnosis->figures, err);
	if (!rc)
		rc = read_copies(query, diagnosis, err);
	if (!rc)
		rc = read_lag(query, diagnosis, err);
	return rc ? rc : read_idle(query, diagnosis, err);
}

int gpu_diagnosis_read(const struct query *query, int64_t blocked_ns,
		       struct gpu_diagnosis *ret_diagnosis, struct error *err)
{
	struct gpu_diagnosis diagnosis = { 0 };
	int rc = store_label_values(query->store, LABEL_TYPE, query->selector, query->range,
				    &diagnosis.types, err);

	diagnosis.figures.range_ns = query->range.to_ns - query->range.from_ns;
	diagnosis.figures.in_use =
		!rc && (blocked_ns > 0 || gpu_type_find(&diagnosis.types, TYPES_OF_USERS));
	if (diagnosis.figures.in_use)
		rc = read_figures(query, &diagnosis, err);
	if (rc) {
		gpu_diagnosis_deinit(&diagnosis);
		return rc;
	}
	diagnosis.verdict = gpu_verdict_of(&diagnosis.figures);
	*ret_diagnosis = diagnosis;
	return 0;
}

// ---- evidence -------------------------------------------------------------------------------

// Waits for the GPU: as they are counted, or as most of them were done.
static struct gpu_evidence waits(const struct gpu_diagnosis *diagnosis, unsigned int with)
{
	const int64_t *sums = diagnosis->threads.launching;
	const char *lane = gpu_type_find(&diagnosis->types, LANE_WAIT);

	if (lane && diagnosis->threads.has_counted)
		return (struct gpu_evidence){ .type = lane, .with = with };
	if (sums[THREAD_SUM_SPIN] >= sums[THREAD_SUM_BLOCKED])
		return (struct gpu_evidence){ .type = PROFILE_TYPE_GPU_SPIN, .with = with };
	return (struct gpu_evidence){ .type = PROFILE_TYPE_OFF_CPU,
				      .wait = wait_for_name(WAIT_FOR_GPU),
				      .with = with };
}

// The lane that counts calls, if there is one; else samples of the CPU or waits, whichever took longer.
static struct gpu_evidence calls(const struct gpu_diagnosis *diagnosis, const char *prefix,
				 enum gpu_mark mark, int64_t cpu_ns, int64_t wait_ns)
{
	const char *lane = prefix ? gpu_type_find(&diagnosis->types, prefix) : NULL;

	if (lane)
		return (struct gpu_evidence){ .type = lane };
	if (wait_ns > cpu_ns)
		return waits(diagnosis, mark);
	return (struct gpu_evidence){ .type = PROFILE_TYPE_CPU, .with = mark };
}

static struct gpu_evidence blocked(enum wait_for what)
{
	return (struct gpu_evidence){ .type = PROFILE_TYPE_OFF_CPU, .wait = wait_for_name(what) };
}

// What ran, and what was waited for, while the GPU certainly had nothing to do; or else all of @type.
static struct gpu_evidence while_idle(const struct gpu_diagnosis *diagnosis, const char *type,
				      unsigned int without)
{
	const char *lane = gpu_type_find(&diagnosis->types, LANE_IDLE_STACKS);

	return (struct gpu_evidence){ .type = lane ? lane : type, .without = without };
}

// Where a rank is late its stacks are the cause, and the others' waits what follows from it.
static struct gpu_evidence late_or_waiting(const struct gpu_diagnosis *diagnosis)
{
	const char *lane = gpu_type_find(&diagnosis->types, LANE_LAG);

	if (lane && gpu_figures_know(&diagnosis->figures, GPU_FIGURE_LAG) &&
	    diagnosis->figures.values[GPU_FIGURE_LAG] > 0)
		return (struct gpu_evidence){ .type = lane };
	return waits(diagnosis, GPU_MARK_COLLECTIVE);
}

struct gpu_evidence gpu_diagnosis_evidence(const struct gpu_diagnosis *diagnosis,
					   enum gpu_class class)
{
	const int64_t *sums = diagnosis->threads.launching;

	switch (class) {
	case GPU_CLASS_STARVED:
		return while_idle(diagnosis, PROFILE_TYPE_OFF_CPU, 0);
	case GPU_CLASS_CPU_BOUND:
		return while_idle(diagnosis, PROFILE_TYPE_CPU, GPU_MARK_DRIVER);
	case GPU_CLASS_LAUNCH_BOUND:
		return calls(diagnosis, LANE_LAUNCHES, GPU_MARK_LAUNCH, 1, 0);
	case GPU_CLASS_COPY_BOUND:
		return calls(diagnosis, LANE_COPY_BYTES, GPU_MARK_COPY_IN,
			     sums[THREAD_SUM_CPU_COPY_IN], sums[THREAD_SUM_WAIT_COPY_IN]);
	case GPU_CLASS_IMPLICIT_SYNC:
		return waits(diagnosis, GPU_MARK_IMPLICIT);
	case GPU_CLASS_COMPUTE_BOUND:
	case GPU_CLASS_MEMORY_BOUND:
	case GPU_CLASS_BUSY:
	case GPU_CLASS_CONTENTION:
		return waits(diagnosis, 0);
	case GPU_CLASS_ALLOCATOR:
		return calls(diagnosis, NULL, GPU_MARK_ALLOCATION, sums[THREAD_SUM_CPU_ALLOCATION],
			     sums[THREAD_SUM_WAIT_ALLOCATION]);
	case GPU_CLASS_MEMORY_GROWTH:
		return (struct gpu_evidence){ .type = gpu_type_find(&diagnosis->types,
								    LANE_MEMORY) };
	case GPU_CLASS_LOCK:
		return blocked(WAIT_FOR_LOCK);
	case GPU_CLASS_GIL:
		return blocked(WAIT_FOR_GIL);
	case GPU_CLASS_COLLECTIVE:
		return late_or_waiting(diagnosis);
	default:
		return (struct gpu_evidence){ 0 };
	}
}
