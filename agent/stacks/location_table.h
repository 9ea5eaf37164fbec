// SPDX-License-Identifier: Apache-2.0
// The places in code that stacks go through, by identity. They outlive processes and windows: a
// location is found or made when a stack's body arrives, named when it is first part of a profile
// (and again when more has become known), and dropped when no stack goes through it any more. One
// thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/executable.h"
#include "agent/symbols/kallsyms.h"
#include "base/profile.h"

struct location_table;

enum {
	LOCATIONS_MAX = 1 << 20, // some 150 bytes each; a busy node has tens of thousands
};

/**
 * @kallsyms may be NULL: kernel frames stay unnamed. Both are the caller's and outlive the table.
 */
struct location_table *location_table_new(struct executable_table *executables,
					  struct kallsyms *kallsyms);
void location_table_free(struct location_table *table);

struct source_line_reader;

/**
 * Give native locations their source lines and inlined calls, too, once @lines has read them. It
 * is the caller's and outlives the table.
 */
void location_table_use_lines(struct location_table *table, struct source_line_reader *lines);

/**
 * Each finds or makes a location and returns its number, HASH_TABLE_NONE when out of memory or at
 * LOCATIONS_MAX. Numbers are valid until a location_table_sweep() that did not mark them.
 */

/** A caller: the call at @offset in the file of @executable. Named later. */
uint32_t location_table_add_call(struct location_table *table, struct executable *executable,
				 uint64_t offset);
/** A leaf in a file, reduced to its function where a symbol covers it. */
uint32_t location_table_add_leaf(struct location_table *table, struct executable *executable,
				 uint64_t offset);
/** Kernel code at @address; a leaf is reduced to its function. */
uint32_t location_table_add_kernel(struct location_table *table, uint64_t address, bool leaf);
/** Code made at run time, of the function @name: the same whatever its address. */
uint32_t location_table_add_jit(struct location_table *table, const char *name);
/** A function that runs on a GPU, by its name as the driver has it. */
uint32_t location_table_add_gpu(struct location_table *table, const char *name);
/** Code in no file (made at run time) without a name; a leaf is reduced to its page. */
uint32_t location_table_add_anonymous(struct location_table *table, uint64_t address, bool leaf);

/**
 * Interpreted code, leaf or caller: @name (qualified) in the source @file ("": unknown) at @line (0:
 * unknown, or none). The strings are copied.
 */
uint32_t location_table_add_python(struct location_table *table, const char *name, const char *file,
				   uint32_t line);

/** Python code that could not be read: all of it is one location. */
uint32_t location_table_add_unread_python(struct location_table *table);

/** Is it code made at run time that nothing names (yet)? */
bool location_table_is_anonymous(const struct location_table *table, uint32_t location);
bool location_table_is_unread_python(const struct location_table *table, uint32_t location);

/** No code, but something that a stack says: "[woken by nginx]". */
uint32_t location_table_add_marker(struct location_table *table, const char *name);

/** Code of a process that has gone before its mappings could be read: one place for all of it. */
uint32_t location_table_add_exited(struct location_table *table);

/**
 * The location's position in @profile, to which it is added with its name if need be. A new
 * profile must be announced by location_table_begin_profile(). Returns 0 or what
 * profile_add_location() returns.
 */
int location_table_put(struct location_table *table, uint32_t location, struct profile *profile,
		       uint32_t *ret_position);
void location_table_begin_profile(struct location_table *table);

/** Mark what is still in use, then sweep: all other locations are dropped, their numbers reused. */
void location_table_mark(struct location_table *table, uint32_t location);
void location_table_sweep(struct location_table *table);

uint32_t location_table_count(const struct location_table *table);
