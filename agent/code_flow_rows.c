// SPDX-License-Identifier: Apache-2.0
#include "code_flow_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "code_flow.h"

enum { TAKEN_MAX = 64 }; // as many as the patterns of one file may match

/* C libraries call these, of their own, at the end of a function. */
static const char *const never_return[] = {
	"abort",          "exit",       "_exit",         "_Exit",
	"quick_exit",     "longjmp",    "_longjmp",      "siglongjmp",
	"pthread_exit",   "thrd_exit",  "__assert_fail", "__stack_chk_fail",
	"__fortify_fail", "__chk_fail", "__libc_fatal",
};

static bool does_never_return(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(never_return); i++)
		if (!strcmp(name, never_return[i]))
			return true;
	return false;
}

static bool enter(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct code_flow *flow = context;
	unsigned char type = ELF64_ST_TYPE(symbol->st_info);

	if (type != STT_FUNC && type != STT_GNU_IFUNC)
		return true;
	code_flow_enter(flow, symbol->st_value);
	if (does_never_return(name))
		code_flow_never_returns(flow, symbol->st_value);
	return true;
}

/* Places that have rows already, in order. */
struct taken {
	struct unwind_range ranges[TAKEN_MAX];
	uint32_t count;
	uint32_t at; // the first that does not lie behind us
};

static int compare_ranges(const void *left, const void *right)
{
	const struct unwind_range *a = left, *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

static void find_taken(const struct unwind_rows *rows, uint32_t first, uint32_t limit,
		       struct taken *ret_taken)
{
	for (uint32_t i = first; i < limit && ret_taken->count < TAKEN_MAX; i++)
		ret_taken->ranges[ret_taken->count++] = rows->ranges[i];
	qsort(ret_taken->ranges, ret_taken->count, sizeof(*ret_taken->ranges), compare_ranges);
}

struct writer {
	struct unwind_rows *rows;
	struct taken taken;
	uint64_t address; // of the code
	uint64_t size;
	struct unwind_rule rule; // in force
	uint64_t since;          // from this offset on
};

// The rule in force holds until @limit: a range for each part of that that is not taken. Those without
// a rule are left out.
static void put(struct writer *writer, uint64_t limit)
{
	struct taken *taken = &writer->taken;
	uint64_t at = writer->since;

	while (at < limit) {
		uint64_t until = limit;

		while (taken->at < taken->count &&
		       taken->ranges[taken->at].start + taken->ranges[taken->at].size <=
			       writer->address + at)
			taken->at++;
		if (taken->at < taken->count) {
			const struct unwind_range *next = &taken->ranges[taken->at];

			if (next->start <= writer->address + at) {
				at = next->start + next->size - writer->address;
				continue;
			}
			if (next->start - writer->address < until)
				until = next->start - writer->address;
		}
		if (writer->rule.cfa != CFA_NO_TABLE) {
			unwind_rows_begin(writer->rows, writer->address + at, until - at);
			unwind_rows_add(writer->rows, 0, &writer->rule);
			unwind_rows_end(writer->rows);
		}
		at = until;
	}
}

static void take_rule(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct writer *writer = context;

	put(writer, offset);
	writer->rule = *rule;
	writer->since = offset;
}

int code_flow_rows_add(const struct elf_symbols *symbols, uint64_t address, const uint8_t *code,
		       size_t size, uint32_t first_taken, uint32_t taken_limit,
		       struct unwind_rows *rows)
{
	struct writer writer = { .rows = rows, .address = address, .size = size };
	struct code_flow *flow = NULL;
	int rc;

	if (symbols->elf->header.e_machine != EM_X86_64)
		return 0;
	rc = code_flow_open(code, size, address, &flow);
	if (rc)
		return rc == -E2BIG ? 0 : rc;
	// Without symbols nothing is entered, and nothing has a rule.
	elf_symbols_each(symbols, enter, flow);
	code_flow_run(flow);
	find_taken(rows, first_taken, taken_limit, &writer.taken);
	code_flow_each(flow, take_rule, &writer);
	put(&writer, size);
	code_flow_close(flow);
	return 0;
}
