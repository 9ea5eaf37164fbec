// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/unwind_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/publish/unwind_tables_state.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/text.h"
#include "base/id128.h"

/* Between two checks for tables to be built again. */
#define RENEW_LOOK_NS (100 * NS_PER_MS)

/* Before a file with NO_SPACE is retried; doubles each time, as a try means building. */
#define NO_SPACE_WAIT_MIN_NS (30 * NS_PER_SECOND)
#define NO_SPACE_WAIT_MAX_NS (3600 * NS_PER_SECOND)

/* A missed table outweighs any size of mapping. */
#define MISS_WEIGHT_BITS 40
#define COST_BYTES       65536 // of code: the fixed cost of a file
#define MISSES_MAX       (1U << 20)

/* As CUDA's libraries alone could fill all. */
enum { PREFETCH_SHARE = 2 };

/* Each has a descriptor, and RLIMIT_NOFILE is 1024 by default for the whole agent. */
enum { PENDING_MAX = 256 };

// ---- files ----------------------------------------------------------------------------------

static bool key_equals(const void *context, uint32_t item, const void *key)
{
	const struct unwind_tables *tables = context;

	return strcmp(tables->files[item].key, key) == 0;
}

static uint64_t hash_of(const char *key)
{
	return hash64_of(key, strlen(key));
}

// Files with a table are dropped by eviction only.
static bool is_droppable(const struct file *file)
{
	return file->key[0] && !file->holders && !file->job &&
	       file->public.state != UNWIND_FILE_READY && file->public.state != UNWIND_FILE_PENDING;
}

static void drop_file(struct unwind_tables *tables, uint32_t item)
{
	struct file *file = &tables->files[item];

	hash_table_remove(&tables->by_key, hash_of(file->key), item);
	if (tables->numberless == item)
		tables->numberless = HASH_TABLE_NONE;
	analyzed_file_free(take(file->analyzed), &tables->analyzed);
	file->key[0] = '\0';
	tables->holes[tables->hole_count++] = item;
}

static void drop_unused(struct unwind_tables *tables)
{
	for (uint32_t i = 0; i < tables->slot_count; i++)
		if (is_droppable(&tables->files[i]))
			drop_file(tables, i);
}

static int grow(struct unwind_tables *tables)
{
	uint32_t holes_capacity = tables->capacity; // the same
	int rc = array_reserve(&tables->holes, sizeof(*tables->holes), &holes_capacity,
			       tables->slot_count, 1, UINT32_MAX);

	return rc ? rc
		  : array_reserve(&tables->files, sizeof(*tables->files), &tables->capacity,
				  tables->slot_count, 1, UINT32_MAX);
}

static int find_slot(struct unwind_tables *tables, uint32_t *ret_item)
{
	if (!tables->hole_count && tables->slot_count == UNWIND_FILES_MAX)
		drop_unused(tables);
	if (tables->hole_count) {
		*ret_item = tables->holes[--tables->hole_count];
		return 0;
	}
	if (tables->slot_count == UNWIND_FILES_MAX)
		return -ENOSPC;
	if (tables->slot_count == tables->capacity && grow(tables))
		return -ENOMEM;
	*ret_item = tables->slot_count++;
	return 0;
}

static uint32_t add_file(struct unwind_tables *tables, const char *key)
{
	uint32_t item;

	if (find_slot(tables, &item))
		return HASH_TABLE_NONE;
	struct file *file = &tables->files[item];
	*file = (struct file){ .public.state = UNWIND_FILE_UNOPENED };
	if (hash_table_add(&tables->by_key, hash_of(key), item)) {
		tables->holes[tables->hole_count++] = item;
		return HASH_TABLE_NONE;
	}
	snprintf(file->key, sizeof(file->key), "%s", key);
	return item;
}

// ---- wanting --------------------------------------------------------------------------------

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// Tables that samples need come first, by samples per cost of building; then the preferred ones; then the smallest.
static uint64_t weight_of(const struct file *file)
{
	uint64_t size_max = (1ULL << MISS_WEIGHT_BITS) - 1;

	if (!file->misses && file->preferred)
		return size_max;
	if (!file->misses)
		return size_max - 1 - smaller(file->size, size_max - 1);
	return size_max + ((uint64_t)file->misses << MISS_WEIGHT_BITS) / (file->size + COST_BYTES);
}

