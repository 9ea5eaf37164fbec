// SPDX-License-Identifier: Apache-2.0
// Any bytes as /proc/PID/maps, and stat: mappings are sorted without overlaps, names end with a NUL.

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/process/mapping.h"
#include "agent/process/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_mappings(struct mapping_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct mapping *mapping = &list->mappings[i];

		check(mapping->start < mapping->limit);
		check(i == 0 || list->mappings[i - 1].limit <= mapping->start);
		check(mapping_list_find(list, mapping->start) == mapping);
		check(mapping_list_find(list, mapping->limit - 1) == mapping);
		check(strlen(mapping_path(list, mapping)) < MAPPING_PATH_BYTES_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct mapping_list *list;
	struct proc_stat stat;
	int fd = memfd_create("input", MFD_CLOEXEC);

	check(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	check(mapping_list_read(fd, &list) == 0);
	check_mappings(list);
	mapping_list_release(list);
	close(fd);

	if (proc_stat_parse((const char *)bytes, size, &stat) == 0)
		check(strlen(stat.name) < sizeof(stat.name));
	return 0;
}
