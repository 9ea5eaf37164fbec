// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/process_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash_table.h"

void process_code_deinit(struct process_code *code)
{
	mapping_pages_deinit(&code->pages);
	free(code->files);
	*code = (struct process_code){ 0 };
}

static int add_file(struct process_code *code, uint32_t file)
{
	if (code->file_count && code->files[code->file_count - 1] == file)
		return 0;
	int rc = array_reserve(&code->files, sizeof(*code->files), &code->file_capacity,
			       code->file_count, 1, UINT32_MAX);
	if (rc)
		return rc;
	code->files[code->file_count++] = file;
	return 0;
}

static int collect_executable(struct process_code *code, struct unwind_tables *tables,
			      const struct mapping *mapping)
{
	uint64_t size = mapping->limit - mapping->start;
	uint32_t item = unwind_tables_want(tables, mapping->executable, size);

	if (item == HASH_TABLE_NONE)
		return -ENOMEM;
	int rc = add_file(code, item);
	if (rc)
		return rc;

	const struct unwind_file *file = unwind_tables_file(tables, item);
	code->states[file->state]++;
	if (file->state == UNWIND_FILE_READY)
		return mapping_pages_add_table(&code->pages, mapping, &file->extent, file->number);
	return mapping_pages_add(&code->pages, mapping->start, mapping->limit,
				 file->state == UNWIND_FILE_NONE ? MAPPING_CODE_NONE
								 : MAPPING_CODE_UNKNOWN);
}

static int collect_mapping(struct process_code *code, struct unwind_tables *tables,
			   const struct mapping_list *list, const struct mapping *mapping,
			   const struct jit_code *jit)
{
	uint32_t what = MAPPING_CODE_NONE;

	if (mapping->executable)
		return collect_executable(code, tables, mapping);
	if (mapping_is_jit(list, mapping))
		return jit_code_add(jit, mapping, &code->pages);
	if (mapping->file == MAPPING_FILE_UNKNOWN) {
		what = MAPPING_CODE_UNKNOWN;
		code->unidentified++;
	}
	return mapping_pages_add(&code->pages, mapping->start, mapping->limit, what);
}

static int compare_files(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

static void sort_files(struct process_code *code)
{
	uint32_t count = code->file_count;

	if (count)
		qsort(code->files, count, sizeof(*code->files), compare_files);
	code->file_count = 0;
	for (uint32_t i = 0; i < count; i++) // distinct; there is space
		add_file(code, code->files[i]);
}

static int collect(struct process_code *code, struct unwind_tables *tables,
		   const struct mapping_list *list, const struct jit_code *jit)
{
	memset(code->states, 0, sizeof(code->states));
	code->unidentified = 0;
	code->file_count = 0;
	for (uint32_t i = 0; i < list->count; i++) {
		int rc = collect_mapping(code, tables, list, &list->mappings[i], jit);
		if (rc)
			return rc;
	}
	return 0;
}

int process_code_collect(struct process_code *code, struct unwind_tables *tables,
			 const struct mapping_list *list, const struct jit_code *jit)
{
	mapping_pages_clear(&code->pages);
	int rc = collect(code, tables, list, jit);

	// Keep libraries: they lie above a program's own mappings and would be dropped.
	if (!rc && code->pages.cut) {
		mapping_pages_clear_coarse(&code->pages);
		rc = collect(code, tables, list, jit);
	}
	if (!rc)
		sort_files(code);
	return rc;
}
