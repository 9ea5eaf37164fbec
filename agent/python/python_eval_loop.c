// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_eval_loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/elf_symbols.h"
#include "agent/python/cold_parts.h"
#include "agent/python/python_frame_linkage.h"
#include "base/cleanup.h"

static const char loop_name[] = "_PyEval_EvalFrameDefault";
/* Python/ceval_macros.h, 3.14: each opcode is a function that ends in a jump to the next one. */
static const char opcode_prefix[] = "_TAIL_CALL_";

struct search {
	struct unwind_mark *marks;
	uint32_t count;
	Elf64_Sym loop;  // without cold parts; size 0: not found
	bool has_newref; // has Py_NewRef: 3.10 or newer
};

static void add_mark(struct search *search, uint64_t start, uint64_t size, uint8_t flags)
{
	if (!size || start + size < start || search->count == UNWIND_MARKS_MAX)
		return;
	search->marks[search->count++] = (struct unwind_mark){
		.start = start,
		.limit = start + size,
		.flags = flags,
	};
}

/* The loop and its parts with a compiler's suffix: ".cold", ".part.0". */
static bool is_loop(const char *name)
{
	size_t size = strlen(loop_name);

	return strncmp(name, loop_name, size) == 0 && (!name[size] || name[size] == '.');
}

static bool visit_symbol(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct search *search = context;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return true;
	if (strcmp(name, loop_name) == 0)
		search->loop = *symbol;
	else if (strcmp(name, "Py_NewRef") == 0)
		search->has_newref = true;
	if (strncmp(name, opcode_prefix, strlen(opcode_prefix)) == 0)
		add_mark(search, symbol->st_value, symbol->st_size,
			 RULE_PYTHON_EVAL | RULE_PYTHON_OPCODE);
	else if (is_loop(name))
		add_mark(search, symbol->st_value, symbol->st_size, RULE_PYTHON_EVAL);
	return true;
}

static int compare_marks(const void *a, const void *b)
{
	const struct unwind_mark *first = a, *second = b;

	return (first->start > second->start) - (first->start < second->start);
}

/* Sort; join marks of one kind that overlap or touch. Where two kinds overlap, the first one stays. */
static void join_marks(struct search *search)
{
	uint32_t count = 0;

	qsort(search->marks, search->count, sizeof(*search->marks), compare_marks);
	for (uint32_t i = 0; i < search->count; i++) {
		struct unwind_mark *last = count ? &search->marks[count - 1] : NULL;

		struct unwind_mark mark = search->marks[i];

		if (last && mark.start <= last->limit && mark.flags == last->flags) {
			if (mark.limit > last->limit)
				last->limit = mark.limit;
			continue;
		}
		if (last && mark.start < last->limit)
			mark.start = last->limit;
		if (mark.start < mark.limit)
			search->marks[count++] = mark;
	}
	search->count = count;
}

/* Without .symtab cold parts have no names: they are found by the loop's jumps. */
static int add_parts(const struct elf *elf, struct search *search)
{
	struct cold_part parts[COLD_PARTS_MAX];
	uint32_t known = search->count, count;

	for (uint32_t i = 0; i < known; i++) {
		uint64_t start = search->marks[i].start;
		int rc = cold_parts_find(elf, start, search->marks[i].limit - start, parts, &count);

		if (rc)
			return rc;
		for (uint32_t part = 0; part < count; part++)
			add_mark(search, parts[part].start, parts[part].size,
				 search->marks[i].flags);
	}
	return 0;
}

/* Remove [start, limit) from the marks. */
static void remove_range(struct search *search, uint64_t start, uint64_t limit)
{
	uint32_t known = search->count;

	for (uint32_t i = 0; i < known; i++) {
		struct unwind_mark *mark = &search->marks[i];

		if (start >= mark->limit || limit <= mark->start)
			continue;
		if (limit < mark->limit)
			add_mark(search, limit, mark->limit - limit, mark->flags);
		mark->limit = start > mark->start ? start : mark->start;
	}
}

/* Up to 3.9, see python_frame_linkage.h. Newer versions link frames on the C stack. */
static int remove_unlinked(const struct elf *elf, struct search *search)
{
	struct python_unlinked ranges[PYTHON_UNLINKED_MAX];
	_cleanup_free_ uint8_t *code = NULL;
	uint64_t size = search->loop.st_size;
	uint32_t count;
	int rc;

	if (elf->header.e_machine != EM_X86_64 || !size || size > FUNCTION_BYTES_MAX ||
	    search->has_newref)
		return 0;
	code = malloc(size);
	if (!code)
		return -ENOMEM;
	rc = elf_read_address(elf, search->loop.st_value, code, size);
	if (rc)
		return rc;
	count = python_frame_linkage_find(code, size, search->loop.st_value, ranges);
	for (uint32_t i = 0; i < count; i++)
		remove_range(search, ranges[i].start, ranges[i].limit);
	return 0;
}

static void drop_empty(struct search *search)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < search->count; i++) {
		if (search->marks[i].start < search->marks[i].limit)
			search->marks[count++] = search->marks[i];
	}
	search->count = count;
}

/* An interpreter exports its loop, unless it is static and exports nothing. */
static int check_exports(const struct elf_symbols *symbols)
{
	Elf64_Sym loop;
	int rc = elf_symbols_find_exported(symbols, loop_name, &loop);

	return rc == -ENOENT && !elf_symbols_has_exported(symbols) ? 0 : rc;
}

int python_eval_loop_marks(const struct elf *elf, struct unwind_mark *marks, uint32_t *ret_count)
{
	_cleanup_(elf_symbols_deinit) struct elf_symbols symbols;
	struct search search = { .marks = marks };
	int rc = elf_symbols_init(&symbols, elf);

	if (!rc)
		rc = check_exports(&symbols);
	if (!rc)
		rc = elf_symbols_each(&symbols, visit_symbol, &search);
	if (!rc)
		rc = add_parts(elf, &search);
	if (!rc) {
		join_marks(&search);
		rc = remove_unlinked(elf, &search);
	}
	if (rc == -ENOENT || rc == -ENOEXEC || rc == -E2BIG) {
		*ret_count = 0; // no interpreter, or an unreadable one
		return 0;
	}
	if (rc)
		return rc;
	drop_empty(&search);
	join_marks(&search);
	*ret_count = search.count;
	return 0;
}
