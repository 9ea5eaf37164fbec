// SPDX-License-Identifier: Apache-2.0
#include "proto/otlp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_type.h"
#include "base/contract/resource_names.h"
#include "base/import/otlp_import.h"
#include "base/utf8.h"
#include "base/version.h"
#include "proto/otlp_dictionary.h"
#include "proto/wire_append.h"

// An interval is one timestamp for each second of it: a point a slot would be two hundred of a thread that sleeps.
#define INTERVAL_PART_NS NS_PER_SECOND

enum { SAMPLE_ATTRIBUTE_BYTES = LABEL_NAME_BYTES_MAX + 8 };

/** A series as OTLP has it: a resource and attributes of samples. */
struct series_parts {
	struct id128 resource; // hash of its attributes
	uint32_t rank;         // in the order of the requests
	bool is_left_out;      // no stacks
};

struct otlp_encoder {
	const struct batch_id *batch;
	const struct profile *profile;
	struct series_parts *series;
	uint32_t *order; // samples: by resource, type, series, stack, slot
	uint32_t count, at;
	uint64_t from_ns,
		to_ns; // of the Profile being made: the batch's, and slots that begin before
	struct otlp_dictionary dictionary;
	// Messages being made, from the outside in.
	struct buffer resource, scope, profile_message, sample, times, values, part;
};

// ---- attributes -------------------------------------------------------------------------------

/** The resource attribute of a label; NULL: it is not of the resource, but of the sample. */
static const char *resource_attribute(const struct labels *labels, const struct label *label)
{
	const char *name =
		resource_name_of_label(label->name, labels_get(labels, LABEL_WORKLOAD_KIND));

	if (strcmp(label->name, LABEL_CONTAINER) == 0 && labels_get(labels, LABEL_POD))
		return "k8s.container.name";
	if (name || label_is_reserved(label->name))
		return name;
	return label->name; // an operator's own
}

static void sample_attribute(const struct label *label, char ret_name[SAMPLE_ATTRIBUTE_BYTES])
{
	if (strcmp(label->name, LABEL_THREAD) == 0)
		snprintf(ret_name, SAMPLE_ATTRIBUTE_BYTES, "thread.name");
	else
		snprintf(ret_name, SAMPLE_ATTRIBUTE_BYTES, "cairn.%s", label->name);
}

/** Resource {1 attributes[] {1 key, 2 value {1 string_value}}} */
static void encode_resource(struct otlp_encoder *encoder, const struct labels *labels,
			    struct buffer *resource)
{
	struct buffer *value = &encoder->part, *pair = &encoder->sample;

	for (uint32_t i = 0; i < labels->count; i++) {
		const char *name = resource_attribute(labels, &labels->pairs[i]);

		if (!name)
			continue;
		buffer_clear(value);
		wire_append_text(value, 1, labels->pairs[i].value);
		buffer_clear(pair);
		wire_append_text(pair, 1, name);
		wire_append_message(pair, 2, value);
		wire_append_message(resource, 1, pair);
	}
}

// ---- the order of samples ---------------------------------------------------------------------

#define COMPARE(a, b)                              \
	do {                                       \
		if ((a) != (b))                    \
			return (a) < (b) ? -1 : 1; \
	} while (0)

static int compare_ids(struct id128 a, struct id128 b)
{
	COMPARE(a.high, b.high);
	COMPARE(a.low, b.low);
	return 0;
}

static int by_resource(const void *a, const void *b, void *context)
{
	const struct otlp_encoder *encoder = context;
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	const struct series_parts *parts = encoder->series;
	int order = compare_ids(parts[left].resource, parts[right].resource);

	if (order)
		return order;
	order = strcmp(profile_string(encoder->profile, encoder->profile->series[left].type),
		       profile_string(encoder->profile, encoder->profile->series[right].type));
	return order ? order
		     : compare_ids(encoder->profile->series[left].id,
				   encoder->profile->series[right].id);
}

static int rank_series(struct otlp_encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	_cleanup_free_ uint32_t *order = NULL;
	int rc = array_allocate(&order, profile->series_count, sizeof(*order));

	if (!rc)
		rc = array_allocate(&encoder->series, profile->series_count,
				    sizeof(*encoder->series));
	for (uint32_t i = 0; i < profile->series_count && !rc; i++) {
		const char *type = profile_string(profile, profile->series[i].type);
		const struct profile_type_spec *spec = profile_type_spec(type);

		buffer_clear(&encoder->resource);
		encode_resource(encoder, &profile->series[i].labels, &encoder->resource);
		rc = encoder->resource.rc;
		encoder->series[i].resource =
			id128_of(encoder->resource.bytes, encoder->resource.size);
		encoder->series[i].is_left_out = spec && spec->no_stacks;
		order[i] = i;
	}
	if (rc)
		return rc;
	qsort_r(order, profile->series_count, sizeof(*order), by_resource, encoder);
	for (uint32_t i = 0; i < profile->series_count; i++)
		encoder->series[order[i]].rank = i;
	return 0;
}

