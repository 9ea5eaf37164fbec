// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/function_starts.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

/* noreturn functions of C libraries, called at the end of functions. */
static const char *const never_return[] = {
	"abort",          "exit",       "_exit",         "_Exit",
	"quick_exit",     "longjmp",    "_longjmp",      "siglongjmp",
	"pthread_exit",   "thrd_exit",  "__assert_fail", "__stack_chk_fail",
	"__fortify_fail", "__chk_fail", "__libc_fatal",
};

struct reading {
	const struct elf_symbols *symbols;
	const struct code_extent *extents;
	uint32_t extent_count;
	struct function_starts *starts;
	int rc;
};

bool code_extents_contain(const struct code_extent *extents, uint32_t count, uint64_t address)
{
	uint32_t at = 0, limit = count;

	while (at < limit) {
		uint32_t middle = at + (limit - at) / 2;

		if (extents[middle].limit <= address)
			at = middle + 1;
		else
			limit = middle;
	}
	return at < count && extents[at].start <= address;
}

static bool add_start(void *context, const char *name, const Elf64_Sym *symbol)
{
	unsigned char type = ELF64_ST_TYPE(symbol->st_info);
	struct reading *reading = context;
	struct function_starts *starts = reading->starts;

	(void)name;
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) ||
	    !code_extents_contain(reading->extents, reading->extent_count, symbol->st_value))
		return true;
	reading->rc = array_reserve(&starts->starts, sizeof(*starts->starts), &starts->capacity,
				    starts->count, 1, UINT32_MAX);
	if (reading->rc)
		return false;
	starts->starts[starts->count++] = (struct function_start){
		.address = symbol->st_value,
		.never_returns = elf_symbols_is_named(reading->symbols, symbol, never_return,
						      ARRAY_SIZE(never_return)),
	};
	return true;
}

static int compare_starts(const void *left, const void *right)
{
	const struct function_start *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

int function_starts_read(const struct elf_symbols *symbols, const struct code_extent *extents,
			 uint32_t count, struct function_starts *ret_starts)
{
	struct reading reading = {
		.symbols = symbols,
		.extents = extents,
		.extent_count = count,
		.starts = ret_starts,
	};

	*ret_starts = (struct function_starts){ 0 };
	elf_symbols_each_unnamed(symbols, add_start, &reading);
	if (ret_starts->count)
		qsort(ret_starts->starts, ret_starts->count, sizeof(*ret_starts->starts),
		      compare_starts);
	return reading.rc;
}

void function_starts_deinit(struct function_starts *starts)
{
	free(starts->starts);
	*starts = (struct function_starts){ 0 };
}

static int compare_extents(const void *left, const void *right)
{
	const struct code_extent *a = left, *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

uint32_t code_extents_join(struct code_extent *extents, uint32_t count)
{
	uint32_t kept = 0;

	qsort(extents, count, sizeof(*extents), compare_extents);
	for (uint32_t i = 0; i < count; i++) {
		struct code_extent *last = kept ? &extents[kept - 1] : NULL;

		if (!last || extents[i].start > last->limit)
			extents[kept++] = extents[i];
		else if (extents[i].limit > last->limit)
			last->limit = extents[i].limit;
	}
	return kept;
}
