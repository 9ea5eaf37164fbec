// SPDX-License-Identifier: Apache-2.0
#include "proto/pprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "pprof/profile.pb-c.h"

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/contract/profile_type.h"
#include "base/string_table.h"

typedef Perftools__Profiles__Profile ProfileMessage;
typedef Perftools__Profiles__ValueType ValueTypeMessage;
typedef Perftools__Profiles__Sample SampleMessage;
typedef Perftools__Profiles__Label LabelMessage;
typedef Perftools__Profiles__Mapping MappingMessage;
typedef Perftools__Profiles__Location LocationMessage;
typedef Perftools__Profiles__Line LineMessage;
typedef Perftools__Profiles__Function FunctionMessage;

enum {
	FRAME_NAME_BYTES = 512,
	GZIP_WINDOW_BITS = 15 + 16, // the largest window; 16: with gzip's header
	GZIP_STEP_BYTES = 64 * 1024,
};

// Locations of the message that the profile does not have: one per reason of a truncated stack.
#define CUT_LOCATION(encoder, end) ((encoder)->profile->location_count + (uint32_t)(end))

struct encoder {
	const struct profile *profile;
	const struct pprof_options *options;
	uint32_t value_count; // of each sample
	struct string_table strings;
	struct sample *samples; // of the types, summed over slots
	uint32_t sample_count;

	// By position; location_used has STACK_END_COUNT more items, for CUT_LOCATION().
	bool *stack_used, *location_used;
	size_t frame_count; // of the used stacks, with their reasons
	size_t line_count;  // of the used locations, at least one each
	size_t location_count;
	size_t label_count;

	struct hash_table function_index, mapping_index;
	uint64_t *frames;     // location ids of all used stacks
	size_t *stack_frames; // by the profile's stack: its place in frames
	SampleMessage *samples_out, **sample_pointers;
	int64_t *values;
	LabelMessage *labels, **label_pointers;
	size_t *series_labels; // by the profile's series: its place in labels
	LocationMessage *locations, **location_pointers;
	LineMessage *lines, **line_pointers;
	FunctionMessage *functions, **function_pointers;
	size_t function_count;
	MappingMessage *mappings, **mapping_pointers;
	size_t mapping_count;
	char **string_pointers;
};

static void encoder_deinit(struct encoder *encoder)
{
	void *const owned[] = {
		encoder->samples,
		encoder->stack_used,
		encoder->location_used,
		encoder->frames,
		encoder->stack_frames,
		encoder->samples_out,
		encoder->sample_pointers,
		encoder->values,
		encoder->labels,
		encoder->label_pointers,
		encoder->series_labels,
		encoder->locations,
		encoder->location_pointers,
		encoder->lines,
		encoder->line_pointers,
		encoder->functions,
		encoder->function_pointers,
		encoder->mappings,
		encoder->mapping_pointers,
		encoder->string_pointers,
	};

	for (size_t i = 0; i < ARRAY_SIZE(owned); i++)
		free(owned[i]);
	hash_table_deinit(&encoder->function_index);
	hash_table_deinit(&encoder->mapping_index);
	string_table_deinit(&encoder->strings);
}

static int add_string(struct encoder *encoder, const char *string, int64_t *ret_number)
{
	uint32_t number;
	int rc = string_table_add(&encoder->strings, string, strlen(string), &number);

	if (!rc)
		*ret_number = number;
	return rc;
}

// ---- used stacks and locations --------------------------------------------------------------

/** The position of the series' type among those of the file, or their number. */
static uint32_t type_of(const struct encoder *encoder, uint32_t series)
{
	const struct profile *profile = encoder->profile;
	const char *type = profile_string(profile, profile->series[series].type);
	uint32_t i = 0;

	while (i < encoder->options->type_count && strcmp(encoder->options->types[i], type) != 0)
		i++;
	return i;
}

