// SPDX-License-Identifier: Apache-2.0
// The dictionary of one OTLP request: strings, attributes, functions, mappings, locations and stacks, each once, when a sample first
// needs them. Entry 0 of each table is the null entry.
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/hash_table.h"
#include "base/profile/profile.h"
#include "base/string_table.h"

/** Entries of a table that are pairs of numbers of others. */
struct pair_table {
	struct hash_table index;
	struct number_pair {
		uint32_t first, second;
	} * pairs;
	uint32_t count, capacity; // without the null entry
};

struct otlp_dictionary {
	const struct profile *profile;
	struct buffer
		bytes; // of all tables, as fields of ProfilesDictionary: the message's order is free
	struct buffer entry, part; // being made
	struct string_table strings;
	struct pair_table mappings, functions, attributes;
	uint32_t *locations, *stacks;   // by the profile's: the entry, 0: none yet
	uint32_t ends[STACK_END_COUNT]; // locations that say why a stack is truncated; 0: none yet
	uint32_t location_count, stack_count;
};

/** Returns 0 or -ENOMEM; @dictionary is to be deinitialized in any case. @profile is borrowed. */
int otlp_dictionary_init(struct otlp_dictionary *dictionary, const struct profile *profile);
void otlp_dictionary_deinit(struct otlp_dictionary *dictionary);
/** Empty it for the next request. Returns 0 or -ENOMEM. */
int otlp_dictionary_clear(struct otlp_dictionary *dictionary);

/** Entries' numbers. Return 0, -ENOMEM or -E2BIG; a failure of `bytes` sticks there. */
int otlp_dictionary_text(struct otlp_dictionary *dictionary, const char *text,
			 uint32_t *ret_number);
int otlp_dictionary_attribute(struct otlp_dictionary *dictionary, const char *name,
			      const char *value, uint32_t *ret_number);
/** @stack: the profile's position. */
int otlp_dictionary_stack(struct otlp_dictionary *dictionary, uint32_t stack, uint32_t *ret_number);
