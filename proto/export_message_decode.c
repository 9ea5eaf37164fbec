// SPDX-License-Identifier: Apache-2.0
// Decodes an ExportRequest. Everything in it is hostile until it is checked.
#include "proto/export_message.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/v1/collector.pb-c.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/profile_type.h"
#include "base/utf8.h"
#include "proto/message_memory.h"

enum {
	// A slot may lie this far outside the batch's range: clocks are adjusted during an
	// interval.
	SLOT_SLACK_SECONDS = 60,
	SECONDS_PER_MINUTE = 60,
	SECONDS_PER_HOUR = 3600,
};

// Maps the message's positions to the profile's; each array is as long as the message's.
struct decoder {
	const Cairn__V1__ExportRequest *message;
	struct profile *profile;
	struct error *err;
	uint32_t *strings;
	uint32_t *stacks;
	size_t stack_count;
	uint32_t *locations;
	uint64_t slot_min, slot_max;
};

static void decoder_deinit(struct decoder *decoder)
{
	profile_free(decoder->profile);
	free(decoder->strings);
	free(decoder->stacks);
	free(decoder->locations);
}

// Report the item that the profile refused.
static int refused(struct decoder *decoder, int rc, const char *what, size_t at)
{
	if (rc == -E2BIG)
		return error_set(decoder->err, rc, "%s[%zu]: exceeds the profile's limit", what,
				 at);
	return error_errno(decoder->err, rc, "%s[%zu]", what, at);
}

static int decode_id(const ProtobufCBinaryData *bytes, struct id128 *ret_id)
{
	if (bytes->len != ID128_BYTES)
		return -EBADMSG;
	*ret_id = id128_decode(bytes->data);
	return 0;
}

// ---- the head -------------------------------------------------------------------------------

static int check_version(const Cairn__V1__ExportRequest *message, struct error *err)
{
	if (!message->contract_version)
		return error_set(err, -EBADMSG, "contract_version: missing");
	if (message->contract_version > EXPORT_CONTRACT_VERSION)
		return error_set(err, -EPROTONOSUPPORT,
				 "contract_version: %u, newer than this collector's %d; update "
				 "collectors before agents",
				 message->contract_version, EXPORT_CONTRACT_VERSION);
	return 0;
}

static int decode_batch(const Cairn__V1__ExportRequest *message, struct batch_id *ret_batch,
			struct error *err)
{
	struct batch_id batch = { .sequence = message->sequence };

	if (decode_id(&message->agent_id, &batch.agent))
		return error_set(err, -EBADMSG, "agent_id: %zu bytes, expected 16",
				 message->agent_id.len);
	if (decode_id(&message->boot_id, &batch.boot))
		return error_set(err, -EBADMSG, "boot_id: %zu bytes, expected 16",
				 message->boot_id.len);
	if (!batch.sequence)
		return error_set(err, -EBADMSG, "sequence: 0, expected 1 or more");
	if (strlen(message->agent_version) >= EXPORT_VERSION_BYTES)
		return error_set(err, -EBADMSG, "agent_version: longer than %d bytes",
				 EXPORT_VERSION_BYTES - 1);
	strcpy(batch.agent_version, message->agent_version);
	*ret_batch = batch;
	return 0;
}

static int check_times(struct decoder *decoder)
{
	const uint64_t slack_ns = SLOT_SLACK_SECONDS * NS_PER_SECOND;
	uint64_t from_ns = decoder->message->from_ns, to_ns = decoder->message->to_ns;
	uint64_t slot_ns = decoder->message->slot_ns;

	if (slot_ns < NS_PER_MS || slot_ns > 60 * NS_PER_SECOND)
		return error_set(decoder->err, -EBADMSG,
				 "slot_ns: %llu, expected 1 ms to 60 s in nanoseconds",
				 (unsigned long long)slot_ns);
	if (to_ns > INT64_MAX)
		return error_set(decoder->err, -EBADMSG, "to_ns: %llu is beyond the year 2262",
				 (unsigned long long)to_ns);
	if (from_ns >= to_ns)
		return error_set(decoder->err, -EBADMSG, "from_ns: %llu is not before to_ns' %llu",
				 (unsigned long long)from_ns, (unsigned long long)to_ns);
	if (to_ns - from_ns > SECONDS_PER_HOUR * NS_PER_SECOND)
		return error_set(decoder->err, -EBADMSG,
				 "from_ns: %llu ns before to_ns, expected at most an hour",
				 (unsigned long long)(to_ns - from_ns));
	decoder->slot_min = ns_before(from_ns, slack_ns) / slot_ns;
	decoder->slot_max = (to_ns + slack_ns) / slot_ns;
	return 0;
}

