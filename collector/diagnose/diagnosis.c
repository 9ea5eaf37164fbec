// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/diagnosis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/thread_states.h"
#include "collector/diagnose/gpu_frame.h"
#include "collector/diagnose/parked_waits.h"
#include "base/contract/label_names.h"
#include "base/saturating.h"

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

static const char *const *advice_of(const struct diagnosis *diagnosis, int class)
{
	return diagnosis->is_of_gpu ? gpu_class_advice((enum gpu_class) class)
				    : verdict_class_advice((enum verdict_class) class);
}

static uint32_t add_advice(const char *advice[DIAGNOSIS_ADVICE_MAX + 1], uint32_t count,
			   const char *const *more)
{
	for (; *more && count < DIAGNOSIS_ADVICE_MAX; more++) {
		uint32_t at = 0;

		while (at < count && strcmp(advice[at], *more) != 0)
			at++;
		if (at == count)
			advice[count++] = *more;
	}
	return count;
}

/* The bottlenecks: two of an ambiguous verdict. */
static uint32_t causes_of(const struct diagnosis *diagnosis, int ret_causes[2])
{
	const struct gpu_verdict *gpu = &diagnosis->gpu.verdict;
	const struct verdict *verdict = &diagnosis->verdict;

	if (diagnosis->is_of_gpu && gpu->class == GPU_CLASS_AMBIGUOUS) {
		ret_causes[0] = gpu->shares[0].class;
		ret_causes[1] = gpu->shares[1].class;
		return 2;
	}
	if (!diagnosis->is_of_gpu && verdict->class == VERDICT_AMBIGUOUS) {
		ret_causes[0] = verdict->shares[0].class;
		ret_causes[1] = verdict->shares[1].class;
		return 2;
	}
	ret_causes[0] = diagnosis->is_of_gpu ? (int)gpu->class : (int)verdict->class;
	return 1;
}

void diagnosis_advice(const struct diagnosis *diagnosis,
		      const char *ret_advice[DIAGNOSIS_ADVICE_MAX + 1])
{
	int causes[2];
	uint32_t cause_count = causes_of(diagnosis, causes), count = 0;

	if (diagnosis->action[0])
		ret_advice[count++] = diagnosis->action;
	if (cause_count > 1)
		count = add_advice(ret_advice, count,
				   advice_of(diagnosis, diagnosis->is_of_gpu
								? (int)GPU_CLASS_AMBIGUOUS
								: (int)VERDICT_AMBIGUOUS));
	for (uint32_t i = 0; i < cause_count; i++)
		count = add_advice(ret_advice, count, advice_of(diagnosis, causes[i]));
	ret_advice[count] = NULL;
}

enum verdict_confidence diagnosis_confidence(const struct diagnosis *diagnosis)
{
	return diagnosis->is_of_gpu ? diagnosis->gpu.verdict.confidence
				    : diagnosis->verdict.confidence;
}

// ---- figures --------------------------------------------------------------------------------

/** Called with each value of a label, and the sum of its series. */
typedef void (*sum_fn)(struct verdict_figures *figures, const char *value, int64_t sum);

// Sums come from a tree: they are exact to the slot, where the steps of a series may exceed the
// range.
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
	figures->has_wall_clock = true;
	if (strcmp(state, THREAD_STATE_RUNNING) == 0)
		figures->running_ns = sum;
	else if (strcmp(state, THREAD_STATE_RUN_QUEUE) == 0)
		figures->queued_ns = sum;
}

static void add_wait(struct verdict_figures *figures, const char *wait, int64_t sum)
{
	add_to_saturating(&figures->wait_ns[wait_class_find(wait)], sum);
}

// A thread that polls the GPU in the driver is running for the kernel: count that time as blocked.
static void add_spin(struct verdict_figures *figures, const char *node, int64_t sum)
{
	(void)node;
	if (!figures->has_wall_clock)
		return; // running time comes from samples, which do not include it
	if (sum > figures->running_ns)
		sum = figures->running_ns;
	figures->running_ns = subtract_saturating(figures->running_ns, sum);
	add_to_saturating(&figures->wait_ns[WAIT_CLASS_GPU], sum);
}

