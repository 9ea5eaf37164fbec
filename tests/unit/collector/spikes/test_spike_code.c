// SPDX-License-Identifier: Apache-2.0
// The function that carries a rise, out of trees made by hand.
#include "collector/spikes/spike_code.h"

#include <string.h>

#include "tests/test.h"

enum { NODES_MAX = 32, TEXT_MAX = 512 };

static uint32_t string_in(struct flame_tree *tree, const char *text)
{
	uint32_t number;

	assert_int_equal(0, string_table_add(&tree->strings, text, strlen(text), &number));
	return number;
}

static void tree_init(struct flame_tree *tree)
{
	*tree = (struct flame_tree){ .node_count = 1 };
	assert_int_equal(0, string_table_init(&tree->strings));
	tree->nodes = calloc(NODES_MAX, sizeof(*tree->nodes));
	assert_non_null(tree->nodes);
}

/** "n:main p:put (shop.py:36) k:__x64_sys_futex_[k]": from the root, kinds native, python, kernel, library, interpreter. */
static void add(struct flame_tree *tree, const char *stack, int64_t value)
{
	char copy[TEXT_MAX], *rest = copy, *frame;
	uint32_t parent = 0;

	snprintf(copy, sizeof(copy), "%s", stack);
	while ((frame = strsep(&rest, "|"))) {
		struct flame_node *node = &tree->nodes[tree->node_count];

		*node = (struct flame_node){
			.parent = parent,
			.name = string_in(tree, frame + 2),
			.module = string_in(tree, *frame == 'l'   ? "/lib/libc.so.6"
						  : *frame == 'i' ? "/lib/libpython3.11.so.1.0"
								  : "/bin/shop"),
			.kind = *frame == 'p'   ? FRAME_KIND_PYTHON
				: *frame == 'k' ? FRAME_KIND_KERNEL
						: FRAME_KIND_NATIVE,
			.self = rest ? 0 : value,
			.total = value,
		};
		parent = tree->node_count++;
	}
	tree->nodes[0].total += value;
}

#define PUT   "n:main|i:_PyEval_EvalFrameDefault|p:handle (shop.py:9)|p:put (shop.py:36)|"
#define FUTEX "l:pthread_mutex_lock|k:do_syscall_64_[k]|k:__x64_sys_futex_[k]|k:futex_wait_[k]"

struct row {
	const char *what;
	const char *usual; // of a value of 100; NULL: none
	const char *spikes[3];
	int64_t values[3];
	const char *leaf, *caller;
	int percent;
};

static const struct row rows[] = {
	{ "a lock under Python", NULL, { PUT FUTEX }, { 100 }, "futex", "put (shop.py:36)", 100 },
	{ "the line that rose is named",
	  "n:main|p:handle (shop.py:9)|p:put (shop.py:40)|" FUTEX,
	  { PUT FUTEX, "n:main|p:handle (shop.py:9)|p:put (shop.py:40)|" FUTEX },
	  { 60, 90 },
	  "futex",
	  "put (shop.py:36)",
	  100 },
	{ "lines of a function are one",
	  NULL,
	  { PUT FUTEX, "n:main|p:handle (shop.py:9)|p:put (shop.py:40)|" FUTEX },
	  { 50, 50 },
	  "futex",
	  "put (shop.py:36)",
	  100 },
	{ "of many lines none is the place",
	  NULL,
	  { PUT "i:a", "n:main|p:put (shop.py:40)|i:a", "n:main|p:put (shop.py:41)|i:a" },
	  { 30, 30, 40 },
	  "put (shop.py)",
	  "",
	  100 },
	{ "Python's own work is its function",
	  NULL,
	  { PUT "i:long_add" },
	  { 100 },
	  "put (shop.py:36)",
	  "handle (shop.py:9)",
	  100 },
	{ "a comprehension is its function's",
	  NULL,
	  { "n:main|p:put.<locals>.<genexpr> (shop.py:3)" },
	  { 100 },
	  "put (shop.py:3)",
	  "",
	  100 },
	{ "where it is preempted is no news",
	  NULL,
	  { PUT "i:long_add|k:asm_sysvec_apic_timer_interrupt_[k]|k:irqentry_exit_[k]" },
	  { 100 },
	  "put (shop.py:36)",
	  "handle (shop.py:9)",
	  100 },
	{ "native code",
	  NULL,
	  { "n:main|n:serve|n:encode|" FUTEX },
	  { 100 },
	  "futex",
	  "encode",
	  100 },
	{ "main is no news", NULL, { "n:main|n:crunch" }, { 100 }, "crunch", "", 100 },
	{ "recursion counts once",
	  NULL,
	  { "n:main|n:walk|n:walk", "n:main|l:read" },
	  { 40, 60 },
	  "read",
	  "main",
	  60 },
	{ "several leaves have a caller",
	  NULL,
	  { "n:main|n:serve|l:read", "n:main|n:serve|l:write", "n:main|n:serve|l:send" },
	  { 33, 33, 34 },
	  "",
	  "serve",
	  100 },
	{ "what is usual explains nothing",
	  "n:main|n:usual",
	  { "n:main|n:usual", "n:main|n:rare" },
	  { 100, 50 },
	  "rare",
	  "",
	  100 },
	{ "the rest has other code",
	  NULL,
	  { "n:a|n:serve|l:read", "n:b" },
	  { 80, 20 },
	  "read",
	  "serve",
	  80 },
	{ "a truncated stack explains nothing",
	  NULL,
	  { "n:[truncated: not sampled]" },
	  { 100 },
	  "",
	  "",
	  0 },
	{ "less than usual", "n:main|n:usual", { "n:main|n:usual" }, { 20 }, "", "", 0 },
};

TEST(names_leaf_and_caller)
{
	for EACH (row, rows) {
		struct flame_tree spike, usual;
		struct error err = { 0 };
		struct cause_code code;
		double extra;

		tree_init(&spike);
		tree_init(&usual);
		for (int i = 0; i < 3 && row->spikes[i]; i++)
			add(&spike, row->spikes[i], row->values[i]);
		if (row->usual)
			add(&usual, row->usual, 200);
		const struct weighted_tree weighted = { &usual, 0.5 };

		EXPECT_EQ(0, spike_code_find(&spike, &weighted, false, NULL, &code, &extra, &err),
			  row->what);
		EXPECT_STR(row->leaf, code.leaf, row->what);
		EXPECT_STR(row->caller, code.caller, row->what);
		EXPECT_EQ(row->percent, (int)(100 * code.share + 0.5), row->what);
		flame_tree_deinit(&spike);
		flame_tree_deinit(&usual);
	}
}

TEST(without_leaf_names_the_function_alone)
{
	struct flame_tree spike, usual;
	struct error err = { 0 };
	struct cause_code code;
	double extra;

	tree_init(&spike);
	tree_init(&usual);
	add(&spike, PUT FUTEX, 70);
	const struct weighted_tree weighted = { &usual, 1 };

	EXPECT_EQ(0, spike_code_find(&spike, &weighted, true, NULL, &code, &extra, &err), "found");
	EXPECT_STR("", code.leaf, "leaf");
	EXPECT_STR("put (shop.py:36)", code.caller, "caller");
	EXPECT_EQ(70, (int)extra, "extra");
	flame_tree_deinit(&spike);
	flame_tree_deinit(&usual);
}

RUN_TESTS(cmocka_unit_test(names_leaf_and_caller),
	  cmocka_unit_test(without_leaf_names_the_function_alone))
