// SPDX-License-Identifier: Apache-2.0
// The inside of the table of executables, for executable.c, which knows files by their identity, and
// executable_symbols.c, which reads their symbols.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/file_content.h"
#include "agent/elf/file_version.h"
#include "agent/guard/shares.h"
#include "agent/symbols/file_symbols.h"
#include "agent/symbols/known_executable.h"
#include "agent/symbols/symbol_name_cache.h"
#include "base/hash_table.h"

enum { EXECUTABLE_FOLDER_BYTES = 64 };

struct executable_entry {
	struct executable executable; // first: the public pointer is also the entry's
	uint64_t serial;              // never used twice: key of cached names
	uint64_t used_ns;
	uint32_t holders;
	int fd;                                // -1: closed
	struct file_version version;           // of the open file, as it was hashed
	char content[FILE_CONTENT_TEXT_BYTES]; // its hash
	uint32_t hashed_again;
	bool is_stale;  // that was written since: it says nothing about the others
	bool is_system; // root owns a file of it that nobody else may write
	char folder
		[EXECUTABLE_FOLDER_BYTES]; // in /proc of a process whose debug file it has; "": none
	char debug_content[FILE_CONTENT_TEXT_BYTES]; // of that debug file; "": none
	struct file_symbols symbols;                 // without a table: not read
	int debug_fd;                                // from debuginfod, not read yet; -1: none
	bool awaits_debug;                           // requested from debuginfod
	bool deferred;                               // symbols: no CPU time left in this interval
	bool unreadable;                             // symbols: reading failed, not tried again
	uint64_t no_lines_until_ns; // no file with its lines was found: not looked for again
	uint32_t no_lines_version;  // of its symbols then
};

struct executable_file;

struct executable_table {
	struct executable_entry **entries; // NULL where evicted
	uint32_t slot_count, capacity, count;
	struct hash_table by_key;
	struct hash_table by_id; // several may have one id
	struct executable_file *files;
	uint32_t file_count, file_capacity;
	struct hash_table by_file;
	struct symbol_name_cache names;
	uint64_t next_serial;
	uint64_t symbol_bytes;
	uint32_t open_count;               // of files and debug files
	struct identity_cache *identities; // NULL: all files are hashed
	struct debuginfod *debuginfod;
	uint64_t debuginfod_answers; // seen so far
	struct shares held;          // executables, by payer
	struct shares reading;       // CPU time spent, by payer; past intervals' in part
	uint64_t reading_ns;         // in this export interval, by all
	bool any_deferred;
};

static inline struct executable_entry *executable_entry_of(struct executable *executable)
{
	return (struct executable_entry *)executable;
}

/** Is the open file still the one that was hashed? Else another file of the same content must take its place. */
bool executable_entry_has_file(struct executable_entry *entry);
/** They are read again when they are needed. */
void executable_entry_free_symbols(struct executable_table *table, struct executable_entry *entry);
/** Make room for a descriptor: close the file and the debug file that were used longest ago. */
void executable_table_close_oldest(struct executable_table *table);
