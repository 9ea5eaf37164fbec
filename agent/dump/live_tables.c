// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/live_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "agent/python/python_eval_loop.h"
#include "agent/unwind/unwind_table_build.h"

/* ---- mapping pages ------------------------------------------------------------------------- */

static int lay_out_range(struct live_tables *tables, const struct live_range *range)
{
	const struct mapping *mapping = &range->mapping;
	uint32_t code = range->is_jit ? MAPPING_CODE_JIT : MAPPING_CODE_NONE;
	const struct live_file *file;

	if (range->file != LIVE_NO_FILE) {
		file = &tables->files[range->file];
		if (file->state == LIVE_FILE_BUILT)
			return mapping_pages_add_table(&tables->layout, mapping, &file->extent,
						       range->file);
		code = file->state == LIVE_FILE_NONE ? MAPPING_CODE_NONE : MAPPING_CODE_UNKNOWN;
	}
	return mapping_pages_add(&tables->layout, mapping->start, mapping->limit, code);
}

static int lay_out_pages(struct live_tables *tables)
{
	int rc = 0;

	mapping_pages_clear(&tables->layout);
	for (uint32_t i = 0; i < tables->range_count && !rc; i++)
		rc = lay_out_range(tables, &tables->ranges[i]);
	if (rc)
		return rc;

	uint32_t count = mapping_pages_count(&tables->layout);
	struct mapping_page *pages = calloc(count + 1, sizeof(*pages));
	if (!pages)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		mapping_pages_write(&tables->layout, i, &pages[i]);
	free(tables->pages);
	tables->pages = pages;
	tables->page_count = count;
	return 0;
}

/* ---- files --------------------------------------------------------------------------------- */

/* A process has some hundred files, and the last one is mostly the one. */
static int number_of(struct live_tables *tables, struct executable *executable, uint32_t *ret_file)
{
	for (uint32_t i = tables->file_count; i-- > 0;)
		if (tables->files[i].executable == executable) {
			*ret_file = i;
			return 0;
		}
	if (array_reserve(&tables->files, sizeof(*tables->files), &tables->file_capacity,
			  tables->file_count, 1, UINT32_MAX))
		return -ENOMEM;
	*ret_file = tables->file_count++;
	tables->files[*ret_file] = (struct live_file){ .executable = executable_hold(executable) };
	return 0;
}

int live_tables_init(struct live_tables *tables, const struct mapping_list *mappings,
		     struct unwind_table_cache *cache)
{
	uint32_t count = mappings ? mappings->count : 0;
	int rc = 0;

	*tables = (struct live_tables){ .cache = cache };
	tables->ranges = calloc(count + 1, sizeof(*tables->ranges));
	if (!tables->ranges)
		return -ENOMEM;
	for (uint32_t i = 0; i < count && !rc; i++) {
		const struct mapping *mapping = &mappings->mappings[i];
		struct live_range *range = &tables->ranges[tables->range_count++];

		*range = (struct live_range){
			.mapping = *mapping,
			.file = LIVE_NO_FILE,
			.is_jit = mapping_is_jit(mappings, mapping),
		};
		if (mapping->executable)
			rc = number_of(tables, mapping->executable, &range->file);
	}
	if (!rc)
		rc = lay_out_pages(tables);
	if (rc)
		live_tables_deinit(tables);
	return rc;
}

void live_tables_deinit(struct live_tables *tables)
{
	for (uint32_t i = 0; i < tables->file_count; i++) {
		executable_release(tables->files[i].executable);
		unwind_table_free(tables->files[i].table);
		free(tables->files[i].pages);
	}
	free(tables->files);
	free(tables->ranges);
	free(tables->pages);
	mapping_pages_deinit(&tables->layout);
	*tables = (struct live_tables){ 0 };
}

/* ---- tables -------------------------------------------------------------------------------- */

