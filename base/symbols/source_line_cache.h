// SPDX-License-Identifier: Apache-2.0
// Source lines by location id: those that were read, those that are being read, and addresses that have none.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/id128.h"
#include "base/profile/profile.h"
#include "base/symbols/source_lines.h"
#include "base/string_table.h"

enum { CACHED_LINES_MAX = 1 << 17 }; // when full all are evicted, and read again on demand

struct cached_lines {
	struct id128 id;
	uint64_t start_offset;
	uint32_t first_line;
	uint32_t version; // the user's: of what it was read from
	uint8_t count;    // lines; 0: nothing is known
	bool asked;       // and not answered yet
};

/** A zeroed struct is valid and empty. */
struct source_line_cache {
	struct cached_lines *places;
	uint32_t place_count, place_capacity;
	struct hash_table by_id;
	struct line *lines;
	uint32_t line_count, line_capacity;
	struct string_table strings;
};

void source_line_cache_deinit(struct source_line_cache *table);

/** What is known of @id, NULL: it was never asked for. Valid until the next change. */
const struct cached_lines *source_line_cache_find(const struct source_line_cache *table,
						  struct id128 id);
/** The place itself, of one that has lines. Valid until the next change. */
void source_line_cache_read(const struct source_line_cache *table, const struct cached_lines *known,
			    struct source_lines *ret_place);

/** Note that @id was asked for, anew if it is known. Returns 0 or -ENOMEM. */
int source_line_cache_ask(struct source_line_cache *table, struct id128 id, uint32_t version);
/**
 * Answer a request; @place NULL: the address has no lines. An entry that was evicted meanwhile stays out.
 * Without memory nothing is known either.
 */
void source_line_cache_answer(struct source_line_cache *table, struct id128 id,
			      const struct source_lines *place);

/** Memory held, bytes. */
uint64_t source_line_cache_bytes(const struct source_line_cache *table);
