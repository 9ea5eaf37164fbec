// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/spike_code.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/text.h"

#define NEARLY_ALL    0.8 // of the largest share: a deeper function tells more
#define CALLER_SHARE  0.2 // less explains nothing
#define LEAF_SHARE    0.5 // of its caller's
#define LINE_SHARE    0.5 // of its function's: else it has several
#define KERNEL_SUFFIX "_[k]"
#define TRUNCATED     "[truncated"

enum { DEPTH_MAX = 1024, NODES_PER_CHECK = 4096 };

/** A function, in both trees. */
struct function {
	double spike, usual; // inclusive
	double depth;        // in the spike, weighted by value
	uint32_t stack;      // the last that counted it: recursion counts once
	bool is_user;
};

struct functions {
	struct string_table names;
	struct function *items;
	uint32_t capacity;
	uint32_t stack; // the number of the present one
	struct deadline *deadline;
	struct error *err;
};

static void functions_deinit(struct functions *functions)
{
	string_table_deinit(&functions->names);
	free(functions->items);
}

// ---- names ----------------------------------------------------------------------------------

static const char *node_name(const struct flame_tree *tree, uint32_t node)
{
	return string_table_get(&tree->strings, tree->nodes[node].name);
}

/** "render.<locals>.<genexpr> (page.py:3)" is a part of "render (page.py:3)" that nobody named. */
static void drop_comprehension(char *text)
{
	static const char *const parts[] = { ".<locals>.<genexpr>", ".<locals>.<listcomp>",
					     ".<locals>.<dictcomp>", ".<locals>.<setcomp>" };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		char *part = strstr(text, parts[i]);

		if (part)
			memmove(part, part + strlen(parts[i]), strlen(part + strlen(parts[i])) + 1);
	}
}

/** Where the ":36" of "put (shop.py:36)" is; NULL: it has none. */
static char *find_line_number(char *text)
{
	size_t size = strlen(text);
	char *colon = strrchr(text, ':');

	return colon && text[size - 1] == ')' &&
			       strspn(colon + 1, "0123456789") == strlen(colon) - 2
		       ? colon
		       : NULL;
}

/** "put (shop.py:36)" is a line of "put (shop.py)"; "futex_wait_[k]" is "futex_wait". */
static void function_name(const char *name, enum frame_kind kind, char text[CAUSE_TEXT_BYTES])
{
	snprintf(text, CAUSE_TEXT_BYTES, "%s", name);
	size_t size = strlen(text);

	if (kind == FRAME_KIND_KERNEL && size > strlen(KERNEL_SUFFIX) &&
	    strcmp(text + size - strlen(KERNEL_SUFFIX), KERNEL_SUFFIX) == 0) {
		text[size - strlen(KERNEL_SUFFIX)] = '\0';
		return;
	}
	if (kind != FRAME_KIND_PYTHON)
		return;
	drop_comprehension(text);
	char *colon = find_line_number(text);
	if (colon)
		strcpy(colon, ")");
}

static bool begins_with_any(const char *text, const char *const *prefixes)
{
	for (; *prefixes; prefixes++) {
		if (strncmp(text, *prefixes, strlen(*prefixes)) == 0)
			return true;
	}
	return false;
}

static bool is_interpreter(const struct flame_tree *tree, uint32_t node)
{
	static const char *const modules[] = { "libpython", "python", NULL };
	const char *module = string_table_get(&tree->strings, tree->nodes[node].module);

	return tree->nodes[node].kind == FRAME_KIND_NATIVE &&
	       begins_with_any(path_base_name(module), modules);
}

/** Code that nobody who reads this wrote: a spike lies in what calls it. */
static bool is_library(const struct flame_tree *tree, uint32_t node)
{
	static const char *const modules[] = { "libc.",     "libc-",  "ld-",      "libpthread",
					       "libstdc++", "libm.",  "libgcc_s", "libcuda.",
					       "libcudart", "[vdso]", NULL };
	static const char *const names[] = { "[",     "_start", "__libc_start", "start_thread",
					     "clone", NULL };
	const char *module = string_table_get(&tree->strings, tree->nodes[node].module);

	return begins_with_any(path_base_name(module), modules) ||
	       begins_with_any(node_name(tree, node), names);
}

