// SPDX-License-Identifier: Apache-2.0
#include "proto/export_message.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cairn/v1/collector.pb-c.h"
#include "tests/unit/proto/small_profile.h"

// A good message, unpacked, with one thing bent.

typedef Cairn__V1__ExportRequest Request;

static void *bytes_of(size_t size, uint8_t value)
{
	void *bytes = malloc(size);

	memset(bytes, value, size);
	return bytes;
}

static void set_bytes(ProtobufCBinaryData *field, size_t size, uint8_t value)
{
	free(field->data);
	*field = (ProtobufCBinaryData){ size, bytes_of(size, value) };
}

static void set_string(Request *m, size_t at, const char *text)
{
	free(m->strings[at]);
	m->strings[at] = strdup(text);
}

static void long_string(Request *m, size_t at, size_t size)
{
	free(m->strings[at]);
	m->strings[at] = bytes_of(size + 1, 'x');
	m->strings[at][size] = 0;
}

static void no_contract(Request *m)
{
	m->contract_version = 0;
}
static void short_agent(Request *m)
{
	set_bytes(&m->agent_id, 15, 1);
}
static void no_boot(Request *m)
{
	set_bytes(&m->boot_id, 0, 1);
}
static void no_sequence(Request *m)
{
	m->sequence = 0;
}
static void long_version(Request *m)
{
	m->agent_version = bytes_of(100, 'v');
	m->agent_version[99] = 0;
}
static void slot_zero(Request *m)
{
	m->slot_ns = 0;
}
static void slot_tiny(Request *m)
{
	m->slot_ns = NS_PER_MS - 1;
}
static void slot_huge(Request *m)
{
	m->slot_ns = 60 * NS_PER_SECOND + 1;
}
static void time_reversed(Request *m)
{
	m->to_ns = m->from_ns;
}
static void time_too_long(Request *m)
{
	m->from_ns = 0;
}
static void time_beyond(Request *m)
{
	m->to_ns = UINT64_MAX;
}
static void no_strings(Request *m)
{
	while (m->n_strings)
		free(m->strings[--m->n_strings]);
}
static void first_string(Request *m)
{
	set_string(m, 0, "x");
}
static void bad_utf8(Request *m)
{
	set_string(m, 1, "caf\xe9");
}
static void string_long(Request *m)
{
	long_string(m, 1, STRING_BYTES_MAX + 1);
}
static void location_id_short(Request *m)
{
	m->locations[1]->id.len = 8;
}
static void location_id_twice(Request *m)
{
	memcpy(m->locations[1]->id.data, m->locations[0]->id.data, 16);
}
static void location_kind(Request *m)
{
	m->locations[1]->kind = FRAME_KIND_COUNT;
}
static void location_kind_huge(Request *m)
{
	m->locations[1]->kind = UINT32_MAX;
}
static void location_module(Request *m)
{
	m->locations[0]->module = (uint32_t)m->n_strings;
}
static void location_build_id(Request *m)
{
	m->locations[0]->build_id = UINT32_MAX;
}
static void line_name(Request *m)
{
	m->locations[1]->lines[0]->name = (uint32_t)m->n_strings;
}
static void line_file(Request *m)
{
	m->locations[1]->lines[0]->file = UINT32_MAX;
}
static void ids_cut(Request *m)
{
	m->stack_ids.len--;
}
static void ids_twice(Request *m)
{
	memcpy(m->stack_ids.data + 16, m->stack_ids.data, 16);
}
static void ids_too_few(Request *m)
{
	m->stack_ids.len = 16;
}
static void stack_number(Request *m)
{
	m->stacks[0]->stack = 2;
}
static void stack_twice(Request *m)
{
	m->stacks[1]->stack = m->stacks[0]->stack;
}
static void stack_end_unknown(Request *m)
{
	m->stacks[0]->end = STACK_END_COUNT;
}
static void stack_location(Request *m)
{
	m->stacks[0]->locations[1] = (uint32_t)m->n_locations;
}
static void stack_other_end(Request *m)
{
	m->stacks[0]->end ^= 1;
}
static void stack_other_locations(Request *m)
{
	m->stacks[0]->locations[0] = m->stacks[0]->locations[1];
}
static void stack_cut(Request *m)
{
	m->stacks[0]->n_locations--;
}
static void labels_uneven(Request *m)
{
	m->series[0]->n_label_values--;
}
static void label_name(Request *m)
{
	m->series[0]->label_names[0] = (uint32_t)m->n_strings;
}
static void label_value(Request *m)
{
	m->series[1]->label_values[1] = UINT32_MAX;
}
static void label_empty(Request *m)
{
	m->series[0]->label_values[0] = 0;
}
static void label_twice(Request *m)
{
	m->series[0]->label_names[1] = m->series[0]->label_names[0];
}
static void label_order(Request *m)
{
	uint32_t first = m->series[0]->label_names[0];

	m->series[0]->label_names[0] = m->series[0]->label_names[1];
	m->series[0]->label_names[1] = first;
}
static void label_characters(Request *m)
{
	set_string(m, m->series[0]->label_names[0], "a-b");
}
static void label_long(Request *m)
{
	long_string(m, m->series[0]->label_values[0], LABEL_VALUE_BYTES_MAX + 1);
}
static void type_number(Request *m)
{
	m->series[0]->type = (uint32_t)m->n_strings;
}
static void type_empty(Request *m)
{
	m->series[0]->type = 0;
}
static void type_four_parts(Request *m)
{
	set_string(m, m->series[0]->type, "a:b:c:d");
}
static void columns_stacks(Request *m)
{
	m->series[0]->n_stacks--;
}
static void columns_values(Request *m)
{
	m->series[0]->n_values--;
}
static void columns_empty(Request *m)
{
	Cairn__V1__Series *series = m->series[0];

	series->n_values = series->n_stacks = series->n_slot_deltas = 0;
}
static void slot_before(Request *m)
{
	m->series[0]->first_slot -= 60 * 50 + 1;
}
static void slot_after(Request *m)
{
	m->series[0]->first_slot += 65 * 50 + 1;
}
static void slot_wraps(Request *m)
{
	m->series[0]->first_slot = UINT64_MAX;
}
static void delta_after(Request *m)
{
	m->series[0]->slot_deltas[2] = UINT32_MAX;
}
static void sample_stack(Request *m)
{
	m->series[1]->stacks[0] = 2;
}
static void samples_equal(Request *m)
{
	m->series[0]->stacks[2] = m->series[0]->stacks[1];
}
static uint32_t *more_slots(Request *m, size_t count)
{
	m->series[0]->n_more_slots = count;
	m->series[0]->more_slots = calloc(count, sizeof(uint32_t));
	return m->series[0]->more_slots;
}
static void columns_more_slots(Request *m)
{
	more_slots(m, 2);
}
static void no_intervals(Request *m)
{
	more_slots(m, 3);
}
static void interval_fits_its_minute(Request *m)
{
	// Slot 85,000,000,000 begins 20 s into a minute; the minute's last slot is 1999 further.
	more_slots(m, 3)[0] = (uint32_t)(85000001999 - m->series[0]->first_slot);
}
static void interval_too_long(Request *m)
{
	more_slots(m, 3)[0] = (uint32_t)(85000002000 - m->series[0]->first_slot);
}
static void interval_beyond(Request *m)
{
	more_slots(m, 3)[2] = 65 * 50 + 1;
}
static void interval_wraps(Request *m)
{
	more_slots(m, 3)[1] = UINT32_MAX;
}
static void intervals_of_one_stack(Request *m)
{
	samples_equal(m);
	more_slots(m, 3)[2] = 1;
}
static void intervals_equal(Request *m)
{
	uint32_t *more = more_slots(m, 3);

	samples_equal(m);
	more[1] = more[2] = 1;
}
static void intervals_reversed(Request *m)
{
	samples_equal(m);
	more_slots(m, 3)[1] = 1;
}
static void scale_huge(Request *m)
{
	m->series[0]->value_scale = UINT64_MAX;
}
static void value_overflow(Request *m)
{
	m->series[0]->values[1] = INT64_MAX;
}
static void value_too_large(Request *m)
{
	m->series[0]->values[1] = EXPORT_VALUE_MAX / 10000 + 1;
}
static void value_too_small(Request *m)
{
	m->series[0]->values[1] = INT64_MIN;
}
static void series_twice(Request *m)
{
	memcpy(m->series[1]->label_values, m->series[0]->label_values, 2 * sizeof(uint32_t));
}
static void too_many_labels(Request *m)
{
	Cairn__V1__Series *series = m->series[0];

	for (int i = 0; i < 2; i++) {
		uint32_t **column = i ? &series->label_names : &series->label_values;

		*column = realloc(*column, 33 * sizeof(uint32_t));
		memset(*column, 0, 33 * sizeof(uint32_t));
	}
	series->n_label_names = series->n_label_values = LABELS_MAX + 1;
}
static void too_many_frames(Request *m)
{
	Cairn__V1__Stack *stack = m->stacks[0];

	stack->n_locations = STACK_FRAMES_MAX + 1;
	stack->locations = realloc(stack->locations, stack->n_locations * sizeof(uint32_t));
	memset(stack->locations, 0, stack->n_locations * sizeof(uint32_t));
}
static void too_many_lines(Request *m)
{
	Cairn__V1__Location *location = m->locations[0];

	location->lines = realloc(location->lines, 65 * sizeof(void *));
	while (location->n_lines < LOCATION_LINES_MAX + 1) {
		location->lines[location->n_lines] = malloc(sizeof(Cairn__V1__Line));
		cairn__v1__line__init(location->lines[location->n_lines++]);
	}
}
static void nothing(Request *m)
{
	(void)m;
}
static void scale_zero(Request *m)
{
	m->series[0]->value_scale = 0;
}

