// SPDX-License-Identifier: Apache-2.0
// Recovers unwind rules from the instructions of aarch64 code without call frame information, as OpenSSL's assembly, the
// kernel's vdso and musl: what each does to sp, x29 and the return address. The code is hostile.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/analysis/code_analysis.h"

/**
 * Call @fn for each place in @code where the rule changes, in order, from offset 0 on, as code_analysis_each() does. Functions
 * begin at the offsets @entries, sorted; where they are called; after another one's end; and at "paciasp" and "bti c". Returns 0;
 * -E2BIG past CODE_ANALYSIS_BYTES_MAX; -ENOMEM.
 */
int arm64_analysis_each(const uint8_t *code, size_t size, const uint32_t *entries,
			uint32_t entry_count, code_analysis_fn fn, void *context);