/** The system call of a stack that ends in the kernel at @node; NULL: none. */
static const char *find_syscall(const struct flame_tree *tree, uint32_t node)
{
	static const char *const prefixes[] = { "__x64_sys_", "__arm64_sys_", "__ia32_sys_",
						"__do_sys_", "__se_sys_" };

	for (; node && tree->nodes[node].kind == FRAME_KIND_KERNEL;
	     node = tree->nodes[node].parent) {
		const char *name = node_name(tree, node);

		for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
			if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
				return name + strlen(prefixes[i]);
		}
	}
	return NULL;
}

/** Was the thread preempted there? That says nothing of what it did. */
static bool is_preempted(const struct flame_tree *tree, uint32_t node)
{
	static const char *const exits[] = { "irqentry_exit", "exit_to_user_mode", NULL };

	return tree->nodes[node].kind == FRAME_KIND_KERNEL &&
	       begins_with_any(node_name(tree, node), exits);
}

/** What a stack that ends at @node ended in. */
static void leaf_name(const struct flame_tree *tree, uint32_t node, char text[CAUSE_TEXT_BYTES])
{
	const char *syscall = find_syscall(tree, node);
	uint32_t user = node;

	while (!syscall && user && tree->nodes[user].kind == FRAME_KIND_KERNEL)
		user = tree->nodes[user].parent;
	if (user && is_preempted(tree, node))
		node = user;

	if (syscall) {
		function_name(syscall, FRAME_KIND_KERNEL, text);
		return;
	}
	uint32_t python = node;
	while (python && is_interpreter(tree, python))
		python = tree->nodes[python].parent;
	if (python && tree->nodes[python].kind == FRAME_KIND_PYTHON)
		node = python;
	function_name(node_name(tree, node), tree->nodes[node].kind, text);
}

// ---- functions ------------------------------------------------------------------------------

static int find_function(struct functions *functions, const char *name, struct function **ret)
{
	uint32_t count = functions->names.count, number;
	int rc = string_table_add(&functions->names, name, strlen(name), &number);

	if (!rc && number >= count)
		rc = array_reserve(&functions->items, sizeof(*functions->items),
				   &functions->capacity, number, 1, STRING_TABLE_COUNT_MAX);
	if (rc)
		return error_set(functions->err, -ENOMEM, "out of memory for the functions");
	if (number >= count)
		functions->items[number] = (struct function){ 0 };
	*ret = &functions->items[number];
	return 0;
}

/** A stack's nodes from the leaf to the root. Returns their number, and whether Python is among them. */
static uint32_t read_path(const struct flame_tree *tree, uint32_t leaf, uint32_t path[DEPTH_MAX],
			  bool *ret_python)
{
	uint32_t count = 0;

	*ret_python = false;
	for (uint32_t node = leaf; node && count < DEPTH_MAX; node = tree->nodes[node].parent) {
		*ret_python |= tree->nodes[node].kind == FRAME_KIND_PYTHON;
		path[count++] = node;
	}
	return count;
}

static bool is_user(const struct flame_tree *tree, uint32_t node, bool has_python)
{
	if (has_python)
		return tree->nodes[node].kind == FRAME_KIND_PYTHON;
	return tree->nodes[node].kind != FRAME_KIND_KERNEL && !is_library(tree, node);
}

/** Add @value to each of the user's functions in the stack that ends at @leaf. */
static int add_stack(struct functions *functions, const struct flame_tree *tree, uint32_t leaf,
		     const char *none, double value, bool is_spike)
{
	uint32_t path[DEPTH_MAX];
	char name[CAUSE_TEXT_BYTES];
	bool has_python;
	uint32_t depth = read_path(tree, leaf, path, &has_python);

	(void)none;
	functions->stack++;
	for (uint32_t i = 0; i < depth; i++) {
		struct function *function;

		if (!is_user(tree, path[i], has_python))
			continue;
		function_name(node_name(tree, path[i]), tree->nodes[path[i]].kind, name);
		int rc = find_function(functions, name, &function);
		if (rc)
			return rc;
		if (function->stack == functions->stack)
			continue;
		function->stack = functions->stack;
		function->is_user = true;
		*(is_spike ? &function->spike : &function->usual) += value;
		function->depth += is_spike ? value * (depth - i) : 0;
	}
	return 0;
}

