// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/per_cpu.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define ONLINE_CPUS_PATH "/sys/devices/system/cpu/online"

int cpu_list_parse(const char *text, uint32_t *ret_cpus, uint32_t cpus_max)
{
	uint32_t count = 0;

	while (*text && *text != '\n') {
		char *end;

		if (!isdigit((unsigned char)*text))
			return -EBADMSG;
		unsigned long first = strtoul(text, &end, 10), last = first;
		if (*end == '-') {
			if (!isdigit((unsigned char)end[1]))
				return -EBADMSG;
			last = strtoul(end + 1, &end, 10);
		}
		if (last < first || last >= PER_CPU_MAX || (count && first <= ret_cpus[count - 1]))
			return -EBADMSG;
		for (unsigned long cpu = first; cpu <= last; cpu++) {
			if (count == cpus_max)
				return -E2BIG;
			ret_cpus[count++] = cpu;
		}
		if (*end == ',' && isdigit((unsigned char)end[1]))
			end++;
		else if (*end && *end != '\n')
			return -EBADMSG;
		text = end;
	}
	return count ? (int)count : -EBADMSG;
}

static int read_online_cpus(uint32_t *ret_cpus)
{
	_cleanup_fclose_ FILE *file = fopen(ONLINE_CPUS_PATH, "re");
	char text[4096];

	if (!file)
		return -errno;
	if (!fgets(text, sizeof(text), file))
		return -EBADMSG;
	return cpu_list_parse(text, ret_cpus, PER_CPU_MAX);
}

static void *item_at(const struct per_cpu *set, uint32_t at)
{
	return (uint8_t *)set->items + at * set->item_size;
}

static uint32_t cpu_at(const struct per_cpu *set, uint32_t at)
{
	return *(const uint32_t *)item_at(set, at);
}

static bool has_cpus(const struct per_cpu *set, const uint32_t *cpus, uint32_t count)
{
	bool same = count == set->count;

	for (uint32_t i = 0; i < count && same; i++)
		same = cpu_at(set, i) == cpus[i];
	return same;
}

int per_cpu_update(struct per_cpu *set, bool *ret_changed)
{
	_cleanup_free_ uint32_t *cpus = malloc(PER_CPU_MAX * sizeof(*cpus));
	int count = cpus ? read_online_cpus(cpus) : -ENOMEM;
	uint32_t opened = 0, old = 0;
	int rc = 0;

	*ret_changed = false;
	if (count < 0)
		return count;
	if (has_cpus(set, cpus, (uint32_t)count))
		return 0;
	_cleanup_free_ uint8_t *items = calloc((size_t)count, set->item_size);
	if (!items)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		uint8_t *item = items + opened * set->item_size;

		while (old < set->count && cpu_at(set, old) < cpus[i])
			set->close(set->context, item_at(set, old++));
		if (old < set->count && cpu_at(set, old) == cpus[i]) {
			memcpy(item, item_at(set, old++), set->item_size);
			opened++;
			continue;
		}
		int open_rc = set->open(set->context, cpus[i], item);
		// -ENODEV: the CPU went offline since the list was read.
		if (!open_rc)
			opened++;
		else if (open_rc != -ENODEV && !rc)
			rc = open_rc;
	}
	while (old < set->count)
		set->close(set->context, item_at(set, old++));
	free(set->items);
	set->items = take(items);
	set->count = opened;
	*ret_changed = true;
	return rc;
}

void per_cpu_close(struct per_cpu *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		set->close(set->context, item_at(set, i));
	free(set->items);
	set->items = NULL;
	set->count = 0;
}
