// SPDX-License-Identifier: Apache-2.0
// A process as its table keeps it, and what is read of it from /proc. Private to process_table.c
// and process_entry.c.
#pragma once

#include "agent/process/mapping.h"
#include "agent/bpf/mmap_events.h"
#include "agent/process/process.h"
#include "agent/process/process_jit.h"

/** Labels of a process and of the children that it forked. Counted. */
struct label_set {
	uint32_t holders;
	struct labels labels;
};

enum {
	JIT_BYTES_MAX = 32 << 20, // of all processes' names of generated code; some is freed above
};

struct process_entry {
	struct process process; // first: the public pointer is also the entry's
	bool exact; // key.start_ns and key.exec_id are the kernel's, not guessed from /proc
	bool kernel_thread;
	bool gone;      // /proc does not show this process (any more): exited, or replaced by exec
	bool described; // process.labels are set
	uint8_t label_tries;
	bool outdated;       // more was mapped than we follow: mappings are to be read again
	uint32_t parent_pid; // of which it is a copy, 0: unknown, or it has called exec since
	uint64_t parent_start_ns;
	struct process_key ancestor; // the nearest that may see the same files; pid 0: unknown
	uint64_t exited_ns;
	uint64_t used_ns;
	uint64_t label_again_ns; // 0: labels are final
	struct label_set *labels;
	struct label_set *former_labels; // of the program that this one replaced by exec
	struct mapping_list *mappings;   // NULL: not read
	uint64_t mappings_read_ns; // when they were right last, but for what was followed since
	uint64_t refreshed_ns;     // when they were last read for this process, or that was tried
	uint64_t mappings_wait_ns; // after a read that did not help
	struct process_jit *jit;   // NULL: none of its generated code was asked for
	uint64_t moved_count;      // mappings that had to make room for others, in this window
	uint64_t reopen_ns;        // when to try again to open the files of a process that has gone
};

/** What all entries of a table share. */
struct process_surroundings {
	struct executable_table *executables;
	struct executable *vdso;     // the same for all processes; held once one has been seen
	uint64_t mapping_generation; // the last one given out
	bool follows_mmaps;          // the kernel's events keep mappings current
	uint64_t lost_ns;            // when some of those events were last lost
	size_t jit_bytes;            // memory of all process_jit, about
	uint64_t jit_cut;            // of them: those that were full
	uint64_t jit_refused;        // times that JIT_BYTES_MAX left one unread
	struct labels extra_labels;
	char node[256];
	uint64_t described; // entries that were described, or described anew, so far
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

/** Put what @event tells into a list that nobody else holds. As mapping_list_put(). */
int mapping_list_apply(struct mapping_list *list, const struct mmap_event *event);

/** The process has mapped something: nothing happens if its mappings are not known. */
void process_entry_apply_mmap(struct process_entry *entry, const struct mmap_event *event,
			      struct process_surroundings *surroundings);

/** Put all of @list, which stays the caller's, over what the process has mapped. */
void process_entry_add_mappings(struct process_entry *entry, const struct mapping_list *list,
				struct process_surroundings *surroundings);

/** What its program mapped from the beginning: all that there is. Takes over @list; NULL is allowed. */
void process_entry_set_mappings(struct process_entry *entry, struct mapping_list *list,
				struct process_surroundings *surroundings);

/** Is @address in a mapping that is known? Nothing is read. */
bool process_entry_maps(const struct process_entry *entry, uint64_t address);

/** Read mappings anew if the kernel's events of them were lost, not too often. */
void process_entry_refresh_lost(struct process_entry *entry,
				struct process_surroundings *surroundings);

/** The mapping at @address, or NULL. Mappings are read anew (rate-limited) if it is in none. */
struct mapping *process_entry_find_mapping(struct process_entry *entry,
					   struct process_surroundings *surroundings,
					   uint64_t address);

/**
 * See to it that @mapping's executable is known and its file open, if its build id or the process's
 * own /proc can tell. Returns 0; -ESRCH if the process has gone and others are to be asked.
 */
int process_entry_open_file(struct process_entry *entry, struct mapping *mapping,
			    struct process_surroundings *surroundings);

/** The same for all mappings at once, as far as that is cheap. */
void process_entry_open_files(struct process_entry *entry,
			      struct process_surroundings *surroundings);

/**
 * Open the file by its path as @other sees it (NULL: as we see it), if it is the same file there.
 * Returns 0 or -errno.
 */
int process_entry_open_file_of(struct process_entry *entry, struct mapping *mapping,
			       struct process_entry *other,
			       struct process_surroundings *surroundings);

/** Nobody can open it: make do with what is known. */
void process_entry_refuse_file(struct process_entry *entry, struct mapping *mapping,
			       struct process_surroundings *surroundings);

/** The name of the generated code at @address, read from the process's files if need be; or NULL. */
const char *process_entry_jit_name(struct process_entry *entry, uint64_t address,
				   struct process_surroundings *surroundings);

/** How often more such names became known; looks for them if some were asked for before. */
uint64_t process_entry_jit_version(struct process_entry *entry,
				   struct process_surroundings *surroundings);

/** process_find_code(), once @mapping (NULL: none) is found and open. */
int process_entry_code(const struct process_entry *entry, const struct mapping *mapping,
		       uint64_t address, struct code_address *ret_code);
