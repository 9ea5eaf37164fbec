// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/jit_symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbols/jit_name.h"
#include "base/array.h"
#include "base/cleanup.h"

enum {
	ADDRESS_BITS = 56,             // nothing of user space lies above
	NAMES_SWEEP_BYTES = 256 << 10, // less is not swept
	// Merging at JIT_SYMBOLS_MAX must make this much room, or the list is full: else each function costs a merge.
	MERGE_ROOM = JIT_SYMBOLS_MAX / 16,
};

struct jit_symbol {
	uint64_t start;
	uint32_t size;
	uint32_t name; // offset in names
};

struct symbol_run {
	struct jit_symbol *symbols;
	uint32_t count, capacity;
};

struct jit_symbols {
	struct symbol_run sorted; // without overlaps
	struct symbol_run added;  // newer ones, in the order in which they came
	char *names;              // each with its NUL
	uint32_t names_size, names_capacity;
	uint32_t names_swept; // size after the last sweep
};

// ---- life -----------------------------------------------------------------------------------

struct jit_symbols *jit_symbols_new(void)
{
	return calloc(1, sizeof(struct jit_symbols));
}

void jit_symbols_clear(struct jit_symbols *symbols)
{
	free(symbols->sorted.symbols);
	free(symbols->added.symbols);
	free(symbols->names);
	*symbols = (struct jit_symbols){ 0 };
}

void jit_symbols_free(struct jit_symbols *symbols)
{
	if (!symbols)
		return;
	jit_symbols_clear(symbols);
	free(symbols);
}

size_t jit_symbols_bytes(const struct jit_symbols *symbols)
{
	size_t count = (size_t)symbols->sorted.capacity + symbols->added.capacity;

	return count * sizeof(struct jit_symbol) + symbols->names_capacity;
}

// ---- overlaying -----------------------------------------------------------------------------

static uint64_t limit_of(const struct jit_symbol *symbol)
{
	return symbol->start + symbol->size;
}

static struct jit_symbol part_of(const struct jit_symbol *symbol, uint64_t start, uint64_t limit)
{
	return (struct jit_symbol){ start, (uint32_t)(limit - start), symbol->name };
}

/*
 * Lay @newer over @older. Both and the result are sorted, without overlaps. @ret_symbols has room for
 * older_count + 2 * newer_count.
 */
static uint32_t overlay(const struct jit_symbol *older, uint32_t older_count,
			const struct jit_symbol *newer, uint32_t newer_count,
			struct jit_symbol *ret_symbols)
{
	uint32_t count = 0, at = 0; // `at` in newer

	for (uint32_t i = 0; i < older_count; i++) {
		struct jit_symbol left = older[i]; // what is left of it

		while (left.size) {
			while (at < newer_count && limit_of(&newer[at]) <= left.start)
				ret_symbols[count++] = newer[at++];
			if (at == newer_count || newer[at].start >= limit_of(&left)) {
				ret_symbols[count++] = left;
				break;
			}
			if (left.start < newer[at].start)
				ret_symbols[count++] = part_of(&left, left.start, newer[at].start);
			uint64_t covered = limit_of(&newer[at]);
			if (covered >= limit_of(&left))
				break;
			left = part_of(&left, covered, limit_of(&left));
		}
	}
	while (at < newer_count)
		ret_symbols[count++] = newer[at++];
	return count;
}

/*
 * Sort @count symbols by address, the later over the earlier: a merge sort in which overlay() merges.
 * @ret_symbols and @scratch have room for twice as many.
 */
static uint32_t overlay_all(const struct jit_symbol *symbols, uint32_t count,
			    struct jit_symbol *ret_symbols, struct jit_symbol *scratch)
{
	uint32_t half = count / 2;

	if (count == 1) {
		ret_symbols[0] = symbols[0];
		return 1;
	}
	uint32_t older = overlay_all(symbols, half, scratch, ret_symbols);
	uint32_t newer = overlay_all(symbols + half, count - half, scratch + 2 * half,
				     ret_symbols + 2 * half);
	return overlay(scratch, older, scratch + 2 * half, newer, ret_symbols);
}

static int merge_added(struct jit_symbols *symbols)
{
	struct symbol_run *sorted = &symbols->sorted, *added = &symbols->added;
	uint32_t room = sorted->count + 4 * added->count;

	if (!added->count)
		return 0;
	_cleanup_free_ struct jit_symbol *ordered =
		reallocarray(NULL, added->count, 2 * sizeof(*ordered));
	_cleanup_free_ struct jit_symbol *merged = reallocarray(NULL, room, sizeof(*merged));
	if (!ordered || !merged)
		return -ENOMEM;
	uint32_t newer = overlay_all(added->symbols, added->count, ordered, merged);
	uint32_t count = overlay(sorted->symbols, sorted->count, ordered, newer, merged);

	struct jit_symbol *shrunk = reallocarray(merged, count, sizeof(*merged));
	if (shrunk)
		merged = shrunk;
	free(sorted->symbols);
	*sorted = (struct symbol_run){ take(merged), count, shrunk ? count : room };
	free(added->symbols);
	*added = (struct symbol_run){ 0 };
	return 0;
}

