// SPDX-License-Identifier: Apache-2.0
// A space of symbols and sources for each tenant: uploaded debug files, the symbolizer that reads them, and source files. Nobody's
// upload names another tenant's frames, or is shown to it. What debuginfod servers send is shared. Thread-safe.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/source_files.h"
#include "collector/symbols/source_folders.h"
#include "collector/symbols/symbolizer.h"

enum {
	SYMBOL_SPACES_MAX = 64
}; // each has SYMBOLIZER_FILES_OPEN files in memory, and --debug-files and --sources on disk

struct symbol_space {
	struct debug_files files;
	struct symbolizer *symbolizer;
	struct source_files sources;
	const struct source_folders *source_folders; // of all tenants
	const char *tenant;                          // "": none
};

struct symbol_spaces_options {
	const char *data;                   // the store's directory
	uint64_t bytes_max;                 // of each space's debug files
	uint64_t sources_bytes_max;         // of each space's source files
	const char *source_folders;         // source_folders_parse(); NULL: none
	struct debuginfod *debuginfod;      // borrowed; NULL: none
	struct confined_launcher *launcher; // borrowed; NULL: none
};

struct symbol_spaces;

/** Open the space without a tenant, in @data/debug-files and @data/sources; a tenant's is in @data/tenants/TENANT. */
int symbol_spaces_open(const struct symbol_spaces_options *options,
		       struct symbol_spaces **ret_spaces, struct error *err);
void symbol_spaces_close(struct symbol_spaces *spaces);

/**
 * The space of @tenant ("" or "*": that without a tenant), opened at its first use; it lives as long as
 * @spaces. NULL: SYMBOL_SPACES_MAX, or its folder cannot be made; @err says which.
 */
struct symbol_space *symbol_spaces_get(struct symbol_spaces *spaces, const char *tenant,
				       struct error *err);

/** As symbolizer_take_failures(), of all tenants' symbols. */
uint32_t symbol_spaces_take_failures(struct symbol_spaces *spaces, struct error *ret_err);
