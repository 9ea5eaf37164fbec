// SPDX-License-Identifier: Apache-2.0
// How long instructions of AVX and AVX-512 are. They do nothing to sp and fp and are most of numeric code,
// so that following it needs no more of them. capstone decodes each in 0.5 us, and version 4 not all.
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * The length of the instruction at @code, of which @left bytes are there; 0: it is encoded otherwise, or it
 * may write to sp or fp, or it is cut short.
 */
uint32_t vector_size(const uint8_t *code, size_t left);