static int choose_samples(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	struct profile joined = { 0 };
	int rc =
		array_allocate(&encoder->samples, profile->sample_count, sizeof(*encoder->samples));

	if (rc)
		return rc;
	joined.samples = encoder->samples;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (type_of(encoder, sample->series) == encoder->options->type_count)
			continue;
		encoder->samples[joined.sample_count] = *sample;
		encoder->samples[joined.sample_count].more_slots = 0;
		encoder->samples[joined.sample_count++].slot = 0;
	}
	profile_sort_samples(&joined);
	encoder->sample_count = joined.sample_count;
	return 0;
}

static enum stack_end end_of(const struct stack *stack)
{
	return stack->defined ? stack->end : STACK_END_LOST;
}

static void use_location(struct encoder *encoder, uint32_t location, uint32_t line_count)
{
	encoder->frame_count++;
	if (encoder->location_used[location])
		return;
	encoder->location_used[location] = true;
	encoder->location_count++;
	encoder->line_count += line_count ? line_count : 1;
}

static void use_stack(struct encoder *encoder, const struct stack *stack)
{
	const struct profile *profile = encoder->profile;

	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t location = profile->stack_locations[stack->first_location + i];

		use_location(encoder, location, profile->locations[location].line_count);
	}
	if (end_of(stack) != STACK_END_COMPLETE)
		use_location(encoder, CUT_LOCATION(encoder, end_of(stack)), 1);
}

static int choose_stacks(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	int rc = array_allocate(&encoder->stack_used, profile->stack_count, sizeof(bool));

	if (!rc)
		rc = array_allocate(&encoder->location_used, CUT_LOCATION(encoder, STACK_END_COUNT),
				    sizeof(bool));
	if (rc)
		return rc;
	for (uint32_t i = 0; i < encoder->sample_count; i++) {
		const struct sample *sample = &encoder->samples[i];

		if (i == 0 || sample->series != sample[-1].series)
			encoder->label_count += profile->series[sample->series].labels.count;
		if (encoder->stack_used[sample->stack])
			continue;
		encoder->stack_used[sample->stack] = true;
		use_stack(encoder, &profile->stacks[sample->stack]);
	}
	return 0;
}

