// SPDX-License-Identifier: Apache-2.0
// Names of the code that one process makes at run time: from its perf map and its jitdump, where it
// writes them. They are read when an address asks for it, at a bounded rate. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/process/mapping.h"
#include "agent/process/proc.h"

struct process_jit;

struct process_jit *process_jit_new(void);
/** NULL is allowed. */
void process_jit_free(struct process_jit *jit);

/**
 * Should process_jit_read() be called for an address whose name is @known so far? Says no most of the
 * time, not to ask for the same files again and again.
 */
bool process_jit_wants_read(const struct process_jit *jit, bool known, uint64_t now_ns);

/** Read what the process has added to its files since. @list is of its mappings. */
void process_jit_read(struct process_jit *jit, const struct proc *proc,
		      const struct mapping_list *list, uint64_t now_ns);

/** The name of the function at @address, or NULL. Valid until the next call of any of these. */
const char *process_jit_find(struct process_jit *jit, uint64_t address);

/** How often process_jit_read() found something new. */
uint64_t process_jit_version(const struct process_jit *jit);

/** Are there more names in the process's files than are kept? */
bool process_jit_is_full(const struct process_jit *jit);

/** Memory in use. */
size_t process_jit_bytes(const struct process_jit *jit);
