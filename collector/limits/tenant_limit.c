// SPDX-License-Identifier: Apache-2.0
#include "collector/limits/tenant_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/labels.h"
#include "base/profile/profile.h"

#define MINUTE_NS (60 * NS_PER_SECOND)

static const struct tenant_limit_spec specs[] = {
	[LIMIT_INGEST_RATE] = { "ingest-rate", CONFIG_SIZE, 1 << 10, 1ULL << 40, 0, "none",
				"bytes a second of batches and pushes, uncompressed",
				"refused until later: agents keep the batch and try again" },
	[LIMIT_INGEST_BURST] = { "ingest-burst", CONFIG_SIZE, 1 << 10, 1ULL << 40, 0,
				 "10 seconds of `ingest-rate`",
				 "bytes that may come at once, beside `ingest-rate`",
				 "as for `ingest-rate`" },
	[LIMIT_SERIES] = { "series", CONFIG_UINT, 1, TENANT_SERIES_MAX, TENANT_SERIES_DEFAULT, NULL,
			   "series of an hour, in the embedded store",
			   "rows of new series are stored under the label `other`" },
	[LIMIT_LABELS] = { "labels", CONFIG_UINT, 4, LABELS_MAX, LABELS_MAX, NULL,
			   "labels of a series, without `tenant`",
			   "labels are left out: first those that cairn does not set" },
	[LIMIT_LABEL_NAME] = { "label-name-bytes", CONFIG_UINT, 16, LABEL_NAME_BYTES_MAX,
			       LABEL_NAME_BYTES_MAX, NULL, "bytes of a label's name",
			       "the label is left out" },
	[LIMIT_LABEL_VALUE] = { "label-value-bytes", CONFIG_UINT, 16, LABEL_VALUE_BYTES_MAX,
				LABEL_VALUE_BYTES_MAX, NULL, "bytes of a label's value",
				"the value is cut" },
	[LIMIT_STACK_DEPTH] = { "stack-depth", CONFIG_UINT, 16, STACK_FRAMES_MAX, STACK_FRAMES_MAX,
				NULL, "frames of a stack",
				"the outer frames are cut: `[truncated: too deep]`" },
	[LIMIT_QUERY_RANGE] = { "query-range", CONFIG_DURATION, MINUTE_NS, TENANT_RANGE_NS_MAX,
				TENANT_RANGE_NS_MAX, NULL, "the range of a query",
				"the query is refused (422)" },
	[LIMIT_QUERY_MEMORY] = { "query-memory", CONFIG_SIZE, 1 << 20, 1ULL << 42, 0,
				 "what all queries have",
				 "memory of the tenant's queries that run at the same time, "
				 "without their answers",
				 "the query is refused (429, or 422 if it needs more alone)" },
};
_Static_assert(ARRAY_SIZE(specs) == TENANT_LIMITS, "a limit is missing");

const struct tenant_limit_spec *tenant_limit_spec(enum tenant_limit limit)
{
	return &specs[limit];
}

enum tenant_limit tenant_limit_of_name(const char *name)
{
	int limit = 0;

	while (limit < TENANT_LIMITS && strcmp(specs[limit].name, name) != 0)
		limit++;
	return (enum tenant_limit)limit;
}

struct unit {
	uint64_t factor;
	const char *name;
};

/** In the largest unit of which it is a multiple. */
static void write_in_units(uint64_t value, const struct unit *units, size_t count,
			   char text[TENANT_LIMIT_TEXT_BYTES])
{
	size_t i = 0;

	while (i + 1 < count && value % units[i].factor)
		i++;
	snprintf(text, TENANT_LIMIT_TEXT_BYTES, "%" PRIu64 "%s", value / units[i].factor,
		 units[i].name);
}

const char *tenant_limit_text(enum tenant_limit limit, uint64_t value,
			      char text[TENANT_LIMIT_TEXT_BYTES])
{
	static const struct unit sizes[] = {
		{ 1 << 30, " GiB" }, { 1 << 20, " MiB" }, { 1 << 10, " KiB" }, { 1, " bytes" }
	};
	static const struct unit times[] = { { 86400 * NS_PER_SECOND, "d" },
					     { 3600 * NS_PER_SECOND, "h" },
					     { MINUTE_NS, "m" },
					     { NS_PER_SECOND, "s" },
					     { 1, "ns" } };

	if (specs[limit].kind == CONFIG_SIZE)
		write_in_units(value, sizes, ARRAY_SIZE(sizes), text);
	else if (specs[limit].kind == CONFIG_DURATION)
		write_in_units(value, times, ARRAY_SIZE(times), text);
	else
		snprintf(text, TENANT_LIMIT_TEXT_BYTES, "%" PRIu64, value);
	return text;
}