static int allocate_messages(struct encoder *encoder)
{
	const struct {
		void *array;
		size_t count, size;
	} wanted[] = {
		{ &encoder->frames, encoder->frame_count, sizeof(uint64_t) },
		{ &encoder->stack_frames, encoder->profile->stack_count, sizeof(size_t) },
		{ &encoder->samples_out, encoder->sample_count, sizeof(SampleMessage) },
		{ &encoder->sample_pointers, encoder->sample_count, sizeof(void *) },
		{ &encoder->values, (size_t)encoder->sample_count * encoder->value_count,
		  sizeof(int64_t) },
		{ &encoder->labels, encoder->label_count, sizeof(LabelMessage) },
		{ &encoder->label_pointers, encoder->label_count, sizeof(void *) },
		{ &encoder->series_labels, encoder->profile->series_count, sizeof(size_t) },
		{ &encoder->locations, encoder->location_count, sizeof(LocationMessage) },
		{ &encoder->location_pointers, encoder->location_count, sizeof(void *) },
		{ &encoder->lines, encoder->line_count, sizeof(LineMessage) },
		{ &encoder->line_pointers, encoder->line_count, sizeof(void *) },
		// At most one function per line, and one mapping per location.
		{ &encoder->functions, encoder->line_count, sizeof(FunctionMessage) },
		{ &encoder->function_pointers, encoder->line_count, sizeof(void *) },
		{ &encoder->mappings, encoder->location_count, sizeof(MappingMessage) },
		{ &encoder->mapping_pointers, encoder->location_count, sizeof(void *) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		int rc = array_allocate(wanted[i].array, wanted[i].count, wanted[i].size);
		if (rc)
			return rc;
	}
	return 0;
}

// ---- functions and mappings, each once --------------------------------------------------------

struct pair_key {
	int64_t first, second;
};

static bool function_equal(const void *context, uint32_t item, const void *key)
{
	const struct encoder *encoder = context;
	const struct pair_key *wanted = key;

	return encoder->functions[item].name == wanted->first &&
	       encoder->functions[item].filename == wanted->second;
}

static int add_function(struct encoder *encoder, int64_t name, int64_t file, uint64_t *ret_id)
{
	const struct pair_key key = { name, file };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t at =
		hash_table_find(&encoder->function_index, hash, function_equal, encoder, &key);

	if (at == HASH_TABLE_NONE) {
		at = (uint32_t)encoder->function_count;
		int rc = hash_table_add(&encoder->function_index, hash, at);
		if (rc)
			return rc;

		FunctionMessage *function = &encoder->functions[encoder->function_count];
		perftools__profiles__function__init(function);
		encoder->function_pointers[encoder->function_count++] = function;
		function->id = at + 1;
		function->name = function->system_name = name;
		function->filename = file;
	}
	*ret_id = at + 1;
	return 0;
}

static bool mapping_equal(const void *context, uint32_t item, const void *key)
{
	const struct encoder *encoder = context;
	const struct pair_key *wanted = key;

	return encoder->mappings[item].filename == wanted->first &&
	       encoder->mappings[item].build_id == wanted->second;
}

static int find_mapping(struct encoder *encoder, int64_t file, int64_t build_id,
			MappingMessage **ret_mapping)
{
	const struct pair_key key = { file, build_id };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t at = hash_table_find(&encoder->mapping_index, hash, mapping_equal, encoder, &key);

	if (at == HASH_TABLE_NONE) {
		at = (uint32_t)encoder->mapping_count;
		int rc = hash_table_add(&encoder->mapping_index, hash, at);
		if (rc)
			return rc;

		MappingMessage *mapping = &encoder->mappings[encoder->mapping_count];
		perftools__profiles__mapping__init(mapping);
		encoder->mapping_pointers[encoder->mapping_count++] = mapping;
		mapping->id = at + 1;
		mapping->filename = file;
		mapping->build_id = build_id;
		mapping->has_functions = true; // a frame without a name is shown with its offset
	}
	*ret_mapping = &encoder->mappings[at];
	return 0;
}

static int add_mapping(struct encoder *encoder, const struct location *location, uint64_t *ret_id)
{
	const struct profile *profile = encoder->profile;
	MappingMessage *mapping;
	int64_t file, build_id;
	int rc;

	*ret_id = 0;
	if (!location->module)
		return 0;
	rc = add_string(encoder, profile_string(profile, location->module), &file);
	if (!rc)
		rc = add_string(encoder, profile_string(profile, location->build_id), &build_id);
	if (!rc)
		rc = find_mapping(encoder, file, build_id, &mapping);
	if (rc)
		return rc;

	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct line *line = &profile->lines[location->first_line + i];

		mapping->has_filenames |= line->file != 0;
		mapping->has_line_numbers |= line->number != 0;
	}
	mapping->has_inline_frames |= location->line_count > 1;
	if (location->offset >= mapping->memory_limit)
		mapping->memory_limit = location->offset + (location->offset < UINT64_MAX);
	*ret_id = mapping->id;
	return 0;
}

// ---- locations ------------------------------------------------------------------------------

static int lay_out_line(struct encoder *encoder, size_t at, const char *name, const char *file,
			uint32_t number)
{
	LineMessage *line = &encoder->lines[at];
	int64_t name_string, file_string;

	perftools__profiles__line__init(line);
	encoder->line_pointers[at] = line;
	line->line = number;
	int rc = add_string(encoder, name, &name_string);
	if (!rc)
		rc = add_string(encoder, file, &file_string);
	return rc ? rc : add_function(encoder, name_string, file_string, &line->function_id);
}

