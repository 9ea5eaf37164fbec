// SPDX-License-Identifier: Apache-2.0
// Any bytes as /proc/kallsyms: a found symbol begins at or before the address.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/symbols/kallsyms.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	struct kallsyms *kallsyms;
	struct error err;
	char path[64];

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (kallsyms_open(path, &kallsyms, &err) == 0) {
		for (unsigned shift = 0; shift < 64; shift++) {
			uint64_t address = 0xffffffffa5a5a5a5ULL >> shift;
			struct kernel_symbol symbol;

			if (kallsyms_find(kallsyms, address, &symbol))
				continue;
			if (symbol.start > address || !symbol.name[0] || !symbol.module[0])
				abort();
		}
		kallsyms_close(kallsyms);
	}
	close(fd);
	return 0;
}