// ---- the dictionary -------------------------------------------------------------------------

static int decode_strings(struct decoder *decoder)
{
	const Cairn__V1__ExportRequest *message = decoder->message;

	if (!message->n_strings || *message->strings[0])
		return error_set(decoder->err, -EBADMSG, "strings[0]: missing or not empty");
	decoder->strings = calloc(message->n_strings, sizeof(*decoder->strings));
	if (!decoder->strings)
		return error_set(decoder->err, -ENOMEM, "strings: out of memory");

	for (size_t i = 0; i < message->n_strings; i++) {
		const char *string = message->strings[i];
		size_t size = strlen(string);

		if (size > STRING_BYTES_MAX)
			return error_set(decoder->err, -EBADMSG,
					 "strings[%zu]: longer than %d bytes", i, STRING_BYTES_MAX);
		if (!utf8_is_valid(string, size))
			return error_set(decoder->err, -EBADMSG, "strings[%zu]: not valid UTF-8",
					 i);
		int rc = string_table_add(&decoder->profile->strings, string, size,
					  &decoder->strings[i]);
		if (rc)
			return refused(decoder, rc, "strings", i);
	}
	return 0;
}

// Map a string's number in the message to the profile's. @what: the item, @at: its position.
static int decode_string(struct decoder *decoder, uint32_t number, const char *what, size_t at,
			 const char *field, uint32_t *ret_string)
{
	if (number >= decoder->message->n_strings)
		return error_set(decoder->err, -EBADMSG, "%s[%zu].%s: %u is not below strings' %zu",
				 what, at, field, number, decoder->message->n_strings);
	*ret_string = decoder->strings[number];
	return 0;
}

static int decode_lines(struct decoder *decoder, size_t at, struct line lines[LOCATION_LINES_MAX])
{
	const Cairn__V1__Location *message = decoder->message->locations[at];

	if (message->n_lines > LOCATION_LINES_MAX)
		return error_set(decoder->err, -EBADMSG,
				 "locations[%zu].lines: %zu, expected at most %d", at,
				 message->n_lines, LOCATION_LINES_MAX);
	for (size_t i = 0; i < message->n_lines; i++) {
		const Cairn__V1__Line *line = message->lines[i];
		int rc = decode_string(decoder, line->name, "locations", at, "lines.name",
				       &lines[i].name);

		if (!rc)
			rc = decode_string(decoder, line->file, "locations", at, "lines.file",
					   &lines[i].file);
		if (rc)
			return rc;
		lines[i].number = line->number;
	}
	return 0;
}

static int decode_location(struct decoder *decoder, size_t at)
{
	const Cairn__V1__Location *message = decoder->message->locations[at];
	struct line lines[LOCATION_LINES_MAX];
	struct location location = { .kind = message->kind, .offset = message->offset };

	if (decode_id(&message->id, &location.id))
		return error_set(decoder->err, -EBADMSG,
				 "locations[%zu].id: %zu bytes, expected 16", at, message->id.len);
	if (message->kind >= FRAME_KIND_COUNT)
		return error_set(decoder->err, -EBADMSG, "locations[%zu].kind: %u is not below %d",
				 at, message->kind, FRAME_KIND_COUNT);
	int rc = decode_string(decoder, message->module, "locations", at, "module",
			       &location.module);
	if (!rc)
		rc = decode_string(decoder, message->build_id, "locations", at, "build_id",
				   &location.build_id);
	if (!rc)
		rc = decode_lines(decoder, at, lines);
	if (rc)
		return rc;

	rc = profile_add_location(decoder->profile, &location, lines, (uint32_t)message->n_lines,
				  &decoder->locations[at]);
	if (rc)
		return refused(decoder, rc, "locations", at);
	// A position that does not ascend is that of an equal location.
	if (decoder->locations[at] != at)
		return error_set(decoder->err, -EBADMSG,
				 "locations[%zu].id: the same as locations[%u]'s", at,
				 decoder->locations[at]);
	return 0;
}

static int decode_locations(struct decoder *decoder)
{
	size_t count = decoder->message->n_locations;

	decoder->locations = calloc(count + 1, sizeof(*decoder->locations));
	if (!decoder->locations)
		return error_set(decoder->err, -ENOMEM, "locations: out of memory");
	for (size_t i = 0; i < count; i++) {
		int rc = decode_location(decoder, i);
		if (rc)
			return rc;
	}
	return 0;
}