static int lay_out_lines(struct encoder *encoder, const struct location *location, size_t line_at)
{
	const struct profile *profile = encoder->profile;
	char name[FRAME_NAME_BYTES];

	if (!location->line_count) {
		location_display_name(profile, location, 0, name, sizeof(name));
		return lay_out_line(encoder, line_at, name, "", 0);
	}
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct line *line = &profile->lines[location->first_line + i];
		int rc = lay_out_line(encoder, line_at + i, profile_string(profile, line->name),
				      profile_string(profile, line->file), line->number);
		if (rc)
			return rc;
	}
	return 0;
}

static int lay_out_location(struct encoder *encoder, uint32_t position, LocationMessage *message,
			    size_t line_at)
{
	const struct profile *profile = encoder->profile;
	char name[FRAME_NAME_BYTES];

	message->line = &encoder->line_pointers[line_at];
	message->n_line = 1;
	if (position >= profile->location_count) {
		enum stack_end end = position - profile->location_count;

		snprintf(name, sizeof(name), "[truncated: %s]", stack_end_name(end));
		return lay_out_line(encoder, line_at, name, "", 0);
	}

	const struct location *location = &profile->locations[position];
	if (location->line_count)
		message->n_line = location->line_count;
	message->address = location->offset;
	int rc = add_mapping(encoder, location, &message->mapping_id);
	return rc ? rc : lay_out_lines(encoder, location, line_at);
}

// A location's id is its position in the profile + 1: frames need no lookup.
static int lay_out_locations(struct encoder *encoder)
{
	size_t at = 0, line_at = 0;

	for (uint32_t i = 0; i < CUT_LOCATION(encoder, STACK_END_COUNT); i++) {
		if (!encoder->location_used[i])
			continue;

		LocationMessage *message = &encoder->locations[at];
		perftools__profiles__location__init(message);
		encoder->location_pointers[at++] = message;
		message->id = (uint64_t)i + 1;
		int rc = lay_out_location(encoder, i, message, line_at);
		if (rc)
			return rc;
		line_at += message->n_line;
	}
	return 0;
}

static void lay_out_frames(struct encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	size_t at = 0;

	for (uint32_t i = 0; i < profile->stack_count; i++) {
		const struct stack *stack = &profile->stacks[i];

		if (!encoder->stack_used[i])
			continue;
		encoder->stack_frames[i] = at;
		for (uint32_t j = 0; j < stack->location_count; j++)
			encoder->frames[at++] =
				(uint64_t)profile->stack_locations[stack->first_location + j] + 1;
		if (end_of(stack) != STACK_END_COMPLETE)
			encoder->frames[at++] = (uint64_t)CUT_LOCATION(encoder, end_of(stack)) + 1;
	}
}

// ---- samples --------------------------------------------------------------------------------

static int lay_out_labels(struct encoder *encoder, const struct labels *labels, size_t at)
{
	for (uint32_t i = 0; i < labels->count; i++, at++) {
		LabelMessage *label = &encoder->labels[at];

		perftools__profiles__label__init(label);
		encoder->label_pointers[at] = label;
		int rc = add_string(encoder, labels->pairs[i].name, &label->key);
		if (!rc)
			rc = add_string(encoder, labels->pairs[i].value, &label->str);
		if (rc)
			return rc;
	}
	return 0;
}

/** How often a value of so many periods was sampled: a tick counts as the time since the last one. At least once. */
static int64_t samples_of(int64_t value, uint64_t period)
{
	uint64_t samples = value > 0 ? ((uint64_t)value + period / 2) / period : 0;

	return samples || value <= 0 ? (int64_t)samples : 1;
}

