// SPDX-License-Identifier: Apache-2.0
#include "proto/export_message.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/unit/proto/small_profile.h"
#include "base/contract/label_names.h"
#include "base/version.h"

static struct profile *through_the_wire(const struct profile *profile, export_define_fn define)
{
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	struct batch_id id = { 0 };
	struct profile *decoded = NULL;
	struct error err = { 0 };

	EXPECT_EQ(0, export_request_encode(&batch, profile, define, NULL, &buffer, &err), err.text);
	EXPECT_EQ(0, export_request_decode(buffer.bytes, buffer.size, &id, &decoded, NULL, &err),
		  err.text);
	EXPECT_STR(CAIRN_VERSION, id.agent_version, "the encoder's version");
	memset(id.agent_version, 0, sizeof(id.agent_version));
	EXPECT_EQ(0, memcmp(&batch, &id, sizeof(id)), "batch");
	return decoded;
}

static const struct sample *find_sample(const struct profile *profile, const char *service,
					struct id128 stack, uint64_t slot)
{
	const struct sample *found = NULL;

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (sample->slot == slot && id128_equal(profile->stacks[sample->stack].id, stack) &&
		    !strcmp(labels_get(&profile->series[sample->series].labels, LABEL_SERVICE),
			    service)) {
			assert_null(found); // equal ones were joined
			found = sample;
		}
	}
	return found;
}

TEST(round_trips_samples)
{
	struct profile *profile = small_profile();
	struct profile *decoded = through_the_wire(profile, define_all);
	struct id128 a = profile->stacks[0].id, b = profile->stacks[1].id;

	EXPECT_EQ(SLOT_NS, decoded->slot_ns, "slot_ns");
	EXPECT_EQ(NOW_NS, decoded->from_ns, "from_ns");
	EXPECT_EQ(NOW_NS + 5 * NS_PER_SECOND, decoded->to_ns, "to_ns");
	EXPECT_EQ(2, decoded->series_count, "a series without samples stays at home");
	EXPECT_EQ(4, decoded->sample_count, "samples");
	EXPECT_EQ(20000, find_sample(decoded, "llm", a, SLOT)->value, "1");
	EXPECT_EQ(10000, find_sample(decoded, "llm", a, SLOT + 3)->value, "2");
	EXPECT_EQ(50000, find_sample(decoded, "llm", b, SLOT + 3)->value, "3: 20 + 30");
	EXPECT_EQ(30000, find_sample(decoded, "web", b, SLOT + 200)->value, "4");
	EXPECT_STR("a17", labels_get(&decoded->series[0].labels, LABEL_NODE), "label");
	EXPECT_STR(PROFILE_TYPE_CPU, profile_string(decoded, decoded->series[0].type), "type");
	profile_free(profile);
	profile_free(decoded);
}

TEST(round_trips_intervals)
{
	struct profile *profile = small_profile();

	// Of the same slot and stack: a moment, and two intervals that are not joined with it.
	profile_add_interval(profile, 1, 0, SLOT, 7, 400);
	profile_add_interval(profile, 1, 0, SLOT, 7, 500);
	profile_add_interval(profile, 1, 0, SLOT, 1, 100);

	struct profile *decoded = through_the_wire(profile, define_all);
	EXPECT_EQ(6, decoded->sample_count, "samples");
	EXPECT_EQ(0, decoded->samples[0].more_slots, "the moment");
	EXPECT_EQ(20000, decoded->samples[0].value, "its value");
	EXPECT_EQ(1, decoded->samples[1].more_slots, "the shorter one");
	EXPECT_EQ(7, decoded->samples[2].more_slots, "the longer one");
	EXPECT_EQ(900, decoded->samples[2].value, "joined");
	EXPECT_EQ(0, decoded->samples[5].more_slots, "a series without any");
	profile_free(profile);
	profile_free(decoded);
}

