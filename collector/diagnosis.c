// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnosis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/gpu_frame.h"

#define LABEL_WAIT  "wait"
#define LABEL_STATE "state"

#define TYPE_THROTTLED "cpu_throttled:time:nanoseconds:wall:nanoseconds"

void diagnosis_deinit(struct diagnosis *diagnosis)
{
	gpu_diagnosis_deinit(&diagnosis->gpu);
	string_table_deinit(&diagnosis->strings);
}

const char *diagnosis_class_name(const struct diagnosis *diagnosis)
{
	return diagnosis->is_of_gpu ? gpu_class_name(diagnosis->gpu.verdict.class)
				    : verdict_class_name(diagnosis->verdict.class);
}

const char *diagnosis_title(const struct diagnosis *diagnosis)
{
	return diagnosis->is_of_gpu ? gpu_class_title(diagnosis->gpu.verdict.class)
				    : verdict_class_title(diagnosis->verdict.class);
}

const char *const *diagnosis_advice(const struct diagnosis *diagnosis)
{
	return diagnosis->is_of_gpu ? gpu_class_advice(diagnosis->gpu.verdict.class)
				    : verdict_class_advice(diagnosis->verdict.class);
}

enum verdict_confidence diagnosis_confidence(const struct diagnosis *diagnosis)
{
	return diagnosis->is_of_gpu ? diagnosis->gpu.verdict.confidence
				    : diagnosis->verdict.confidence;
}

// ---- figures --------------------------------------------------------------------------------

/** Told each value of a label, and the sum of its series. */
typedef void (*sum_fn)(struct verdict_figures *figures, const char *value, int64_t sum);

// A tree's sums are those of the range, to the slot; a series' steps may reach beyond it.
static int read_sums(const struct query *query, const char *type, const char *label, sum_fn fn,
		     struct verdict_figures *figures, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct query sums = *query;

	sums.type = type;
	sums.group_by = label;
	int rc = query_flame_tree(&sums, &tree, err);
	for (uint32_t node = 1; !rc && node < tree.node_count; node++) {
		if (tree.nodes[node].parent == 0)
			fn(figures, string_table_get(&tree.strings, tree.nodes[node].name),
			   tree.nodes[node].total);
	}
	return rc;
}

static void add_state(struct verdict_figures *figures, const char *state, int64_t sum)
{
	figures->has_waits = true;
	if (strcmp(state, "running") == 0)
		figures->running_ns = sum;
	else if (strcmp(state, "waiting") == 0)
		figures->queued_ns = sum;
}

static void add_wait(struct verdict_figures *figures, const char *wait, int64_t sum)
{
	figures->wait_ns[wait_for_of_name(wait)] += sum;
}

// The kernel's books say running of a thread that waits in the driver's loop.
static void add_spin(struct verdict_figures *figures, const char *node, int64_t sum)
{
	(void)node;
	if (!figures->has_waits)
		return; // running time is the samples', and these are not among them
	if (sum > figures->running_ns)
		sum = figures->running_ns;
	figures->running_ns -= sum;
	figures->wait_ns[WAIT_FOR_GPU] += sum;
}

// Of the node that was throttled most: sums over a fleet would tell its size.
static void add_throttled(struct verdict_figures *figures, const char *node, int64_t sum)
{
	(void)node;
	if (sum > figures->throttled_ns)
		figures->throttled_ns = sum;
}

static bool is_interpreter(const char *module)
{
	const char *name = strrchr(module, '/');

	name = name ? name + 1 : module;
	return strncmp(name, "libpython", strlen("libpython")) == 0 ||
	       strncmp(name, "python", strlen("python")) == 0;
}

static enum cpu_use use_of(const struct flame_tree *tree, const struct flame_node *node)
{
	if (node->kind == FRAME_KIND_KERNEL)
		return CPU_USE_KERNEL;
	if (node->kind == FRAME_KIND_PYTHON ||
	    is_interpreter(string_table_get(&tree->strings, node->module)))
		return CPU_USE_PYTHON;
	return CPU_USE_NATIVE;
}

static int read_cpu(const struct query *query, struct verdict_figures *figures, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct query cpu = *query;
	int64_t sum = 0;

	cpu.type = PROFILE_TYPE_CPU;
	cpu.group_by = NULL;
	int rc = query_flame_tree(&cpu, &tree, err);
	for (uint32_t node = 1; !rc && node < tree.node_count; node++) {
		figures->cpu_ns[use_of(&tree, &tree.nodes[node])] += tree.nodes[node].self;
		sum += tree.nodes[node].self;
	}
	if (!figures->has_waits)
		figures->running_ns = sum;
	return rc;
}

