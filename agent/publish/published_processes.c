// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/published_processes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/id128.h"

// ---- records --------------------------------------------------------------------------------

static bool pid_equals(const void *context, uint32_t item, const void *key)
{
	const struct published_processes *processes = context;

	return processes->records[item].key.pid == *(const uint32_t *)key;
}

static uint64_t hash_of(uint32_t pid)
{
	return hash64_of(&pid, sizeof(pid));
}

void published_processes_deinit(struct published_processes *processes)
{
	free(processes->records);
	free(processes->holes);
	hash_table_deinit(&processes->by_pid);
}

uint32_t published_processes_count(const struct published_processes *processes)
{
	return processes->slot_count - processes->hole_count;
}

struct published *published_processes_find(const struct published_processes *processes,
					   uint32_t pid)
{
	uint32_t item =
		hash_table_find(&processes->by_pid, hash_of(pid), pid_equals, processes, &pid);

	return item == HASH_TABLE_NONE ? NULL : &processes->records[item];
}

static int grow(struct published_processes *processes)
{
	uint32_t holes_capacity = processes->capacity; // the same
	int rc = array_reserve(&processes->holes, sizeof(*processes->holes), &holes_capacity,
			       processes->slot_count, 1, UINT32_MAX);

	return rc ? rc
		  : array_reserve(&processes->records, sizeof(*processes->records),
				  &processes->capacity, processes->slot_count, 1, UINT32_MAX);
}

struct published *published_processes_add(struct published_processes *processes,
					  const struct process_key *key)
{
	uint32_t item = processes->slot_count;

	if (processes->hole_count)
		item = processes->holes[processes->hole_count - 1];
	else if (processes->slot_count == processes->capacity && grow(processes))
		return NULL;
	if (hash_table_add(&processes->by_pid, hash_of(key->pid), item))
		return NULL;
	if (processes->hole_count)
		processes->hole_count--;
	else
		processes->slot_count++;
	processes->records[item] = (struct published){ .key = *key };
	return &processes->records[item];
}

// ---- the kernel's maps ------------------------------------------------------------------------

static void remove_pages(struct published_processes *processes, const struct published *record,
			 uint32_t generation, uint32_t count)
{
	struct mapping_page_key key = { .pid = record->key.pid, .generation = generation };

	for (key.page = 0; key.page < count; key.page++)
		unwind_maps_remove_page(processes->maps, &key);
	processes->page_count -= count;
}

// The process's entry first: then nobody looks up pages that are gone.
void published_processes_remove(struct published_processes *processes, struct published *record)
{
	uint32_t item = (uint32_t)(record - processes->records), pid = record->key.pid;

	unwind_maps_remove_process(processes->maps, pid);
	remove_pages(processes, record, record->generation, record->page_count);
	hash_table_remove(&processes->by_pid, hash_of(pid), item);
	*record = (struct published){ 0 };
	processes->holes[processes->hole_count++] = item;
}

static int write_pages(struct published_processes *processes, const struct published *record,
		       const struct mapping_pages *pages, uint32_t generation, uint32_t count)
{
	struct mapping_page_key key = { .pid = record->key.pid, .generation = generation };

	for (key.page = 0; key.page < count; key.page++) {
		mapping_pages_write(pages, key.page, &processes->page);
		int rc = unwind_maps_put_page(processes->maps, &key, &processes->page);
		if (rc) {
			remove_pages(processes, record, generation, key.page);
			return rc;
		}
		processes->page_count++;
	}
	return 0;
}

static int switch_to(struct published_processes *processes, const struct published *record,
		     uint32_t generation, uint32_t page_count)
{
	struct process_unwind process = {
		.key = record->key,
		.generation = generation,
		.mapping_page_count = page_count,
		.pages_pid = record->key.pid,
		.python = record->python,
		.tables_pending = record->tables_pending,
	};

	return unwind_maps_put_process(processes->maps, record->key.pid, &process);
}

static uint32_t next_generation(struct published_processes *processes)
{
	if (!++processes->generation) // 0 is reserved
		processes->generation = 1;
	return processes->generation;
}

bool published_is_of(const struct published *record, const struct process_key *key)
{
	return record->key.pid == key->pid && record->key.start_ns == key->start_ns &&
	       record->key.exec_id == key->exec_id;
}

bool published_has(const struct published *record, const struct mapping_pages *pages)
{
	return record->generation && record->page_count == mapping_pages_count(pages) &&
	       record->pages_hash == mapping_pages_hash(pages);
}

// New pages, then the switch, then removal of the old pages.
int published_processes_write(struct published_processes *processes, struct published *record,
			      const struct mapping_pages *pages)
{
	uint32_t count = mapping_pages_count(pages), old_count = record->page_count;
	uint32_t old = record->generation;

	if (published_has(record, pages))
		return switch_to(processes, record, old, count);

	uint32_t generation = next_generation(processes);
	int rc = write_pages(processes, record, pages, generation, count);
	if (rc)
		return rc;
	rc = switch_to(processes, record, generation, count);
	if (rc) {
		remove_pages(processes, record, generation, count);
		return rc;
	}
	record->generation = generation;
	record->page_count = count;
	record->pages_hash = mapping_pages_hash(pages);
	remove_pages(processes, record, old, old_count);
	return 0;
}