TEST(round_trips_locations_with_lines)
{
	struct profile *profile = small_profile();
	struct profile *decoded = through_the_wire(profile, define_all);

	EXPECT_EQ(4, decoded->location_count, "locations");
	for (uint32_t i = 0; i < profile->location_count; i++) {
		const struct location *sent = &profile->locations[i];
		uint32_t at = profile_find_location(decoded, sent->id);

		assert_true(at != HASH_TABLE_NONE);
		const struct location *got = &decoded->locations[at];
		EXPECT_EQ(sent->kind, got->kind, "kind");
		EXPECT_EQ(sent->offset, got->offset, "offset");
		EXPECT_EQ(sent->line_count, got->line_count, "lines");
		EXPECT_STR("/usr/lib/libx.so", profile_string(decoded, got->module), "module");
		EXPECT_STR("abcdef", profile_string(decoded, got->build_id), "build id");
		for (uint32_t j = 0; j < got->line_count; j++) {
			const struct line *a = &profile->lines[sent->first_line + j];
			const struct line *b = &decoded->lines[got->first_line + j];

			EXPECT_STR(profile_string(profile, a->name),
				   profile_string(decoded, b->name), "name");
			EXPECT_STR(profile_string(profile, a->file),
				   profile_string(decoded, b->file), "file");
			EXPECT_EQ(a->number, b->number, "number");
		}
	}
	const struct stack *stack =
		&decoded->stacks[find_sample(decoded, "web", profile->stacks[1].id, SLOT + 200)
					 ->stack];
	EXPECT_EQ(STACK_END_FAULT, stack->end, "end");
	EXPECT_EQ(2, stack->location_count, "frames");
	profile_free(profile);
	profile_free(decoded);
}

TEST(sends_known_stacks_by_id)
{
	struct profile *profile = small_profile();
	struct profile *decoded = through_the_wire(profile, define_none);

	EXPECT_EQ(4, decoded->sample_count, "samples");
	EXPECT_EQ(2, decoded->stack_count, "stacks");
	EXPECT_EQ(false, decoded->stacks[0].defined, "first");
	EXPECT_EQ(false, decoded->stacks[1].defined, "second");
	EXPECT_EQ(0, decoded->location_count, "locations");
	EXPECT_EQ(0, decoded->lines ? decoded->line_count : 0, "lines");
	EXPECT_EQ(50000, find_sample(decoded, "llm", profile->stacks[1].id, SLOT + 3)->value,
		  "value");
	profile_free(profile);
	profile_free(decoded);
}

TEST(encodes_a_profile_without_samples)
{
	struct profile *profile = profile_new(SLOT_NS);

	profile->from_ns = NOW_NS;
	profile->to_ns = NOW_NS + 1;
	struct profile *decoded = through_the_wire(profile, define_all);
	EXPECT_EQ(0, decoded->sample_count + decoded->series_count + decoded->stack_count,
		  "counts");
	profile_free(profile);
	profile_free(decoded);
}

static const struct {
	const char *what;
	int64_t first, second;
} value_pairs[] = {
	{ "ordinary", 10101010, 20202020 },
	{ "zero", 0, 0 },
	{ "zero and one", 0, 1 },
	{ "negative", -5, 10 },
	{ "no common divisor", 10101009, 10101010 },
	{ "the largest", EXPORT_VALUE_MAX, EXPORT_VALUE_MAX },
	{ "the smallest", -EXPORT_VALUE_MAX, -EXPORT_VALUE_MAX },
};

TEST(round_trips_scaled_values)
{
	for EACH (row, value_pairs) {
		struct profile *profile = small_profile();
		struct id128 stack = profile->stacks[0].id;

		profile->samples[3].value = row->first;
		profile->samples[2].value = row->second;
		struct profile *decoded = through_the_wire(profile, define_all);
		EXPECT_EQ(row->first, find_sample(decoded, "llm", stack, SLOT)->value, row->what);
		EXPECT_EQ(row->second, find_sample(decoded, "llm", stack, SLOT + 3)->value,
			  row->what);
		profile_free(profile);
		profile_free(decoded);
	}
}

TEST(refuses_profiles_that_do_not_fit)
{
	struct profile *profile = small_profile();
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	struct error err = { 0 };

	profile->samples[2].slot = SLOT + (1ULL << 33);
	EXPECT_EQ(-ERANGE, export_request_encode(&batch, profile, define_all, NULL, &buffer, &err),
		  "apart");
	EXPECT_EQ(0, buffer.size, "nothing is written");
	buffer.size_max = 100;
	profile->samples[2].slot = SLOT;
	EXPECT_EQ(-EFBIG, export_request_encode(&batch, profile, define_all, NULL, &buffer, &err),
		  "buffer's limit");
	profile_free(profile);
}