// A row per 60 to 120 bytes of code, and the array's own page.
static uint64_t estimate_bytes(const struct file *file)
{
	return file->size / 12 + 2 * sizeof(struct table_page);
}

void unwind_tables_set_state(struct unwind_tables *tables, struct file *file,
			     enum unwind_file_state state)
{
	bool was_pending = file->public.state == UNWIND_FILE_PENDING;
	bool was_ready = file->public.state == UNWIND_FILE_READY;

	tables->stats.pending += (state == UNWIND_FILE_PENDING) - was_pending;
	tables->stats.ready += (state == UNWIND_FILE_READY) - was_ready;
	file->public.state = state;
}

static void refuse(struct unwind_tables *tables, struct file *file)
{
	unwind_tables_set_state(tables, file, UNWIND_FILE_NO_SPACE);
	file->wait_ns = file->wait_ns ? smaller(file->wait_ns * 2, NO_SPACE_WAIT_MAX_NS)
				      : NO_SPACE_WAIT_MIN_NS;
	file->again_ns = clock_monotonic_ns() + file->wait_ns;
	tables->stats.refused++;
}

static void prepare(struct unwind_tables *tables, uint32_t item, struct unwind_job *job, int fd,
		    const struct file_version *version, const char *name)
{
	struct file *file = &tables->files[item];

	job->number = tables->free_numbers[--tables->free_number_count];
	job->file = item;
	job->fd = fd;
	job->version = *version;
	job->weight = weight_of(file);
	memcpy(job->key, file->key, sizeof(job->key));
	snprintf(job->name, sizeof(job->name), "%s", name);
	file->job = job;
}

// If removals are running its state stays: one of their numbers may be for it.
static void refuse_for_number(struct unwind_tables *tables, uint32_t item)
{
	tables->numberless = item;
	if (tables->removing)
		return;
	refuse(tables, &tables->files[item]);
	tables->number_is_wanted = true;
}

// With too many pending, or without a descriptor, its state stays: it is requested again later.
static void begin(struct unwind_tables *tables, uint32_t item, struct executable *executable)
{
	struct file *file = &tables->files[item];

	if (!shares_may_take(&tables->pending, executable->payer, tables->stats.pending,
			     PENDING_MAX))
		return;
	if (!tables->free_number_count) {
		refuse_for_number(tables, item);
		return;
	}
	struct file_version version;
	int fd = executable_open_file(executable, &version);
	if (fd < 0)
		return;
	struct unwind_job *job = unwind_job_new(UNWIND_JOB_BUILD, 0);
	if (!job) {
		close(fd);
		return;
	}
	prepare(tables, item, job, fd, &version, path_base_name(executable->path));
	file->queued_payer = job->payer = executable->payer;
	shares_take(&tables->pending, file->queued_payer, 1);
	file->expected_bytes = estimate_bytes(file);
	tables->pending_bytes += file->expected_bytes;
	unwind_tables_set_state(tables, file, UNWIND_FILE_PENDING);
	unwind_builder_add(tables->builder, job);
}

static bool may_prefetch(const struct unwind_tables *tables, const struct file *file)
{
	return tables->stats.bytes + tables->pending_bytes + estimate_bytes(file) <=
		       tables->bytes_max / tables->prefetch_share &&
	       tables->stats.ready + tables->stats.pending < UNWIND_TABLES_MAX / 2;
}

static void begin_if_due(struct unwind_tables *tables, uint32_t item, struct executable *executable)
{
	struct file *file = &tables->files[item];

	if (file->job) // queued, or about to be removed
		return;
	switch (file->public.state) {
	case UNWIND_FILE_UNOPENED:
	case UNWIND_FILE_IDLE:
		if (file->misses || may_prefetch(tables, file))
			begin(tables, item, executable);
		else
			unwind_tables_set_state(tables, file, UNWIND_FILE_IDLE);
		break;
	case UNWIND_FILE_NO_SPACE:
		if (clock_monotonic_ns() >= file->again_ns)
			begin(tables, item, executable);
		break;
	case UNWIND_FILE_PENDING:
	case UNWIND_FILE_READY:
	case UNWIND_FILE_NONE:
		break;
	}
}