// ---- names ----------------------------------------------------------------------------------

static int compare_offsets(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

/* The offsets of names in use, sorted, each once: parts of a function share a name. */
static uint32_t list_names(const struct symbol_run *sorted, uint32_t *ret_offsets)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sorted->count; i++)
		ret_offsets[i] = sorted->symbols[i].name;
	qsort(ret_offsets, sorted->count, sizeof(*ret_offsets), compare_offsets);
	for (uint32_t i = 0; i < sorted->count; i++)
		if (!count || ret_offsets[count - 1] != ret_offsets[i])
			ret_offsets[count++] = ret_offsets[i];
	return count;
}

/* Move the names at @offsets to the front; @moved are their new offsets. */
static void move_names(struct jit_symbols *symbols, const uint32_t *offsets, uint32_t *moved,
		       uint32_t count)
{
	uint32_t size = 0;

	for (uint32_t i = 0; i < count; i++) {
		size_t length = strlen(symbols->names + offsets[i]) + 1;

		memmove(symbols->names + size, symbols->names + offsets[i], length);
		moved[i] = size;
		size += (uint32_t)length;
	}
	symbols->names_size = size;
}

/* Free the names of replaced functions. */
static int sweep_names(struct jit_symbols *symbols)
{
	struct symbol_run *sorted = &symbols->sorted;
	int rc = merge_added(symbols);

	if (rc)
		return rc;
	_cleanup_free_ uint32_t *offsets = calloc(sorted->count + 1, sizeof(*offsets));
	_cleanup_free_ uint32_t *moved = calloc(sorted->count + 1, sizeof(*moved));
	if (!offsets || !moved)
		return -ENOMEM;
	uint32_t count = list_names(sorted, offsets);
	move_names(symbols, offsets, moved, count);
	for (uint32_t i = 0; i < sorted->count; i++) {
		const uint32_t *offset = bsearch(&sorted->symbols[i].name, offsets, count,
						 sizeof(*offsets), compare_offsets);

		sorted->symbols[i].name = moved[offset - offsets];
	}
	symbols->names_swept = symbols->names_size;
	return 0;
}

/* A sweep costs time for the names it keeps: only when they are half at most, or names are full. */
static bool is_worth_sweeping(const struct jit_symbols *symbols, size_t needed)
{
	uint32_t size = symbols->names_size, swept = symbols->names_swept;

	return (size > NAMES_SWEEP_BYTES && size / 2 > swept) ||
	       (needed > JIT_NAMES_BYTES_MAX && size > swept + swept / 8);
}

static int reserve_name(struct jit_symbols *symbols, size_t size)
{
	if (is_worth_sweeping(symbols, symbols->names_size + size)) {
		int rc = sweep_names(symbols);
		if (rc)
			return rc;
	}
	return array_reserve(&symbols->names, 1, &symbols->names_capacity, symbols->names_size,
			     (uint32_t)size, JIT_NAMES_BYTES_MAX);
}

static uint32_t append_name(struct jit_symbols *symbols, const char *name, size_t size)
{
	uint32_t offset = symbols->names_size;

	memcpy(symbols->names + offset, name, size);
	size = jit_name_clean(symbols->names + offset, size);
	symbols->names[offset + size] = '\0';
	symbols->names_size += (uint32_t)size + 1;
	return offset;
}

// ---- public ---------------------------------------------------------------------------------

static int reserve_symbol(struct jit_symbols *symbols)
{
	struct symbol_run *added = &symbols->added;

	if (symbols->sorted.count + added->count >= JIT_SYMBOLS_MAX) {
		int rc = merge_added(symbols);
		if (rc)
			return rc;
		if (symbols->sorted.count > JIT_SYMBOLS_MAX - MERGE_ROOM)
			return -E2BIG;
	}
	return array_reserve(&added->symbols, sizeof(*added->symbols), &added->capacity,
			     added->count, 1, JIT_SYMBOLS_MAX);
}

int jit_symbols_add(struct jit_symbols *symbols, uint64_t start, uint64_t size, const char *name,
		    size_t name_size)
{
	name_size = strnlen(name, name_size < JIT_NAME_BYTES_MAX ? name_size : JIT_NAME_BYTES_MAX);
	if (!size || size > UINT32_MAX || start >> ADDRESS_BITS || !name_size)
		return 0;
	int rc = reserve_name(symbols, name_size + 1);
	if (!rc)
		rc = reserve_symbol(symbols);
	if (rc)
		return rc;
	symbols->added.symbols[symbols->added.count++] = (struct jit_symbol){
		.start = start,
		.size = (uint32_t)size,
		.name = append_name(symbols, name, name_size),
	};
	return 0;
}

const char *jit_symbols_find(struct jit_symbols *symbols, uint64_t address)
{
	uint32_t low = 0;

	merge_added(symbols); // out of memory: those added last are not found yet
	for (uint32_t high = symbols->sorted.count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (limit_of(&symbols->sorted.symbols[middle]) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == symbols->sorted.count || symbols->sorted.symbols[low].start > address)
		return NULL;
	return symbols->names + symbols->sorted.symbols[low].name;
}
