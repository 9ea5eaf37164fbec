// SPDX-License-Identifier: Apache-2.0
// How far two names are from each other: for "did you mean".
#pragma once

#include <stdint.h>

enum { EDIT_DISTANCE_BYTES_MAX = 128 }; // of each name; what follows is not compared

/** Levenshtein's distance: bytes to insert, remove or replace to make @b of @a. */
uint32_t edit_distance(const char *a, const char *b);

/** Further away than this from what was typed, a name is another word, not a slip of @typed. */
uint32_t edit_distance_of_slip(const char *typed);
