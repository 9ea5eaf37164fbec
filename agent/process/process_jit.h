// SPDX-License-Identifier: Apache-2.0
// Names of a process's JIT code, from its perf map and its jitdump. They are read on demand, at a bounded rate. One
// thread.
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

/** Is it time for process_jit_read()? @known: the address has a name, but its code may have been replaced. */
bool process_jit_wants_read(const struct process_jit *jit, bool known, uint64_t now_ns);

/** Read what was added to the process's files. @list has its mappings. */
void process_jit_read(struct process_jit *jit, const struct proc *proc,
		      const struct mapping_list *list, uint64_t now_ns);

/** The name of the function at @address, or NULL. Valid until the next call of any of these. */
const char *process_jit_find(struct process_jit *jit, uint64_t address);

/** Grows with each process_jit_read() that brought names. */
uint64_t process_jit_version(const struct process_jit *jit);

/** Was a limit hit? Then later functions have no names. */
bool process_jit_is_full(const struct process_jit *jit);

/** Memory in use. */
size_t process_jit_bytes(const struct process_jit *jit);
