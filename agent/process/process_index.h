// SPDX-License-Identifier: Apache-2.0
// The entries of the process table, by key and by pid. An entry from /proc has its start in ticks only; the kernel's record of the
// same process makes it exact. A pid is the latest process's that has it.
#pragma once

#include "agent/process/process_entry.h"
#include "base/hash_table.h"

struct process_index {
	struct process_entry **entries; // NULL where evicted
	uint32_t *holes;                // indexes of evicted entries; has room for all
	uint32_t slot_count, capacity, hole_count, hole_capacity;
	struct hash_table by_key; // exact ones
	struct hash_table by_pid; // the process that has the pid now
	uint64_t changes;         // entries whose exact key became known, so far
	struct work_pool *work;   // for the budgets of new entries
};

void process_index_deinit(struct process_index *index);

uint64_t process_index_count(const struct process_index *index);

/** The item of an entry, or HASH_TABLE_NONE. */
uint32_t process_index_find_key(const struct process_index *index, const struct process_key *key);
uint32_t process_index_find_pid(const struct process_index *index, uint32_t pid);
/** The entry of an item, or NULL. */
struct process_entry *process_index_at(const struct process_index *index, uint32_t item);

/** Find or add; NULL when out of memory, or when it is unknown and @may_add is false. */
struct process_entry *process_index_look_up(struct process_index *index,
					    const struct process_key *key, bool may_add);

/** Add an entry that is found by nothing yet. NULL when out of memory. */
struct process_entry *process_index_add(struct process_index *index, const struct process_key *key,
					uint32_t *ret_item);
/** Let it be found by its pid. Returns 0 or -ENOMEM. */
int process_index_add_pid(struct process_index *index, uint32_t item);

/** The pid is free, or another process's. The entry stays until it expires: samples may refer to it. */
void process_index_retire(struct process_index *index, uint32_t item);
void process_index_evict(struct process_index *index, uint32_t item);

/** Does @key name a later process, or a later program of the same one, than @entry? */
bool process_index_is_later(const struct process_key *key, const struct process_entry *entry);

/** The program that forked @child, which may have been replaced by another one since. */
struct process_entry *process_index_parent(const struct process_index *index,
					   const struct process_entry *child);
/** The nearest process that may see the files of @entry, which has exited. */
struct process_entry *process_index_ancestor(const struct process_index *index,
					     const struct process_entry *entry);
