// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_diagnosis.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_values.h"
#include "collector/diagnose/gpu_gauges.h"
#include "base/contract/label_names.h"
#include "base/saturating.h"

#define LABEL_TYPE "__type__"
/* Types that only processes with a GPU have begin so. */
#define GPU_TYPES       "gpu_"
#define MEMORY_PAGEABLE "pageable"

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

/* If a launch of a GPU kernel takes longer on average, the GPU's queue is full: the driver spins until there is room, and the
 * GPU is not idle. The threshold is that of outliers in Holistic Trace Analysis. Launches of CUDA graphs may take so long. */
#define LAUNCH_NS_MAX 50e3
#define FULL_IDLE_MAX 0.20
/* Launching does not slow down threads that use a CPU for less of their time: one sample may be all that there is of them. */
#define LAUNCH_CPU_MIN 0.20

static void set_launches(struct gpu_diagnosis *diagnosis)
{
	struct gpu_figures *figures = &diagnosis->figures;
	const int64_t *sums = diagnosis->threads.launching;
	double thread_seconds = (double)sums[THREAD_SUM_WALL] / NS_PER_SECOND;
	double cost_ns = 0;

	if (sums[THREAD_SUM_LAUNCHES] > 0) {
		cost_ns = (double)sums[THREAD_SUM_CPU_KERNELS] / (double)sums[THREAD_SUM_LAUNCHES];
		gpu_figures_set(figures, GPU_FIGURE_LAUNCH_COST, cost_ns / 1000);
	}
	if (cost_ns > LAUNCH_NS_MAX && !(gpu_figures_know(figures, GPU_FIGURE_IDLE) &&
					 figures->values[GPU_FIGURE_IDLE] >= FULL_IDLE_MAX))
		diagnosis->queued_ns = sums[THREAD_SUM_CPU_KERNELS];
	if ((double)sums[THREAD_SUM_CPU] >= LAUNCH_CPU_MIN * (double)sums[THREAD_SUM_WALL])
		set_share(figures, GPU_FIGURE_LAUNCH_CALLS,
			  subtract_saturating(sums[THREAD_SUM_CPU_LAUNCH], diagnosis->queued_ns),
			  sums[THREAD_SUM_CPU]);
	if (!diagnosis->threads.has_launches || thread_seconds <= 0)
		return;
	gpu_figures_set(figures, GPU_FIGURE_LAUNCH_RATE,
			(double)sums[THREAD_SUM_LAUNCHES] / thread_seconds);
	gpu_figures_set(figures, GPU_FIGURE_LAUNCH_REPEAT,
			(double)sums[THREAD_SUM_LAUNCHES_REPEATED] / thread_seconds);
}

// Shares of launching threads' time, which is known from the wall clock only.
static void set_wall_shares(struct gpu_diagnosis *diagnosis)
{
	struct gpu_figures *figures = &diagnosis->figures;
	const int64_t *sums = diagnosis->threads.launching;
	int64_t wall = sums[THREAD_SUM_WALL];
	int64_t driver = add_saturating(sums[THREAD_SUM_CPU_DRIVER], sums[THREAD_SUM_SPIN]);

	set_share(figures, GPU_FIGURE_OWN_CPU,
		  subtract_saturating(sums[THREAD_SUM_RUNNING], driver), wall);
	set_share(figures, GPU_FIGURE_INPUT, sums[THREAD_SUM_INPUT], wall);
	set_share(figures, GPU_FIGURE_LOCK, sums[THREAD_SUM_LOCK], wall);
	set_share(figures, GPU_FIGURE_GIL, sums[THREAD_SUM_GIL], wall);
	set_share(figures, GPU_FIGURE_ALLOCATION,
		  add_saturating(sums[THREAD_SUM_CPU_ALLOCATION], sums[THREAD_SUM_WAIT_ALLOCATION]),
		  wall);
	set_share(figures, GPU_FIGURE_COPY_IN,
		  add_saturating(sums[THREAD_SUM_CPU_COPY_IN], sums[THREAD_SUM_WAIT_COPY_IN]),
		  wall);
	if (!diagnosis->threads.has_waits)
		return;
	set_share(figures, GPU_FIGURE_WAIT,
		  add_saturating(sums[THREAD_SUM_WAIT], diagnosis->queued_ns), wall);
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
	if (threads->has_allocations && thread_seconds > 0)
		gpu_figures_set(figures, GPU_FIGURE_ALLOCATION_RATE,
				(double)launching[THREAD_SUM_ALLOCATIONS] / thread_seconds);
}