static bool may_be_renewed(const struct file *file)
{
	return analyzed_file_has_more(file->analyzed) && !file->job &&
	       (file->public.state == UNWIND_FILE_READY || file->public.state == UNWIND_FILE_NONE);
}

static bool lacks_descriptor(const struct unwind_tables *tables, const struct file *file)
{
	return may_be_renewed(file) && analyzed_file_lacks_fd(file->analyzed, &tables->analyzed);
}

static void keep_descriptor(struct unwind_tables *tables, struct file *file,
			    struct executable *executable)
{
	struct file_version version;

	if (!lacks_descriptor(tables, file))
		return;
	int fd = executable_open_file(executable, &version);
	if (fd >= 0)
		analyzed_file_keep_fd(file->analyzed, fd, &version, &tables->analyzed);
}

uint32_t unwind_tables_want(struct unwind_tables *tables, struct executable *executable,
			    uint64_t size)
{
	uint32_t item = hash_table_find(&tables->by_key, hash_of(executable->key), key_equals,
					tables, executable->key);

	if (item == HASH_TABLE_NONE)
		item = add_file(tables, executable->key);
	if (item == HASH_TABLE_NONE)
		return item;

	struct file *file = &tables->files[item];
	if (size > file->size)
		file->size = size;
	file->payer = executable->payer;
	begin_if_due(tables, item, executable);
	keep_descriptor(tables, file, executable);
	return item;
}

const struct unwind_file *unwind_tables_file(const struct unwind_tables *tables, uint32_t file)
{
	return &tables->files[file].public;
}

void unwind_tables_miss(struct unwind_tables *tables, uint32_t item, struct executable *executable)
{
	struct file *file = &tables->files[item];

	if (file->misses < MISSES_MAX)
		file->misses++;
	begin_if_due(tables, item, executable);
	if (file->public.state == UNWIND_FILE_PENDING)
		unwind_builder_weigh(tables->builder, file->job, weight_of(file));
}

void unwind_tables_prefer(struct unwind_tables *tables, uint32_t item)
{
	struct file *file = &tables->files[item];

	file->preferred = file->public.state == UNWIND_FILE_PENDING;
	if (file->preferred)
		unwind_builder_weigh(tables->builder, file->job, weight_of(file));
}

void unwind_tables_hold(struct unwind_tables *tables, uint32_t file)
{
	tables->files[file].holders++;
}

void unwind_tables_release(struct unwind_tables *tables, uint32_t file)
{
	if (!--tables->files[file].holders)
		tables->files[file].unmapped_ns = clock_monotonic_ns();
}

void unwind_tables_use(struct unwind_tables *tables, uint32_t file, uint64_t time_ns)
{
	if (tables->files[file].used_ns < time_ns)
		tables->files[file].used_ns = time_ns;
}

// ---- what the builder gives back --------------------------------------------------------------

static void free_number(struct unwind_tables *tables, uint32_t number)
{
	tables->free_numbers[tables->free_number_count++] = (uint16_t)number;
}

static void accept_built(struct unwind_tables *tables, struct file *file,
			 const struct unwind_job *job)
{
	tables->stats.from_disk += job->from_disk;
	file->public.bytes = job->bytes;
	file->public.extent = job->extent;
	if (!job->rc && job->extent.block_count) {
		unwind_tables_set_state(tables, file, UNWIND_FILE_READY);
		file->public.number = job->number;
		tables->stats.bytes += job->bytes;
		file->unmapped_ns = clock_monotonic_ns();
		unwind_tables_use(tables, job->file, file->unmapped_ns);
		return;
	}
	free_number(tables, job->number);
	// A prefetch; or the file was written meanwhile, which says nothing about the others of its content.
	if (job->rc == -ESTALE || (job->rc == -ENOSPC && !file->misses)) {
		unwind_tables_set_state(tables, file, UNWIND_FILE_IDLE);
		return;
	}
	if (job->rc == -ENOSPC) {
		refuse(tables, file);
		return;
	}
	unwind_tables_set_state(tables, file, UNWIND_FILE_NONE);
	if (job->rc) {
		tables->stats.failed++;
		error_set(&tables->stats.last_failure, job->rc, "%s: %s", job->name,
			  job->error.text);
	}
}

