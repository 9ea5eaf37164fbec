// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/callee_saved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "agent/unwind/cfi.h"

enum {
	REGISTER_RBX = 3,
	RANGES_MAX = 20000,        // per file: glibc's libc has 6,000, ld.so 600, libtorch 700,000
	CALLERS_MAX = 256,         // ld.so has six
	CALLS_MAX = 4096,          // ld.so has eleven in them
	FUNCTION_BYTES_MAX = 4096, // the largest has 1003
	CALL_BYTES = 5,            // e8, and the distance
	SAVED_WITHIN_BYTES = 32,   // of a function: registers are saved first
	CALLEE_ROWS_MAX = 1 << 18,
};

/* A call in such a function. */
struct call {
	uint64_t address;
	uint64_t callee;
};

struct call_list {
	const struct elf *elf;
	uint32_t callers[CALLERS_MAX]; // indices of their ranges
	uint32_t
		call_limits[CALLERS_MAX]; // end of each caller's calls in `calls`: code may overlap
	uint32_t caller_count;
	struct call calls[CALLS_MAX]; // sorted, as their callers
	uint32_t count;
	uint64_t callees[CALLS_MAX]; // sorted, distinct
	uint32_t callee_count;
};

static void unwind_rows_freep(struct unwind_rows **rows)
{
	unwind_rows_free(*rows);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static bool hangs_on_register(const struct unwind_rule *rule)
{
	return rule->cfa == CFA_REGISTER && rule->cfa_register == REGISTER_RBX &&
	       rule->cfa_offset == (int16_t)rule->cfa_offset;
}

static bool has_such_rules(const struct unwind_rows *rows)
{
	for (uint32_t i = 0; i < rows->rule_count; i++)
		if (hangs_on_register(&rows->rules[i]))
			return true;
	return false;
}

static bool is_such(const struct unwind_rows *rows, const struct unwind_range *range)
{
	struct unwind_row_cursor cursor = unwind_rows_first(rows, range);

	do {
		if (hangs_on_register(&rows->rules[cursor.rule]))
			return range->size <= FUNCTION_BYTES_MAX;
	} while (unwind_rows_next(&cursor));
	return false;
}

/* The function that the call at @at goes to; 0: no call, or of a function without rows. */
static uint64_t callee_at(const struct unwind_rows *rows, const uint8_t *at, uint64_t address)
{
	int32_t distance;

	if (*at != 0xe8)
		return 0;
	memcpy(&distance, at + 1, sizeof(distance));
	uint64_t target = address + CALL_BYTES + (uint64_t)(int64_t)distance;
	uint32_t index = unwind_rows_find(rows, target);

	return index < rows->sorted_count && rows->ranges[index].start == target ? target : 0;
}

/* Unreadable code and too many calls keep their rules. */
static void find_calls_of(const struct unwind_rows *rows, uint32_t index, struct call_list *list)
{
	const struct unwind_range *range = &rows->ranges[index];
	const Elf64_Phdr *load = elf_find_code(list->elf, range->start);
	uint8_t code[FUNCTION_BYTES_MAX];

	if (!load || list->caller_count == CALLERS_MAX ||
	    elf_read(list->elf, elf_file_offset(load, range->start), code, range->size))
		return;
	for (uint32_t at = 0; at + CALL_BYTES <= range->size && list->count < CALLS_MAX; at++) {
		uint64_t callee = callee_at(rows, code + at, range->start + at);

		if (!callee)
			continue;
		list->calls[list->count++] = (struct call){ range->start + at, callee };
		at += CALL_BYTES - 1;
	}
	list->callers[list->caller_count] = index;
	list->call_limits[list->caller_count++] = list->count;
}

static int compare_addresses(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static void list_callees(struct call_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		list->callees[i] = list->calls[i].callee;
	qsort(list->callees, list->count, sizeof(*list->callees), compare_addresses);
	for (uint32_t i = 0; i < list->count; i++)
		if (!i || list->callees[i] != list->callees[i - 1])
			list->callees[list->callee_count++] = list->callees[i];
}

static void find_calls(const struct unwind_rows *rows, struct call_list *list)
{
	for (uint32_t i = 0; i < rows->sorted_count; i++)
		if (is_such(rows, &rows->ranges[i]))
			find_calls_of(rows, i, list);
	list_callees(list);
}

/* ---- the callees ----------------------------------------------------------------------------- */

/*
 * Does it save the register at once and for good? In @callees that register has the frame pointer's place.
 */
static bool find_place(const struct unwind_rows *callees, uint64_t callee, int32_t *ret_offset)
{
	uint32_t index = unwind_rows_find(callees, callee);
	bool is_saved = false;

	if (index == callees->sorted_count || callees->ranges[index].start != callee)
		return false;
	struct unwind_row_cursor cursor = unwind_rows_first(callees, &callees->ranges[index]);
	do {
		const struct unwind_rule *rule = &callees->rules[cursor.rule];
		bool is_at_cfa = (rule->saved & 15) == SAVED_AT_CFA;

		if (is_at_cfa && !is_saved && cursor.offset > SAVED_WITHIN_BYTES)
			return false;
		if (is_saved && (!is_at_cfa || rule->fp_offset != *ret_offset))
			return false;
		*ret_offset = rule->fp_offset;
		is_saved = is_at_cfa;
	} while (unwind_rows_next(&cursor));
	return is_saved;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The rows of calls in the code up to @limit, where rule @number holds. Returns the first call after it. */
static uint32_t add_calls(const struct call_list *list, uint32_t call, uint32_t call_limit,
			  uint64_t start, uint64_t limit, uint32_t number,
			  const struct unwind_rows *callees, struct unwind_rows *rows)
{
	for (; call < call_limit && list->calls[call].address < limit; call++) {
		uint64_t behind = list->calls[call].address + CALL_BYTES;
		struct unwind_rule rule = rows->rules[number];
		int32_t offset;

		if (!hangs_on_register(&rule) || behind > limit ||
		    !find_place(callees, list->calls[call].callee, &offset))
			continue;
		rule.cfa = CFA_DEREF; // of the callee's CFA: sp after its return
		rule.cfa_register = X86_REGISTER_SP;
		rule.deref_offset = (int16_t)rule.cfa_offset;
		rule.cfa_offset = offset;
		// Return addresses are looked up by the byte before.
		unwind_rows_add(rows, behind - 1 - start, &rule);
		if (behind < limit)
			unwind_rows_add_number(rows, behind - start, number);
	}
	return call;
}

/* Writes all rows of caller @caller again, with those of its calls. */
static void add_caller(const struct call_list *list, uint32_t caller,
		       const struct unwind_rows *callees, struct unwind_rows *rows)
{
	uint32_t index = list->callers[caller], call = caller ? list->call_limits[caller - 1] : 0;
	const struct unwind_range range = rows->ranges[index];
	struct unwind_row_cursor cursor = unwind_rows_first(rows, &range);
	bool has_next = true;

	unwind_rows_begin(rows, range.start, range.size);
	while (has_next && !rows->rc) {
		uint32_t at = cursor.offset, number = cursor.rule;

		has_next = unwind_rows_next(&cursor);
		uint32_t limit = has_next ? cursor.offset : range.size;
		size_t read = (size_t)(cursor.at - rows->rows); // adding may move all rows
		unwind_rows_add_number(rows, at, number);
		call = add_calls(list, call, list->call_limits[caller], range.start,
				 range.start + limit, number, callees, rows);
		cursor.at = rows->rows + read;
	}
	unwind_rows_end(rows);
	unwind_rows_move_last(rows, index);
}

int callee_saved_add(const struct elf *elf, struct unwind_rows *rows, struct error *err)
{
	_cleanup_(unwind_rows_freep) struct unwind_rows *callees = NULL;
	_cleanup_free_ struct call_list *list = NULL;

	if (elf->header.e_machine != EM_X86_64 || rows->sorted_count > RANGES_MAX ||
	    !has_such_rules(rows))
		return 0;
	list = calloc(1, sizeof(*list));
	callees = unwind_rows_new(CALLEE_ROWS_MAX);
	if (!list || !callees)
		return error_set(err, -ENOMEM, "out of memory");
	list->elf = elf;
	find_calls(rows, list);
	int rc = cfi_read_functions(elf, list->callees, list->callee_count, REGISTER_RBX, callees,
				    err);
	if (rc)
		return rc;
	unwind_rows_sort(callees);
	for (uint32_t i = 0; i < list->caller_count; i++)
		add_caller(list, i, callees, rows);
	return rows->rc ? error_set(err, rows->rc, "unwind table: too many rows") : 0;
}
