// SPDX-License-Identifier: Apache-2.0
// Any bytes as a perf map that is written in two parts: names end with a NUL, memory is bounded.

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/symbols/jit_symbols.h"
#include "agent/process/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void look_up(struct perf_map *map)
{
	for (uint64_t address = 0; address < 0x1000; address += 7) {
		const char *name = perf_map_find(map, address);

		check(!name || strlen(name) <= JIT_NAME_BYTES_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct perf_map *map = perf_map_new();
	int fd = memfd_create("input", MFD_CLOEXEC);
	size_t half = size / 2;

	check(map && fd >= 0);
	check(write(fd, bytes, half) == (ssize_t)half);
	check(perf_map_read(map, fd) >= 0);
	look_up(map);
	check(write(fd, bytes + half, size - half) == (ssize_t)(size - half));
	check(perf_map_read(map, fd) >= 0);
	look_up(map);
	close(fd);
	perf_map_free(map);
	return 0;
}
