// SPDX-License-Identifier: Apache-2.0
// What an executable or library is known by, to all who hold one of the table (executable.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** One file. Valid until the next executable_table_trim(), or while it is held. */
struct executable {
	char *id; // GNU build id in hex, or "h" and the file's hash in hex: for others, who know builds by it
	char *key; // "ID:CONTENT" (file_content.h): what is known of the file is kept by it; ID if it was never open
	char *path;      // as the process sees it: /usr/lib/libfoo.so.1, "[vdso]", "memfd:x"
	uint64_t number; // never used twice; 0: it is in no table
	bool has_build_id;
	uint64_t payer; // who pays for what reading it costs (agent/guard/shares.h); 0: nobody
	uint32_t symbols_version; // changes when more names may be found
				  // the rest: executable_entry.h
};