/* Read the time of threads in one state, by node. */
static int read_state(const struct query *query, const char *state, struct flame_tree *ret_tree,
		      struct error *err)
{
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 1];
	struct selector selector = selector_with(query->selector, LABEL_STATE, state, matchers);
	struct query by_node = *query;

	by_node.type = PROFILE_TYPE_WALL;
	by_node.selector = &selector;
	by_node.group_by = LABEL_NODE;
	return query_flame_tree(&by_node, ret_tree, err);
}

// The total of the group @name; 0 if there is none.
static int64_t sum_of_group(const struct flame_tree *tree, const char *name)
{
	for (uint32_t i = 1; i < tree->node_count; i++) {
		if (tree->nodes[i].parent == 0 &&
		    strcmp(string_table_get(&tree->strings, tree->nodes[i].name), name) == 0)
			return tree->nodes[i].total;
	}
	return 0;
}

// Read the node with the largest quotient of throttled to running and runnable time. A sum over the
// fleet would grow with the fleet; compared with the range it would grow with the CPUs, over which
// the kernel sums.
static int read_throttled(const struct query *query, struct verdict_figures *figures,
			  struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree throttled = { 0 }, running = { 0 },
						       queued = { 0 };
	struct query by_node = *query;
	double largest = 0;

	by_node.type = PROFILE_TYPE_THROTTLED;
	by_node.group_by = LABEL_NODE;
	int rc = query_flame_tree(&by_node, &throttled, err);
	if (rc || throttled.node_count <= 1)
		return rc;
	rc = read_state(query, THREAD_STATE_RUNNING, &running, err);
	if (!rc)
		rc = read_state(query, THREAD_STATE_RUN_QUEUE, &queued, err);
	for (uint32_t i = 1; i < throttled.node_count && !rc; i++) {
		const struct flame_node *node = &throttled.nodes[i];
		const char *name = string_table_get(&throttled.strings, node->name);
		int64_t demand = sum_of_group(&running, name) + sum_of_group(&queued, name);
		double whole = demand ? (double)demand : (double)figures->range_ns;

		if (node->parent || (double)node->total / whole <= largest)
			continue;
		largest = (double)node->total / whole;
		figures->throttled_ns = node->total;
		figures->throttled_of_ns = demand;
	}
	return rc;
}

static enum cpu_use use_of(const struct flame_tree *tree, const struct flame_node *node)
{
	switch (frame_ran_as(node->kind, string_table_get(&tree->strings, node->module))) {
	case FRAME_KIND_KERNEL:
		return CPU_USE_KERNEL;
	case FRAME_KIND_PYTHON:
		return CPU_USE_PYTHON;
	default:
		return CPU_USE_NATIVE;
	}
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
		const struct flame_node *at = &tree.nodes[node];

		add_to_saturating(&figures->cpu_ns[use_of(&tree, at)], at->self);
		add_to_saturating(&sum, at->self);
	}
	if (!figures->has_wall_clock)
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
		rc = read_throttled(query, figures, err);
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
 * Choose the nodes that show a GPU's verdict in a tree grouped by thread: those of @evidence's threads with its
 * marks in their stacks.
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
			continue; // a thread, not a frame
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

// A grouped tree's first level are groups, not frames.
static bool is_frame(const struct flame_tree *tree, uint32_t node)
{
	return node && !(tree->grouped && tree->nodes[node].parent == 0);
}

static int add_frame(struct diagnosis *diagnosis, struct diagnosis_stack *stack, const char *name)
{
	return string_table_add(&diagnosis->strings, name, strlen(name),
				&stack->frames[stack->frame_count++]);
}

// The number of frames below the innermost code of the user; UINT32_MAX: there is none.
static uint32_t depth_of_users(const struct flame_tree *tree, uint32_t leaf)
{
	uint32_t depth = 0, native = UINT32_MAX;

	for (uint32_t node = leaf; is_frame(tree, node); node = tree->nodes[node].parent, depth++) {
		if (tree->nodes[node].kind == FRAME_KIND_PYTHON)
			return depth;
		if (native == UINT32_MAX && hot_spot_is_users(tree, node))
			native = depth;
	}
	return native;
}