/** Add @value to the leaf of a stack, if @caller is in it. */
static int add_leaf(struct functions *functions, const struct flame_tree *tree, uint32_t leaf,
		    const char *caller, double value, bool is_spike)
{
	uint32_t path[DEPTH_MAX];
	char name[CAUSE_TEXT_BYTES];
	bool has_python, is_below = !*caller;
	uint32_t depth = read_path(tree, leaf, path, &has_python);
	struct function *function;

	for (uint32_t i = 0; i < depth && !is_below; i++) {
		function_name(node_name(tree, path[i]), tree->nodes[path[i]].kind, name);
		is_below = is_user(tree, path[i], has_python) && strcmp(name, caller) == 0;
	}
	if (!is_below || strncmp(node_name(tree, leaf), TRUNCATED, strlen(TRUNCATED)) == 0)
		return 0; // without frames it explains nothing
	leaf_name(tree, leaf, name);
	int rc = find_function(functions, name, &function);
	if (!rc)
		*(is_spike ? &function->spike : &function->usual) += value;
	return rc;
}

/** Add @value to the line at which Python function @name is in a stack; in recursion the innermost. */
static int add_line(struct functions *functions, const struct flame_tree *tree, uint32_t leaf,
		    const char *name, double value, bool is_spike)
{
	char text[CAUSE_TEXT_BYTES];

	for (uint32_t node = leaf; node; node = tree->nodes[node].parent) {
		struct function *line;

		if (tree->nodes[node].kind != FRAME_KIND_PYTHON)
			continue;
		function_name(node_name(tree, node), FRAME_KIND_PYTHON, text);
		if (strcmp(text, name) != 0)
			continue;
		snprintf(text, sizeof(text), "%s", node_name(tree, node));
		drop_comprehension(text);
		int rc = find_function(functions, text, &line);
		if (!rc)
			*(is_spike ? &line->spike : &line->usual) += value;
		return rc;
	}
	return 0;
}

/** What a stack of @value that ends at @leaf adds; @name: the function that is looked at, if any. */
typedef int (*add_fn)(struct functions *functions, const struct flame_tree *tree, uint32_t leaf,
		      const char *name, double value, bool is_spike);

static int add_tree(struct functions *functions, const struct flame_tree *tree, double factor,
		    add_fn add, const char *name, bool is_spike)
{
	int rc = 0;

	for (uint32_t node = 1; node < tree->node_count && !rc; node++) {
		double value = (double)tree->nodes[node].self * factor;

		if (node % NODES_PER_CHECK == 0)
			rc = deadline_check(functions->deadline, functions->err);
		if (rc || value <= 0)
			continue;
		rc = add(functions, tree, node, name, value, is_spike);
	}
	return rc;
}

static int add_trees(struct functions *functions, const struct flame_tree *spike,
		     const struct weighted_tree *usual, add_fn add, const char *name)
{
	if (string_table_init(&functions->names))
		return error_set(functions->err, -ENOMEM, "out of memory for the functions");
	struct function *none; // number 0 is the empty name
	int rc = array_reserve(&functions->items, sizeof(*none), &functions->capacity, 0, 1,
			       STRING_TABLE_COUNT_MAX);
	if (rc)
		return error_set(functions->err, -ENOMEM, "out of memory for the functions");
	functions->items[0] = (struct function){ 0 };
	rc = add_tree(functions, spike, 1, add, name, true);
	return rc ? rc : add_tree(functions, usual->tree, usual->factor, add, name, false);
}

static double extra_of(const struct function *function)
{
	return function->spike - function->usual;
}

/** The deepest function that has nearly as much of the extra as any, but for @other; 0: none has enough. */
static uint32_t choose_caller(const struct functions *functions, double extra, uint32_t other)
{
	double largest = 0, deepest = 0;
	uint32_t chosen = 0;

	for (uint32_t i = 1; i < functions->names.count; i++) {
		if (functions->items[i].is_user && extra_of(&functions->items[i]) > largest)
			largest = extra_of(&functions->items[i]);
	}
	if (largest < CALLER_SHARE * extra)
		return 0;
	for (uint32_t i = 1; i < functions->names.count; i++) {
		const struct function *function = &functions->items[i];
		double depth = function->spike > 0 ? function->depth / function->spike : 0;

		if (i == other || !function->is_user || extra_of(function) < NEARLY_ALL * largest ||
		    depth <= deepest)
			continue;
		deepest = depth;
		chosen = i;
	}
	return chosen;
}

