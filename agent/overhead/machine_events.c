// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/machine_events.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

// The number after @key at the beginning of a line; 0: there is none.
static uint64_t read_number(const char *proc, const char *name, const char *key)
{
	_cleanup_free_ char *line = NULL;
	char path[PATH_MAX];
	size_t size = 0;

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && getline(&line, &size, file) > 0) {
		if (strncmp(line, key, strlen(key)) == 0)
			return strtoull(line + strlen(key), NULL, 10);
	}
	return 0;
}

void machine_events_read(const char *proc, struct machine_events *ret_events)
{
	*ret_events = (struct machine_events){
		.switches = read_number(proc, "stat", "ctxt "),
		.faults = read_number(proc, "vmstat", "pgfault "),
	};
}