static int read_figures(const struct query *query, struct verdict_figures *figures,
			struct error *err)
{
	figures->range_ns = query->range.to_ns - query->range.from_ns;
	int rc = read_sums(query, PROFILE_TYPE_WALL, LABEL_STATE, add_state, figures, err);
	if (!rc)
		rc = read_sums(query, PROFILE_TYPE_OFF_CPU, LABEL_WAIT, add_wait, figures, err);
	if (!rc)
		rc = read_sums(query, PROFILE_TYPE_GPU_SPIN, LABEL_NODE, add_spin, figures, err);
	if (!rc)
		rc = read_sums(query, TYPE_THROTTLED, LABEL_NODE, add_throttled, figures, err);
	return rc ? rc : read_cpu(query, figures, err);
}

// ---- stacks ---------------------------------------------------------------------------------

static bool is_of_threads(const struct gpu_threads *threads, const char *name,
			  enum gpu_evidence_threads which)
{
	return which == GPU_EVIDENCE_ALL ||
	       gpu_threads_launch(threads, name) == (which == GPU_EVIDENCE_LAUNCHING);
}

/**
 * Which of a tree's nodes show a GPU's verdict: with threads as its first level, those of the threads that
 * @evidence names, whose stacks have the marks. Parents come before children.
 */
static int find_shown(const struct flame_tree *tree, const struct gpu_threads *threads,
		      const struct gpu_evidence *evidence, bool **ret_shown)
{
	_cleanup_free_ unsigned int *marks = calloc(tree->node_count + 1, sizeof(*marks));
	_cleanup_free_ bool *shown = calloc(tree->node_count + 1, sizeof(*shown));
	_cleanup_free_ bool *counts = calloc(tree->node_count + 1, sizeof(*counts));

	if (!marks || !shown || !counts)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];
		const char *name = string_table_get(&tree->strings, node->name);

		if (node->parent == 0) {
			counts[i] = is_of_threads(threads, name, evidence->threads);
			continue; // a thread's name, no frame
		}
		counts[i] = counts[node->parent];
		marks[i] = marks[node->parent] |
			   gpu_frame_marks(name, string_table_get(&tree->strings, node->module));
		shown[i] = counts[i] && (!evidence->with || marks[i] & evidence->with) &&
			   !(marks[i] & evidence->without);
	}
	*ret_shown = take(shown);
	return 0;
}

// The nodes with the largest self values, largest first, of those that are shown (NULL: all), and the
// sum of these.
static uint32_t largest_nodes(const struct flame_tree *tree, const bool *shown,
			      uint32_t nodes[DIAGNOSIS_STACKS_MAX], int64_t *ret_sum)
{
	uint32_t count = 0;

	*ret_sum = 0;
	for (uint32_t node = 1; node < tree->node_count; node++) {
		uint32_t at = count;

		if (tree->nodes[node].self <= 0 || (shown && !shown[node]))
			continue;
		*ret_sum += tree->nodes[node].self;
		while (at && tree->nodes[nodes[at - 1]].self < tree->nodes[node].self)
			at--;
		if (at == DIAGNOSIS_STACKS_MAX)
			continue;
		if (count < DIAGNOSIS_STACKS_MAX)
			count++;
		memmove(&nodes[at + 1], &nodes[at], (count - 1 - at) * sizeof(nodes[0]));
		nodes[at] = node;
	}
	return count;
}

// A grouped tree's first level has no frames.
static int keep_stack(struct diagnosis *diagnosis, struct diagnosis_evidence *shown,
		      const struct flame_tree *tree, uint32_t leaf, int64_t sum)
{
	struct diagnosis_stack *stack = &shown->stacks[shown->stack_count++];
	uint32_t node = leaf;

	stack->value = tree->nodes[leaf].self;
	stack->share = (double)stack->value / (double)sum;
	for (; node && stack->frame_count < DIAGNOSIS_FRAMES_MAX; node = tree->nodes[node].parent) {
		if (tree->grouped && tree->nodes[node].parent == 0)
			return 0;
		const char *name = string_table_get(&tree->strings, tree->nodes[node].name);
		int rc = string_table_add(&diagnosis->strings, name, strlen(name),
					  &stack->frames[stack->frame_count++]);

		if (rc)
			return rc;
	}
	stack->cut = node != 0;
	return 0;
}

// The matchers of the query and one more: the copy is shallow, and never deinitialized.
static struct selector with_wait(const struct selector *selector, const char *wait,
				 struct matcher matchers[SELECTOR_MATCHERS_MAX + 1])
{
	struct selector narrowed = { .matchers = matchers, .count = selector->count };

	if (selector->count)
		memcpy(matchers, selector->matchers, selector->count * sizeof(matchers[0]));
	if (wait)
		matchers[narrowed.count++] = (struct matcher){
			.name = (char *)LABEL_WAIT,
			.op = MATCH_EQUAL,
			.value = (char *)wait,
		};
	return narrowed;
}

/* Growth is what there is in the last one of so many parts of the range, less what was in the first. */
enum { GROWTH_PARTS = 10 };