// ---- figures of copies ----------------------------------------------------------------------

// The sum of @type's values, of those series that have @value of @label; -1: no such type.
static int read_sum(const struct query *query, const struct gpu_diagnosis *diagnosis,
		    const char *type, const char *direction, const char *memory, int64_t *ret_sum,
		    struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 2];
	struct selector selector = *query->selector;
	struct query sums = *query;

	selector.matchers = matchers;
	*ret_sum = -1;
	sums.type = gpu_type_find(&diagnosis->types, type);
	if (!sums.type)
		return 0;
	if (selector.count)
		memcpy(matchers, query->selector->matchers, selector.count * sizeof(matchers[0]));
	if (direction) // shallow copies
		matchers[selector.count++] = (struct matcher){ .name = (char *)LABEL_DIRECTION,
							       .op = MATCH_EQUAL,
							       .value = (char *)direction };
	if (memory)
		matchers[selector.count++] = (struct matcher){ .name = (char *)LABEL_MEMORY,
							       .op = MATCH_EQUAL,
							       .value = (char *)memory };
	sums.selector = &selector;
	sums.group_by = NULL;
	int rc = query_flame_tree(&sums, &tree, err);
	if (!rc)
		*ret_sum = tree.node_count ? tree.nodes[0].total : 0;
	return rc;
}

/** Of one direction; -1: not recorded. */
struct copies {
	int64_t bytes, count;
};

static int read_direction(const struct query *query, const struct gpu_diagnosis *diagnosis,
			  const char *direction, struct copies *ret_copies, struct error *err)
{
	int rc = read_sum(query, diagnosis, PROFILE_TYPE_GPU_COPY, direction, NULL,
			  &ret_copies->bytes, err);

	return rc ? rc
		  : read_sum(query, diagnosis, PROFILE_TYPE_GPU_COPIES, direction, NULL,
			     &ret_copies->count, err);
}

static void set_copy_size(struct gpu_figures *figures, enum gpu_figure figure,
			  const struct copies *copies)
{
	if (copies->count > 0 && copies->bytes >= 0)
		gpu_figures_set(figures, figure, (double)copies->bytes / (double)copies->count);
}

// A copy to the host reads a result: implicit synchronization is attributed to these copies.
static void set_reads(struct gpu_diagnosis *diagnosis, const struct copies *out)
{
	const int64_t *sums = diagnosis->threads.launching;
	double thread_seconds = (double)sums[THREAD_SUM_WALL] / NS_PER_SECOND;

	if (out->count <= 0 || thread_seconds <= 0)
		return;
	gpu_figures_set(&diagnosis->figures, GPU_FIGURE_READ_RATE,
			(double)out->count / thread_seconds);
	if (diagnosis->threads.has_waits)
		gpu_figures_set(&diagnosis->figures, GPU_FIGURE_READ_WAIT,
				(double)sums[THREAD_SUM_WAIT_IMPLICIT] / 1000 / (double)out->count);
}

static int read_copies(const struct query *query, struct gpu_diagnosis *diagnosis,
		       struct error *err)
{
	struct copies in = { -1, -1 }, out = { -1, -1 };
	int64_t pageable = -1;
	int rc = read_direction(query, diagnosis, DIRECTION_HOST_TO_DEVICE, &in, err);

