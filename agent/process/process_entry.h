// SPDX-License-Identifier: Apache-2.0
// One process of the process table: labels, mappings and JIT names, read from /proc and kept current.
// process_entry.c has its life and labels, process_pod.c what its pod adds to them, process_mappings.c its mappings and
// their files. Private to this room.
#pragma once

#include "agent/containers/container_records.h"
#include "agent/containers/pod_table.h"
#include "agent/process/mapping.h"
#include "agent/bpf/mmap_events.h"
#include "agent/process/proc.h"
#include "agent/process/process.h"
#include "agent/process/process_jit.h"
#include "agent/relabel/relabel_rules.h"

/** Labels, shared with forked children. Reference-counted, and never changed: a pod's word makes another set. */
struct label_set {
	uint32_t holders;
	struct labels labels;
	struct labels detected; // without the pod's word and rules; empty without either
	char container[CONTAINER_ID_BYTES]; // "": in none
	char pod_uid[POD_UID_BYTES];
	bool own_service;        // process_labels_detect()
	struct meta_labels meta; // that relabel rules read, without the pod's
	bool is_excluded;
	bool is_dropped;       // by a relabel rule, which counts once it is settled
	bool is_settled;       // the pod and the container are known, or there are none
	uint64_t pod_version;  // pod_match.version; 0: the pod is not known
	uint64_t wait_ns;      // process.pod_wait_ns, while it is not settled
	uint64_t node_version; // pod_table_node_version() of its labels
	uint64_t node_wait_ns; // as wait_ns, for the node's labels; 0: nothing is awaited
};

enum {
	JIT_BYTES_MAX = 32 << 20, // JIT names of all processes; past it no more are read
};

struct process_entry {
	struct process process; // first: the public pointer is also the entry's
	bool exact; // key.start_ns and key.exec_id are the kernel's; else start_ns is from /proc
	bool kernel_thread;
	bool is_held;   // nothing is read for the program it runs now
	bool gone;      // /proc does not show this process (any more): exited, or replaced by exec
	bool described; // process.labels are set
	uint8_t label_tries;
	bool outdated;       // mmap events were skipped: read the mappings again
	uint32_t parent_pid; // whose copy it is; 0: unknown, or it called exec since
	uint64_t parent_start_ns;
	struct process_key ancestor; // the nearest that may see the same files; pid 0: unknown
	uint64_t exited_ns;
	uint64_t used_ns;
	uint64_t label_again_ns; // when to read labels again; 0: they are final
	struct label_set *labels;
	struct label_set *former_labels; // of the program that this one replaced by exec
	uint64_t pods_version; // of the pod table, when its labels were last compared with it
	bool was_exported;     // samples may have been shipped with its labels
	struct mapping_list *mappings; // NULL: not read
	uint64_t mappings_read_ns;     // when they were last right, apart from events since
	uint64_t refreshed_ns; // the last time they were read for this process, or reading failed
	uint64_t mappings_wait_ns; // until the next read for an unknown address
	struct process_jit *jit;   // NULL: no JIT name was looked up
	uint64_t moved_count;      // mappings moved to insert others, in this export interval
	uint64_t reopen_ns;        // when to try again to open the files of an exited process
};

/** What all entries of a table share. */
struct process_context {
	struct executable_table *executables;
	struct executable *vdso;     // the same for all processes; held once one has been seen
	uint64_t mapping_generation; // the last one given out
	bool has_events;             // mmap events keep mappings current
	uint64_t lost_ns;            // when mmap events were last lost
	size_t jit_bytes;            // memory of all process_jit, about
	uint64_t jit_cut;            // process_jit that hit a limit
	uint64_t jit_refused;        // reads skipped because of JIT_BYTES_MAX
	struct work_pool work;       // of all processes' budgets
	uint64_t put_off_bytes;      // mappings of more are not identified for now; 0: all are
	struct pod_table *pods;      // NULL: no pods
	uint64_t pods_late;          // process_pod_losses
	struct container_records *containers; // NULL: none
	const struct relabel_rules *rules;    // NULL: none
	struct relabel_stats relabeled;
	struct labels extra_labels;
	const char *attribute_patterns; // NULL: none
	uint64_t attributes_refused;
	char node[256];
	uint64_t described; // descriptions so far
};

/** A start time in the clock ticks of /proc. */
uint64_t process_start_ticks(uint64_t start_ns);

/** Frees what the entry holds, and the entry. */
void process_entry_free(struct process_entry *entry);

/** @child is a copy of @parent: it shares labels and mappings. */
void process_entry_inherit(struct process_entry *child, const struct process_entry *parent);