// The number of frames up to the outermost Python function: the rest is the interpreter's start.
// All frames if there is none.
static uint32_t depth_shown(const struct flame_tree *tree, uint32_t leaf)
{
	uint32_t depth = 0, shown = 0;

	for (uint32_t node = leaf; is_frame(tree, node); node = tree->nodes[node].parent) {
		depth++;
		if (tree->nodes[node].kind == FRAME_KIND_PYTHON)
			shown = depth;
	}
	return shown ? shown : depth;
}

// Frames of a stack, counted from the leaf, of which only the number is shown.
struct left_out {
	uint32_t from, to;
	const char *where;
};

static uint32_t depth_of_kernel(const struct flame_tree *tree, uint32_t leaf)
{
	uint32_t depth = 0;

	for (uint32_t node = leaf;
	     is_frame(tree, node) && tree->nodes[node].kind == FRAME_KIND_KERNEL;
	     node = tree->nodes[node].parent)
		depth++;
	return depth;
}

// Dozens of frames of the kernel and of libraries would hide their caller, which is what a user can change.
// Keep the innermost ones of each: they show the reason and the call.
static void leave_out(const struct flame_tree *tree, uint32_t leaf, struct left_out ret_left[2])
{
	uint32_t users = depth_of_users(tree, leaf), kernel = depth_of_kernel(tree, leaf);

	if (kernel > DIAGNOSIS_KERNEL_FRAMES_MAX + 1)
		ret_left[0] =
			(struct left_out){ DIAGNOSIS_KERNEL_FRAMES_MAX, kernel, "the kernel" };
	if (users == UINT32_MAX || users < DIAGNOSIS_FRAMES_MAX ||
	    users <= kernel + DIAGNOSIS_LIBRARY_FRAMES_MAX)
		return;
	ret_left[1] =
		(struct left_out){ kernel + DIAGNOSIS_LIBRARY_FRAMES_MAX, users, "libraries" };
}

static const struct left_out *find_left_out(const struct left_out left[2], uint32_t depth)
{
	for (int i = 0; i < 2; i++) {
		if (depth >= left[i].from && depth < left[i].to)
			return &left[i];
	}
	return NULL;
}

static int add_left_out(struct diagnosis *diagnosis, struct diagnosis_stack *stack,
			const struct left_out *left)
{
	char text[64];

	snprintf(text, sizeof(text), "... (%u more in %s)", left->to - left->from, left->where);
	return add_frame(diagnosis, stack, text);
}

// The interpreter's own frames, once a Python function was seen below them: between two of them they say nothing.
static bool is_between_python(const struct flame_tree *tree, uint32_t node, bool has_python)
{
	const struct flame_node *frame = &tree->nodes[node];

	return has_python && frame->kind == FRAME_KIND_NATIVE &&
	       frame_ran_as(frame->kind, string_table_get(&tree->strings, frame->module)) ==
		       FRAME_KIND_PYTHON;
}

static int keep_stack(struct diagnosis *diagnosis, struct diagnosis_evidence *shown,
		      const struct flame_tree *tree, const struct hot_spot *spot, int64_t sum)
{
	struct diagnosis_stack *stack = &shown->stacks[shown->stack_count++];
	uint32_t end = depth_shown(tree, spot->leaf), depth = 0, node = spot->leaf;
	struct left_out left[2] = { 0 };
	bool has_python = false;
	int rc = 0;

	leave_out(tree, spot->leaf, left);
	stack->value = spot->value;
	stack->share = (double)stack->value / (double)sum;
	for (; depth < end && stack->frame_count < DIAGNOSIS_FRAMES_MAX && !rc;
	     node = tree->nodes[node].parent, depth++) {
		const struct left_out *out = find_left_out(left, depth);

		if (!out && !is_between_python(tree, node, has_python))
			rc = add_frame(diagnosis, stack,
				       string_table_get(&tree->strings, tree->nodes[node].name));
		else if (out && depth == out->from)
			rc = add_left_out(diagnosis, stack, out);
		has_python |= tree->nodes[node].kind == FRAME_KIND_PYTHON;
	}
	stack->cut = depth < end;
	return rc;
}

