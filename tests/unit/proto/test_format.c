// SPDX-License-Identifier: Apache-2.0
// Subject: proto/export_message.h
// The examples of docs/format.md: identities, and a batch on the wire.
#include "tests/documented.h"

#include "base/cleanup.h"
#include "base/labels.h"
#include "cairn/v1/collector.pb-c.h"
#include "tests/unit/proto/format_example.h"
#include "proto/export_message.h"

static void expect_id(const char *name, struct id128 id)
{
	uint8_t bytes[ID128_BYTES];

	id128_encode(id, bytes);
	expect_documented("docs/format.md", name, bytes, sizeof(bytes));
}

TEST(identities_are_as_documented)
{
	struct profile *profile = example_profile();

	expect_id("location id", profile->locations[0].id);
	expect_id("line id", location_id_of_line(FRAME_KIND_PYTHON, "Server.run", "server.py", 12));
	expect_id("stack id", profile->stacks[0].id);
	expect_id("series id", profile->series[0].id);
	profile_free(profile);
}

static bool define_all(void *context, const struct profile *profile, const struct stack *stack)
{
	(void)context, (void)profile, (void)stack;
	return true;
}

// The agent's version changes with each release: the example has a fixed one.
static void encode_example(struct buffer *ret_bytes)
{
	const struct batch_id batch = { .agent = EXAMPLE_AGENT,
					.boot = EXAMPLE_BOOT,
					.sequence = EXAMPLE_SEQUENCE };
	_cleanup_(buffer_deinit) struct buffer encoded = { 0 };
	struct profile *profile = example_profile();

	assert_int_equal(0,
			 export_request_encode(&batch, profile, define_all, NULL, &encoded, NULL));
	Cairn__V1__ExportRequest *message =
		cairn__v1__export_request__unpack(NULL, encoded.size, encoded.bytes);
	free(message->agent_version);
	message->agent_version = strdup("1.2.3");
	cairn__v1__export_request__pack(
		message,
		buffer_extend(ret_bytes, cairn__v1__export_request__get_packed_size(message)));
	cairn__v1__export_request__free_unpacked(message, NULL);
	profile_free(profile);
}

TEST(a_batch_is_as_documented)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct profile *decoded = NULL;
	struct batch_id batch;
	struct error err = { 0 };

	encode_example(&bytes);
	expect_documented("docs/format.md", "batch", bytes.bytes, bytes.size);
	EXPECT_EQ(0, export_request_decode(bytes.bytes, bytes.size, &batch, &decoded, NULL, &err),
		  err.text);
	profile_free(decoded);
}

TEST(a_response_is_as_documented)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct profile *profile = example_profile();
	const struct export_response response = { .unknown_stacks = &profile->stacks[0].id,
						  .unknown_stack_count = 1 };

	assert_int_equal(0, export_response_encode(&response, &bytes, NULL));
	expect_documented("docs/format.md", "response", bytes.bytes, bytes.size);
	profile_free(profile);
}

#define EXPECT_LIMIT(name) expect_documented_number("docs/format.md", #name, name)

TEST(versions_and_limits_are_as_documented)
{
	EXPECT_LIMIT(EXPORT_CONTRACT_VERSION);
	EXPECT_LIMIT(EXPORT_MESSAGE_BYTES_MAX);
	EXPECT_LIMIT(STRING_BYTES_MAX);
	EXPECT_LIMIT(LOCATION_LINES_MAX);
	EXPECT_LIMIT(STACK_FRAMES_MAX);
	EXPECT_LIMIT(LABELS_MAX);
	EXPECT_LIMIT(LABEL_NAME_BYTES_MAX);
	EXPECT_LIMIT(LABEL_VALUE_BYTES_MAX);
}

RUN_TESTS(cmocka_unit_test(versions_and_limits_are_as_documented),
	  cmocka_unit_test(identities_are_as_documented),
	  cmocka_unit_test(a_batch_is_as_documented), cmocka_unit_test(a_response_is_as_documented))