static int by_place(const void *a, const void *b, void *context)
{
	const struct otlp_encoder *encoder = context;
	const struct profile *profile = encoder->profile;
	const struct sample *left = &profile->samples[*(const uint32_t *)a];
	const struct sample *right = &profile->samples[*(const uint32_t *)b];

	COMPARE(encoder->series[left->series].rank, encoder->series[right->series].rank);
	COMPARE(left->stack, right->stack);
	COMPARE(left->slot, right->slot);
	COMPARE(left->more_slots, right->more_slots);
	COMPARE(left->value, right->value);
	return 0;
}

static int sort_samples(struct otlp_encoder *encoder)
{
	const struct profile *profile = encoder->profile;
	int rc = array_allocate(&encoder->order, profile->sample_count, sizeof(*encoder->order));

	if (rc)
		return rc;
	for (uint32_t i = 0; i < profile->sample_count; i++)
		if (!encoder->series[profile->samples[i].series].is_left_out)
			encoder->order[encoder->count++] = i;
	qsort_r(encoder->order, encoder->count, sizeof(*encoder->order), by_place, encoder);
	return 0;
}

// ---- life -------------------------------------------------------------------------------------

int otlp_encoder_new(const struct batch_id *batch, const struct profile *profile,
		     struct otlp_encoder **ret_encoder, struct error *err)
{
	struct otlp_encoder *encoder = calloc(1, sizeof(*encoder));
	int rc = encoder ? 0 : -ENOMEM;

	if (!rc) {
		encoder->batch = batch;
		encoder->profile = profile;
		rc = rank_series(encoder);
	}
	if (!rc)
		rc = sort_samples(encoder);
	if (!rc)
		rc = otlp_dictionary_init(&encoder->dictionary, profile);
	if (rc) {
		otlp_encoder_free(encoder);
		return error_errno(err, rc, "encode a batch as OTLP");
	}
	*ret_encoder = encoder;
	return 0;
}

void otlp_encoder_free(struct otlp_encoder *encoder)
{
	if (!encoder)
		return;
	struct buffer *const buffers[] = {
		&encoder->resource, &encoder->scope, &encoder->profile_message,
		&encoder->sample,   &encoder->times, &encoder->values,
		&encoder->part
	};

	for (size_t i = 0; i < ARRAY_SIZE(buffers); i++)
		buffer_deinit(buffers[i]);
	otlp_dictionary_deinit(&encoder->dictionary);
	free(encoder->series);
	free(encoder->order);
	free(encoder);
}

// ---- samples ----------------------------------------------------------------------------------

static void append_time(struct otlp_encoder *encoder, uint64_t slot, int64_t value)
{
	uint64_t time_ns = slot * encoder->profile->slot_ns, bytes = htole64(time_ns);

	encoder->from_ns = time_ns < encoder->from_ns ? time_ns : encoder->from_ns;
	encoder->to_ns = time_ns > encoder->to_ns ? time_ns : encoder->to_ns;
	buffer_append(&encoder->times, &bytes, sizeof(bytes));
	buffer_append_varint(&encoder->values, (uint64_t)value);
}

/** A point for its slot; for each second of an interval. What it adds up to is the sample's value. */
static void append_points(struct otlp_encoder *encoder, const struct sample *sample)
{
	uint64_t slots = (uint64_t)sample->more_slots + 1, done = 0;
	uint64_t part = INTERVAL_PART_NS / encoder->profile->slot_ns;
	int64_t left = sample->value;

	part = part ? part : 1;
	for (; slots - done > part; done += part) {
		int64_t value = (int64_t)((__int128)left * (int64_t)part / (int64_t)(slots - done));

		append_time(encoder, sample->slot + done, value);
		left -= value;
	}
	append_time(encoder, sample->slot + done, left);
}

/** Sample's field 2: a packed list of what its series' labels say of it. */
static int append_sample_attributes(struct otlp_encoder *encoder, const struct labels *labels)
{
	int rc = 0;

	buffer_clear(&encoder->part);
	for (uint32_t i = 0; i < labels->count && !rc; i++) {
		const struct label *label = &labels->pairs[i];
		char name[SAMPLE_ATTRIBUTE_BYTES];
		uint32_t attribute;

		if (resource_attribute(labels, label) ||
		    strcmp(label->name, LABEL_WORKLOAD_KIND) == 0)
			continue;
		sample_attribute(label, name);
		rc = otlp_dictionary_attribute(&encoder->dictionary, name, label->value,
					       &attribute);
		if (!rc)
			buffer_append_varint(&encoder->part, attribute);
	}
	if (encoder->part.size)
		wire_append_message(&encoder->sample, 2, &encoder->part);
	return rc;
}