// ---- the finding in words ---------------------------------------------------------------------

// A name within a sentence. The rest of a long one is left out, on a character's border.
static void quote(const struct flame_tree *tree, uint32_t node,
		  char ret_text[DIAGNOSIS_NAME_BYTES + 8])
{
	const char *name = string_table_get(&tree->strings, tree->nodes[node].name);
	size_t size = strlen(name);
	bool is_cut = size > DIAGNOSIS_NAME_BYTES;

	if (is_cut) {
		size = DIAGNOSIS_NAME_BYTES;
		while (size && ((unsigned char)name[size] & 0xc0) == 0x80)
			size--;
	}
	snprintf(ret_text, DIAGNOSIS_NAME_BYTES + 8, "`%.*s%s`", (int)size, name,
		 is_cut ? "..." : "");
}

static bool is_cpu_time(const char *type)
{
	return strcmp(type, PROFILE_TYPE_CPU) == 0;
}

/* "`matmul` takes 83 % of CPU time, called by `forward (serve.py:40)`." Of waits their callers are the news; in the run queue they are over. */
static void describe(struct diagnosis_evidence *shown, const struct flame_tree *tree,
		     const struct hot_spots *spots)
{
	char function[DIAGNOSIS_NAME_BYTES + 8] = "", caller[DIAGNOSIS_NAME_BYTES + 8] = "";
	bool is_run_queue = strcmp(shown->type, PROFILE_TYPE_SCHED_DELAY) == 0;
	bool is_cpu = is_cpu_time(shown->type);
	const struct hot_spot *first = &spots->spots[0];
	double percent;

	if (!spots->count)
		return;
	uint32_t at = is_cpu ? spots->function : first->function;
	uint32_t by = is_cpu ? spots->caller : first->caller;
	quote(tree, at, function);
	if (by)
		quote(tree, by, caller);
	percent = 100 * (double)(is_cpu ? spots->value : first->value) / (double)spots->sum;
	if (is_cpu)
		snprintf(shown->finding, sizeof(shown->finding),
			 "%s takes %.0f %% of CPU time%s%s.", function, percent,
			 by ? ", called by " : "", caller);
	else
		snprintf(shown->finding, sizeof(shown->finding),
			 "%.0f %% of this time %s %s %s%s%s.", percent,
			 is_run_queue ? "threads waited to go on" : "is", by ? "below" : "in",
			 by ? caller : function, by ? ", in " : "", by ? function : "");
}

/* What to do about the largest function; waits have their class's advice. */
static void advise(struct diagnosis *diagnosis, const struct flame_tree *tree,
		   const struct hot_spots *spots)
{
	const struct diagnosis_evidence *first = &diagnosis->evidence[0];
	char function[DIAGNOSIS_NAME_BYTES + 8], caller[DIAGNOSIS_NAME_BYTES + 8];

	if (diagnosis->evidence_count != 1 || diagnosis->is_of_gpu || !spots->count ||
	    !is_cpu_time(first->type) || diagnosis->verdict.class == VERDICT_NONE)
		return;
	quote(tree, spots->function, function);
	if (!spots->caller) {
		snprintf(diagnosis->action, sizeof(diagnosis->action), "Make %s cheaper.",
			 function);
		return;
	}
	quote(tree, spots->caller, caller);
	snprintf(diagnosis->action, sizeof(diagnosis->action),
		 "Call %s less often from %s, with more work at a time, or make it cheaper.",
		 function, caller);
}

/* Growth: the last of so many parts of the range, less the first. */
enum { GROWTH_PARTS = 10 };

// Read the growth of a gauge's stacks.
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
	return rc ? error_set(err, rc, "out of memory for growth") : 0;
}