static void lay_out_sample(struct encoder *encoder, uint32_t at)
{
	const struct sample *sample = &encoder->samples[at];
	const struct stack *stack = &encoder->profile->stacks[sample->stack];
	SampleMessage *message = &encoder->samples_out[at];
	uint32_t type = type_of(encoder, sample->series);
	uint64_t period = encoder->options->period;

	perftools__profiles__sample__init(message);
	encoder->sample_pointers[at] = message;
	message->n_value = encoder->value_count;
	message->value = &encoder->values[(size_t)at * encoder->value_count];
	if (period && type == 0)
		message->value[0] = samples_of(sample->value, period);
	message->value[type + (period != 0)] = sample->value;
	message->n_location_id = stack->location_count + (end_of(stack) != STACK_END_COMPLETE);
	message->location_id = &encoder->frames[encoder->stack_frames[sample->stack]];
	message->n_label = encoder->profile->series[sample->series].labels.count;
	message->label = &encoder->label_pointers[encoder->series_labels[sample->series]];
}

static int lay_out_samples(struct encoder *encoder)
{
	size_t label_at = 0;

	for (uint32_t i = 0; i < encoder->sample_count; i++) {
		const struct sample *sample = &encoder->samples[i];
		const struct labels *labels = &encoder->profile->series[sample->series].labels;

		if (i == 0 || sample->series != sample[-1].series) {
			int rc = lay_out_labels(encoder, labels, label_at);
			if (rc)
				return rc;
			encoder->series_labels[sample->series] = label_at;
			label_at += labels->count;
		}
		lay_out_sample(encoder, i);
	}
	return 0;
}

// ---- the whole ------------------------------------------------------------------------------

static int lay_out(struct encoder *encoder)
{
	int rc = string_table_init(&encoder->strings);

	if (!rc)
		rc = choose_samples(encoder);
	if (!rc)
		rc = choose_stacks(encoder);
	if (!rc)
		rc = allocate_messages(encoder);
	if (!rc)
		rc = lay_out_locations(encoder);
	if (rc)
		return rc;
	lay_out_frames(encoder);
	return lay_out_samples(encoder);
}

/** The sample types of a message, and where they lie. */
struct sample_types {
	ValueTypeMessage messages[PPROF_TYPES_MAX + 1], *pointers[PPROF_TYPES_MAX + 1];
	ValueTypeMessage period;
	uint32_t count;
};

static int add_sample_type(struct encoder *encoder, struct sample_types *types, const char *type,
			   const char *unit)
{
	ValueTypeMessage *message = &types->messages[types->count];
	int rc;

	perftools__profiles__value_type__init(message);
	types->pointers[types->count++] = message;
	rc = add_string(encoder, type, &message->type);
	return rc ? rc : add_string(encoder, unit, &message->unit);
}

/** Is there a sample type of this name? Readers select by it. */
static bool is_taken(const struct encoder *encoder, const struct sample_types *types,
		     const char *name)
{
	for (uint32_t i = 0; i < types->count; i++)
		if (strcmp(string_table_get(&encoder->strings, (uint32_t)types->messages[i].type),
			   name) == 0)
			return true;
	return false;
}

static int lay_out_types(struct encoder *encoder, const struct profile_type *parts,
			 struct sample_types *types)
{
	int rc = 0;

	*types = (struct sample_types){ 0 };
	if (encoder->options->period)
		rc = add_sample_type(encoder, types, "samples", "count");
	for (uint32_t i = 0; !rc && i < encoder->options->type_count; i++)
		rc = add_sample_type(encoder, types,
				     is_taken(encoder, types, parts[i].sample_type)
					     ? parts[i].name
					     : parts[i].sample_type,
				     parts[i].sample_unit);
	perftools__profiles__value_type__init(&types->period);
	if (!rc)
		rc = add_string(encoder, parts[0].period_type, &types->period.type);
	if (!rc)
		rc = add_string(encoder, parts[0].period_unit, &types->period.unit);
	return rc;
}

static int point_at_strings(struct encoder *encoder)
{
	int rc = array_allocate(&encoder->string_pointers, encoder->strings.count, sizeof(char *));

	for (uint32_t i = 0; !rc && i < encoder->strings.count; i++)
		encoder->string_pointers[i] = (char *)string_table_get(&encoder->strings, i);
	return rc;
}