static int decode_stack_ids(struct decoder *decoder)
{
	const ProtobufCBinaryData *bytes = &decoder->message->stack_ids;

	if (bytes->len % ID128_BYTES)
		return error_set(decoder->err, -EBADMSG,
				 "stack_ids: %zu bytes, expected a multiple of 16", bytes->len);
	decoder->stack_count = bytes->len / ID128_BYTES;
	decoder->stacks = calloc(decoder->stack_count + 1, sizeof(*decoder->stacks));
	if (!decoder->stacks)
		return error_set(decoder->err, -ENOMEM, "stack_ids: out of memory");
	for (size_t i = 0; i < decoder->stack_count; i++) {
		struct id128 id = id128_decode(bytes->data + i * ID128_BYTES);
		int rc = profile_add_stack_id(decoder->profile, id, &decoder->stacks[i]);

		if (rc)
			return refused(decoder, rc, "stack_ids", i);
		if (decoder->stacks[i] != i)
			return error_set(decoder->err, -EBADMSG,
					 "stack_ids[%zu]: the same as stack_ids[%u]", i,
					 decoder->stacks[i]);
	}
	return 0;
}

static int check_stack(struct decoder *decoder, size_t at)
{
	const Cairn__V1__Stack *message = decoder->message->stacks[at];

	if (message->stack >= decoder->stack_count)
		return error_set(decoder->err, -EBADMSG,
				 "stacks[%zu].stack: %u is not below stack_ids' %zu", at,
				 message->stack, decoder->stack_count);
	if (decoder->profile->stacks[message->stack].defined)
		return error_set(decoder->err, -EBADMSG, "stacks[%zu].stack: %u is defined twice",
				 at, message->stack);
	if (message->end >= STACK_END_COUNT)
		return error_set(decoder->err, -EBADMSG, "stacks[%zu].end: %u is not below %d", at,
				 message->end, STACK_END_COUNT);
	if (message->n_locations > STACK_FRAMES_MAX)
		return error_set(decoder->err, -EBADMSG,
				 "stacks[%zu].locations: %zu, expected at most %d", at,
				 message->n_locations, STACK_FRAMES_MAX);
	for (size_t i = 0; i < message->n_locations; i++)
		if (message->locations[i] >= decoder->message->n_locations)
			return error_set(
				decoder->err, -EBADMSG,
				"stacks[%zu].locations[%zu]: %u is not below locations' %zu", at, i,
				message->locations[i], decoder->message->n_locations);
	return 0;
}

static int decode_stacks(struct decoder *decoder)
{
	for (size_t i = 0; i < decoder->message->n_stacks; i++) {
		const Cairn__V1__Stack *message = decoder->message->stacks[i];
		int rc = check_stack(decoder, i);

		if (rc)
			return rc;
		// Positions of locations and stacks are the same in the message and the profile.
		rc = profile_define_stack(decoder->profile, message->stack, message->locations,
					  (uint32_t)message->n_locations,
					  (enum stack_end)message->end);
		if (rc == -EBADMSG)
			return error_set(decoder->err, rc,
					 "stacks[%zu]: its id is not the hash of its locations", i);
		if (rc)
			return refused(decoder, rc, "stacks", i);
	}
	return 0;
}

// ---- series ---------------------------------------------------------------------------------

static int decode_label(struct decoder *decoder, size_t at, size_t label, struct labels *labels)
{
	const Cairn__V1__Series *message = decoder->message->series[at];
	uint32_t name = 0, value = 0;
	int rc = decode_string(decoder, message->label_names[label], "series", at, "label_names",
			       &name);

	if (!rc)
		rc = decode_string(decoder, message->label_values[label], "series", at,
				   "label_values", &value);
	if (rc)
		return rc;

	const char *name_text = profile_string(decoder->profile, name);
	const char *value_text = profile_string(decoder->profile, value);
	if (!*value_text || strlen(value_text) > LABEL_VALUE_BYTES_MAX)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].label_values[%zu]: expected 1 to %d bytes", at, label,
				 LABEL_VALUE_BYTES_MAX);
	if (label && strcmp(labels->pairs[label - 1].name, name_text) >= 0)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].label_names[%zu]: not after the one before, by bytes",
				 at, label);
	rc = labels_set(labels, name_text, value_text);
	if (rc == -EINVAL)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].label_names[%zu]: expected [a-zA-Z_][a-zA-Z0-9_]*, "
				 "at most %d bytes",
				 at, label, LABEL_NAME_BYTES_MAX);
	return rc ? refused(decoder, rc, "series", at) : 0;
}

