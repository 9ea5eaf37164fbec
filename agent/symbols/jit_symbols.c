// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/jit_symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/symbols/jit_name.h"
#include "base/cleanup.h"

enum {
	ADDRESS_BITS = 56,             // nothing of user space lies above
	NAMES_SWEEP_BYTES = 256 << 10, // fewer are not swept
};

struct jit_symbol {
	uint64_t start;
	uint32_t size;
	uint32_t name; // its place in names
};

/* An array in the making. */
struct symbol_run {
	struct jit_symbol *symbols;
	uint32_t count, capacity;
};

struct jit_symbols {
	struct symbol_run sorted; // apart from each other
	struct symbol_run added;  // later ones, in the order in which they came
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
 * Put @newer over @older: both sorted and without overlaps, as is the result, for which there is
 * room for older_count + 2 * newer_count.
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
 * Sort @count symbols that came in this order, the later ones over the earlier: as a merge sort
 * does, but of time. @ret_symbols and @scratch have room for twice as many.
 */
static uint32_t put_in_order(const struct jit_symbol *symbols, uint32_t count,
			     struct jit_symbol *ret_symbols, struct jit_symbol *scratch)
{
	uint32_t half = count / 2;

	if (count == 1) {
		ret_symbols[0] = symbols[0];
		return 1;
	}
	uint32_t older = put_in_order(symbols, half, scratch, ret_symbols);
	uint32_t newer = put_in_order(symbols + half, count - half, scratch + 2 * half,
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
	uint32_t newer = put_in_order(added->symbols, added->count, ordered, merged);
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

static int compare_places(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

/* Where each name in use is, sorted, once: parts of one function share theirs. */
static uint32_t list_names(const struct symbol_run *sorted, uint32_t *ret_places)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sorted->count; i++)
		ret_places[i] = sorted->symbols[i].name;
	qsort(ret_places, sorted->count, sizeof(*ret_places), compare_places);
	for (uint32_t i = 0; i < sorted->count; i++)
		if (!count || ret_places[count - 1] != ret_places[i])
			ret_places[count++] = ret_places[i];
	return count;
}

/* Move the names in use to the front. @places become where they were, @moved where they are. */
static void move_names(struct jit_symbols *symbols, const uint32_t *places, uint32_t *moved,
		       uint32_t count)
{
	uint32_t size = 0;

	for (uint32_t i = 0; i < count; i++) {
		size_t length = strlen(symbols->names + places[i]) + 1;

		memmove(symbols->names + size, symbols->names + places[i], length);
		moved[i] = size;
		size += (uint32_t)length;
	}
	symbols->names_size = size;
}

/* Let go of the names of functions that have gone. */
static int sweep_names(struct jit_symbols *symbols)
{
	struct symbol_run *sorted = &symbols->sorted;
	int rc = merge_added(symbols);

	if (rc)
		return rc;
	_cleanup_free_ uint32_t *places = calloc(sorted->count + 1, sizeof(*places));
	_cleanup_free_ uint32_t *moved = calloc(sorted->count + 1, sizeof(*moved));
	if (!places || !moved)
		return -ENOMEM;
	uint32_t count = list_names(sorted, places);
	move_names(symbols, places, moved, count);
	for (uint32_t i = 0; i < sorted->count; i++) {
		const uint32_t *place = bsearch(&sorted->symbols[i].name, places, count,
						sizeof(*places), compare_places);

		sorted->symbols[i].name = moved[place - places];
	}
	symbols->names_swept = symbols->names_size;
	return 0;
}

/* Sweeping costs as much as what is left: only when that was half at most, or there is no room. */
static bool is_worth_sweeping(const struct jit_symbols *symbols, size_t needed)
{
	uint32_t size = symbols->names_size, swept = symbols->names_swept;

	return (size > NAMES_SWEEP_BYTES && size / 2 > swept) ||
	       (needed > JIT_NAMES_BYTES_MAX && size > swept + swept / 8);
}

static int make_room_for_name(struct jit_symbols *symbols, size_t size)
{
	if (is_worth_sweeping(symbols, symbols->names_size + size)) {
		int rc = sweep_names(symbols);
		if (rc)
			return rc;
	}
	size_t needed = symbols->names_size + size;
	if (needed > JIT_NAMES_BYTES_MAX)
		return -E2BIG;
	if (needed <= symbols->names_capacity)
		return 0;
	size_t capacity = needed + needed / 2 + 1024;
	char *names = realloc(symbols->names, capacity);
	if (!names)
		return -ENOMEM;
	symbols->names = names;
	symbols->names_capacity = (uint32_t)capacity;
	return 0;
}

static uint32_t append_name(struct jit_symbols *symbols, const char *name, size_t size)
{
	uint32_t place = symbols->names_size;

	memcpy(symbols->names + place, name, size);
	size = jit_name_clean(symbols->names + place, size);
	symbols->names[place + size] = '\0';
	symbols->names_size += (uint32_t)size + 1;
	return place;
}

// ---- public ---------------------------------------------------------------------------------

static int make_room_for_symbol(struct jit_symbols *symbols)
{
	struct symbol_run *added = &symbols->added;

	if (symbols->sorted.count + added->count >= JIT_SYMBOLS_MAX) {
		int rc = merge_added(symbols);
		if (rc)
			return rc;
		if (symbols->sorted.count >= JIT_SYMBOLS_MAX)
			return -E2BIG;
	}
	if (added->count < added->capacity)
		return 0;
	uint32_t capacity = added->capacity ? added->capacity * 2 : 64;
	struct jit_symbol *grown = reallocarray(added->symbols, capacity, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	added->symbols = grown;
	added->capacity = capacity;
	return 0;
}

int jit_symbols_add(struct jit_symbols *symbols, uint64_t start, uint64_t size, const char *name,
		    size_t name_size)
{
	name_size = strnlen(name, name_size < JIT_NAME_BYTES_MAX ? name_size : JIT_NAME_BYTES_MAX);
	if (!size || size > UINT32_MAX || start >> ADDRESS_BITS || !name_size)
		return 0;
	int rc = make_room_for_name(symbols, name_size + 1);
	if (!rc)
		rc = make_room_for_symbol(symbols);
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
