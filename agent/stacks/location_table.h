// SPDX-License-Identifier: Apache-2.0
// Locations in code, by identity, shared by all stacks of all processes. A location is added when a stack
// trace arrives, named when it is first put into a profile (and again when more names are known), and freed
// when no stack has it any more. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/stacks/location_cache.h"
#include "agent/symbols/executable.h"
#include "agent/symbols/kallsyms.h"
#include "base/profile/profile.h"

struct location_table;

enum {
	LOCATIONS_MAX = 1 << 20, // some 150 bytes each; a busy node has tens of thousands
};

/** Both outlive the table. @kallsyms NULL: kernel frames stay unnamed. NULL when out of memory. */
struct location_table *location_table_new(struct executable_table *executables,
					  struct kallsyms *kallsyms);
void location_table_free(struct location_table *table);

struct source_line_reader;

/** Name kernel frames by these symbols, which outlive the table: before the first frame is added. */
void location_table_use_kallsyms(struct location_table *table, struct kallsyms *kallsyms);
/** Give native locations source lines and inlined calls, too. @lines outlives the table. */
void location_table_use_lines(struct location_table *table, struct source_line_reader *lines);

/**
 * Each of these finds or adds a location and returns its number; HASH_TABLE_NONE when out of memory or at
 * LOCATIONS_MAX. A number is valid until a location_table_sweep() finds it unmarked.
 */

/** A caller: the call at @offset in the file of @executable. Named later. */
uint32_t location_table_add_call(struct location_table *table, struct executable *executable,
				 uint64_t offset);
/** A leaf in a file, reduced to its function where a symbol covers it. */
uint32_t location_table_add_leaf(struct location_table *table, struct executable *executable,
				 uint64_t offset);
/** Kernel code at @address; a leaf is reduced to its function. */
uint32_t location_table_add_kernel(struct location_table *table, uint64_t address, bool leaf);
/** JIT code of the function @name: one location whatever its address. */
uint32_t location_table_add_jit(struct location_table *table, const char *name);
/** A GPU kernel, by its mangled name. */
uint32_t location_table_add_gpu(struct location_table *table, const char *name);
/** JIT code without a name; a leaf is reduced to its page. */
uint32_t location_table_add_anonymous(struct location_table *table, uint64_t address, bool leaf);

/** Python code: @name (qualified) in @file ("": unknown) at @line (0: unknown, or none). Strings are copied. */
uint32_t location_table_add_python(struct location_table *table, const char *name, const char *file,
				   uint32_t line);

/** Python code that could not be read: one location for all of it. */
uint32_t location_table_add_unread_python(struct location_table *table);

/** Is it JIT code without a name (yet)? */
bool location_table_is_anonymous(const struct location_table *table, uint32_t location);
bool location_table_is_unread_python(const struct location_table *table, uint32_t location);

/** A frame that is no code, such as "[waker: nginx]". */
uint32_t location_table_add_marker(struct location_table *table, const char *name);

/** Code of a process that exited before its mappings were read: one location for all of it. */
uint32_t location_table_add_exited(struct location_table *table);

/**
 * The location's position in @profile; adds it there, with its names, the first time. Call
 * location_table_begin_profile() before each new profile. Returns 0 or what profile_add_location() returns.
 */
int location_table_put(struct location_table *table, uint32_t location, struct profile *profile,
		       uint32_t *ret_position);
void location_table_begin_profile(struct location_table *table);

/**
 * The location of a frame that was noted since the last sweep, for those that are costly to resolve; HASH_TABLE_NONE. Native
 * frames need not be noted.
 */
uint32_t location_table_find_frame(const struct location_table *table,
				   const struct location_key *key);
void location_table_note_frame(struct location_table *table, const struct location_key *key,
			       uint32_t location);

/** Mark what is in use, then sweep: the other locations are freed, their numbers reused. */
void location_table_mark(struct location_table *table, uint32_t location);
void location_table_sweep(struct location_table *table);

uint32_t location_table_count(const struct location_table *table);