static int decode_labels(struct decoder *decoder, size_t at, struct labels *labels)
{
	const Cairn__V1__Series *message = decoder->message->series[at];

	if (message->n_label_names != message->n_label_values)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].label_values: %zu for %zu label_names", at,
				 message->n_label_values, message->n_label_names);
	if (message->n_label_names > LABELS_MAX)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].label_names: %zu, expected at most %d", at,
				 message->n_label_names, LABELS_MAX);
	for (size_t i = 0; i < message->n_label_names; i++) {
		int rc = decode_label(decoder, at, i, labels);
		if (rc)
			return rc;
	}
	return 0;
}

static int check_columns(struct decoder *decoder, size_t at)
{
	const Cairn__V1__Series *message = decoder->message->series[at];

	if (message->n_stacks != message->n_slot_deltas)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].stacks: %zu for %zu slot_deltas", at,
				 message->n_stacks, message->n_slot_deltas);
	if (message->n_values != message->n_slot_deltas)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].values: %zu for %zu slot_deltas", at,
				 message->n_values, message->n_slot_deltas);
	if (message->n_more_slots && message->n_more_slots != message->n_slot_deltas)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].more_slots: %zu for %zu slot_deltas", at,
				 message->n_more_slots, message->n_slot_deltas);
	if (!message->n_values)
		return error_set(decoder->err, -EBADMSG, "series[%zu].values: none", at);
	if (message->first_slot < decoder->slot_min || message->first_slot > decoder->slot_max)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].first_slot: %llu lies outside from_ns and to_ns", at,
				 (unsigned long long)message->first_slot);
	if (message->value_scale > EXPORT_VALUE_MAX)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].value_scale: %llu, expected at most %llu", at,
				 (unsigned long long)message->value_scale,
				 (unsigned long long)EXPORT_VALUE_MAX);
	return 0;
}

static uint32_t more_slots_of(const Cairn__V1__Series *message, size_t i)
{
	return message->n_more_slots ? message->more_slots[i] : 0;
}

// @slot is at most slot_max: neither sum nor product wraps.
static int check_interval(struct decoder *decoder, size_t at, size_t i, uint64_t slot)
{
	const uint64_t minute_ns = SECONDS_PER_MINUTE * NS_PER_SECOND;
	uint64_t slot_ns = decoder->message->slot_ns;
	uint32_t more_slots = more_slots_of(decoder->message->series[at], i);
	uint64_t last = slot + more_slots;

	if (last > decoder->slot_max)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].more_slots[%zu]: %u reach beyond to_ns", at, i,
				 more_slots);
	if (slot * slot_ns / minute_ns != last * slot_ns / minute_ns)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].more_slots[%zu]: %u reach into another minute", at, i,
				 more_slots);
	return 0;
}

// Does sample @i follow the one before, which is of the same slot?
static bool is_above(const Cairn__V1__Series *message, size_t i)
{
	if (message->stacks[i] != message->stacks[i - 1])
		return message->stacks[i] > message->stacks[i - 1];
	return more_slots_of(message, i) > more_slots_of(message, i - 1);
}

static int check_sample(struct decoder *decoder, size_t at, size_t i, uint64_t slot)
{
	const Cairn__V1__Series *message = decoder->message->series[at];

	if (slot > decoder->slot_max)
		return error_set(
			decoder->err, -EBADMSG,
			"series[%zu].slot_deltas[%zu]: slot %llu lies outside from_ns and to_ns",
			at, i, (unsigned long long)slot);
	if (message->stacks[i] >= decoder->stack_count)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu].stacks[%zu]: %u is not below stack_ids' %zu", at, i,
				 message->stacks[i], decoder->stack_count);
	if (i && !message->slot_deltas[i] && !is_above(message, i))
		return error_set(
			decoder->err, -EBADMSG,
			"series[%zu].stacks[%zu]: not above the one before in the same slot", at,
			i);
	return check_interval(decoder, at, i, slot);
}

static int decode_samples(struct decoder *decoder, size_t at, uint32_t series)
{
	const Cairn__V1__Series *message = decoder->message->series[at];
	int64_t scale = message->value_scale ? (int64_t)message->value_scale : 1;
	uint64_t slot = message->first_slot; // at most slot_max: a 32-bit delta cannot wrap it

	for (size_t i = 0; i < message->n_values; i++) {
		int64_t value;

		slot += message->slot_deltas[i];
		int rc = check_sample(decoder, at, i, slot);
		if (rc)
			return rc;
		if (__builtin_mul_overflow(message->values[i], scale, &value) ||
		    value > EXPORT_VALUE_MAX || value < -EXPORT_VALUE_MAX)
			return error_set(
				decoder->err, -EBADMSG,
				"series[%zu].values[%zu]: %lld times value_scale %lld is too large",
				at, i, (long long)message->values[i], (long long)scale);
		rc = profile_add_interval(decoder->profile, series, message->stacks[i], slot,
					  more_slots_of(message, i), value);
		if (rc)
			return refused(decoder, rc, "series", at);
	}
	return 0;
}

