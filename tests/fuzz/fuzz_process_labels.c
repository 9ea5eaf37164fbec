// SPDX-License-Identifier: Apache-2.0
// Any bytes as a process's cgroup file and resource attributes, after a list of patterns: labels that are cairn's own
// never come from an attribute, and their number is bounded.

#include <stdlib.h>
#include <string.h>

#include "agent/containers/cgroup.h"
#include "agent/process/process_labels.h"
#include "agent/process/resource_attributes.h"
#include "base/contract/label_names.h"
#include "base/label_patterns.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

/* The first line of the input; "" without one. */
static char *take_line(const uint8_t **bytes, size_t *size)
{
	const uint8_t *end = memchr(*bytes, '\n', *size);
	size_t length = end ? (size_t)(end - *bytes) : 0;
	char *line = calloc(1, length + 1);

	check(line);
	memcpy(line, *bytes, length);
	*bytes += length + !!end;
	*size -= length + !!end;
	return line;
}

static void check_attributes(const char *patterns, const uint8_t *bytes, size_t size)
{
	static const char *const reserved[] = { LABEL_NODE,    LABEL_PROCESS,      LABEL_THREAD,
						LABEL_POD_UID, LABEL_CONTAINER_ID, LABEL_UNIT,
						"tenant" };
	struct labels labels = { 0 };
	uint64_t refused = 0;

	check(resource_attributes_add(&labels, patterns, (const char *)bytes, size, &refused) == 0);
	for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
		check(!labels_get(&labels, reserved[i]));
	check(labels.count < LABELS_MAX);
	labels_deinit(&labels);
}

static void check_all(const char *patterns, const uint8_t *bytes, size_t size)
{
	struct process_traits traits = {
		.name = "fuzz",
		.environ_ = (const char *)bytes,
		.environ_size = size,
		.cgroup = (const char *)bytes,
		.cgroup_size = size,
		.attribute_patterns = patterns,
	};
	struct labels labels = { 0 };
	uint64_t refused = 0;
	bool own_service;

	check(process_labels_detect(&traits, NULL, &labels, &own_service, &refused) == 0);
	check(labels_get(&labels, LABEL_PROCESS) != NULL);
	check(labels.count < LABELS_MAX);
	labels_deinit(&labels);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct error err;
	char *patterns = take_line(&bytes, &size);

	// Patterns are the operator's, and checked before they are used.
	if (label_patterns_check(patterns, &err) == 0)
		check_attributes(patterns, bytes, size);
	check_attributes("*", bytes, size);
	check_all("*", bytes, size);
	free(patterns);
	return 0;
}
