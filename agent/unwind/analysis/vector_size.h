// SPDX-License-Identifier: Apache-2.0
// Lengths of AVX and AVX-512 instructions. They do nothing to sp and fp, numeric code is full of them, and capstone takes
// 0.5 us for each; version 4 does not know all.
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Length of the instruction at @code, @left bytes; 0: another encoding, truncated, or it may write to sp or fp. */
uint32_t vector_size(const uint8_t *code, size_t left);