// The old table stays if there is no better one.
static void accept_renewed(struct unwind_tables *tables, struct file *file,
			   const struct unwind_job *job)
{
	if (job->rc || !job->extent.block_count) {
		free_number(tables, job->number);
		return;
	}
	if (file->public.state == UNWIND_FILE_READY) {
		tables->retired[tables->retired_count++] = (uint16_t)file->public.number;
		tables->stats.bytes -= file->public.bytes;
		file->public.replaced = tables->reads;
	}
	file->public.changed = tables->reads;
	accept_built(tables, file, job);
}

// Functions known to need analysis are analyzed once the table is there.
static void accept_analyzed(struct unwind_tables *tables, struct file *file,
			    const struct unwind_job *job)
{
	if (job->analyzed.count && !file->analyzed)
		file->analyzed = analyzed_file_new(job->name);
	for (uint32_t i = 0; i < job->analyzed.count && file->analyzed; i++)
		analyzed_functions_add(&file->analyzed->all, &job->analyzed.functions[i]);
	if (job->analyzed_before && file->analyzed)
		file->analyzed->built = file->analyzed->all.count; // the table has them
	if (lacks_descriptor(tables, file))
		analyzed_file_keep_fd(file->analyzed, fcntl(job->fd, F_DUPFD_CLOEXEC, 3),
				      &job->version, &tables->analyzed);
}

// Reports the file without a number as changed: it is requested again.
static void accept_removed(struct unwind_tables *tables, const struct unwind_job *job)
{
	uint32_t item = tables->numberless;

	tables->removing--;
	if (job->rc) // still there: the number stays in use
		return;
	free_number(tables, job->number);
	if (item == HASH_TABLE_NONE)
		return;
	tables->files[item].again_ns = 0;
	tables->files[item].public.changed = tables->reads;
	tables->numberless = HASH_TABLE_NONE;
}

static void accept_job(struct unwind_tables *tables, const struct unwind_job *job,
		       uint32_t *ret_wanting)
{
	struct file *file = &tables->files[job->file];

	if (job->kind == UNWIND_JOB_REMOVE) {
		accept_removed(tables, job);
		return;
	}
	file->job = NULL;
	if (job->renews) {
		accept_renewed(tables, file, job);
		return;
	}
	tables->pending_bytes -= file->expected_bytes;
	shares_give_back(&tables->pending, file->queued_payer, 1);
	file->public.changed = tables->reads;
	accept_built(tables, file, job);
	if (!job->rc)
		accept_analyzed(tables, file, job);
	if (file->public.state == UNWIND_FILE_NO_SPACE)
		*ret_wanting = job->file;
}

uint64_t unwind_tables_read(struct unwind_tables *tables, uint32_t *ret_wanting)
{
	struct unwind_job *job = unwind_builder_take(tables->builder);
	bool changed = false;

	*ret_wanting = tables->number_is_wanted ? tables->numberless : HASH_TABLE_NONE;
	tables->number_is_wanted = false;
	tables->reads++;
	while (job) {
		struct unwind_job *next = job->next;

		changed = changed || job->kind == UNWIND_JOB_BUILD ||
			  tables->numberless != HASH_TABLE_NONE;
		accept_job(tables, job, ret_wanting);
		unwind_job_free(job);
		job = next;
	}
	return changed ? tables->reads : 0;
}

// ---- functions without rules ------------------------------------------------------------------

void unwind_tables_analyze(struct unwind_tables *tables, uint32_t item,
			   struct executable *executable, uint64_t offset, uint64_t size)
{
	struct file *file = &tables->files[item];

	if (!file->analyzed)
		file->analyzed = analyzed_file_new(path_base_name(executable->path));
	if (file->analyzed)
		analyzed_functions_add(&file->analyzed->all,
				       &(struct unwind_function){ offset, size });
	keep_descriptor(tables, file, executable);
}

