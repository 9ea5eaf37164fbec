// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_code_cache.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/python/python_code.h"
#include "base/array.h"
#include "base/hash_table.h"
#include "base/id128.h"

enum {
	READ_COST_BYTES =
		1 << 10, // least cost of a read, of PYTHON_CODE_READ_BYTES_MAX: its system calls
	CHECKSUM_UNKNOWN = 0, // the unwinder could not read the frame's code object
};

#define NONE       HASH_TABLE_NONE
#define EMPTY_NAME "<unnamed>" // for "", which only code objects made by hand have

/* Names and line table, shared by equal code objects. */
struct content {
	struct python_code code;
	uint64_t hash;
	uint32_t bytes;
	uint32_t user_count; // 0: unused
};

/* A code object of a process. In a list, the most recently used first. */
struct entry {
	struct process_key process;
	uint64_t address;
	uint32_t checksum;
	uint32_t content;  // NONE: could not be read
	uint32_t interval; // last used
	uint32_t newer, older;
};

struct python_code_cache {
	python_interpreter_fn find_interpreter;
	void *context;
	struct entry *entries;
	uint32_t entry_count, entry_capacity; // of entries, used or not
	uint32_t unused_entry;                // first of those linked by `older`
	uint32_t newest, oldest;
	struct hash_table index; // of entries, by process and address
	struct content *contents;
	uint32_t content_count, content_capacity;
	uint32_t unused_content; // first of those linked by `bytes`
	struct hash_table content_index;
	uint32_t interval;   // number of the export interval
	uint64_t read_bytes; // in it
	struct python_code_cache_stats stats;
};

// ---- contents -------------------------------------------------------------------------------

static uint64_t hash_of_code(const struct python_code *code)
{
	const struct python_line_table *lines = &code->lines;
	const uint64_t parts[] = {
		hash64_of(code->name, strlen(code->name)),
		hash64_of(code->file, strlen(code->file)),
		hash64_of(lines->rows, lines->row_count * sizeof(*lines->rows)),
		lines->first_line,
	};

	return hash64_of(parts, sizeof(parts));
}

static bool content_is(const void *context, uint32_t item, const void *key)
{
	const struct python_code_cache *table = context;
	const struct python_code *known = &table->contents[item].code, *code = key;
	const struct python_line_table *lines = &code->lines;

	return !strcmp(known->name, code->name) && !strcmp(known->file, code->file) &&
	       known->lines.first_line == lines->first_line &&
	       known->lines.row_count == lines->row_count &&
	       !memcmp(known->lines.rows, lines->rows, lines->row_count * sizeof(*lines->rows));
}

static uint32_t bytes_of(const struct python_code *code)
{
	return sizeof(struct content) + strlen(code->name) + strlen(code->file) + 2 +
	       code->lines.row_count * sizeof(*code->lines.rows);
}

// @code is the cache's from now on. Out of memory it stays the caller's, and NONE is returned.
static uint32_t add_content(struct python_code_cache *table, const struct python_code *code,
			    uint64_t hash)
{
	uint32_t at = table->unused_content;

	if (at == NONE &&
	    array_reserve(&table->contents, sizeof(*table->contents), &table->content_capacity,
			  table->content_count, 1, UINT32_MAX))
		return NONE;
	if (at == NONE)
		at = table->content_count;
	if (hash_table_add(&table->content_index, hash, at) < 0)
		return NONE;
	if (at == table->content_count)
		table->content_count++;
	else
		table->unused_content = table->contents[at].bytes;
	table->contents[at] =
		(struct content){ .code = *code, .hash = hash, .bytes = bytes_of(code) };
	table->stats.bytes += table->contents[at].bytes;
	table->stats.contents++;
	return at;
}

// The content equal to @code, with one more user. @code is the cache's from now on, or freed.
static uint32_t share_code(struct python_code_cache *table, struct python_code *code)
{
	uint64_t hash = hash_of_code(code);
	uint32_t at = hash_table_find(&table->content_index, hash, content_is, table, code);

	if (at != NONE) {
		python_code_deinit(code);
	} else {
		at = add_content(table, code, hash);
		if (at == NONE) {
			python_code_deinit(code);
			return NONE;
		}
	}
	table->contents[at].user_count++;
	return at;
}

static void release_content(struct python_code_cache *table, uint32_t at)
{
	struct content *content;

	if (at == NONE)
		return;
	content = &table->contents[at];
	if (--content->user_count)
		return;
	hash_table_remove(&table->content_index, content->hash, at);
	table->stats.bytes -= content->bytes;
	table->stats.contents--;
	python_code_deinit(&content->code);
	content->bytes = table->unused_content;
	table->unused_content = at;
}