static int read_stacks(const struct query *query, const struct gpu_evidence *evidence,
		       const struct parked_waits *parked, struct diagnosis *diagnosis,
		       struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct diagnosis_evidence *added = &diagnosis->evidence[diagnosis->evidence_count];
	struct matcher matchers[SELECTOR_MATCHERS_MAX + 1];
	struct selector selector =
		selector_with(query->selector, LABEL_WAIT, evidence->wait, matchers);
	_cleanup_free_ bool *shown = NULL;
	struct hot_spots spots = { 0 };
	struct query stacks = *query;

	stacks.type = evidence->type;
	stacks.selector = &selector;
	stacks.group_by = diagnosis->is_of_gpu ? LABEL_THREAD : NULL;
	int rc = evidence->growth ? read_growth(&stacks, &tree, err)
				  : query_flame_tree(&stacks, &tree, err);
	if (rc)
		return rc;

	diagnosis->evidence_count++;
	*added = (struct diagnosis_evidence){ .what = evidence->what,
					      .type = evidence->type,
					      .wait = evidence->wait };
	if (diagnosis->is_of_gpu)
		rc = find_shown(&tree, &diagnosis->gpu.threads, evidence, &shown);
	else
		rc = parked_waits_subtract(&tree, evidence->wait, parked);
	if (!rc)
		rc = hot_spots_find(&tree, shown, &spots);
	for (uint32_t i = 0; !rc && i < spots.count; i++)
		rc = keep_stack(diagnosis, added, &tree, &spots.spots[i], spots.sum);
	if (!rc) {
		describe(added, &tree, &spots);
		advise(diagnosis, &tree, &spots);
	}
	return rc ? error_set(err, rc, "out of memory for the stacks") : 0;
}

// ---- services that use the CPUs ---------------------------------------------------------------

// The group with the largest total below @below; NULL: none.
static const struct flame_node *largest_group(const struct flame_tree *tree, int64_t below)
{
	const struct flame_node *largest = NULL;

	for (uint32_t i = 1; i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];

		if (node->parent == 0 && node->total > 0 && node->total < below &&
		    (!largest || node->total > largest->total))
			largest = node;
	}
	return largest;
}

static int add_services(struct diagnosis *diagnosis, const struct flame_tree *tree)
{
	struct diagnosis_evidence *added = &diagnosis->evidence[diagnosis->evidence_count++];
	const struct flame_node *service = largest_group(tree, INT64_MAX);
	int rc = 0;

	*added = (struct diagnosis_evidence){
		.what = "Services that used the CPUs, on the node with "
			"the longest run queue",
		.type = PROFILE_TYPE_CPU
	};
	for (; service && added->stack_count < DIAGNOSIS_STACKS_MAX && !rc;
	     service = largest_group(tree, service->total)) {
		struct diagnosis_stack *stack = &added->stacks[added->stack_count++];

		stack->value = service->total;
		stack->share = (double)service->total / (double)tree->nodes[0].total;
		rc = add_frame(diagnosis, stack, string_table_get(&tree->strings, service->name));
	}
	return rc;
}

// Waiting threads are not the cause: find the services that used the CPUs.
static int read_services(const struct query *query, struct diagnosis *diagnosis, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree nodes = { 0 }, services = { 0 };
	struct matcher matchers[2];
	struct selector selector = *query->selector;
	struct query waits = *query, all = *query;

	waits.type = PROFILE_TYPE_SCHED_DELAY;
	waits.group_by = LABEL_NODE;
	int rc = query_flame_tree(&waits, &nodes, err);
	const struct flame_node *node = rc ? NULL : largest_group(&nodes, INT64_MAX);
	if (!node)
		return rc;
	// Of the query's matchers its tenant's stays. Shallow copies.
	selector.matchers = matchers;
	selector.count = 0;
	if (selector_tenant(query->selector))
		matchers[selector.count++] = query->selector->matchers[0];
	matchers[selector.count++] = (struct matcher){
		.name = (char *)LABEL_NODE,
		.op = MATCH_EQUAL,
		.value = (char *)string_table_get(&nodes.strings, node->name),
	};
	all.type = PROFILE_TYPE_CPU;
	all.group_by = LABEL_SERVICE;
	all.selector = &selector;
	rc = query_flame_tree(&all, &services, err);
	if (rc || !largest_group(&services, INT64_MAX))
		return rc;
	rc = add_services(diagnosis, &services);
	return rc ? error_set(err, rc, "out of memory for the services") : 0;
}

// ---- the diagnosis ----------------------------------------------------------------------------