#define BENT(function, words)              \
	{                                  \
#function, function, words \
	}

static const struct {
	const char *what;
	void (*bend)(Request *message);
	const char *words; // the error begins so; NULL: still a good message
} bent[] = {
	BENT(nothing, NULL),
	BENT(scale_zero, NULL),
	BENT(no_contract, "contract_version: missing"),
	BENT(short_agent, "agent_id: 15 bytes"),
	BENT(no_boot, "boot_id: 0 bytes"),
	BENT(no_sequence, "sequence: 0"),
	BENT(long_version, "agent_version: longer"),
	BENT(slot_zero, "slot_ns: 0"),
	BENT(slot_tiny, "slot_ns: 999999,"),
	BENT(slot_huge, "slot_ns: 60000000001,"),
	BENT(time_reversed, "from_ns: 1700000000000000000 is not before"),
	BENT(time_too_long, "from_ns: 1700000005000000000 ns before"),
	BENT(time_beyond, "to_ns: 18446744073709551615 is beyond"),
	BENT(no_strings, "strings[0]: missing"),
	BENT(first_string, "strings[0]: missing or not empty"),
	BENT(bad_utf8, "strings[1]: not valid UTF-8"),
	BENT(string_long, "strings[1]: longer than 4096"),
	BENT(location_id_short, "locations[1].id: 8 bytes"),
	BENT(location_id_twice, "locations[1].id: the same as locations[0]"),
	BENT(location_kind, "locations[1].kind: 5 is not below 5"),
	BENT(location_kind_huge, "locations[1].kind: 4294967295"),
	BENT(location_module, "locations[0].module: "),
	BENT(location_build_id, "locations[0].build_id: 4294967295 is not below strings'"),
	BENT(line_name, "locations[1].lines.name: "),
	BENT(line_file, "locations[1].lines.file: "),
	BENT(too_many_lines, "locations[0].lines: 65, expected at most 64"),
	BENT(ids_cut, "stack_ids: 31 bytes"),
	BENT(ids_twice, "stack_ids[1]: the same as stack_ids[0]"),
	BENT(ids_too_few, "stacks[1].stack: 1 is not below stack_ids' 1"),
	BENT(stack_number, "stacks[0].stack: 2 is not below stack_ids' 2"),
	BENT(stack_twice, "stacks[1].stack: 0 is defined twice"),
	BENT(stack_end_unknown, "stacks[0].end: 13 is not below 13"),
	BENT(stack_location, "stacks[0].locations[1]: 4 is not below locations' 4"),
	BENT(stack_other_end, "stacks[0]: its id is not the hash"),
	BENT(stack_other_locations, "stacks[0]: its id is not the hash"),
	BENT(stack_cut, "stacks[0]: its id is not the hash"),
	BENT(too_many_frames, "stacks[0].locations: 1025, expected at most 1024"),
	BENT(labels_uneven, "series[0].label_values: 1 for 2 label_names"),
	BENT(label_name, "series[0].label_names: "),
	BENT(label_value, "series[1].label_values: 4294967295 is not below strings'"),
	BENT(label_empty, "series[0].label_values[0]: expected 1 to 1024 bytes"),
	BENT(label_long, "series[0].label_values[0]: expected 1 to 1024 bytes"),
	BENT(label_twice, "series[0].label_names[1]: not after"),
	BENT(label_order, "series[0].label_names[1]: not after"),
	BENT(label_characters, "series[0].label_names[0]: expected [a-zA-Z_]"),
	BENT(too_many_labels, "series[0].label_names: 33, expected at most 32"),
	BENT(type_number, "series[0].type: "),
	BENT(type_empty, "series[0].type: profile type \"\""),
	BENT(type_four_parts, "series[0].type: profile type \"a:b:c:d\""),
	BENT(columns_stacks, "series[0].stacks: 2 for 3 slot_deltas"),
	BENT(columns_values, "series[0].values: 2 for 3 slot_deltas"),
	BENT(columns_empty, "series[0].values: none"),
	BENT(slot_before, "series[0].first_slot: 84999996999 lies outside"),
	BENT(slot_after, "series[0].first_slot: 85000003251 lies outside"),
	BENT(slot_wraps, "series[0].first_slot: 18446744073709551615 lies outside"),
	BENT(delta_after, "series[0].slot_deltas[2]: slot 89294967298 lies outside"),
	BENT(sample_stack, "series[1].stacks[0]: 2 is not below stack_ids' 2"),
	BENT(samples_equal, "series[0].stacks[2]: not above"),
	BENT(no_intervals, NULL),
	BENT(interval_fits_its_minute, NULL),
	BENT(intervals_of_one_stack, NULL),
	BENT(columns_more_slots, "series[0].more_slots: 2 for 3 slot_deltas"),
	BENT(interval_too_long, "series[0].more_slots[0]: "),
	BENT(interval_beyond, "series[0].more_slots[2]: 3251 reach beyond"),
	BENT(interval_wraps, "series[0].more_slots[1]: 4294967295 reach beyond"),
	BENT(intervals_equal, "series[0].stacks[2]: not above"),
	BENT(intervals_reversed, "series[0].stacks[2]: not above"),
	BENT(scale_huge, "series[0].value_scale: 18446744073709551615"),
	BENT(value_overflow, "series[0].values[1]: 9223372036854775807 times value_scale 10000"),
	BENT(value_too_large, "series[0].values[1]: 900719925475 times"),
	BENT(value_too_small, "series[0].values[1]: -9223372036854775808 times"),
	BENT(series_twice, "series[1]: the same labels and type as series[0]"),
};

