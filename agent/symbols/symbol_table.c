// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/symbol_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* How many symbols may begin between an address and the start of the function around it. */
enum { ENCLOSING_LOOKS = 32 };

/* Three of them make an offset. */
enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

struct entry {
	uint32_t offset; // from table->base
	uint32_t size;
	uint32_t name; // offset in its pool | pool << NAME_OFFSET_BITS
};

struct symbol_table {
	uint64_t base; // file offset of the lowest executable segment
	struct name_pool_range pools[NAME_POOL_COUNT];
	bool complete;
	uint32_t count;
	struct entry entries[];
};

void symbol_table_free(struct symbol_table *table)
{
	free(table);
}

/* Of two at the same address. */
static bool is_better(const struct listed_symbol *a, const struct listed_symbol *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->name < b->name; // the better pool first
}

/* One pass of a radix sort, by the offset's digit at @shift. */
static void sort_by_digit(const struct listed_symbol *from, struct listed_symbol *to,
			  uint32_t count, uint32_t shift)
{
	uint32_t places[DIGITS] = { 0 }, place = 0;

	for (uint32_t i = 0; i < count; i++)
		places[from[i].offset >> shift & (DIGITS - 1)]++;
	for (uint32_t i = 0; i < DIGITS; i++) {
		uint32_t here = places[i];

		places[i] = place;
		place += here;
	}
	for (uint32_t i = 0; i < count; i++)
		to[places[from[i].offset >> shift & (DIGITS - 1)]++] = from[i];
}

/*
 * libtorch has 350,000 functions: reading them blocks the main loop for 54 ms, with qsort() it was 130 ms. The
 * memory is the same.
 */
static int sort_symbols(struct symbol_list *list)
{
	struct listed_symbol *sorted = malloc(((size_t)list->count + 1) * sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	sort_by_digit(list->symbols, sorted, list->count, 0);
	sort_by_digit(sorted, list->symbols, list->count, DIGIT_BITS);
	sort_by_digit(list->symbols, sorted, list->count, 2 * DIGIT_BITS);
	free(list->symbols);
	list->symbols = sorted;
	list->capacity = list->count;
	return 0;
}

/* One entry per address, the best; without a size it ends at the next one. */
static struct symbol_table *build(struct symbol_list *list)
{
	uint32_t kept = 0;

	if (sort_symbols(list))
		return NULL;
	struct listed_symbol *symbols = list->symbols;
	for (uint32_t i = 0; i < list->count; i++) {
		if (i == 0 || symbols[i].offset != symbols[kept - 1].offset)
			symbols[kept++] = symbols[i];
		else if (is_better(&symbols[i], &symbols[kept - 1]))
			symbols[kept - 1] = symbols[i];
	}

	struct symbol_table *table = malloc(sizeof(*table) + kept * sizeof(struct entry));
	if (!table)
		return NULL;
	table->base = list->base;
	memcpy(table->pools, list->pools, sizeof(table->pools));
	table->complete = list->complete;
	table->count = kept;
	for (uint32_t i = 0; i < kept; i++) {
		struct entry *entry = &table->entries[i];

		*entry = (struct entry){ symbols[i].offset, symbols[i].size, symbols[i].name };
		if (!symbols[i].sized && i + 1 < kept &&
		    entry->size > symbols[i + 1].offset - entry->offset)
			entry->size = symbols[i + 1].offset - entry->offset;
	}
	return table;
}

int symbol_table_read(const struct symbol_sources *sources, struct symbol_table **ret_table)
{
	_cleanup_(symbol_list_deinit) struct symbol_list list;
	int rc = symbol_list_read(sources, &list);

	if (rc)
		return rc;
	struct symbol_table *table = build(&list);
	if (!table)
		return -ENOMEM;
	*ret_table = table;
	return 0;
}

/* How many entries begin at or before @offset. */
static uint32_t count_up_to(const struct symbol_table *table, uint32_t offset)
{
	uint32_t low = 0, high = table->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table->entries[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int symbol_table_find(const struct symbol_table *table, uint64_t offset,
		      struct symbol_range *ret_range)
{
	if (offset < table->base || offset - table->base > UINT32_MAX)
		return -ENOENT;

	uint32_t target = (uint32_t)(offset - table->base);
	uint32_t index = count_up_to(table, target);
	for (uint32_t looks = 0; index-- && looks < ENCLOSING_LOOKS; looks++) {
		const struct entry *entry = &table->entries[index];

		if (target - entry->offset >= entry->size)
			continue;
		*ret_range = (struct symbol_range){
			.start_offset = table->base + entry->offset,
			.size = entry->size,
			.index = index,
		};
		return 0;
	}
	return -ENOENT;
}

int symbol_table_read_name(const struct symbol_table *table, int fd, int debug_fd, uint32_t index,
			   char ret_name[SYMBOL_NAME_BYTES])
{
	const struct entry *entry = &table->entries[index];
	uint32_t pool = entry->name >> NAME_OFFSET_BITS;
	const struct name_pool_range *names = &table->pools[pool];
	uint32_t offset = entry->name & (NAME_OFFSET_MAX - 1);
	uint64_t space = names->size - offset; // offset is within: checked when it was listed
	size_t size = space < SYMBOL_NAME_BYTES - 1 ? space : SYMBOL_NAME_BYTES - 1;
	ssize_t count;

	if (pool == NAME_POOL_DEBUG)
		fd = debug_fd;
	// Most names are short: a second read for the few long ones is cheaper than reading 4 KiB for each.
	size_t first = size < 256 ? size : 256;
	do
		count = pread(fd, ret_name, first, (off_t)(names->offset + offset));
	while (count < 0 && errno == EINTR);
	if (count == (ssize_t)first && first < size && !memchr(ret_name, 0, first))
		count = pread(fd, ret_name, size, (off_t)(names->offset + offset));
	if (count < 0)
		return -errno;
	ret_name[count] = '\0';
	return ret_name[0] ? 0 : -ENOENT;
}

bool symbol_table_is_complete(const struct symbol_table *table)
{
	return table->complete;
}

uint32_t symbol_table_count(const struct symbol_table *table)
{
	return table->count;
}

size_t symbol_table_bytes(const struct symbol_table *table)
{
	return sizeof(*table) + table->count * sizeof(struct entry);
}
