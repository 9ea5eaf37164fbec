// SPDX-License-Identifier: Apache-2.0
// A file of limits, and what is opened of it.
#pragma once

#include <unistd.h>

#include "base/clock.h"
#include "collector/limits/tenant_limits.h"
#include "tests/test.h"

struct limits_fixture {
	char path[48];
	struct tenant_limits *limits;
};

/** Replace the file, as an editor does: by moving a new one over it. */
static inline void limits_write(struct limits_fixture *f, const char *text)
{
	char other[64];

	snprintf(other, sizeof(other), "%s.new", f->path);
	FILE *file = fopen(other, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(0, rename(other, f->path));
}

static inline void limits_open(struct limits_fixture *f, const char *text)
{
	struct error err = { 0 };

	strcpy(f->path, "/tmp/cairn-limits-XXXXXX");
	int fd = mkstemp(f->path);
	assert_true(fd >= 0);
	close(fd);
	limits_write(f, text);
	if (tenant_limits_open(f->path, &f->limits, &err))
		fail_msg("%s", err.text);
}

static inline void limits_close(struct limits_fixture *f)
{
	tenant_limits_close(f->limits);
	unlink(f->path);
}

/** @tenant sends @bytes now. */
static inline void limits_use(struct limits_fixture *f, const char *tenant, uint64_t bytes)
{
	assert_int_equal(0, tenant_take_ingest(tenant_limits_find(f->limits, tenant), bytes,
					       clock_monotonic_ns(), NULL));
}

/** What @tenant's limit has refused. */
static inline uint64_t refusals_of(struct limits_fixture *f, const char *tenant,
				   enum tenant_limit limit)
{
	struct tenant_refusal *list = NULL;
	uint32_t count = 0;
	uint64_t refused = 0;

	assert_int_equal(0, tenant_limits_list(f->limits, tenant, &list, &count));
	for (uint32_t i = 0; i < count; i++)
		refused += list[i].limit == limit ? list[i].count : 0;
	free(list);
	return refused;
}
