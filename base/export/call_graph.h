// SPDX-License-Identifier: Apache-2.0
// A profile as functions and calls between them: what callgrind and pstats files are written from.
#pragma once

#include <stdint.h>

#include "base/export/named_stacks.h"

enum { CALL_EDGES_MAX = 1 << 24 };

/** By function, a position in named_stacks.functions. */
struct call_function {
	int64_t self;
	int64_t total;  // recursion counts once
	uint32_t stamp; // private
};

/** Self value by line. */
struct call_line {
	uint32_t function;
	uint32_t line; // 0: unknown
	int64_t self;
};

/**
 * Calls from a line of one function to another, each stack counted once. A function that calls itself
 * directly has no edge: its callees are those of one call.
 */
struct call_edge {
	uint32_t caller;
	uint32_t line; // in the caller, 0: unknown
	uint32_t callee;
	uint32_t stamp; // private
	int64_t self;   // of the callee itself
	int64_t total;
};

struct call_graph {
	struct named_stacks stacks;
	struct call_function *functions;
	struct call_line *lines; // sorted by function, line
	uint32_t line_count, line_capacity;
	struct call_edge *edges; // sorted by caller, line, callee
	uint32_t edge_count, edge_capacity;
	int64_t total;
	struct hash_table line_index, edge_index; // private
	uint32_t function_capacity;               // private
};

/**
 * Add up the samples of @type. Returns 0; -ENOMEM; -E2BIG (too many functions or calls). @ret_graph is to be
 * deinitialized after success.
 */
int call_graph_init(struct call_graph *ret_graph, const struct profile *profile, const char *type);
void call_graph_deinit(struct call_graph *graph);