/* Pages are whole, whatever the last of the words. */
static int use_words(struct live_file *file)
{
	uint32_t count = file->table->word_count;

	file->page_count = (count + TABLE_PAGE_WORDS - 1) / TABLE_PAGE_WORDS;
	file->pages = calloc(file->page_count + 1, sizeof(*file->pages));
	if (!file->pages)
		return -ENOMEM;
	memcpy(file->pages, file->table->words, count * sizeof(*file->table->words));
	free(file->table->words);
	file->table->words = NULL;
	return 0;
}

static void keep_extent(struct live_file *file, const struct elf *elf)
{
	struct unwind_extent *extent = &file->extent;

	extent->first_address = file->table->first_address;
	extent->block_count = file->table->block_count;
	extent->segment_count = unwind_segments_of(elf, extent->segments);
}

static int find_or_build(const struct live_tables *tables, struct live_file *file,
			 const struct elf *elf, const struct file_version *version,
			 const struct unwind_mark *marks, uint32_t mark_count)
{
	uint64_t marks_hash = unwind_marks_hash(marks, mark_count);
	const char *key = file->executable->key;

	if (tables->cache &&
	    unwind_table_cache_find(tables->cache, key, marks_hash, &file->table) == 0)
		return 0;
	uint64_t began_ns = clock_thread_cpu_ns();
	int rc = unwind_table_build(elf, marks, mark_count, UNWIND_TABLE_ROWS_MAX, &file->table,
				    NULL);
	if (!rc && tables->cache && file_version_is_of(version, elf->fd) &&
	    clock_thread_cpu_ns() - began_ns >= UNWIND_TABLE_CACHE_BUILD_NS_MIN)
		unwind_table_cache_add(tables->cache, key, marks_hash, file->table);
	return rc;
}

static int build_from(const struct live_tables *tables, struct live_file *file,
		      const struct elf *elf, const struct file_version *version)
{
	_cleanup_free_ struct unwind_mark *marks = calloc(UNWIND_MARKS_MAX, sizeof(*marks));
	uint32_t mark_count = 0;

	if (!marks)
		return -ENOMEM;
	if (python_eval_loop_marks(elf, marks, &mark_count))
		mark_count = 0; // Python frames are missing then, native ones are not
	int rc = find_or_build(tables, file, elf, version, marks, mark_count);
	if (!rc && !file->table->block_count)
		rc = -ENOENT;
	if (rc)
		return rc;
	keep_extent(file, elf);
	return use_words(file);
}

static int build(const struct live_tables *tables, struct live_file *file)
{
	struct file_version version;
	_cleanup_close_ int fd = executable_open_file(file->executable, &version);
	struct stat status;
	struct elf elf;

	if (fd < 0)
		return fd;
	if (fstat(fd, &status))
		return -errno;
	int rc = elf_read_headers(fd, &status, &elf, NULL);
	return rc ? rc : build_from(tables, file, &elf, &version);
}

static struct live_range *find_range(const struct live_tables *tables, uint64_t address)
{
	uint32_t low = 0, high = tables->range_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (tables->ranges[middle].mapping.limit <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == tables->range_count || address < tables->ranges[low].mapping.start)
		return NULL;
	return &tables->ranges[low];
}

bool live_tables_want(struct live_tables *tables, uint64_t address)
{
	const struct live_range *range = find_range(tables, address);

	if (!range || range->file == LIVE_NO_FILE ||
	    tables->files[range->file].state != LIVE_FILE_UNBUILT)
		return false;
	tables->files[range->file].state = LIVE_FILE_WANTED;
	return true;
}

uint32_t live_tables_build(struct live_tables *tables)
{
	uint64_t began_ns = clock_monotonic_ns();
	uint32_t built = 0;

	for (uint32_t i = 0; i < tables->file_count; i++) {
		struct live_file *file = &tables->files[i];

		if (file->state != LIVE_FILE_WANTED)
			continue;
		bool failed = build(tables, file) != 0;
		file->state = failed ? LIVE_FILE_NONE : LIVE_FILE_BUILT;
		tables->failed += failed;
		built++;
	}
	tables->built += built;
	if (built && lay_out_pages(tables))
		built = 0;
	tables->build_ns += clock_monotonic_ns() - began_ns;
	return built;
}
