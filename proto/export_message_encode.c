// SPDX-License-Identifier: Apache-2.0
// Encodes a profile as an ExportRequest. The message's arrays are laid out first, in a few large
// allocations whatever the number of samples; protobuf-c packs them from there.
#include "proto/export_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/v1/collector.pb-c.h"

#include "base/array.h"
#include "base/cleanup.h"
#include "base/string_table.h"
#include "base/version.h"

// Numbers of the profile's items in the message; 0: the item is left out.
struct encoder {
	const struct profile *profile;
	struct string_table strings; // the message's
	uint32_t
		*string_numbers; // by the profile's string: number in the message (0 is "" in both)
	uint32_t *stack_numbers; // by the profile's stack: number in the message + 1
	uint32_t *location_numbers; // by the profile's location: number in the message + 1

	uint32_t *stacks; // the profile's positions of the stacks that travel, in wire order
	uint32_t stack_count;
	uint32_t *defined; // wire numbers of the stacks whose definitions travel
	uint32_t defined_count;
	uint32_t *locations; // the profile's positions of the locations that travel, in wire order
	uint32_t location_count;
	size_t line_count;           // of these locations
	size_t stack_location_count; // of the definitions
	struct sample *samples;      // with wire numbers of stacks, sorted, equal ones joined
	uint32_t sample_count;

	// The message points at these.
	uint8_t agent_id[ID128_BYTES], boot_id[ID128_BYTES];
	uint8_t *stack_ids, *location_ids;
	char **string_pointers;
	uint32_t *stack_locations;
	Cairn__V1__Location *location_messages, **location_pointers;
	Cairn__V1__Line *line_messages, **line_pointers;
	Cairn__V1__Stack *stack_messages, **stack_pointers;
	Cairn__V1__Series *series_messages, **series_pointers;
	uint32_t *labels; // per series: names, then values
	uint32_t *slot_deltas, *sample_stacks, *more_slots;
	int64_t *values;
};

static void encoder_deinit(struct encoder *encoder)
{
	void *const owned[] = {
		encoder->string_numbers,    encoder->stack_numbers,
		encoder->location_numbers,  encoder->stacks,
		encoder->defined,           encoder->locations,
		encoder->samples,           encoder->stack_ids,
		encoder->location_ids,      encoder->string_pointers,
		encoder->stack_locations,   encoder->location_messages,
		encoder->location_pointers, encoder->line_messages,
		encoder->line_pointers,     encoder->stack_messages,
		encoder->stack_pointers,    encoder->series_messages,
		encoder->series_pointers,   encoder->labels,
		encoder->slot_deltas,       encoder->sample_stacks,
		encoder->more_slots,        encoder->values,
	};

	for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
		free(owned[i]);
	string_table_deinit(&encoder->strings);
}

// ---- stacks and samples of the message ------------------------------------------------------

static int by_falling_count(const void *a, const void *b, void *counts)
{
	const uint32_t *left = a, *right = b, *count = counts;

	if (count[*left] != count[*right])
		return count[*left] < count[*right] ? 1 : -1;
	return *left < *right ? -1 : 1;
}

// Number the stacks of samples, the frequent ones first: small numbers take one byte.
static int number_stacks(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	_cleanup_free_ uint32_t *counts = NULL;
	int rc = array_allocate(&counts, profile->stack_count, sizeof(*counts));

	if (!rc)
		rc = array_allocate(&encoder->stacks, profile->stack_count,
				    sizeof(*encoder->stacks));
	if (!rc)
		rc = array_allocate(&encoder->stack_numbers, profile->stack_count,
				    sizeof(*encoder->stack_numbers));
	if (rc)
		return rc;
	for (uint32_t i = 0; i < profile->sample_count; i++)
		if (!counts[profile->samples[i].stack]++)
			encoder->stacks[encoder->stack_count++] = profile->samples[i].stack;
	qsort_r(encoder->stacks, encoder->stack_count, sizeof(*encoder->stacks), by_falling_count,
		counts);
	for (uint32_t i = 0; i < encoder->stack_count; i++)
		encoder->stack_numbers[encoder->stacks[i]] = i + 1;
	return 0;
}

