// SPDX-License-Identifier: Apache-2.0
// What source addresses in files came from, remembered by location id: what was read, what is
// being asked, and that there is nothing to know.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/id128.h"
#include "base/profile.h"
#include "base/source_lines.h"
#include "base/string_table.h"

enum { PLACES_MAX = 1 << 17 }; // when full all are forgotten, and read again if asked for

struct known_place {
	struct id128 id;
	uint64_t start_offset;
	uint32_t first_line;
	uint32_t version; // the user's: of what it was read from
	uint8_t count;    // lines; 0: nothing is known
	bool asked;       // and not answered yet
};

/** A zeroed struct is valid and empty. */
struct place_table {
	struct known_place *places;
	uint32_t place_count, place_capacity;
	struct hash_table by_id;
	struct line *lines;
	uint32_t line_count, line_capacity;
	struct string_table strings;
};

void place_table_deinit(struct place_table *table);

/** What is known of @id, NULL: it was never asked for. Valid until the next change. */
const struct known_place *place_table_find(const struct place_table *table, struct id128 id);
/** The place itself, of one that has lines. Valid until the next change. */
void place_table_read(const struct place_table *table, const struct known_place *known,
		      struct source_place *ret_place);

/** Note that @id was asked for, anew if it is known. Returns 0 or -ENOMEM. */
int place_table_ask(struct place_table *table, struct id128 id, uint32_t version);
/**
 * Answer what was asked; @place NULL: nothing is known. What was forgotten meanwhile stays so.
 * Without memory nothing is known either.
 */
void place_table_answer(struct place_table *table, struct id128 id,
			const struct source_place *place);

/** Memory held, bytes. */
uint64_t place_table_bytes(const struct place_table *table);