/** @entry replaced the program @former by exec: it is in the same container. */
void process_entry_replace(struct process_entry *entry, const struct process_entry *former);

/** Open its folder in /proc. Returns 0; -ESRCH if /proc shows no or another process; -errno. */
int process_entry_open_proc(struct process_entry *entry, struct proc *ret_proc);

/**
 * Read labels and mappings from /proc, unless that is done. An exited process gets what its name and @parent
 * (NULL: unknown) have. Returns 0 or -ENOMEM.
 */
int process_entry_describe(struct process_entry *entry, struct process_entry *parent,
			   struct process_context *context);

/** Let its labels be @labels, which it holds from now on; NULL: none. */
void process_entry_use_labels(struct process_entry *entry, struct label_set *labels);

/** The name of the JIT code at @address, read from the process's files if need be; or NULL. */
const char *process_entry_jit_name(struct process_entry *entry, uint64_t address,
				   struct process_context *context);

/** Grows with each read that brought more JIT names; reads if some were looked up before. */
uint64_t process_entry_jit_version(struct process_entry *entry, struct process_context *context);

// ---- process_pod.c --------------------------------------------------------------------------

/** Free the set if nobody else holds it. NULL is allowed. */
void label_set_release(struct label_set *set);

/** Note in a new set where the process runs, and for how long what is measured waits for its pod. */
int label_set_place(struct label_set *set, const struct cgroup *cgroup, uint64_t now_ns,
		    const struct process_context *context);
/** The same as the program has that was there before. */
int label_set_place_as(struct label_set *set, const struct label_set *former,
		       const struct process_context *context);

/** Apply the relabel rules to a set's labels, with what @pod (NULL: unknown) adds for them. */
int label_set_relabel(struct label_set *set, const struct pod_match *pod,
		      struct process_context *context);

/** Exclude it if a relabel rule dropped it and nothing more is awaited. */
void process_entry_apply_drop(struct process_entry *entry, struct process_context *context);

/**
 * Add the pod's and the node's word to its labels, as far as it is known and new. Cheap if the pod table has not changed.
 * @exported: the labels that samples were shipped with; NULL: none.
 */
void process_entry_find_pod(struct process_entry *entry, const struct label_set *exported,
			    struct process_context *context);

// ---- process_mappings.c ---------------------------------------------------------------------

/** Read the mappings from @proc and open their files; files only if mappings are known. */
void process_entry_read_mappings(struct process_entry *entry, const struct proc *proc,
				 struct process_context *context);

/** Put the event's mapping into a list without other holders. As mapping_list_put(). */
int mapping_list_apply(struct mapping_list *list, const struct mmap_event *event);

/** Apply an event, if the mappings are known. */
void process_entry_apply_mmap(struct process_entry *entry, const struct mmap_event *event,
			      struct process_context *context);

/** Put all of @list over the mappings. */
void process_entry_add_mappings(struct process_entry *entry, const struct mapping_list *list,
				struct process_context *context);

/** All mappings of a new program. @list is the entry's from now on; NULL is allowed. */
void process_entry_set_mappings(struct process_entry *entry, struct mapping_list *list,
				struct process_context *context);

/** Is @address in a known mapping? Reads nothing. */
bool process_entry_maps(const struct process_entry *entry, uint64_t address);

/** Read the mappings again (rate-limited) if mmap events were lost. */
void process_entry_refresh_lost(struct process_entry *entry, struct process_context *context);

/** The mapping at @address, or NULL. An unknown address reads the mappings again (rate-limited). */
struct mapping *process_entry_find_mapping(struct process_entry *entry,
					   struct process_context *context, uint64_t address);

/**
 * Find @mapping's executable by the process's /proc, and open its file; that of an exited one by a build id of the
 * system's files. Returns 0; -ESRCH if
 * the process has exited: try process_entry_open_file_of().
 */
int process_entry_open_file(struct process_entry *entry, struct mapping *mapping,
			    struct process_context *context);

/** The same for all mappings, up to a limit. */
void process_entry_open_files(struct process_entry *entry, struct process_context *context);

/**
 * Open the file by its path in the view of @other (NULL: the agent), if it is the same file there.
 * Returns 0 or -errno.
 */
int process_entry_open_file_of(struct process_entry *entry, struct mapping *mapping,
			       struct process_entry *other, struct process_context *context);

/** Nobody can open the file: the mapping's executable is its build id, without symbols, or none. */
void process_entry_refuse_file(struct process_entry *entry, struct mapping *mapping,
			       struct process_context *context);

/** process_find_code(), once @mapping (NULL: none) is found and its file open. */
int process_entry_code(const struct process_entry *entry, const struct mapping *mapping,
		       uint64_t address, struct code_address *ret_code);