static int decode_series(struct decoder *decoder, size_t at)
{
	const Cairn__V1__Series *message = decoder->message->series[at];
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	struct profile_type type;
	struct error cause;
	uint32_t type_string = 0, series;

	int rc = decode_labels(decoder, at, &labels);
	if (!rc)
		rc = decode_string(decoder, message->type, "series", at, "type", &type_string);
	if (!rc)
		rc = check_columns(decoder, at);
	if (rc)
		return rc;

	const char *type_text = profile_string(decoder->profile, type_string);
	if (profile_type_parse(type_text, &type, &cause))
		return error_set(decoder->err, -EBADMSG, "series[%zu].type: %s", at, cause.text);
	// profile_add_series() may move the string table, where type_text lies.
	_cleanup_free_ char *type_copy = strdup(type_text);
	if (!type_copy)
		return refused(decoder, -ENOMEM, "series", at);
	rc = profile_add_series(decoder->profile, &labels, type_copy, &series);
	if (rc)
		return refused(decoder, rc, "series", at);
	if (series != at)
		return error_set(decoder->err, -EBADMSG,
				 "series[%zu]: the same labels and type as series[%u]", at, series);
	return decode_samples(decoder, at, series);
}

// ---- the whole ------------------------------------------------------------------------------

static int decode_message(struct decoder *decoder)
{
	const Cairn__V1__ExportRequest *message = decoder->message;
	int rc = check_times(decoder);

	if (rc)
		return rc;
	decoder->profile = profile_new(message->slot_ns);
	if (!decoder->profile)
		return error_set(decoder->err, -ENOMEM, "out of memory for a profile");
	decoder->profile->from_ns = message->from_ns;
	decoder->profile->to_ns = message->to_ns;

	rc = decode_strings(decoder);
	if (!rc)
		rc = decode_locations(decoder);
	if (!rc)
		rc = decode_stack_ids(decoder);
	if (!rc)
		rc = decode_stacks(decoder);
	for (size_t i = 0; !rc && i < message->n_series; i++)
		rc = decode_series(decoder, i);
	return rc;
}

static int decode_report(const Cairn__V1__ExportRequest *message, struct boost_report *ret_report,
			 struct error *err)
{
	struct boost_report report = { 0 };

	if (message->n_boosts > BOOSTS_OF_AGENT_MAX)
		return error_set(err, -EBADMSG, "boosts: %zu, expected at most %d",
				 message->n_boosts, BOOSTS_OF_AGENT_MAX);
	for (size_t i = 0; i < message->n_boosts; i++) {
		const Cairn__V1__BoostState *state = message->boosts[i];

		if (state->hz > BOOST_HZ_MAX || state->hz_max > BOOST_HZ_MAX)
			return error_set(err, -EBADMSG, "boosts[%zu]: %u Hz, expected at most %d",
					 i, state->hz > state->hz_max ? state->hz : state->hz_max,
					 BOOST_HZ_MAX);
		report.states[report.count++] =
			(struct boost_state){ .id = state->id,
					      .hz = state->hz,
					      .hz_max = state->hz_max,
					      .profiles = state->profiles & BOOST_PROFILES,
					      .stopped = state->stopped };
	}
	*ret_report = report;
	return 0;
}

int export_request_decode(const void *bytes, size_t size, struct batch_id *ret_batch,
			  struct profile **ret_profile, struct boost_report *ret_report,
			  struct error *err)
{
	struct boost_report report;
	_cleanup_(message_memory_deinit) struct message_memory memory;
	struct batch_id batch;

	message_memory_init(&memory, size);
	Cairn__V1__ExportRequest *message =
		size > EXPORT_MESSAGE_BYTES_MAX
			? NULL
			: cairn__v1__export_request__unpack(&memory.allocator, size, bytes);
	if (!message)
		return message_memory_refusal(&memory, "ExportRequest", size,
					      EXPORT_MESSAGE_BYTES_MAX, err);

	_cleanup_(decoder_deinit) struct decoder decoder = { .message = message, .err = err };
	int rc = check_version(message, err);
	if (!rc)
		rc = decode_batch(message, &batch, err);
	if (!rc)
		rc = decode_report(message, &report, err);
	if (!rc)
		rc = decode_message(&decoder);
	if (rc)
		return rc;
	*ret_batch = batch;
	*ret_profile = take(decoder.profile);
	if (ret_report)
		*ret_report = report;
	return 0;
}
