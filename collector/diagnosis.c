// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnosis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define LABEL_WAIT  "wait"
#define LABEL_STATE "state"

#define TYPE_THROTTLED "cpu_throttled:time:nanoseconds:wall:nanoseconds"

void diagnosis_deinit(struct diagnosis *diagnosis)
{
	string_table_deinit(&diagnosis->strings);
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
		rc = read_sums(query, TYPE_THROTTLED, LABEL_NODE, add_throttled, figures, err);
	return rc ? rc : read_cpu(query, figures, err);
}

// ---- stacks ---------------------------------------------------------------------------------

// The nodes with the largest self values, largest first.
static uint32_t largest_nodes(const struct flame_tree *tree, uint32_t nodes[DIAGNOSIS_STACKS_MAX])
{
	uint32_t count = 0;

	for (uint32_t node = 1; node < tree->node_count; node++) {
		uint32_t at = count;

		if (tree->nodes[node].self <= 0)
			continue;
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

static int keep_stack(struct diagnosis *diagnosis, const struct flame_tree *tree, uint32_t leaf)
{
	struct diagnosis_stack *stack = &diagnosis->stacks[diagnosis->stack_count++];
	uint32_t node = leaf;

	stack->value = tree->nodes[leaf].self;
	stack->share = (double)stack->value / (double)tree->nodes[0].total;
	for (; node && stack->frame_count < DIAGNOSIS_FRAMES_MAX; node = tree->nodes[node].parent) {
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

static int read_stacks(const struct query *query, struct diagnosis *diagnosis, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 1];
	struct selector selector = with_wait(query->selector, diagnosis->wait, matchers);
	uint32_t nodes[DIAGNOSIS_STACKS_MAX];
	struct query stacks = *query;

	stacks.type = diagnosis->type;
	stacks.selector = &selector;
	stacks.group_by = NULL;
	int rc = query_flame_tree(&stacks, &tree, err);
	if (rc)
		return rc;

	uint32_t count = largest_nodes(&tree, nodes);
	for (uint32_t i = 0; !rc && i < count; i++)
		rc = keep_stack(diagnosis, &tree, nodes[i]);
	return rc ? error_set(err, rc, "out of memory for the stacks") : 0;
}

// What of several candidates is shown: the first.
static enum verdict_class shown_class(const struct verdict *verdict)
{
	return verdict->class == VERDICT_AMBIGUOUS ? verdict->shares[0].class : verdict->class;
}

int query_diagnosis(const struct query *query, struct diagnosis *ret_diagnosis, struct error *err)
{
	struct diagnosis diagnosis = { 0 };
	int rc = read_figures(query, &diagnosis.figures, err);

	if (rc)
		return rc;
	diagnosis.verdict = verdict_of(&diagnosis.figures);
	diagnosis.type = verdict_class_profile(shown_class(&diagnosis.verdict), &diagnosis.wait);
	if (diagnosis.type)
		rc = read_stacks(query, &diagnosis, err);
	if (rc) {
		diagnosis_deinit(&diagnosis);
		return rc;
	}
	*ret_diagnosis = diagnosis;
	return 0;
}
