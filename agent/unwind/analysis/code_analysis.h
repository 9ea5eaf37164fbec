// SPDX-License-Identifier: Apache-2.0
// Recovers unwind rules from the instructions of code without call frame information, such as musl's: static analysis from
// each function's first instruction on, of what the code does to the stack. x86-64 only, decoded by capstone. The code is
// hostile.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind/table_layout.h"

enum {
	CODE_ANALYSIS_BYTES_MAX = 4 << 20, // per piece of code; musl has 0.6 MB
};

struct code_analysis;

/** Analyze @size bytes at virtual address @address; @code outlives this. Returns 0; -E2BIG; -ENOMEM. */
int code_analysis_open(const uint8_t *code, size_t size, uint64_t address,
		       struct code_analysis **ret_analysis);
void code_analysis_close(struct code_analysis *analysis);

/** Decode at most @instructions of them, counting each time one is decoded; without this, all. */
void code_analysis_limit(struct code_analysis *analysis, uint32_t instructions);

/** Has the limit ended the analysis? Then its rules may be wrong. */
bool code_analysis_is_cut(const struct code_analysis *analysis);

/** A function begins at @address. */
void code_analysis_enter(struct code_analysis *analysis, uint64_t address);

/** A function may begin at @address: it does unless other code leads there. */
void code_analysis_point(struct code_analysis *analysis, uint64_t address);

/** A function that is described elsewhere ends at @address: what follows is none of it. */
void code_analysis_divide(struct code_analysis *analysis, uint64_t address);

/** The function at @address never returns: code after a call of it belongs to something else. */
void code_analysis_never_returns(struct code_analysis *analysis, uint64_t address);

/**
 * Analyze all functions, and those that they call. Code reached through jump tables only is taken to have the state of the
 * last such jump before it in its function.
 */
void code_analysis_run(struct code_analysis *analysis);

/** Called for each place where the rule changes, in order, from offset 0 on. */
typedef void (*code_analysis_fn)(void *context, uint64_t offset, const struct unwind_rule *rule);

/** Code that was not reached, or whose stack is unknown, is CFA_NO_TABLE. */
void code_analysis_each(const struct code_analysis *analysis, code_analysis_fn fn, void *context);