static void renew(struct unwind_tables *tables, uint32_t item, uint64_t now)
{
	struct analyzed_file *analyzed = tables->files[item].analyzed;
	struct unwind_job *job = unwind_job_new(UNWIND_JOB_BUILD, 0);

	analyzed_file_postpone(analyzed, now);
	if (!job)
		return;
	prepare(tables, item, job, analyzed_file_take_fd(analyzed, &tables->analyzed),
		&analyzed->version, analyzed->name);
	job->payer = tables->files[item].payer;
	job->renews = true;
	job->analyzed = analyzed->all;
	job->analyzed_before = analyzed->built;
	analyzed->built = analyzed->all.count;
	if (tables->files[item].public.state == UNWIND_FILE_READY)
		job->renewed_bytes = tables->files[item].public.bytes;
	unwind_builder_add(tables->builder, job);
}

bool unwind_tables_lacks_analyzed(const struct unwind_tables *tables, uint32_t item)
{
	const struct file *file = &tables->files[item];

	return (file->job && file->job->renews) ||
	       (may_be_renewed(file) && file->analyzed->fd >= 0);
}

void unwind_tables_renew(struct unwind_tables *tables)
{
	uint64_t now = clock_monotonic_ns();

	if (now < tables->renew_ns)
		return;
	tables->renew_ns = now + RENEW_LOOK_NS;
	for (uint32_t i = 0; i < tables->slot_count; i++) {
		const struct file *file = &tables->files[i];

		if (file->key[0] && may_be_renewed(file) &&
		    analyzed_file_is_due(file->analyzed, now) && tables->free_number_count)
			renew(tables, i, now);
	}
}

void unwind_tables_begin_removal(struct unwind_tables *tables, struct unwind_job *job)
{
	tables->removing++;
	unwind_builder_add(tables->builder, job);
}

// Out of memory: retried with the next call.
void unwind_tables_retire(struct unwind_tables *tables)
{
	while (tables->retired_count) {
		uint32_t number = tables->retired[tables->retired_count - 1];
		struct unwind_job *job = unwind_job_new(UNWIND_JOB_REMOVE, number);

		if (!job)
			return;
		tables->retired_count--;
		unwind_tables_begin_removal(tables, job);
	}
}

void unwind_tables_retry(struct unwind_tables *tables, uint32_t file)
{
	tables->files[file].again_ns = 0;
}

// ---- life -----------------------------------------------------------------------------------

int unwind_tables_open(const struct unwind_maps *maps, struct unwind_table_cache *cache,
		       uint64_t bytes_max, struct unwind_tables **ret_tables, struct error *err)
{
	struct unwind_tables *tables = calloc(1, sizeof(*tables));

	if (!tables) {
		unwind_table_cache_close(cache);
		return error_set(err, -ENOMEM, "out of memory");
	}
	int rc = unwind_builder_open(maps, cache, bytes_max, &tables->builder, err);
	if (rc) {
		unwind_tables_close(tables);
		return rc;
	}
	tables->bytes_max = bytes_max;
	tables->prefetch_share = PREFETCH_SHARE;
	tables->numberless = HASH_TABLE_NONE;
	// Lowest numbers first.
	for (uint32_t i = UNWIND_TABLES_MAX; i; i--)
		free_number(tables, i - 1);
	*ret_tables = tables;
	return 0;
}

void unwind_tables_close(struct unwind_tables *tables)
{
	if (!tables)
		return;
	unwind_builder_close(tables->builder);
	for (uint32_t i = 0; i < tables->slot_count; i++)
		analyzed_file_free(tables->files[i].analyzed, &tables->analyzed);
	hash_table_deinit(&tables->by_key);
	free(tables->files);
	free(tables->holes);
	free(tables);
}

void unwind_tables_prefetch_all(struct unwind_tables *tables)
{
	tables->prefetch_share = 1;
}

int unwind_tables_fd(const struct unwind_tables *tables)
{
	return unwind_builder_fd(tables->builder);
}

void unwind_tables_limit(struct unwind_tables *tables, uint64_t bytes_max)
{
	tables->bytes_max = bytes_max;
	unwind_builder_limit(tables->builder, bytes_max);
}

void unwind_tables_read_stats(const struct unwind_tables *tables,
			      struct unwind_tables_stats *ret_stats)
{
	struct unwind_builder_stats built;

	unwind_builder_read_stats(tables->builder, &built);
	*ret_stats = tables->stats;
	ret_stats->rules = built.rules;
	ret_stats->rows = built.rows;
	ret_stats->build_ns = built.build_ns;
}