static struct buffer packed(const Request *message)
{
	struct buffer buffer = { 0 };

	cairn__v1__export_request__pack(
		message,
		buffer_extend(&buffer, cairn__v1__export_request__get_packed_size(message)));
	return buffer;
}

TEST(refuses_malformed_messages_by_field)
{
	struct profile *profile = small_profile();
	_cleanup_(buffer_deinit) struct buffer good = { 0 };

	EXPECT_EQ(0, export_request_encode(&batch, profile, define_all, NULL, &good, NULL), "good");
	for EACH (row, bent) {
		Request *message = cairn__v1__export_request__unpack(NULL, good.size, good.bytes);
		char *version = message->agent_version;
		struct profile *decoded = NULL;
		struct batch_id id;
		struct error err = { 0 };

		row->bend(message);
		_cleanup_(buffer_deinit) struct buffer buffer = packed(message);
		int rc =
			export_request_decode(buffer.bytes, buffer.size, &id, &decoded, NULL, &err);
		EXPECT_EQ(row->words ? -EBADMSG : 0, rc, row->what);
		EXPECT_EQ(!row->words, decoded != NULL, row->what);
		if (row->words && strncmp(err.text, row->words, strlen(row->words)))
			fail_msg("%s: \"%s\" does not begin \"%s\"", row->what, err.text,
				 row->words);
		profile_free(decoded);
		if (version != message->agent_version)
			free(version);
		cairn__v1__export_request__free_unpacked(message, NULL);
	}
	profile_free(profile);
}