// CPU throttling, which is certain, comes first; memory growth last: it is no bottleneck yet.
static bool gpu_comes_first(const struct diagnosis *diagnosis)
{
	enum verdict_class class = diagnosis->verdict.class;

	if (!gpu_class_is_bottleneck(diagnosis->gpu.verdict.class) || class == VERDICT_THROTTLED)
		return false;
	return diagnosis->gpu.verdict.class != GPU_CLASS_MEMORY_GROWTH || class == VERDICT_NONE ||
	       class == VERDICT_NO_DEMAND || class == VERDICT_NO_DATA;
}

// Set the evidence of a class; @by_name: its heading is the class's title.
static bool find_class_evidence(enum verdict_class class, bool by_name,
				struct gpu_evidence *ret_evidence)
{
	*ret_evidence =
		(struct gpu_evidence){ .what = by_name ? verdict_class_title(class) : NULL };
	ret_evidence->type = verdict_class_profile(class, &ret_evidence->wait);
	return ret_evidence->type != NULL;
}

// Without a bottleneck, show the largest share.
static uint32_t find_threads_evidence(const struct verdict *verdict,
				      struct gpu_evidence evidence[GPU_EVIDENCE_MAX])
{
	uint32_t count = 0;

	switch (verdict->class) {
	case VERDICT_AMBIGUOUS:
		for (uint32_t i = 0; i < 2; i++)
			count += find_class_evidence(verdict->shares[i].class, true,
						     &evidence[count]);
		return count;
	case VERDICT_NONE:
		return verdict->shares[0].share > 0 &&
		       find_class_evidence(verdict->shares[0].class, true, &evidence[0]);
	default:
		return find_class_evidence(verdict->class, false, &evidence[0]);
	}
}

// The first evidence of each of two causes.
static uint32_t find_both(const struct diagnosis *diagnosis,
			  struct gpu_evidence evidence[GPU_EVIDENCE_MAX])
{
	const struct gpu_share *shares = diagnosis->gpu.verdict.shares;
	uint32_t count = 0;

	for (uint32_t i = 0; i < 2; i++) {
		struct gpu_evidence found[GPU_EVIDENCE_MAX];

		if (!gpu_evidence_find(&diagnosis->gpu, shares[i].class, found))
			continue;
		found[0].what = gpu_class_title(shares[i].class);
		evidence[count++] = found[0];
	}
	return count;
}

static uint32_t find_evidence(const struct diagnosis *diagnosis,
			      struct gpu_evidence evidence[GPU_EVIDENCE_MAX])
{
	const struct gpu_verdict *gpu = &diagnosis->gpu.verdict;
	const struct verdict *verdict = &diagnosis->verdict;

	if (diagnosis->is_of_gpu && gpu->class == GPU_CLASS_AMBIGUOUS)
		return find_both(diagnosis, evidence);
	if (diagnosis->is_of_gpu)
		return gpu_evidence_find(&diagnosis->gpu, gpu->class, evidence);
	return find_threads_evidence(verdict, evidence);
}

static int judge(const struct query *query, struct diagnosis *diagnosis, struct error *err)
{
	_cleanup_(parked_waits_deinit) struct parked_waits parked = { 0 };
	struct gpu_evidence evidence[GPU_EVIDENCE_MAX];
	int64_t blocked_ns;
	int rc = read_figures(query, &diagnosis->figures, err);

	if (!rc)
		rc = parked_waits_leave_out(query, &diagnosis->figures, &parked, err);
	if (rc)
		return rc;
	diagnosis->verdict = verdict_of(&diagnosis->figures);
	blocked_ns = diagnosis->figures.wait_ns[WAIT_CLASS_GPU];
	rc = gpu_diagnosis_read(query, blocked_ns, &diagnosis->gpu, err);
	if (rc)
		return rc;
	diagnosis->is_of_gpu = gpu_comes_first(diagnosis);

	uint32_t count = find_evidence(diagnosis, evidence);
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = read_stacks(query, &evidence[i], &parked, diagnosis, err);
	if (!rc && !diagnosis->is_of_gpu && diagnosis->verdict.class == VERDICT_RUN_QUEUE)
		rc = read_services(query, diagnosis, err);
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