// ---- entries --------------------------------------------------------------------------------

static void unlink_entry(struct python_code_cache *table, uint32_t at)
{
	struct entry *entry = &table->entries[at];

	if (entry->newer == NONE)
		table->newest = entry->older;
	else
		table->entries[entry->newer].older = entry->older;
	if (entry->older == NONE)
		table->oldest = entry->newer;
	else
		table->entries[entry->older].newer = entry->newer;
}

static void link_newest(struct python_code_cache *table, uint32_t at)
{
	struct entry *entry = &table->entries[at];

	entry->newer = NONE;
	entry->older = table->newest;
	if (table->newest == NONE)
		table->oldest = at;
	else
		table->entries[table->newest].newer = at;
	table->newest = at;
}

// Once per interval is enough to find idle entries, and cheaper than at each use.
static void use_entry(struct python_code_cache *table, uint32_t at)
{
	if (table->entries[at].interval == table->interval)
		return;
	table->stats.used++;
	table->entries[at].interval = table->interval;
	unlink_entry(table, at);
	link_newest(table, at);
}

static uint64_t hash_of_entry(const struct entry *entry)
{
	const uint64_t key[] = {
		entry->process.pid | (uint64_t)entry->process.exec_id << 32,
		entry->process.start_ns,
		entry->address,
		entry->checksum,
	};

	return hash64_of(key, sizeof(key));
}

static bool entry_is(const void *context, uint32_t item, const void *key)
{
	const struct python_code_cache *table = context;
	const struct entry *entry = &table->entries[item], *wanted = key;

	return entry->address == wanted->address && entry->checksum == wanted->checksum &&
	       !memcmp(&entry->process, &wanted->process, sizeof(entry->process));
}

static uint32_t find_entry(const struct python_code_cache *table, const struct entry *wanted)
{
	return hash_table_find(&table->index, hash_of_entry(wanted), entry_is, table, wanted);
}

static void drop_entry(struct python_code_cache *table, uint32_t at)
{
	struct entry *entry = &table->entries[at];

	hash_table_remove(&table->index, hash_of_entry(entry), at);
	unlink_entry(table, at);
	release_content(table, entry->content);
	entry->older = table->unused_entry;
	table->unused_entry = at;
}

static void make_room(struct python_code_cache *table)
{
	while (table->oldest != NONE && (table->index.item_count >= PYTHON_CODES_MAX ||
					 table->stats.bytes > PYTHON_CODE_CACHE_BYTES_MAX)) {
		drop_entry(table, table->oldest);
		table->stats.evicted++;
	}
}

// @entry's content is the cache's from now on, and freed if the cache is full.
static uint32_t add_entry(struct python_code_cache *table, const struct entry *entry)
{
	make_room(table);
	uint32_t at = table->unused_entry;

	if (at == NONE &&
	    array_reserve(&table->entries, sizeof(*table->entries), &table->entry_capacity,
			  table->entry_count, 1, PYTHON_CODES_MAX + 1) == 0)
		at = table->entry_count;
	if (at == NONE || hash_table_add(&table->index, hash_of_entry(entry), at) < 0) {
		release_content(table, entry->content);
		return NONE;
	}
	if (at == table->entry_count)
		table->entry_count++;
	else
		table->unused_entry = table->entries[at].older;
	table->entries[at] = *entry;
	link_newest(table, at);
	return at;
}

// ---- reading --------------------------------------------------------------------------------

// The parent of an exited process has its code objects if they are older than the fork: the checksum shows it.
static int read_from(const struct python_interpreter *interpreter, const struct entry *wanted,
		     struct python_code *ret_code, uint32_t *ret_bytes)
{
	int rc = python_code_read((pid_t)wanted->process.pid, interpreter->offsets,
				  interpreter->code_type, wanted->address, ret_code, ret_bytes);

	if (rc != -ESRCH || !interpreter->parent || wanted->checksum == CHECKSUM_UNKNOWN)
		return rc;
	return python_code_read(interpreter->parent, interpreter->offsets, interpreter->code_type,
				wanted->address, ret_code, ret_bytes);
}

static int read_code(struct python_code_cache *table, const struct entry *wanted,
		     struct python_code *ret_code)
{
	struct python_interpreter interpreter;
	struct work work;
	uint32_t bytes;