	if (!rc)
		rc = read_direction(query, diagnosis, DIRECTION_DEVICE_TO_HOST, &out, err);
	if (!rc)
		rc = read_sum(query, diagnosis, PROFILE_TYPE_GPU_COPY, DIRECTION_HOST_TO_DEVICE,
			      MEMORY_PAGEABLE, &pageable, err);
	if (rc)
		return rc;
	if (in.bytes > 0 && pageable >= 0)
		set_share(&diagnosis->figures, GPU_FIGURE_PAGEABLE, pageable, in.bytes);
	set_copy_size(&diagnosis->figures, GPU_FIGURE_COPY_IN_BYTES, &in);
	set_copy_size(&diagnosis->figures, GPU_FIGURE_COPY_OUT_BYTES, &out);
	set_reads(diagnosis, &out);
	return 0;
}

/* GPU idle time is a lower bound: a small one does not mean that the GPU was busy. */
#define IDLE_BOUND_MIN 0.20

// Without NVML's busy time: the lower bound of GPU idle time.
static int read_idle(const struct query *query, struct gpu_diagnosis *diagnosis, struct error *err)
{
	int64_t idle_ns = -1;

	if (gpu_figures_know(&diagnosis->figures, GPU_FIGURE_IDLE))
		return 0;
	int rc = read_sum(query, diagnosis, PROFILE_TYPE_GPU_IDLE_TIME, NULL, NULL, &idle_ns, err);
	int64_t wall = diagnosis->threads.launching[THREAD_SUM_WALL];
	if (!rc && wall > 0 && (double)idle_ns >= IDLE_BOUND_MIN * (double)wall)
		set_share(&diagnosis->figures, GPU_FIGURE_IDLE, idle_ns < wall ? idle_ns : wall,
			  wall);
	return rc;
}

// ---- figures of collective calls --------------------------------------------------------------

// The value of @label with the most time, and that time; "": none.
static int read_largest(const struct query *query, const char *label, char value[GPU_LATE_BYTES],
			int64_t *ret_ns, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct query by_label = *query;

	char none[GPU_LATE_BYTES];

	*ret_ns = 0;
	value[0] = 0;
	by_label.group_by = label;
	snprintf(none, sizeof(none), "(no %s)", label);
	int rc = query_flame_tree(&by_label, &tree, err);
	for (uint32_t i = 1; !rc && i < tree.node_count; i++) {
		const char *name = string_table_get(&tree.strings, tree.nodes[i].name);

		if (tree.nodes[i].parent || tree.nodes[i].total <= *ret_ns)
			continue;
		*ret_ns = tree.nodes[i].total;
		snprintf(value, GPU_LATE_BYTES, "%s", strcmp(name, none) ? name : "");
	}
	return rc;
}

// The latest rank and its node, of the communicator with the most skew. Skew is measured among the ranks of one node; of several
// nodes the largest counts.
static int read_skew(const struct query *query, struct gpu_diagnosis *diagnosis, struct error *err)
{
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 2];
	struct selector selector = *query->selector;
	struct query skew = *query;
	int64_t ns = 0;

	selector.matchers = matchers;
	skew.type = gpu_type_find(&diagnosis->types, PROFILE_TYPE_NCCL_SKEW);
	if (!skew.type)
		return 0;
	if (selector.count)
		memcpy(matchers, query->selector->matchers, selector.count * sizeof(matchers[0]));
	skew.selector = &selector;
	int rc = read_largest(&skew, LABEL_COMMUNICATOR, diagnosis->late_communicator, &ns, err);
	matchers[selector.count++] = (struct matcher){ .name = (char *)LABEL_COMMUNICATOR,
						       .op = MATCH_EQUAL,
						       .value = diagnosis->late_communicator };
	if (!rc)
		rc = read_largest(&skew, LABEL_RANK, diagnosis->late_rank, &ns, err);
	if (!rc)
		set_share(&diagnosis->figures, GPU_FIGURE_SKEW, ns,
			  (int64_t)diagnosis->figures.range_ns);
	matchers[selector.count++] = (struct matcher){ .name = (char *)LABEL_RANK,
						       .op = MATCH_EQUAL,
						       .value = diagnosis->late_rank };
	return rc ? rc : read_largest(&skew, LABEL_NODE, diagnosis->late_node, &ns, err);
}

