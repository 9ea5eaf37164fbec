// SPDX-License-Identifier: Apache-2.0
// Unwind rules of machine code that no call frame information describes, such as musl's: found by
// following its instructions from each function's first one and keeping count of what they do to the
// stack. x86-64 only. Uses capstone to decode; the code is hostile.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind/table_layout.h"

enum {
	CODE_ANALYSIS_BYTES_MAX = 4 << 20, // of one piece of code; musl has 0.6 MB
};

struct code_analysis;

/**
 * Code of @size bytes at virtual address @address, which are the caller's and outlive this.
 * Returns 0; -E2BIG; -ENOMEM.
 */
int code_analysis_open(const uint8_t *code, size_t size, uint64_t address,
		       struct code_analysis **ret_analysis);
void code_analysis_close(struct code_analysis *analysis);

/** A function begins at @address. */
void code_analysis_enter(struct code_analysis *analysis, uint64_t address);

/** The function that begins at @address does not return: behind a call of it lies something else. */
void code_analysis_never_returns(struct code_analysis *analysis, uint64_t address);

/**
 * Follow all functions, and those that they call. What only jumps through tables reach is taken to
 * come after the last such jump before it in the same function.
 */
void code_analysis_run(struct code_analysis *analysis);

/** Called for each place where another rule begins to hold, in order; the first is at offset 0. */
typedef void (*code_analysis_fn)(void *context, uint64_t offset, const struct unwind_rule *rule);

/** Code that was not reached, or that does to the stack what cannot be followed, is CFA_NO_TABLE. */
void code_analysis_each(const struct code_analysis *analysis, code_analysis_fn fn, void *context);