// The part of a level's tree that has come since the range began.
static int read_growth(const struct query *query, struct flame_tree *tree, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree before = { 0 };
	struct time_range range = query->range;
	uint64_t part_ns = (range.to_ns - range.from_ns) / GROWTH_PARTS;
	struct query first = *query, last = *query;

	first.range.to_ns = range.from_ns + part_ns;
	last.range.from_ns = range.to_ns - part_ns;
	int rc = query_flame_tree(&first, &before, err);
	if (!rc)
		rc = query_flame_tree(&last, tree, err);
	if (rc)
		return rc;
	rc = flame_tree_subtract(tree, &before);
	return rc ? error_set(err, rc, "out of memory for what has grown") : 0;
}

static int read_stacks(const struct query *query, const struct gpu_evidence *evidence,
		       struct diagnosis *diagnosis, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct diagnosis_evidence *told = &diagnosis->evidence[diagnosis->evidence_count];
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 1];
	struct selector selector = with_wait(query->selector, evidence->wait, matchers);
	_cleanup_free_ bool *shown = NULL;
	uint32_t nodes[DIAGNOSIS_STACKS_MAX];
	struct query stacks = *query;
	int64_t sum;

	stacks.type = evidence->type;
	stacks.selector = &selector;
	stacks.group_by = diagnosis->is_of_gpu ? LABEL_THREAD : NULL;
	int rc = evidence->growth ? read_growth(&stacks, &tree, err)
				  : query_flame_tree(&stacks, &tree, err);
	if (rc)
		return rc;

	diagnosis->evidence_count++;
	*told = (struct diagnosis_evidence){ .what = evidence->what,
					     .type = evidence->type,
					     .wait = evidence->wait };
	if (diagnosis->is_of_gpu)
		rc = find_shown(&tree, &diagnosis->gpu.threads, evidence, &shown);
	uint32_t count = rc ? 0 : largest_nodes(&tree, shown, nodes, &sum);
	for (uint32_t i = 0; !rc && i < count; i++)
		rc = keep_stack(diagnosis, told, &tree, nodes[i], sum);
	return rc ? error_set(err, rc, "out of memory for the stacks") : 0;
}

// A certain cause on the CPU's side comes first, and memory that grows last: it holds nothing up yet.
static bool gpu_comes_first(const struct diagnosis *diagnosis)
{
	enum verdict_class class = diagnosis->verdict.class;

	if (!gpu_class_is_bottleneck(diagnosis->gpu.verdict.class) || class == VERDICT_THROTTLED)
		return false;
	return diagnosis->gpu.verdict.class != GPU_CLASS_MEMORY_GROWTH || class == VERDICT_NONE ||
	       class == VERDICT_NO_DEMAND || class == VERDICT_NO_DATA;
}

// What of several candidates is shown: the first.
static uint32_t find_evidence(const struct diagnosis *diagnosis,
			      struct gpu_evidence evidence[GPU_EVIDENCE_MAX])
{
	const struct gpu_verdict *gpu = &diagnosis->gpu.verdict;
	const struct verdict *verdict = &diagnosis->verdict;

	if (diagnosis->is_of_gpu)
		return gpu_evidence_find(
			&diagnosis->gpu,
			gpu->class == GPU_CLASS_AMBIGUOUS ? gpu->shares[0].class : gpu->class,
			evidence);
	evidence[0] = (struct gpu_evidence){ 0 };
	evidence[0].type = verdict_class_profile(
		verdict->class == VERDICT_AMBIGUOUS ? verdict->shares[0].class : verdict->class,
		&evidence[0].wait);
	return evidence[0].type != NULL;
}

static int judge(const struct query *query, struct diagnosis *diagnosis, struct error *err)
{
	struct gpu_evidence evidence[GPU_EVIDENCE_MAX];
	int64_t blocked_ns;
	int rc = read_figures(query, &diagnosis->figures, err);

	if (rc)
		return rc;
	diagnosis->verdict = verdict_of(&diagnosis->figures);
	blocked_ns = diagnosis->figures.wait_ns[WAIT_FOR_GPU];
	rc = gpu_diagnosis_read(query, blocked_ns, &diagnosis->gpu, err);
	if (rc)
		return rc;
	diagnosis->is_of_gpu = gpu_comes_first(diagnosis);

	uint32_t count = find_evidence(diagnosis, evidence);
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = read_stacks(query, &evidence[i], diagnosis, err);
	return rc;
}

int query_diagnosis(const struct query *query, struct diagnosis *ret_diagnosis, struct error *err)
{
	struct diagnosis diagnosis = { 0 };
	int rc = judge(query, &diagnosis, err);

	if (rc) {
		diagnosis_deinit(&diagnosis);
		return rc;
	}
	*ret_diagnosis = diagnosis;
	return 0;
}