// ---- the diagnosis --------------------------------------------------------------------------

static int read_figures(const struct query *query, struct gpu_diagnosis *diagnosis,
			struct error *err)
{
	int rc = gpu_threads_read(query, &diagnosis->types, &diagnosis->threads, err);

	if (rc)
		return rc;
	rc = gpu_gauges_read(query, &diagnosis->figures, err);
	if (!rc)
		rc = read_idle(query, diagnosis, err);
	if (!rc)
		rc = read_copies(query, diagnosis, err);
	if (!rc)
		rc = read_skew(query, diagnosis, err);
	set_launches(diagnosis);
	set_wall_shares(diagnosis);
	set_rates(diagnosis);
	return rc;
}

/* The range is judged in halves, too: a bottleneck that one of them lacks is intermittent. */
enum { PARTS = 2 };

static int judge_part(const struct query *query, const struct gpu_diagnosis *whole,
		      struct gpu_verdict *ret_verdict, struct error *err)
{
	struct gpu_diagnosis part = { .types = whole->types }; // borrowed

	part.figures.in_use = true;
	part.figures.range_ns = query->range.to_ns - query->range.from_ns;
	int rc = read_figures(query, &part, err);
	// Confidence depends on the whole range's length.
	part.figures.range_ns = whole->figures.range_ns;
	if (!rc)
		*ret_verdict = gpu_verdict_of(&part.figures);
	gpu_threads_deinit(&part.threads);
	return rc;
}

// Growth of memory is judged over parts of the range anyway.
static int judge_parts(const struct query *query, struct gpu_diagnosis *diagnosis,
		       struct error *err)
{
	enum gpu_class class = diagnosis->verdict.class == GPU_CLASS_AMBIGUOUS
				       ? diagnosis->verdict.shares[0].class
				       : diagnosis->verdict.class;
	uint64_t part_ns = (query->range.to_ns - query->range.from_ns) / PARTS;
	int rc = 0;

	if (!gpu_class_is_bottleneck(class) || class == GPU_CLASS_MEMORY_GROWTH)
		return 0;
	for (uint64_t i = 0; i < PARTS && !rc; i++) {
		struct gpu_verdict verdict = { 0 };
		struct query part = *query;

		part.range.from_ns += i * part_ns;
		part.range.to_ns = part.range.from_ns + part_ns;
		rc = judge_part(&part, diagnosis, &verdict, err);
		if (!rc && !gpu_verdict_has_reached(&verdict, class))
			gpu_verdict_set_intermittent(&diagnosis->verdict);
	}
	// The verdict stands where there is no time to look at it twice.
	return rc == -ETIMEDOUT ? 0 : rc;
}

int gpu_diagnosis_read(const struct query *query, int64_t blocked_ns,
		       struct gpu_diagnosis *ret_diagnosis, struct error *err)
{
	struct gpu_diagnosis diagnosis = { 0 };
	int rc = store_label_values(query->store, LABEL_TYPE, query->selector, query->range,
				    &diagnosis.types, err);

	diagnosis.figures.range_ns = query->range.to_ns - query->range.from_ns;
	diagnosis.figures.in_use =
		!rc && (blocked_ns > 0 || gpu_type_find(&diagnosis.types, GPU_TYPES));
	if (diagnosis.figures.in_use)
		rc = read_figures(query, &diagnosis, err);
	if (!rc)
		diagnosis.verdict = gpu_verdict_of(&diagnosis.figures);
	if (!rc)
		rc = judge_parts(query, &diagnosis, err);
	if (rc) {
		gpu_diagnosis_deinit(&diagnosis);
		return rc;
	}
	*ret_diagnosis = diagnosis;
	return 0;
}
