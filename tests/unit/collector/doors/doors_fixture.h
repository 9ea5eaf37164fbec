// SPDX-License-Identifier: Apache-2.0
// What tests of the doors share: a store that keeps the last batch, and URLs of parameters.
#pragma once

#include "tests/test.h"

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/export/collapsed.h"
#include "collector/access/access.h"
#include "collector/doors/doors.h"
#include "tests/unit/collector/limits/limits_fixture.h"
#include "tests/unit/base/import/pprof_bytes.h"
#include "tests/unit/collector/store/memory_store.h"

struct seen_batch {
	struct store_batch_id id;
	char stacks[4096]; // of all series of CPU time, collapsed
	char labels[1024]; // of the first series: name=value,
	char type[PROFILE_TYPE_BYTES];
	uint64_t from_slot;
	uint32_t sample_count;
	uint64_t to_ns;
};

static struct seen_batch seen;

static void see_batch(const struct store_batch_id *batch, const struct profile *profile)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	seen = (struct seen_batch){ .id = *batch,
				    .sample_count = profile->sample_count,
				    .from_slot = profile->samples[0].slot,
				    .to_ns = profile->to_ns };
	snprintf(seen.type, sizeof(seen.type), "%s",
		 profile_string(profile, profile->series[profile->samples[0].series].type));
	collapsed_encode(profile, seen.type, &text);
	snprintf(seen.stacks, sizeof(seen.stacks), "%s", buffer_string(&text));
	const struct labels *labels = &profile->series[profile->samples[0].series].labels;
	for (uint32_t i = 0; i < labels->count; i++) {
		size_t at = strlen(seen.labels);

		snprintf(seen.labels + at, sizeof(seen.labels) - at, "%s=%s,",
			 labels->pairs[i].name, labels->pairs[i].value);
	}
}

struct doors_fixture {
	struct store *store;
	struct metrics metrics;
	struct byte_budget budget;
	struct doors doors;
	struct identity identity;
	struct door_outcome outcome;
	struct error err;
};

static inline void open_doors(struct doors_fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->store = memory_store_new(NS_PER_SECOND);
	f->store->on_append = see_batch;
	f->budget.bytes_max = 64 << 20;
	f->doors =
		(struct doors){ .store = f->store, .metrics = &f->metrics, .budget = &f->budget };
	f->identity = access_local();
	snprintf(f->identity.key, sizeof(f->identity.key), "token:shop");
	snprintf(f->identity.tenant, sizeof(f->identity.tenant), "shop");
}

static inline void close_doors(struct doors_fixture *f)
{
	// Whatever was taken was given back.
	assert_int_equal(0, f->budget.bytes_taken);
	store_close(f->store);
}

/** "name\0value\0...\0": parameters of a URL. */
static inline const char *find_parameter(const void *context, const char *name)
{
	for (const char *at = context; *at;) {
		const char *value = at + strlen(at) + 1;

		if (strcmp(at, name) == 0)
			return value;
		at = value + strlen(value) + 1;
	}
	return "";
}

static inline void visit_parameters(const void *context,
				    void (*read)(void *reading, const char *name,
						 const char *value),
				    void *reading)
{
	for (const char *at = context; *at;) {
		const char *value = at + strlen(at) + 1;

		read(reading, at, value);
		at = value + strlen(value) + 1;
	}
}

static inline struct door_request door_request_of(const struct doors_fixture *f,
						  const char *parameters, const void *bytes,
						  size_t size)
{
	return (struct door_request){ .identity = &f->identity,
				      .address = "192.0.2.1",
				      .bytes = bytes,
				      .size = size,
				      .parameter = find_parameter,
				      .each_parameter = visit_parameters,
				      .context = parameters };
}