static const struct sample *sample_at(const struct otlp_encoder *encoder, uint32_t at)
{
	return &encoder->profile->samples[encoder->order[at]];
}

/**
 * Append one Sample {1 stack_index, 2 attribute_indices, 4 values, 5 timestamps_unix_nano} to the Profile: all of its series with
 * the next one's stack.
 */
static int append_sample(struct otlp_encoder *encoder)
{
	const struct sample *first = sample_at(encoder, encoder->at);
	uint32_t stack;
	int rc = otlp_dictionary_stack(&encoder->dictionary, first->stack, &stack);

	if (rc)
		return rc;
	buffer_clear(&encoder->sample);
	wire_append_number(&encoder->sample, 1, stack);
	rc = append_sample_attributes(encoder, &encoder->profile->series[first->series].labels);
	if (rc)
		return rc;
	buffer_clear(&encoder->times);
	buffer_clear(&encoder->values);
	for (; encoder->at < encoder->count; encoder->at++) {
		const struct sample *sample = sample_at(encoder, encoder->at);

		if (sample->series != first->series || sample->stack != first->stack)
			break;
		append_points(encoder, sample);
	}
	wire_append_message(&encoder->sample, 4, &encoder->values);
	wire_append_message(&encoder->sample, 5, &encoder->times);
	wire_append_message(&encoder->profile_message, 2, &encoder->sample);
	return 0;
}

// ---- profiles ---------------------------------------------------------------------------------

/** ValueType {1 type_strindex, 2 unit_strindex} */
static int append_value_type(struct otlp_encoder *encoder, uint32_t field, const char *type,
			     const char *unit)
{
	uint32_t type_number, unit_number;
	int rc = otlp_dictionary_text(&encoder->dictionary, type, &type_number);

	if (!rc)
		rc = otlp_dictionary_text(&encoder->dictionary, unit, &unit_number);
	if (rc)
		return rc;
	buffer_clear(&encoder->part);
	wire_append_number(&encoder->part, 1, type_number);
	wire_append_number(&encoder->part, 2, unit_number);
	wire_append_message(&encoder->profile_message, field, &encoder->part);
	return 0;
}

/**
 * OTLP has no name beside the type of a value. CPU time and blocked time are called as OpenTelemetry's profiler calls them; of other
 * types the name comes first, so that no two are alike.
 */
static int append_types(struct otlp_encoder *encoder, const char *text)
{
	char name[2 * PROFILE_TYPE_PART_BYTES];
	struct profile_type type;
	uint32_t attribute;
	int rc = profile_type_parse(text, &type, NULL);

	if (rc)
		return rc;
	if (strcmp(text, PROFILE_TYPE_CPU) == 0)
		snprintf(name, sizeof(name), "cpu");
	else if (strcmp(text, PROFILE_TYPE_OFF_CPU) == 0)
		snprintf(name, sizeof(name), "off_cpu");
	else
		snprintf(name, sizeof(name), "%s_%s", type.name, type.sample_type);
	rc = append_value_type(encoder, 1, name, type.sample_unit);
	if (!rc)
		rc = append_value_type(encoder, 5, type.period_type, type.period_unit);
	if (!rc)
		rc = otlp_dictionary_attribute(&encoder->dictionary, OTLP_TYPE_ATTRIBUTE, text,
					       &attribute);
	if (!rc)
		wire_append_index(&encoder->profile_message, 11, attribute);
	return rc;
}

/** Of the batch, and of the first of its samples: a retry has the same. */
static void append_profile_id(struct otlp_encoder *encoder)
{
	const struct {
		struct id128 agent, boot;
		uint64_t sequence, at;
	} identity = { encoder->batch->agent, encoder->batch->boot, encoder->batch->sequence,
		       encoder->at };
	uint8_t bytes[ID128_BYTES];

	id128_encode(id128_of(&identity, sizeof(identity)), bytes);
	wire_append_bytes(&encoder->profile_message, 7, bytes, sizeof(bytes));
}

static size_t size_of_request(const struct otlp_encoder *encoder, const struct buffer *request)
{
	return request->size + encoder->resource.size + encoder->scope.size +
	       encoder->profile_message.size + encoder->dictionary.bytes.size;
}