static void number_locations_of(struct encoder *encoder, const struct stack *stack)
{
	const struct profile *profile = encoder->profile;

	encoder->stack_location_count += stack->location_count;
	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t location = profile->stack_locations[stack->first_location + i];

		if (encoder->location_numbers[location])
			continue;
		encoder->locations[encoder->location_count++] = location;
		encoder->location_numbers[location] = encoder->location_count;
		encoder->line_count += profile->locations[location].line_count;
	}
}

static int choose_definitions(struct encoder *encoder, export_define_fn define, void *context)
{
	const struct profile *profile = encoder->profile;
	int rc = array_allocate(&encoder->defined, encoder->stack_count, sizeof(*encoder->defined));

	if (!rc)
		rc = array_allocate(&encoder->locations, profile->location_count,
				    sizeof(*encoder->locations));
	if (!rc)
		rc = array_allocate(&encoder->location_numbers, profile->location_count,
				    sizeof(*encoder->location_numbers));
	if (rc)
		return rc;
	for (uint32_t i = 0; i < encoder->stack_count; i++) {
		const struct stack *stack = &profile->stacks[encoder->stacks[i]];

		if (!stack->defined || !define(context, profile, stack))
			continue;
		encoder->defined[encoder->defined_count++] = i;
		number_locations_of(encoder, stack);
	}
	return 0;
}

// Sort a copy of the samples in the order of the message.
static int sort_samples(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	int rc =
		array_allocate(&encoder->samples, profile->sample_count, sizeof(*encoder->samples));
	struct profile sorted = { .sample_count = profile->sample_count };

	if (rc)
		return rc;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		encoder->samples[i] = profile->samples[i];
		encoder->samples[i].stack = encoder->stack_numbers[profile->samples[i].stack] - 1;
	}
	sorted.samples = encoder->samples;
	profile_sort_samples(&sorted);
	encoder->sample_count = sorted.sample_count;
	return 0;
}

// ---- strings --------------------------------------------------------------------------------

static int number_string(struct encoder *encoder, uint32_t string, uint32_t *ret_number)
{
	uint32_t *number = &encoder->string_numbers[string];

	if (string && !*number) {
		const char *text = profile_string(encoder->profile, string);
		int rc = string_table_add(&encoder->strings, text, strlen(text), number);
		if (rc)
			return rc;
	}
	*ret_number = *number;
	return 0;
}

static int point_at_strings(struct encoder *encoder)
{
	int rc = array_allocate(&encoder->string_pointers, encoder->strings.count,
				sizeof(*encoder->string_pointers));

	for (uint32_t i = 0; !rc && i < encoder->strings.count; i++)
		encoder->string_pointers[i] = (char *)string_table_get(&encoder->strings, i);
	return rc;
}

// ---- the dictionary -------------------------------------------------------------------------

static int lay_out_line(struct encoder *encoder, const struct line *line, size_t at)
{
	Cairn__V1__Line *message = &encoder->line_messages[at];

	cairn__v1__line__init(message);
	encoder->line_pointers[at] = message;
	message->number = line->number;
	int rc = number_string(encoder, line->name, &message->name);
	return rc ? rc : number_string(encoder, line->file, &message->file);
}

static int lay_out_location(struct encoder *encoder, uint32_t at, size_t *line_at)
{
	const struct location *location = &encoder->profile->locations[encoder->locations[at]];
	Cairn__V1__Location *message = &encoder->location_messages[at];

	cairn__v1__location__init(message);
	encoder->location_pointers[at] = message;
	message->id.len = ID128_BYTES;
	message->id.data = encoder->location_ids + (size_t)at * ID128_BYTES;
	id128_encode(location->id, message->id.data);
	message->kind = location->kind;
	message->offset = location->offset;
	message->n_lines = location->line_count;
	message->lines = &encoder->line_pointers[*line_at];

	int rc = number_string(encoder, location->module, &message->module);
	if (!rc)
		rc = number_string(encoder, location->build_id, &message->build_id);
	for (uint32_t i = 0; !rc && i < location->line_count; i++)
		rc = lay_out_line(encoder, &encoder->profile->lines[location->first_line + i],
				  (*line_at)++);
	return rc;
}