	if (table->read_bytes >= PYTHON_CODE_READ_BYTES_MAX) {
		table->stats.refused++;
		return -EBUSY;
	}
	int rc = table->find_interpreter(table->context, &wanted->process, &interpreter);
	if (rc)
		return rc;
	if (!work_begin(&work, interpreter.budget, "reading Python functions")) {
		table->stats.refused++;
		return -EBUSY;
	}
	table->stats.reads++;
	rc = read_from(&interpreter, wanted, ret_code, &bytes);
	work_end(&work);
	// Rows of lines take up to four times the bytes of their table, and cost as much.
	table->read_bytes += bytes > READ_COST_BYTES ? bytes : READ_COST_BYTES;
	if (!rc)
		table->read_bytes += bytes_of(ret_code);
	return rc;
}

// Is it the frame's code object, not another one at the same address?
static bool is_same(const struct entry *wanted, const struct python_code *code)
{
	return wanted->checksum == CHECKSUM_UNKNOWN || wanted->checksum == code->checksum;
}

static uint32_t read_entry(struct python_code_cache *table, const struct entry *wanted)
{
	struct entry entry = *wanted;
	struct python_code code;
	int rc = read_code(table, wanted, &code);

	entry.content = NONE;
	entry.interval = table->interval;
	if (rc == -EBUSY || rc == -EDQUOT || rc == -ENOENT || rc == -ENOMEM)
		return NONE;
	if (rc) {
		table->stats.failures++;
	} else if (!is_same(wanted, &code)) {
		table->stats.reused++;
		python_code_deinit(&code);
	} else {
		entry.content = share_code(table, &code);
		if (entry.content == NONE)
			return NONE;
	}
	table->stats.used++;
	return add_entry(table, &entry);
}

// ---- find -----------------------------------------------------------------------------------

// A failed read, or one without a checksum, is valid for this interval only: by the next one another object may be
// there.
static bool is_stale(const struct python_code_cache *table, const struct entry *entry)
{
	return entry->interval != table->interval &&
	       (entry->content == NONE || entry->checksum == CHECKSUM_UNKNOWN);
}

static uint32_t find_or_read(struct python_code_cache *table, const struct entry *wanted)
{
	uint32_t at = find_entry(table, wanted);

	if (at != NONE && is_stale(table, &table->entries[at])) {
		drop_entry(table, at);
		at = NONE;
	}
	return at == NONE ? read_entry(table, wanted) : at;
}

static const struct python_code *find_code(struct python_code_cache *table,
					   const struct entry *wanted)
{
	uint32_t at = find_or_read(table, wanted);

	if (at == NONE)
		return NULL;
	use_entry(table, at);
	uint32_t content = table->entries[at].content;
	return content == NONE ? NULL : &table->contents[content].code;
}

bool python_code_cache_find(struct python_code_cache *table, const struct process_key *process,
			    const struct raw_frame *frame, struct python_line *ret_place)
{
	const struct entry wanted = {
		.process = *process,
		.address = frame->address,
		.checksum = PYTHON_DETAIL_CHECKSUM(frame->detail),
	};
	const struct python_code *code = find_code(table, &wanted);
	uint32_t index = PYTHON_DETAIL_INDEX(frame->detail);

	if (!code)
		return false;
	*ret_place = (struct python_line){
		.name = *code->name ? code->name : EMPTY_NAME,
		.file = code->file,
		// The last index stands for instruction -1: the frame has not begun.
		.line = python_line_table_find(&code->lines,
					       index == PYTHON_INDEX_MAX ? -1 : (int64_t)index),
	};
	return true;
}

// ---- life -----------------------------------------------------------------------------------

struct python_code_cache *python_code_cache_new(python_interpreter_fn find_interpreter,
						void *context)
{
	struct python_code_cache *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->find_interpreter = find_interpreter;
	table->context = context;
	table->newest = table->oldest = NONE;
	table->unused_entry = table->unused_content = NONE;
	return table;
}

void python_code_cache_free(struct python_code_cache *table)
{
	if (!table)
		return;
	while (table->oldest != NONE)
		drop_entry(table, table->oldest);
	free(table->entries);
	free(table->contents);
	hash_table_deinit(&table->index);
	hash_table_deinit(&table->content_index);
	free(table);
}

void python_code_cache_expire(struct python_code_cache *table)
{
	table->interval++;
	table->read_bytes = 0;
	while (table->oldest != NONE && table->interval - table->entries[table->oldest].interval >
						PYTHON_CODE_IDLE_INTERVALS)
		drop_entry(table, table->oldest);
}

void python_code_cache_read_stats(const struct python_code_cache *table,
				  struct python_code_cache_stats *ret_stats)
{
	*ret_stats = table->stats;
	ret_stats->codes = table->index.item_count;
}