TEST(round_trips_responses)
{
	struct id128 ids[3] = { { 1, 2 }, { 0, 0 }, { UINT64_MAX, 5 } };

	for (uint32_t count = 0; count <= 3; count++) {
		const struct export_response response = {
			.unknown_stacks = ids,
			.unknown_stack_count = count,
			.duplicate = count == 0,
			.refused = { count, 2, 3, 4, 5, UINT64_MAX },
			.limited = "tenant shop: series: 7 (limits.yaml:9)",
		};
		_cleanup_(export_response_deinit) struct export_response decoded = { 0 };
		_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(0, export_response_encode(&response, &buffer, &err), err.text);
		EXPECT_EQ(0, export_response_decode(buffer.bytes, buffer.size, &decoded, &err),
			  err.text);
		EXPECT_EQ(count, decoded.unknown_stack_count, "count");
		EXPECT_EQ(count == 0, decoded.duplicate, "duplicate");
		EXPECT_EQ(0, memcmp(&response.refused, &decoded.refused, sizeof(response.refused)),
			  "refused");
		EXPECT_STR(response.limited, decoded.limited, "limited");
		EXPECT_EQ(0, memcmp(ids, decoded.unknown_stacks, count * sizeof(*ids)), "ids");
	}
}

TEST(round_trips_boosts)
{
	const struct export_response response = {
		.boosts = { { .id = 7, .left_ms = 60000, .hz = 999 },
			    { .id = UINT32_MAX,
			      .left_ms = 1,
			      .profiles = BOOST_WAKERS,
			      .services = "llm,web" },
			    { .id = 1, .left_ms = 3600000, .stop = true } },
		.boost_count = 3,
	};
	_cleanup_(export_response_deinit) struct export_response decoded = { 0 };
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	struct error err = { 0 };

	EXPECT_EQ(0, export_response_encode(&response, &buffer, &err), err.text);
	EXPECT_EQ(0, export_response_decode(buffer.bytes, buffer.size, &decoded, &err), err.text);
	EXPECT_EQ(3, decoded.boost_count, "count");
	assert_memory_equal(response.boosts, decoded.boosts, sizeof(response.boosts));
}

static const struct {
	const char *what;
	struct boost boost;
} senseless[] = {
	{ "no id", { .left_ms = 1000, .hz = 99 } },
	{ "no time", { .id = 1, .hz = 99 } },
	{ "more than an hour", { .id = 1, .left_ms = 3600001, .hz = 99 } },
	{ "49 days", { .id = 1, .left_ms = UINT32_MAX, .hz = 99 } },
	{ "nothing to do", { .id = 1, .left_ms = 1000 } },
	{ "too high a rate", { .id = 1, .left_ms = 1000, .hz = 1001 } },
	{ "a rate of 32 bits", { .id = 1, .left_ms = 1000, .hz = UINT32_MAX } },
};

// The acknowledgement counts, whatever else a collector says.
TEST(leaves_senseless_boosts_out_of_responses)
{
	for EACH (row, senseless) {
		struct export_response response = {
			.boosts = { row->boost, { .id = 2, .left_ms = 1000, .hz = 99 } },
			.boost_count = 2,
			.duplicate = true,
		};
		_cleanup_(export_response_deinit) struct export_response decoded = { 0 };
		_cleanup_(buffer_deinit) struct buffer buffer = { 0 };

		EXPECT_EQ(0, export_response_encode(&response, &buffer, NULL), row->what);
		// Joined, they are more than an agent takes.
		EXPECT_EQ(0, export_response_encode(&response, &buffer, NULL), row->what);
		for (int i = 0; i < 3; i++)
			EXPECT_EQ(0, export_response_encode(&response, &buffer, NULL), row->what);
		EXPECT_EQ(0, export_response_decode(buffer.bytes, buffer.size, &decoded, NULL),
			  row->what);
		EXPECT_EQ(BOOSTS_OF_AGENT_MAX, decoded.boost_count, row->what);
		for (int i = 0; i < BOOSTS_OF_AGENT_MAX; i++)
			EXPECT_EQ(2, decoded.boosts[i].id, row->what);
		EXPECT_EQ(true, decoded.duplicate, row->what);
	}
}

