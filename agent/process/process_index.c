// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_index.h"

#include <stdlib.h>
#include <string.h>

#include "agent/process/proc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/id128.h"

static uint64_t hash_of_key(const struct process_key *key)
{
	return hash64_of(key, sizeof(*key));
}

static uint64_t hash_of_pid(uint32_t pid)
{
	return hash64_of(&pid, sizeof(pid));
}

static bool key_equals(const void *context, uint32_t item, const void *key)
{
	const struct process_index *index = context;

	return memcmp(&index->entries[item]->process.key, key, sizeof(struct process_key)) == 0;
}

static bool pid_equals(const void *context, uint32_t item, const void *pid)
{
	const struct process_index *index = context;

	return index->entries[item]->process.key.pid == *(const uint32_t *)pid;
}

uint32_t process_index_find_key(const struct process_index *index, const struct process_key *key)
{
	return hash_table_find(&index->by_key, hash_of_key(key), key_equals, index, key);
}

uint32_t process_index_find_pid(const struct process_index *index, uint32_t pid)
{
	return hash_table_find(&index->by_pid, hash_of_pid(pid), pid_equals, index, &pid);
}

struct process_entry *process_index_at(const struct process_index *index, uint32_t item)
{
	return item == HASH_TABLE_NONE ? NULL : index->entries[item];
}

static int reserve(struct process_index *index)
{
	int rc = 0;

	if (!index->hole_count)
		rc = array_reserve(&index->entries, sizeof(struct process_entry *),
				   &index->capacity, index->slot_count, 1, UINT32_MAX);
	if (!rc && !index->hole_count)
		rc = array_reserve(&index->holes, sizeof(*index->holes), &index->hole_capacity,
				   index->slot_count, 1, UINT32_MAX);
	return rc;
}

uint64_t process_index_count(const struct process_index *index)
{
	return index->slot_count - index->hole_count;
}

struct process_entry *process_index_add(struct process_index *index, const struct process_key *key,
					uint32_t *ret_item)
{
	struct process_entry *entry = reserve(index) ? NULL : calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->process.key = *key;
	work_budget_init(&entry->process.budget, index->work, key->pid, key->start_ns);
	entry->used_ns = clock_monotonic_ns();
	*ret_item = index->hole_count ? index->holes[--index->hole_count] : index->slot_count++;
	index->entries[*ret_item] = entry;
	return entry;
}

void process_index_evict(struct process_index *index, uint32_t item)
{
	struct process_entry *entry = index->entries[item];

	hash_table_remove(&index->by_key, hash_of_key(&entry->process.key), item);
	hash_table_remove(&index->by_pid, hash_of_pid(entry->process.key.pid), item);
	process_entry_free(entry);
	index->entries[item] = NULL;
	index->holes[index->hole_count++] = item;
}

void process_index_retire(struct process_index *index, uint32_t item)
{
	struct process_entry *entry = index->entries[item];

	if (entry->process.exited)
		return;
	hash_table_remove(&index->by_pid, hash_of_pid(entry->process.key.pid), item);
	entry->process.exited = true;
	entry->gone = true;
	entry->exited_ns = clock_monotonic_ns();
}

int process_index_add_pid(struct process_index *index, uint32_t item)
{
	return hash_table_add(&index->by_pid, hash_of_pid(index->entries[item]->process.key.pid),
			      item);
}

static int index_key(struct process_index *index, uint32_t item)
{
	int rc = hash_table_add(&index->by_key, hash_of_key(&index->entries[item]->process.key),
				item);

	index->entries[item]->exact = !rc;
	index->changes++;
	return rc;
}

/* In ticks: one of the two may have come from /proc. */
static bool is_same_start(const struct process_key *key, const struct process_entry *entry)
{
	return process_start_ticks(key->start_ns) ==
	       process_start_ticks(entry->process.key.start_ns);
}

/* An entry from /proc has its start in ticks only: the key of the kernel's record makes it exact. */
static bool may_adopt(const struct process_entry *entry, const struct process_key *key)
{
	return !entry->exact && is_same_start(key, entry);
}

bool process_index_is_later(const struct process_key *key, const struct process_entry *entry)
{
	const struct process_key *known = &entry->process.key;

	if (!entry->exact)
		return process_start_ticks(key->start_ns) > process_start_ticks(known->start_ns);
	if (key->start_ns != known->start_ns)
		return key->start_ns > known->start_ns;
	return (int32_t)(key->exec_id - known->exec_id) > 0; // wraps around
}

/* Index a new entry: it may replace the process that had its pid, or be older than that. */
static int index_entry(struct process_index *index, uint32_t item)
{
	struct process_entry *entry = index->entries[item];
	uint32_t current = process_index_find_pid(index, entry->process.key.pid);
	int rc = index_key(index, item);

	if (rc)
		return rc;
	if (current != HASH_TABLE_NONE &&
	    !process_index_is_later(&entry->process.key, index->entries[current])) {
		// The pid was reused, or the process called exec since: /proc shows the later one.
		entry->process.exited = entry->gone = true;
		entry->exited_ns = clock_monotonic_ns();
		return 0;
	}
	if (current != HASH_TABLE_NONE) {
		if (is_same_start(&entry->process.key, index->entries[current]))
			process_entry_replace(entry, index->entries[current]);
		process_index_retire(index, current);
	}
	return process_index_add_pid(index, item);
}

struct process_entry *process_index_look_up(struct process_index *index,
					    const struct process_key *key, bool may_add)
{
	struct process_entry *known = process_index_at(index, process_index_find_key(index, key));
	if (known)
		return known;

	uint32_t item = process_index_find_pid(index, key->pid);
	if (item != HASH_TABLE_NONE && may_adopt(index->entries[item], key)) {
		index->entries[item]->process.key = *key;
		return index_key(index, item) ? NULL : index->entries[item];
	}
	if (!may_add)
		return NULL;

	struct process_entry *entry = process_index_add(index, key, &item);
	if (entry && index_entry(index, item)) {
		process_index_evict(index, item);
		return NULL;
	}
	return entry;
}

struct process_entry *process_index_parent(const struct process_index *index,
					   const struct process_entry *child)
{
	struct process_key key = {
		.pid = child->parent_pid,
		.exec_id = child->process.key.exec_id, // fork copies it
		.start_ns = child->parent_start_ns,
	};

	if (!child->parent_pid)
		return NULL;
	struct process_entry *parent = process_index_at(index, process_index_find_key(index, &key));
	if (parent)
		return parent;
	// The parent may be known from /proc only.
	parent = process_index_at(index, process_index_find_pid(index, key.pid));
	return parent && is_same_start(&key, parent) &&
			       (!parent->exact || parent->process.key.exec_id == key.exec_id)
		       ? parent
		       : NULL;
}

struct process_entry *process_index_ancestor(const struct process_index *index,
					     const struct process_entry *entry)
{
	struct process_entry *ancestor =
		process_index_at(index, process_index_find_key(index, &entry->ancestor));

	if (ancestor || !entry->ancestor.pid)
		return ancestor;
	ancestor = process_index_at(index, process_index_find_pid(index, entry->ancestor.pid));
	return ancestor && is_same_start(&entry->ancestor, ancestor) ? ancestor : NULL;
}

void process_index_deinit(struct process_index *index)
{
	for (uint32_t i = 0; i < index->slot_count; i++)
		process_entry_free(index->entries[i]);
	free(index->entries);
	free(index->holes);
	hash_table_deinit(&index->by_key);
	hash_table_deinit(&index->by_pid);
}
