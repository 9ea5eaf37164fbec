// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/source_line_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void source_line_cache_deinit(struct source_line_cache *table)
{
	free(table->places);
	free(table->lines);
	hash_table_deinit(&table->by_id);
	string_table_deinit(&table->strings);
	*table = (struct source_line_cache){ 0 };
}

static bool entry_has_id(const void *context, uint32_t item, const void *key)
{
	const struct source_line_cache *table = context;

	return id128_equal(table->places[item].id, *(const struct id128 *)key);
}

static struct cached_lines *find(const struct source_line_cache *table, struct id128 id)
{
	uint32_t item = hash_table_find(&table->by_id, id128_hash(id), entry_has_id, table, &id);

	return item == HASH_TABLE_NONE ? NULL : &table->places[item];
}

const struct cached_lines *source_line_cache_find(const struct source_line_cache *table,
						  struct id128 id)
{
	return find(table, id);
}

void source_line_cache_read(const struct source_line_cache *table, const struct cached_lines *known,
			    struct source_lines *ret_place)
{
	ret_place->start_offset = known->start_offset;
	ret_place->count = known->count;
	for (uint32_t i = 0; i < known->count; i++) {
		const struct line *line = &table->lines[known->first_line + i];

		ret_place->lines[i] = (struct source_line){
			.name = string_table_get(&table->strings, line->name),
			.file = string_table_get(&table->strings, line->file),
			.number = line->number,
		};
	}
}

/* Keeps the arrays' memory. */
static void evict_all(struct source_line_cache *table)
{
	string_table_deinit(&table->strings);
	hash_table_clear(&table->by_id);
	table->place_count = 0;
	table->line_count = 0;
}

int source_line_cache_ask(struct source_line_cache *table, struct id128 id, uint32_t version)
{
	struct cached_lines *known = find(table, id);

	if (known) {
		known->asked = true;
		known->version = version;
		return 0;
	}
	if (table->place_count == CACHED_LINES_MAX)
		evict_all(table);
	int rc = array_reserve(&table->places, sizeof(*table->places), &table->place_capacity,
			       table->place_count, 1, CACHED_LINES_MAX);
	if (!rc)
		rc = hash_table_add(&table->by_id, id128_hash(id), table->place_count);
	if (!rc)
		table->places[table->place_count++] =
			(struct cached_lines){ .id = id, .version = version, .asked = true };
	return rc;
}

static int add_line(struct source_line_cache *table, const struct source_line *source)
{
	int rc = table->strings.count ? 0 : string_table_init(&table->strings);

	if (!rc)
		rc = array_reserve(&table->lines, sizeof(*table->lines), &table->line_capacity,
				   table->line_count, 1, UINT32_MAX);
	if (rc)
		return rc;
	struct line *line = &table->lines[table->line_count];
	line->number = source->number;
	rc = string_table_add(&table->strings, source->name, strlen(source->name), &line->name);
	if (!rc)
		rc = string_table_add(&table->strings, source->file, strlen(source->file),
				      &line->file);
	table->line_count += rc == 0;
	return rc;
}

void source_line_cache_answer(struct source_line_cache *table, struct id128 id,
			      const struct source_lines *place)
{
	struct cached_lines *known = find(table, id);
	uint32_t first = table->line_count;

	if (!known || !known->asked)
		return;
	known->asked = false;
	known->count = 0;
	for (uint32_t i = 0; place && i < place->count; i++)
		if (add_line(table, &place->lines[i])) {
			table->line_count = first;
			return;
		}
	if (!place)
		return;
	known->start_offset = place->start_offset;
	known->first_line = first;
	known->count = (uint8_t)place->count;
}

uint64_t source_line_cache_bytes(const struct source_line_cache *table)
{
	return table->place_capacity * sizeof(*table->places) +
	       table->line_capacity * sizeof(*table->lines) + table->strings.bytes_capacity +
	       table->strings.capacity * sizeof(*table->strings.offsets) +
	       table->by_id.slot_count * sizeof(*table->by_id.slots);
}
