// SPDX-License-Identifier: Apache-2.0
// How long an AVX-512 instruction is: capstone 4 knows only a part of them.
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * The length of the instruction at @code, of which @left bytes are there; 0: it is none of AVX-512's, or it
 * may write to sp or fp, or it is cut short.
 */
uint32_t avx512_size(const uint8_t *code, size_t left);
