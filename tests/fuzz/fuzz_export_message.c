// SPDX-License-Identifier: Apache-2.0
// Any bytes as an ExportRequest: it is refused or decoded to a valid profile, which
// survives being encoded and decoded again.

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "proto/export_message.h"
#include "base/contract/label_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed);

enum { SEED_BYTES_MIN = 40 }; // shorter ones have no room for the two ids

static bool define_all(void *context, const struct profile *profile, const struct stack *stack)
{
	(void)context, (void)profile, (void)stack;
	return true;
}

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_profile(const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		check(profile->samples[i].series < profile->series_count);
		check(profile->samples[i].stack < profile->stack_count);
	}
	for (uint32_t i = 0; i < profile->stack_location_count; i++)
		check(profile->stack_locations[i] < profile->location_count);
	for (uint32_t i = 0; i < profile->location_count; i++) {
		const struct location *location = &profile->locations[i];

		check(location->kind < FRAME_KIND_COUNT);
		check(location->first_line + location->line_count <= profile->line_count);
	}
}

static void check_boosts(const struct export_response *response)
{
	check(response->boost_count <= BOOSTS_OF_AGENT_MAX);
	for (uint32_t i = 0; i < response->boost_count; i++) {
		const struct boost *boost = &response->boosts[i];

		check(boost->id && boost->hz <= BOOST_HZ_MAX);
		check(boost->left_ms && boost->left_ms <= BOOST_SECONDS_MAX * 1000U);
		check(!(boost->profiles & ~(uint32_t)BOOST_PROFILES));
		check(memchr(boost->services, 0, sizeof(boost->services)) != NULL);
	}
}

static void check_round_trip(const struct batch_id *batch, const struct profile *profile,
			     const struct boost_report *report)
{
	struct buffer buffer = { 0 };
	struct profile *again = NULL;
	struct boost_report states;
	struct batch_id id;
	struct error err;

	check(!export_request_encode(batch, profile, define_all, NULL, &buffer, &err));
	check(!export_request_add_boosts(report, &buffer, &err));
	check(!export_request_decode(buffer.bytes, buffer.size, &id, &again, &states, &err));
	check(states.count == report->count && states.count <= BOOSTS_OF_AGENT_MAX);
	check(!memcmp(states.states, report->states, states.count * sizeof(states.states[0])));
	check(again->sample_count == profile->sample_count);
	check(again->series_count == profile->series_count);
	profile_free(again);
	buffer_deinit(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct export_response response;
	struct profile *profile = NULL;
	struct boost_report report;
	struct batch_id batch;
	struct error err;

	if (!export_request_decode(bytes, size, &batch, &profile, &report, &err)) {
		check_profile(profile);
		check_round_trip(&batch, profile, &report);
		profile_free(profile);
	}
	if (!export_response_decode(bytes, size, &response, &err)) {
		check_boosts(&response);
		export_response_deinit(&response);
	}
	return 0;
}

// A small valid message, which a fuzzer would hardly find.
static size_t good_message(uint8_t *bytes, size_t size_max)
{
	const struct batch_id batch = { .agent = { 1, 2 }, .boot = { 3, 4 }, .sequence = 5 };
	struct profile *profile = profile_new(20 * NS_PER_MS);
	struct buffer buffer = { 0 };
	struct labels labels = { 0 };
	struct line lines[2] = { { .number = 3 }, { .number = 4 } };
	uint32_t locations[3], series = 0, stack = 0;

	profile->from_ns = 1700000000 * NS_PER_SECOND;
	profile->to_ns = profile->from_ns + NS_PER_SECOND;
	profile_add_string(profile, "main", &lines[0].name);
	for (uint32_t i = 0; i < 3; i++) {
		struct location location = { .id = { i, i }, .kind = FRAME_KIND_NATIVE };

		profile_add_location(profile, &location, lines, i, &locations[i]);
	}
	labels_set(&labels, LABEL_SERVICE, "llm");
	profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series);
	labels_deinit(&labels);
	for (uint32_t i = 1; i <= 3; i++) {
		profile_add_stack(profile, locations, i, STACK_END_COMPLETE, &stack);
		profile_add_sample(profile, series, stack, 85000000000 + i, 10 * i);
	}
	const struct boost_report report = { .states = { { .id = 1, .hz = 99, .hz_max = 999 } },
					     .count = 1 };
	export_request_encode(&batch, profile, define_all, NULL, &buffer, NULL);
	export_request_add_boosts(&report, &buffer, NULL);
	size_t size = buffer.size <= size_max ? buffer.size : 0;
	memcpy(bytes, buffer.bytes, size);
	buffer_deinit(&buffer);
	profile_free(profile);
	return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed)
{
	(void)seed;
	if (size < SEED_BYTES_MIN)
		size = good_message(bytes, size_max);
	return LLVMFuzzerMutate(bytes, size, size_max);
}