// deflate() all of @bytes into @buffer, with gzip's header.
static int append_gzip(const uint8_t *bytes, size_t size, struct buffer *buffer)
{
	z_stream stream = { .next_in = (uint8_t *)bytes, .avail_in = (uInt)size };
	uint8_t step[GZIP_STEP_BYTES];
	int rc;

	if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	do {
		stream.next_out = step;
		stream.avail_out = sizeof(step);
		rc = deflate(&stream, Z_FINISH);
		buffer_append(buffer, step, sizeof(step) - stream.avail_out);
	} while (rc == Z_OK && !buffer->rc);
	deflateEnd(&stream);
	return buffer->rc;
}

static int pack(const ProfileMessage *message, struct buffer *buffer)
{
	uint8_t *bytes =
		buffer_extend(buffer, perftools__profiles__profile__get_packed_size(message));

	if (!bytes)
		return buffer->rc;
	perftools__profiles__profile__pack(message, bytes);
	return 0;
}

static int encode(struct encoder *encoder, const struct profile_type *parts, struct buffer *buffer)
{
	ProfileMessage message = PERFTOOLS__PROFILES__PROFILE__INIT;
	const struct profile *profile = encoder->profile;
	uint64_t period = encoder->options->period;
	struct sample_types types;
	int rc = lay_out(encoder);

	if (!rc)
		rc = lay_out_types(encoder, parts, &types);
	if (!rc)
		rc = point_at_strings(encoder);
	if (rc)
		return rc;

	message.n_sample_type = types.count;
	message.sample_type = types.pointers;
	message.period = (int64_t)period;
	message.default_sample_type = types.messages[period != 0].type;
	message.period_type = &types.period;
	message.n_sample = encoder->sample_count;
	message.sample = encoder->sample_pointers;
	message.n_mapping = encoder->mapping_count;
	message.mapping = encoder->mapping_pointers;
	message.n_location = encoder->location_count;
	message.location = encoder->location_pointers;
	message.n_function = encoder->function_count;
	message.function = encoder->function_pointers;
	message.n_string_table = encoder->strings.count;
	message.string_table = encoder->string_pointers;
	message.time_nanos = (int64_t)profile->from_ns;
	message.duration_nanos = (int64_t)(profile->to_ns - profile->from_ns);
	return pack(&message, buffer);
}

static int encode_plain(const struct profile *profile, const struct pprof_options *options,
			struct buffer *buffer, struct error *err)
{
	_cleanup_(encoder_deinit) struct encoder encoder = {
		.profile = profile,
		.options = options,
		.value_count = options->type_count + (options->period != 0),
	};
	struct profile_type parts[PPROF_TYPES_MAX];
	int rc = options->type_count && options->type_count <= PPROF_TYPES_MAX
			 ? 0
			 : error_set(err, -EINVAL, "a pprof file has 1 to %d sample types",
				     PPROF_TYPES_MAX);

	for (uint32_t i = 0; !rc && i < options->type_count; i++)
		rc = profile_type_parse(options->types[i], &parts[i], err);
	if (rc)
		return rc;
	rc = encode(&encoder, parts, buffer);
	return rc ? error_errno(err, rc, "write a pprof file") : 0;
}

int pprof_encode_plain(const struct profile *profile, const char *type, struct buffer *buffer,
		       struct error *err)
{
	return encode_plain(profile, &(struct pprof_options){ .types = &type, .type_count = 1 },
			    buffer, err);
}

int pprof_encode_types(const struct profile *profile, const struct pprof_options *options,
		       struct buffer *buffer, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer plain = { 0 };
	int rc = encode_plain(profile, options, &plain, err);

	if (rc)
		return rc;
	rc = append_gzip(plain.bytes, plain.size, buffer);
	return rc ? error_errno(err, rc, "write a pprof file") : 0;
}

int pprof_encode(const struct profile *profile, const char *type, struct buffer *buffer,
		 struct error *err)
{
	return pprof_encode_types(
		profile, &(struct pprof_options){ .types = &type, .type_count = 1 }, buffer, err);
}