/** Append one Profile to the scope: all samples of a resource and type that there is room for. */
static int append_profile(struct otlp_encoder *encoder, size_t bytes_max,
			  const struct buffer *request)
{
	const struct profile *profile = encoder->profile;
	const struct series *first = &profile->series[sample_at(encoder, encoder->at)->series];
	const struct id128 resource = encoder->series[first - profile->series].resource;

	int rc = append_types(encoder, profile_string(profile, first->type));
	append_profile_id(encoder);
	encoder->from_ns = profile->from_ns;
	encoder->to_ns = profile->to_ns;
	while (!rc && encoder->at < encoder->count) {
		uint32_t at = sample_at(encoder, encoder->at)->series;

		if (!id128_equal(encoder->series[at].resource, resource) ||
		    profile->series[at].type != first->type)
			break;
		rc = append_sample(encoder);
		if (size_of_request(encoder, request) >= bytes_max)
			break;
	}
	wire_append_fixed64(&encoder->profile_message, 3, encoder->from_ns);
	wire_append_number(&encoder->profile_message, 4,
			   ns_between(encoder->from_ns, encoder->to_ns));
	wire_append_message(&encoder->scope, 2, &encoder->profile_message);
	buffer_clear(&encoder->profile_message);
	return rc;
}

/** InstrumentationScope {1 name, 2 version}, the field 1 of ScopeProfiles. */
static void begin_scope(struct otlp_encoder *encoder)
{
	buffer_clear(&encoder->part);
	wire_append_text(&encoder->part, 1, "cairn");
	wire_append_text(&encoder->part, 2, CAIRN_VERSION);
	wire_append_message(&encoder->scope, 1, &encoder->part);
}

/** Append one ResourceProfiles {1 resource, 2 scope_profiles} to the request. */
static int append_resource(struct otlp_encoder *encoder, size_t bytes_max, struct buffer *request)
{
	uint32_t series = sample_at(encoder, encoder->at)->series;
	const struct id128 id = encoder->series[series].resource;
	int rc = 0;

	buffer_clear(&encoder->resource);
	encode_resource(encoder, &encoder->profile->series[series].labels, &encoder->resource);
	begin_scope(encoder);
	do
		rc = append_profile(encoder, bytes_max, request);
	while (!rc && encoder->at < encoder->count &&
	       size_of_request(encoder, request) < bytes_max &&
	       id128_equal(encoder->series[sample_at(encoder, encoder->at)->series].resource, id));

	buffer_clear(&encoder->part);
	wire_append_message(&encoder->part, 1, &encoder->resource);
	wire_append_message(&encoder->part, 2, &encoder->scope);
	wire_append_message(request, 1, &encoder->part);
	buffer_clear(&encoder->scope);
	return rc;
}

int otlp_encoder_next(struct otlp_encoder *encoder, size_t bytes_max, struct buffer *request,
		      uint64_t *ret_samples, struct error *err)
{
	uint32_t first = encoder->at;
	int rc = otlp_dictionary_clear(&encoder->dictionary);

	*ret_samples = 0;
	buffer_clear(request);
	if (encoder->at == encoder->count)
		return 0;
	do
		rc = rc ? rc : append_resource(encoder, bytes_max, request);
	while (!rc && encoder->at < encoder->count &&
	       size_of_request(encoder, request) < bytes_max);
	wire_append_message(request, 2, &encoder->dictionary.bytes);
	rc = rc ? rc : request->rc;
	if (rc)
		return error_errno(err, rc, "encode a batch as OTLP");
	*ret_samples = encoder->at - first;
	return 0;
}

// ---- the answer -------------------------------------------------------------------------------

int otlp_answer_read(const void *bytes, size_t size, struct otlp_answer *ret_answer,
		     struct error *err)
{
	struct reader reader = wire_reader(bytes, size), success = { 0 };
	struct wire_field field, part;

	*ret_answer = (struct otlp_answer){ 0 };
	while (wire_next(&reader, &field)) {
		if (field.number != 1)
			continue;
		success = wire_message(&field);
		while (wire_next(&success, &part)) {
			struct wire_text text = wire_string(&part);

			if (part.number == 1)
				ret_answer->rejected_profiles = (int64_t)part.value;
			else if (part.number == 2)
				snprintf(ret_answer->message, sizeof(ret_answer->message), "%.*s",
					 (int)(text.size < ERROR_TEXT_BYTES ? text.size
									    : ERROR_TEXT_BYTES - 1),
					 text.at);
		}
	}
	utf8_clean(ret_answer->message);
	return reader.failed || success.failed
		       ? error_set(err, -EBADMSG, "the answer is no ExportProfilesServiceResponse")
		       : 0;
}
