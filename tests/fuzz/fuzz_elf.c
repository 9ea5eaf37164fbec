// SPDX-License-Identifier: Apache-2.0
// Any bytes as an ELF file: it is refused or identified, and its symbols lie in
// the file and have names that are text.

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/symbols/executable_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { LOOKS = 64 };

static void look_up_symbols(struct executable_table *table, struct executable *executable,
			    size_t size)
{
	size_t step = size / LOOKS + 1;

	for (uint64_t offset = 0; offset < size; offset += step) {
		struct symbol symbol;

		if (executable_find_symbol(table, executable, offset, &symbol))
			continue;
		if (symbol.start_offset > offset || offset - symbol.start_offset >= symbol.size ||
		    !symbol.name[0])
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct executable_table *table = executable_table_new();
	struct executable *executable;
	struct error err;
	int fd = memfd_create("input", MFD_CLOEXEC);

	if (!table || fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	if (executable_table_open(table, fd, "input", &executable, &err) == 0) {
		if (strlen(executable->id) < 16)
			abort();
		look_up_symbols(table, executable, size);
	}
	close(fd);
	executable_table_free(table);
	return 0;
}