static int lay_out_locations(struct encoder *encoder)
{
	uint32_t count = encoder->location_count;
	size_t line_at = 0;
	int rc = array_allocate(&encoder->location_ids, count, ID128_BYTES);

	if (!rc)
		rc = array_allocate(&encoder->location_messages, count,
				    sizeof(*encoder->location_messages));
	if (!rc)
		rc = array_allocate(&encoder->location_pointers, count,
				    sizeof(*encoder->location_pointers));
	if (!rc)
		rc = array_allocate(&encoder->line_messages, encoder->line_count,
				    sizeof(*encoder->line_messages));
	if (!rc)
		rc = array_allocate(&encoder->line_pointers, encoder->line_count,
				    sizeof(*encoder->line_pointers));
	for (uint32_t i = 0; !rc && i < count; i++)
		rc = lay_out_location(encoder, i, &line_at);
	return rc;
}

static void lay_out_stack(struct encoder *encoder, uint32_t at, size_t *location_at)
{
	uint32_t number = encoder->defined[at];
	const struct stack *stack = &encoder->profile->stacks[encoder->stacks[number]];
	Cairn__V1__Stack *message = &encoder->stack_messages[at];

	cairn__v1__stack__init(message);
	encoder->stack_pointers[at] = message;
	message->stack = number;
	message->end = stack->end;
	message->n_locations = stack->location_count;
	message->locations = &encoder->stack_locations[*location_at];
	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t location = encoder->profile->stack_locations[stack->first_location + i];

		encoder->stack_locations[(*location_at)++] =
			encoder->location_numbers[location] - 1;
	}
}

static int lay_out_stacks(struct encoder *encoder)
{
	size_t location_at = 0;
	int rc = array_allocate(&encoder->stack_ids, encoder->stack_count, ID128_BYTES);

	if (!rc)
		rc = array_allocate(&encoder->stack_messages, encoder->defined_count,
				    sizeof(*encoder->stack_messages));
	if (!rc)
		rc = array_allocate(&encoder->stack_pointers, encoder->defined_count,
				    sizeof(*encoder->stack_pointers));
	if (!rc)
		rc = array_allocate(&encoder->stack_locations, encoder->stack_location_count,
				    sizeof(*encoder->stack_locations));
	if (rc)
		return rc;
	for (uint32_t i = 0; i < encoder->stack_count; i++)
		id128_encode(encoder->profile->stacks[encoder->stacks[i]].id,
			     encoder->stack_ids + (size_t)i * ID128_BYTES);
	for (uint32_t i = 0; i < encoder->defined_count; i++)
		lay_out_stack(encoder, i, &location_at);
	return 0;
}

// ---- series ---------------------------------------------------------------------------------

static int lay_out_labels(struct encoder *encoder, const struct series *series, uint32_t *numbers,
			  Cairn__V1__Series *message)
{
	uint32_t count = series->labels.count;

	message->n_label_names = message->n_label_values = count;
	message->label_names = numbers;
	message->label_values = numbers + count;
	for (uint32_t i = 0; i < count; i++) {
		const struct label *label = &series->labels.pairs[i];
		int rc = string_table_add(&encoder->strings, label->name, strlen(label->name),
					  &message->label_names[i]);

		if (!rc)
			rc = string_table_add(&encoder->strings, label->value, strlen(label->value),
					      &message->label_values[i]);
		if (rc)
			return rc;
	}
	return number_string(encoder, series->type, &message->type);
}

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

// The greatest common divisor of all values: sampling periods are often whole microseconds.
static uint64_t scale_of(const struct sample *samples, size_t count)
{
	uint64_t scale = 0;

	for (size_t i = 0; i < count && scale != 1; i++) {
		uint64_t value = magnitude(samples[i].value);

		while (value) {
			uint64_t rest = scale % value;

			scale = value;
			value = rest;
		}
	}
	// INT64_MIN's magnitude does not fit int64_t.
	return scale > INT64_MAX ? 1 : scale ? scale : 1;
}

