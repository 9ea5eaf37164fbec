// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/workload.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* CronJob's controller: Unix time in minutes, 8 digits until the year 2160. */
enum { CRON_DIGITS_MIN = 8 };

static void set(struct workload *workload, const char *kind, const char *name, size_t size)
{
	snprintf(workload->kind, sizeof(workload->kind), "%s", kind);
	snprintf(workload->name, sizeof(workload->name), "%.*s", (int)size, name);
}

/* The size of @name without "-" and @end; 0: it does not end so. */
static size_t size_without(const char *name, const char *end)
{
	size_t size = strlen(name), end_size = strlen(end);

	if (!end_size || size < end_size + 2 || name[size - end_size - 1] != '-' ||
	    strcmp(name + size - end_size, end) != 0)
		return 0;
	return size - end_size - 1;
}

static size_t size_without_minutes(const char *name)
{
	const char *dash = strrchr(name, '-');

	if (!dash || dash == name || strlen(dash + 1) < CRON_DIGITS_MIN ||
	    dash[1 + strspn(dash + 1, "0123456789")])
		return 0;
	return (size_t)(dash - name);
}

static void set_lower(struct workload *workload, const char *kind, const char *name)
{
	set(workload, kind, name, WORKLOAD_NAME_BYTES - 1);
	for (char *at = workload->kind; *at; at++)
		*at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '_';
}

bool workload_of(const struct pod_owner *owner, struct workload *ret_workload)
{
	size_t size;

	if (!owner->kind[0] || !owner->name[0])
		return false;
	if (strcmp(owner->kind, "ReplicaSet") == 0 &&
	    (size = size_without(owner->name, owner->template_hash)))
		set(ret_workload, "deployment", owner->name, size);
	else if (strcmp(owner->kind, "Job") == 0 && (size = size_without_minutes(owner->name)))
		set(ret_workload, "cronjob", owner->name, size);
	else if (strcmp(owner->kind, "Node") == 0 && (size = size_without(owner->pod, owner->name)))
		set(ret_workload, "static", owner->pod, size);
	else
		set_lower(ret_workload, owner->kind, owner->name);
	return true;
}
