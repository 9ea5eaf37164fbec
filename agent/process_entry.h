// SPDX-License-Identifier: Apache-2.0
// A process as its table keeps it, and what is read of it from /proc. Private to process.c and
// process_entry.c.
#pragma once

#include "mapping.h"
#include "process.h"

/** Labels of a process and of the children that it forked. Counted. */
struct label_set {
	uint32_t holders;
	struct labels labels;
};

struct process_entry {
	struct process process; // first: the public pointer is also the entry's
	bool exact; // key.start_ns and key.exec_id are the kernel's, not guessed from /proc
	bool kernel_thread;
	bool gone;      // /proc does not show this process (any more): exited, or replaced by exec
	bool described; // process.labels are set
	uint8_t label_tries;
	uint32_t parent_pid; // 0: unknown
	uint64_t parent_start_ns;
	uint64_t exited_ns;
	uint64_t used_ns;
	uint64_t label_again_ns; // 0: labels are final
	struct label_set *labels;
	struct label_set *former_labels; // of the program that this one replaced by exec
	struct mapping_list *mappings;   // NULL: not read
	uint64_t mappings_read_ns;
	uint64_t mappings_wait_ns; // after a read that did not help
};

/** What all entries of a table share. */
struct process_surroundings {
	struct executable_table *executables;
	struct executable *vdso;     // the same for all processes; held once one has been seen
	uint64_t mapping_generation; // the last one given out
	struct labels extra_labels;
	char node[256];
};

/** The clock ticks that /proc shows for a start time. */
uint64_t process_start_ticks(uint64_t start_ns);

/** Frees what the entry holds, and the entry. */
void process_entry_free(struct process_entry *entry);

/** Let @child have what is known of @parent, whose copy it is. */
void process_entry_inherit(struct process_entry *child, const struct process_entry *parent);

/** @entry is the program that @former replaced itself by (exec): it is in the same container. */
void process_entry_replace(struct process_entry *entry, const struct process_entry *former);

/**
 * Read labels and mappings from /proc, unless that is done; of a process that has gone, make the best
 * of its name and @parent (NULL: unknown). Returns 0 or -ENOMEM.
 */
int process_entry_describe(struct process_entry *entry, struct process_entry *parent,
			   struct process_surroundings *surroundings);

/** process_find_code() of an entry; @parent's files serve for one that has gone. */
int process_entry_find_code(struct process_entry *entry, struct process_entry *parent,
			    struct process_surroundings *surroundings, uint64_t address,
			    struct code_address *ret_code);
