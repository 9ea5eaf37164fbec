// SPDX-License-Identifier: Apache-2.0
// A call tree as lines of a terminal: from the outermost caller to the leaf, from one function to its callees, or from
// it to its callers. Calls open and close, and stay so over refreshes.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/export/call_tree.h"
#include "base/hash_table.h"
#include "base/profile/profile.h"

enum {
	CALLS_TOGGLED_MAX = 256, // calls opened or closed by hand; then the oldest is as it was
};

enum call_direction {
	CALLS_ALL,     // whole stacks
	CALLS_CALLEES, // from the outermost call of a function
	CALLS_CALLERS, // from its innermost call outwards
};

struct shown_call {
	uint32_t name; // of the tree
	uint32_t parent;
	uint32_t first_child, next; // HASH_TABLE_NONE: none. By falling total
	bool is_process;            // above its frames
	enum frame_kind kind;
	int64_t self, total;
	uint32_t indent; // branchings above it: an only child stands below its parent
	uint64_t path;   // of names from the root, the same in each refresh
};

struct call_line {
	uint32_t node;
	bool opens; // has children
	bool open;
};

/** A zeroed struct has none. One thread. */
struct call_lines {
	struct call_tree tree;
	struct shown_call *nodes; // a parent before its children; 0 is the root
	uint32_t node_count, node_capacity;
	struct call_line *lines; // shown
	uint32_t line_count;
	int64_t total; // of all samples, also those without the function
	struct hash_table index;
};

/** Calls whose state is not the default one. A zeroed struct is none. */
struct call_toggles {
	uint64_t paths[CALLS_TOGGLED_MAX];
	uint32_t count, oldest;
};

/**
 * Read the calls in samples of @type; nothing is shown before call_lines_select(). @by_process: processes are above their
 * frames, if whole stacks are shown. @function, a display name, is for CALLS_CALLEES and CALLS_CALLERS.
 * Returns 0, -ENOMEM, or -E2BIG at CALL_NODES_MAX.
 */
int call_lines_build(const struct profile *profile, const char *type, bool by_process,
		     enum call_direction direction, const char *function,
		     struct call_lines *ret_lines, struct error *err);
void call_lines_deinit(struct call_lines *lines);

/**
 * Show what open calls call. A call is open if it has a twentieth of all, or is its caller's only one; @toggles has the
 * exceptions. With a @filter (case does not matter), only what it finds, its callers, and what it calls.
 * Returns 0 or -ENOMEM.
 */
int call_lines_select(struct call_lines *lines, const struct call_toggles *toggles,
		      const char *filter);

/** Open the call with this path if it is closed, else close it. */
void call_toggles_change(struct call_toggles *toggles, uint64_t path);

/** Print the first @rows_max lines (0: all) as text, under a line of headings. */
void call_lines_print(const struct call_lines *lines, uint32_t rows_max, FILE *stream);

/** The name of a node, as a terminal may see it. */
void call_lines_name(const struct call_lines *lines, uint32_t node, char *ret_text, size_t size);
/** Share of the total in percent; 0 if that is 0. */
double call_lines_percent(const struct call_lines *lines, int64_t value);
