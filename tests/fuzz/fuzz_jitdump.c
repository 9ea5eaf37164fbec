// SPDX-License-Identifier: Apache-2.0
// Any bytes as a jitdump that is written in two parts, with a valid header in front of every second
// input: names end with a NUL.

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/symbols/jit_symbols.h"
#include "agent/symbols/jitdump.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void read_and_look_up(struct jitdump *dump, int fd)
{
	int rc = jitdump_read(dump, fd);

	check(rc >= 0 || rc == -EBADMSG);
	for (uint64_t address = 0; address < 0x1000; address += 7) {
		const char *name = jitdump_find(dump, address);

		check(!name || strlen(name) <= JIT_NAME_BYTES_MAX);
	}
}

static void append(int fd, const void *bytes, size_t size)
{
	check(write(fd, bytes, size) == (ssize_t)size);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const uint32_t header[10] = { 0x4a695444, 1, sizeof(header), 62 };
	struct jitdump *dump = jitdump_new();
	int fd = memfd_create("input", MFD_CLOEXEC);
	size_t half = size / 2;

	check(dump && fd >= 0);
	if (size % 2)
		append(fd, header, sizeof(header));
	append(fd, bytes, half);
	read_and_look_up(dump, fd);
	append(fd, bytes + half, size - half);
	read_and_look_up(dump, fd);
	close(fd);
	jitdump_free(dump);
	return 0;
}