// Lay out more_slots if a sample is an interval.
static void lay_out_more_slots(struct encoder *encoder, size_t first, size_t count,
			       Cairn__V1__Series *message)
{
	bool is_needed = false;

	message->more_slots = &encoder->more_slots[first];
	for (size_t i = 0; i < count; i++) {
		message->more_slots[i] = encoder->samples[first + i].more_slots;
		is_needed |= message->more_slots[i] != 0;
	}
	message->n_more_slots = is_needed ? count : 0;
}

static int lay_out_samples(struct encoder *encoder, size_t first, size_t count,
			   Cairn__V1__Series *message)
{
	const struct sample *samples = &encoder->samples[first];
	uint64_t slot = samples[0].slot;

	message->n_slot_deltas = message->n_stacks = message->n_values = count;
	message->slot_deltas = &encoder->slot_deltas[first];
	message->stacks = &encoder->sample_stacks[first];
	message->values = &encoder->values[first];
	message->first_slot = slot;
	message->value_scale = scale_of(samples, count);
	for (size_t i = 0; i < count; i++) {
		uint64_t delta = samples[i].slot - slot;

		if (delta > UINT32_MAX)
			return -ERANGE;
		slot = samples[i].slot;
		message->slot_deltas[i] = (uint32_t)delta;
		message->stacks[i] = samples[i].stack;
		message->values[i] = samples[i].value / (int64_t)message->value_scale;
	}
	lay_out_more_slots(encoder, first, count, message);
	return 0;
}

static size_t samples_of_series(const struct encoder *encoder, size_t first)
{
	size_t end = first + 1;

	while (end < encoder->sample_count &&
	       encoder->samples[end].series == encoder->samples[first].series)
		end++;
	return end - first;
}

static int allocate_series(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	size_t label_count = 0;

	for (uint32_t i = 0; i < profile->series_count; i++)
		label_count += profile->series[i].labels.count;
	int rc = array_allocate(&encoder->labels, 2 * label_count, sizeof(*encoder->labels));
	if (!rc)
		rc = array_allocate(&encoder->series_messages, profile->series_count,
				    sizeof(*encoder->series_messages));
	if (!rc)
		rc = array_allocate(&encoder->series_pointers, profile->series_count,
				    sizeof(*encoder->series_pointers));
	if (!rc)
		rc = array_allocate(&encoder->slot_deltas, encoder->sample_count,
				    sizeof(*encoder->slot_deltas));
	if (!rc)
		rc = array_allocate(&encoder->sample_stacks, encoder->sample_count,
				    sizeof(*encoder->sample_stacks));
	if (!rc)
		rc = array_allocate(&encoder->more_slots, encoder->sample_count,
				    sizeof(*encoder->more_slots));
	if (!rc)
		rc = array_allocate(&encoder->values, encoder->sample_count,
				    sizeof(*encoder->values));
	return rc;
}

// Series without samples are left out.
static int lay_out_series(struct encoder *encoder, size_t *ret_count)
{
	uint32_t *labels;
	size_t at = 0;
	int rc = allocate_series(encoder);

	labels = encoder->labels;
	for (size_t first = 0; !rc && first < encoder->sample_count; at++) {
		const struct series *series =
			&encoder->profile->series[encoder->samples[first].series];
		Cairn__V1__Series *message = &encoder->series_messages[at];
		size_t count = samples_of_series(encoder, first);

		cairn__v1__series__init(message);
		encoder->series_pointers[at] = message;
		rc = lay_out_labels(encoder, series, labels, message);
		if (!rc)
			rc = lay_out_samples(encoder, first, count, message);
		labels += 2 * series->labels.count;
		first += count;
	}
	*ret_count = at;
	return rc;
}

// ---- the whole ------------------------------------------------------------------------------

static int lay_out(struct encoder *encoder, export_define_fn define, void *context,
		   Cairn__V1__ExportRequest *message)
{
	int rc = string_table_init(&encoder->strings);

	if (!rc)
		rc = array_allocate(&encoder->string_numbers, encoder->profile->strings.count,
				    sizeof(*encoder->string_numbers));
	if (!rc)
		rc = number_stacks(encoder);
	if (!rc)
		rc = choose_definitions(encoder, define, context);
	if (!rc)
		rc = sort_samples(encoder);
	if (!rc)
		rc = lay_out_locations(encoder);
	if (!rc)
		rc = lay_out_stacks(encoder);
	if (!rc)
		rc = lay_out_series(encoder, &message->n_series);
	if (!rc)
		rc = point_at_strings(encoder);
	return rc;
}