static const struct {
	const char *what;
	const char *bytes;
	size_t size;
	int rc;
} rubbish[] = {
	{ "nothing: all fields have their defaults", "", 0, -EBADMSG },
	{ "a tag without a field", "\x0a", 1, -EBADMSG },
	{ "a length past the end", "\x0a\x10\x01", 3, -EBADMSG },
	{ "a length of 64 bits", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, -EBADMSG },
	{ "a varint without end", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12,
	  -EBADMSG },
	{ "a group", "\x0b\x0c", 2, -EBADMSG },
	{ "text", "GET / HTTP/1.1\r\n\r\n", 18, -EBADMSG },
};

TEST(refuses_bytes_that_are_no_message)
{
	for EACH (row, rubbish) {
		struct profile *profile = NULL;
		struct batch_id id;
		struct error err = { 0 };

		EXPECT_EQ(row->rc,
			  export_request_decode(row->bytes, row->size, &id, &profile, NULL, &err),
			  row->what);
		assert_true(strlen(err.text) > 10);
		assert_null(profile);
	}
}

TEST(ignores_unknown_fields)
{
	struct profile *profile = small_profile(), *decoded = NULL;
	_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
	struct batch_id id;
	struct error err = { 0 };

	EXPECT_EQ(0, export_request_encode(&batch, profile, define_all, NULL, &buffer, NULL),
		  "good");
	buffer_append(&buffer, "\xa2\x06\x03new", 6);  // field 100, bytes
	buffer_append(&buffer, "\xa8\x06\x96\x01", 4); // field 101, a number
	EXPECT_EQ(0, export_request_decode(buffer.bytes, buffer.size, &id, &decoded, NULL, &err),
		  err.text);
	EXPECT_EQ(4, decoded->sample_count, "samples");
	profile_free(decoded);
	profile_free(profile);
}

