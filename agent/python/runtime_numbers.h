// SPDX-License-Identifier: Apache-2.0
// Which build of CPython has which of the PYTHON_RUNTIMES_MAX numbers that the kernel's programs know them by. Files are
// hostile: with copies that differ in a byte one container could take all. When none is left, the build goes that no
// process uses and that was used least recently; and if all are in use, one of the payer who has the most, but only
// for a payer who has fewer.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind/python.h"

struct runtime_number {
	bool is_taken;
	uint64_t payer;   // whose process brought the build (agent/guard/shares.h); 0: nobody's
	uint32_t users;   // processes
	uint64_t used_at; // in uses of any
};

struct runtime_numbers {
	struct runtime_number numbers[PYTHON_RUNTIMES_MAX]; // number 0 is unused
	uint64_t uses;
};

/**
 * A number for a new build. *ret_evicted: it was another build's, which some processes may use. Returns 0; -ENOSPC: there
 * is none for @payer.
 */
int runtime_numbers_take(struct runtime_numbers *numbers, uint64_t payer, uint32_t *ret_number,
			 bool *ret_evicted);
/** A process was found to run it. */
void runtime_numbers_use(struct runtime_numbers *numbers, uint32_t number);
/** A process uses it until released. Of number 0 nothing is kept. */
void runtime_numbers_hold(struct runtime_numbers *numbers, uint32_t number);
void runtime_numbers_release(struct runtime_numbers *numbers, uint32_t number);