static void fill_message(struct encoder *encoder, const struct batch_id *batch,
			 Cairn__V1__ExportRequest *message)
{
	id128_encode(batch->agent, encoder->agent_id);
	id128_encode(batch->boot, encoder->boot_id);
	message->contract_version = EXPORT_CONTRACT_VERSION;
	message->agent_id = (ProtobufCBinaryData){ ID128_BYTES, encoder->agent_id };
	message->boot_id = (ProtobufCBinaryData){ ID128_BYTES, encoder->boot_id };
	message->sequence = batch->sequence;
	message->slot_ns = encoder->profile->slot_ns;
	message->from_ns = encoder->profile->from_ns;
	message->to_ns = encoder->profile->to_ns;
	message->agent_version = (char *)CAIRN_VERSION;
	message->n_strings = encoder->strings.count;
	message->strings = encoder->string_pointers;
	message->stack_ids = (ProtobufCBinaryData){ (size_t)encoder->stack_count * ID128_BYTES,
						    encoder->stack_ids };
	message->n_locations = encoder->location_count;
	message->locations = encoder->location_pointers;
	message->n_stacks = encoder->defined_count;
	message->stacks = encoder->stack_pointers;
	message->series = encoder->series_pointers;
}

static int pack(const Cairn__V1__ExportRequest *message, struct buffer *buffer, struct error *err)
{
	size_t size = cairn__v1__export_request__get_packed_size(message);

	if (size > EXPORT_MESSAGE_BYTES_MAX)
		return error_set(err, -EFBIG, "the batch is too large (%zu bytes, limit %d)", size,
				 EXPORT_MESSAGE_BYTES_MAX);
	uint8_t *bytes = buffer_extend(buffer, size);
	if (!bytes)
		return error_errno(err, buffer->rc, "encode a batch of %zu bytes", size);
	cairn__v1__export_request__pack(message, bytes);
	return 0;
}

int export_request_encode(const struct batch_id *batch, const struct profile *profile,
			  export_define_fn define, void *context, struct buffer *buffer,
			  struct error *err)
{
	_cleanup_(encoder_deinit) struct encoder encoder = { .profile = profile };
	Cairn__V1__ExportRequest message = CAIRN__V1__EXPORT_REQUEST__INIT;

	int rc = lay_out(&encoder, define, context, &message);
	if (rc == -ERANGE)
		return error_set(err, rc, "samples of one series lie more than %u slots apart",
				 UINT32_MAX);
	if (rc)
		return error_errno(err, rc, "encode a batch");
	fill_message(&encoder, batch, &message);
	return pack(&message, buffer, err);
}

int export_request_add_boosts(const struct boost_report *report, struct buffer *buffer,
			      struct error *err)
{
	Cairn__V1__ExportRequest message = CAIRN__V1__EXPORT_REQUEST__INIT;
	Cairn__V1__BoostState items[BOOSTS_OF_AGENT_MAX], *list[BOOSTS_OF_AGENT_MAX];

	for (uint32_t i = 0; i < report->count; i++) {
		const struct boost_state *state = &report->states[i];

		list[i] = &items[i];
		cairn__v1__boost_state__init(&items[i]);
		items[i].id = state->id;
		items[i].hz = state->hz;
		items[i].hz_max = state->hz_max;
		items[i].profiles = state->profiles;
		items[i].stopped = state->stopped;
	}
	message.boosts = list;
	message.n_boosts = report->count;
	size_t size = cairn__v1__export_request__get_packed_size(&message);
	// The samples count for more.
	if (!size || buffer->size + size > EXPORT_MESSAGE_BYTES_MAX)
		return 0;
	// Messages of protocol buffers are joined by joining their bytes.
	uint8_t *bytes = buffer_extend(buffer, size);
	if (!bytes)
		return error_errno(err, buffer->rc, "encode states of boosts");
	cairn__v1__export_request__pack(&message, bytes);
	return 0;
}