/** The one with the largest extra. */
static uint32_t choose_largest(const struct functions *functions)
{
	uint32_t chosen = 0;

	for (uint32_t i = 1; i < functions->names.count; i++) {
		if (extra_of(&functions->items[i]) > extra_of(&functions->items[chosen]))
			chosen = i;
	}
	return chosen;
}

static double share_of(double part, double whole)
{
	return part <= 0 ? 0 : part >= whole ? 1 : part / whole;
}

static void copy_name(const struct functions *functions, uint32_t number,
		      char text[CAUSE_TEXT_BYTES])
{
	snprintf(text, CAUSE_TEXT_BYTES, "%s", string_table_get(&functions->names, number));
}

static int find_leaf(struct functions *leaves, const struct flame_tree *spike,
		     const struct weighted_tree *usual, double extra, struct cause_code *code)
{
	int rc = add_trees(leaves, spike, usual, add_leaf, code->caller);
	if (rc)
		return rc;
	uint32_t leaf = choose_largest(leaves);
	double share = share_of(extra_of(&leaves->items[leaf]), extra);

	if (!leaf || share < LEAF_SHARE * (*code->caller ? code->share : 1))
		return 0;
	copy_name(leaves, leaf, code->leaf);
	code->share = share;
	return 0;
}

/** Of a function that is the leaf itself, name the one that calls it. That main() does is no news. */
static void name_caller(const struct functions *functions, uint32_t leaf, double extra,
			struct cause_code *code)
{
	uint32_t caller = choose_caller(functions, extra, leaf);

	code->caller[0] = '\0';
	if (caller && strcmp(string_table_get(&functions->names, caller), "main") != 0)
		copy_name(functions, caller, code->caller);
}

/** Give Python function @text the line that has most of its extra, if one has: that is where to look. */
static int name_line(const struct functions *functions, const struct flame_tree *spike,
		     const struct weighted_tree *usual, char text[CAUSE_TEXT_BYTES])
{
	_cleanup_(functions_deinit) struct functions lines = { .deadline = functions->deadline,
							       .err = functions->err };
	uint32_t number = string_table_find(&functions->names, text);

	if (number == HASH_TABLE_NONE || !number)
		return 0; // a system call, or library code
	int rc = add_trees(&lines, spike, usual, add_line, text);
	if (rc)
		return rc;
	uint32_t line = choose_largest(&lines);

	if (line &&
	    extra_of(&lines.items[line]) >= LINE_SHARE * extra_of(&functions->items[number]))
		copy_name(&lines, line, text);
	return 0;
}

int spike_code_find(const struct flame_tree *spike, const struct weighted_tree *usual,
		    bool without_leaf, struct deadline *deadline, struct cause_code *ret_code,
		    double *ret_extra, struct error *err)
{
	_cleanup_(functions_deinit) struct functions functions = { .deadline = deadline,
								   .err = err };
	_cleanup_(functions_deinit) struct functions leaves = { .deadline = deadline, .err = err };
	struct cause_code code = { 0 };
	double extra =
		(spike->node_count ? (double)spike->nodes[0].total : 0) -
		(usual->tree->node_count ? (double)usual->tree->nodes[0].total : 0) * usual->factor;

	*ret_extra = extra;
	*ret_code = code;
	if (extra <= 0)
		return 0;
	int rc = add_trees(&functions, spike, usual, add_stack, NULL);
	if (rc)
		return rc;
	uint32_t caller = choose_caller(&functions, extra, 0);

	if (caller) {
		code.is_users = true;
		code.share = share_of(extra_of(&functions.items[caller]), extra);
		copy_name(&functions, caller, code.caller);
	}
	if (!without_leaf)
		rc = find_leaf(&leaves, spike, usual, extra, &code);
	if (*code.leaf && strcmp(code.leaf, code.caller) == 0)
		name_caller(&functions, caller, extra, &code);
	if (!rc)
		rc = name_line(&functions, spike, usual, code.caller);
	if (!rc)
		rc = name_line(&functions, spike, usual, code.leaf);
	*ret_code = code;
	return rc;
}