// Two bytes each that ask for a string, a message or an unknown field: some 80 times their size.
TEST(bounds_memory_by_message_size)
{
	static const char *const crumbs[] = { "\x42", "\x52", "\x5a", "\x62", "\xa2\x06" };

	for EACH (crumb, crumbs) {
		_cleanup_(buffer_deinit) struct buffer buffer = { 0 };
		struct profile *profile = NULL;
		struct batch_id id;
		struct error err = { 0 };

		for (int i = 0; i < 1 << 20; i++) {
			buffer_append_string(&buffer, *crumb);
			buffer_append_byte(&buffer, 0);
		}
		EXPECT_EQ(
			-E2BIG,
			export_request_decode(buffer.bytes, buffer.size, &id, &profile, NULL, &err),
			err.text);
		assert_non_null(strstr(err.text, "ask for more than"));
	}
}

TEST(refuses_oversized_messages_unread)
{
	struct profile *profile = NULL;
	struct batch_id id;
	struct error err = { 0 };

	EXPECT_EQ(-E2BIG,
		  export_request_decode(NULL, EXPORT_MESSAGE_BYTES_MAX + 1, &id, &profile, NULL,
					&err),
		  "size");
}

// Whatever happens to a good message, decoding it ends and its result is sound. The seed is fixed.
TEST(survives_mutated_messages)
{
	struct profile *profile = small_profile();
	_cleanup_(buffer_deinit) struct buffer good = { 0 };
	uint64_t seed = 42;
	int decoded_count = 0;

	EXPECT_EQ(0, export_request_encode(&batch, profile, define_all, NULL, &good, NULL), "good");
	for (int i = 0; i < 30000; i++) {
		_cleanup_free_ uint8_t *bytes = malloc(good.size);
		size_t size = good.size;
		struct profile *decoded = NULL;
		struct batch_id id;
		struct error err = { 0 };

		memcpy(bytes, good.bytes, size);
		for (int j = 0; j < 1 + i % 4; j++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			size_t at = (seed >> 33) % size;

			bytes[at] = (seed >> 8 & 3) ? (uint8_t)(seed >> 16)
						    : bytes[at] ^ (1 << (seed >> 16 & 7));
		}
		if (i % 7 == 0)
			size = (seed >> 33) % size;
		int rc = export_request_decode(bytes, size, &id, &decoded, NULL, &err);
		if (rc) {
			assert_null(decoded);
			assert_true(rc == -EBADMSG || rc == -E2BIG || rc == -EPROTONOSUPPORT);
			continue;
		}
		decoded_count++;
		for (uint32_t k = 0; k < decoded->sample_count; k++)
			assert_true(decoded->samples[k].stack < decoded->stack_count &&
				    decoded->samples[k].series < decoded->series_count);
		profile_free(decoded);
	}
	assert_true(decoded_count > 100); // some changes only change a name
	profile_free(profile);
}

RUN_TESTS(cmocka_unit_test(refuses_malformed_messages_by_field),
	  cmocka_unit_test(refuses_bytes_that_are_no_message),
	  cmocka_unit_test(ignores_unknown_fields), cmocka_unit_test(bounds_memory_by_message_size),
	  cmocka_unit_test(refuses_oversized_messages_unread),
	  cmocka_unit_test(survives_mutated_messages))