TEST(round_trips_states_of_boosts)
{
	const struct boost_report report = {
		.states = { { .id = 7, .hz = 999, .hz_max = 1000 },
			    { .id = 8, .profiles = BOOST_WALL | BOOST_MEMORY },
			    { .id = UINT32_MAX, .stopped = true } },
		.count = 3,
	};
	struct boost_report many = { .count = BOOSTS_OF_AGENT_MAX }, decoded;
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	struct profile *profile = small_profile(), *read = NULL;
	struct error err = { 0 };
	struct batch_id id;

	EXPECT_EQ(0, export_request_encode(&batch, profile, define_all, NULL, &buffer, &err),
		  err.text);
	EXPECT_EQ(0, export_request_add_boosts(&report, &buffer, &err), err.text);
	EXPECT_EQ(0, export_request_decode(buffer.bytes, buffer.size, &id, &read, &decoded, &err),
		  err.text);
	assert_true(read->sample_count > 0);
	EXPECT_EQ(3, decoded.count, "count");
	for (uint32_t i = 0; i < report.count;
	     i++) { // one by one: between them are bytes of no field
		const struct boost_state *sent = &report.states[i], *got = &decoded.states[i];

		EXPECT_EQ(sent->id, got->id, "id");
		EXPECT_EQ(sent->hz, got->hz, "hz");
		EXPECT_EQ(sent->hz_max, got->hz_max, "hz_max");
		EXPECT_EQ(sent->profiles, got->profiles, "profiles");
		EXPECT_EQ(sent->stopped, got->stopped, "stopped");
	}
	profile_free(read);

	EXPECT_EQ(0, export_request_add_boosts(&many, &buffer, &err), err.text);
	EXPECT_EQ(-EBADMSG,
		  export_request_decode(buffer.bytes, buffer.size, &id, &read, &decoded, &err),
		  "more than an agent has");
	EXPECT_STR("boosts: 7, expected at most 4", err.text, "words");
	profile_free(profile);
}

TEST(cuts_long_words_of_responses)
{
	_cleanup_(export_response_deinit) struct export_response decoded = { 0 };
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };

	buffer_append_byte(&bytes, 5 << 3 | 2);
	buffer_append_varint(&bytes, 5000);
	memset(buffer_extend(&bytes, 5000), 'x', 5000);
	EXPECT_EQ(0, export_response_decode(bytes.bytes, bytes.size, &decoded, NULL), "read");
	EXPECT_EQ(EXPORT_LIMITED_BYTES - 1, strlen(decoded.limited), "cut");
}

TEST(refuses_cut_responses)
{
	struct export_response response;
	struct error err = { 0 };

	EXPECT_EQ(-EBADMSG, export_response_decode("\x0a\x05hello", 7, &response, &err), "5 bytes");
	EXPECT_STR("unknown_stacks: 5 bytes, expected a multiple of 16", err.text, "words");
	EXPECT_EQ(-EBADMSG, export_response_decode("\x0a\x05hell", 6, &response, &err), "cut");
}

RUN_TESTS(cmocka_unit_test(round_trips_samples), cmocka_unit_test(round_trips_intervals),
	  cmocka_unit_test(round_trips_locations_with_lines),
	  cmocka_unit_test(sends_known_stacks_by_id),
	  cmocka_unit_test(encodes_a_profile_without_samples),
	  cmocka_unit_test(round_trips_scaled_values),
	  cmocka_unit_test(refuses_profiles_that_do_not_fit),
	  cmocka_unit_test(round_trips_responses), cmocka_unit_test(round_trips_boosts),
	  cmocka_unit_test(leaves_senseless_boosts_out_of_responses),
	  cmocka_unit_test(round_trips_states_of_boosts),
	  cmocka_unit_test(cuts_long_words_of_responses), cmocka_unit_test(refuses_cut_responses))
