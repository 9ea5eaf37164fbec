// SPDX-License-Identifier: Apache-2.0
// Two passes over the bytes: the dictionary is indexed, then profiles are read.
#include "base/import/otlp_import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/import/otlp_frames.h"
#include "base/import/otlp_labels.h"
#include "base/import/otlp_tables.h"

enum { TYPE_TEXT_BYTES = PROFILE_TYPE_PART_BYTES };

/** Numbers of a repeated field. */
struct number_list {
	uint64_t *numbers;
	uint32_t count, capacity;
};

struct otlp {
	struct importer *importer;
	struct error *err;
	struct otlp_tables tables;
	struct otlp_frames frames;
	// By attribute that names a thread: the series of the profile that is read, if `marks` has its number.
	uint32_t *series, *marks;
	uint32_t profile_number;
	// Of the sample that is read.
	struct number_list values, times;
};

static void otlp_deinit(struct otlp *otlp)
{
	otlp_tables_deinit(&otlp->tables);
	otlp_frames_deinit(&otlp->frames);
	free(otlp->series);
	free(otlp->marks);
	free(otlp->values.numbers);
	free(otlp->times.numbers);
}

static int otlp_init(struct otlp *otlp, const void *bytes, size_t size)
{
	int rc = otlp_tables_init(&otlp->tables, bytes, size, otlp->err);

	if (!rc)
		rc = otlp_frames_init(&otlp->frames, &otlp->tables, otlp->importer);
	if (rc)
		return rc;
	uint32_t count = otlp->tables.counts[OTLP_ATTRIBUTES] + 1;
	rc = array_allocate(&otlp->series, count, sizeof(*otlp->series));
	if (!rc)
		rc = array_allocate(&otlp->marks, count, sizeof(*otlp->marks));
	return rc ? otlp_out_of(&otlp->tables, rc, "dictionary") : 0;
}

// ---- samples ----------------------------------------------------------------------------------

struct value_type {
	char type[TYPE_TEXT_BYTES], unit[TYPE_TEXT_BYTES];
};

/** One Profile. */
struct otlp_profile {
	const struct labels *resource;
	struct value_type sample, period;
	uint64_t time_ns, duration_ns;
	int64_t period_value;
	const char *own_type; // that cairn's agent names; NULL: none
	struct import_type type;
	int64_t scale;
	struct import_time time;
	bool has_time; // `time` is set: by the first sample without times of its own
};

struct otlp_sample {
	uint64_t stack;
	uint64_t thread; // attribute that names it; 0: none
	struct wire_text thread_name;
};

static int read_thread(void *context, const struct otlp_attribute *attribute)
{
	struct otlp_sample *sample = context;

	// A number is in @attribute itself, and no name.
	if (otlp_text_is(attribute->name, "thread.name") &&
	    attribute->value.at != attribute->number) {
		sample->thread = attribute->index;
		sample->thread_name = attribute->value;
	}
	return 0;
}

static int series_of(struct otlp *otlp, const struct otlp_profile *profile,
		     const struct otlp_sample *sample, uint32_t *ret_series)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	uint32_t series_count = otlp->importer->profile->series_count;
	uint64_t thread = sample->thread;

	if (thread && otlp->marks[thread] != otlp->profile_number &&
	    series_count >= IMPORT_SERIES_MAX) {
		otlp->importer->left_out++;
		thread = 0;
	}
	if (otlp->marks[thread] == otlp->profile_number) {
		*ret_series = otlp->series[thread];
		return 0;
	}
	int rc = labels_copy(profile->resource, &labels);
	if (!rc && thread)
		import_label(&labels, LABEL_THREAD, strlen(LABEL_THREAD), sample->thread_name.at,
			     sample->thread_name.size);
	if (!rc)
		rc = profile_add_series(otlp->importer->profile, &labels, profile->type.text,
					ret_series);
	if (rc)
		return otlp_out_of(&otlp->tables, rc, "series");
	otlp->marks[thread] = otlp->profile_number;
	otlp->series[thread] = *ret_series;
	return 0;
}

static int set_profile_time(struct otlp *otlp, struct otlp_profile *profile)
{
	uint64_t duration_ns = profile->duration_ns > INT64_MAX ? 0 : profile->duration_ns;
	uint64_t from_ns = profile->time_ns ? profile->time_ns
					    : ns_before(otlp->importer->now_ns, duration_ns);

	if (from_ns > INT64_MAX)
		return otlp_malformed(&otlp->tables, "profile.time_unix_nano");
	profile->has_time = true;
	int rc = import_time_set(&profile->time, from_ns, from_ns + duration_ns, otlp->err);
	if (!rc)
		import_cover(otlp->importer, &profile->time);
	return rc;
}

static int add_row(struct otlp *otlp, const struct otlp_profile *profile,
		   const struct import_time *time, uint32_t series, uint32_t stack, int64_t value)
{
	if (__builtin_mul_overflow(value, profile->scale, &value) ||
	    (profile->type.is_gauge && import_gauge_value(time, value, &value)))
		return error_set(otlp->err, -EINVAL, "OTLP: sample.values: too large");
	return import_row(otlp->importer, series, stack, time, value, otlp->err);
}

static int add_number(struct number_list *list, uint64_t number)
{
	int rc = array_reserve(&list->numbers, sizeof(number), &list->capacity, list->count, 1,
			       PROFILE_SAMPLES_MAX);

	if (!rc)
		list->numbers[list->count++] = number;
	return rc;
}

/** Add the numbers of a field, packed or not. */
static int add_numbers(struct otlp *otlp, const struct wire_field *field, bool is_fixed,
		       struct number_list *list)
{
	struct reader reader = wire_message(field);
	int rc = 0;

	if (field->type != WIRE_BYTES) {
		rc = add_number(list, field->value);
		return rc ? otlp_out_of(&otlp->tables, rc, "sample") : 0;
	}
	while (!rc && !reader.failed && reader.at < reader.end)
		rc = add_number(list, is_fixed ? wire_fixed(&reader, sizeof(uint64_t))
					       : wire_varint(&reader));
	if (rc)
		return otlp_out_of(&otlp->tables, rc, "sample");
	return reader.failed ? otlp_malformed(&otlp->tables, "sample") : 0;
}

/** Each time is a hit: of value 1, or of the value in the same place. */
static int add_hits(struct otlp *otlp, const struct otlp_profile *profile, uint32_t series,
		    uint32_t stack)
{
	struct import_time time;
	int rc = 0;

	for (uint32_t i = 0; i < otlp->times.count && !rc; i++) {
		int64_t value = otlp->values.count ? (int64_t)otlp->values.numbers[i] : 1;

		rc = import_time_set(&time, otlp->times.numbers[i], 0, otlp->err);
		if (!rc)
			import_cover(otlp->importer, &time);
		if (!rc)
			rc = add_row(otlp, profile, &time, series, stack, value);
	}
	otlp->importer->samples += otlp->times.count;
	return rc;
}

static int add_totals(struct otlp *otlp, struct otlp_profile *profile, uint32_t series,
		      uint32_t stack)
{
	int rc = profile->has_time ? 0 : set_profile_time(otlp, profile);

	for (uint32_t i = 0; i < otlp->values.count && !rc; i++)
		rc = add_row(otlp, profile, &profile->time, series, stack,
			     (int64_t)otlp->values.numbers[i]);
	otlp->importer->samples++;
	return rc;
}

static int add_sample(struct otlp *otlp, struct otlp_profile *profile,
		      const struct otlp_sample *sample)
{
	uint32_t series = 0, stack = 0;

	if (otlp->times.count && otlp->values.count && otlp->times.count != otlp->values.count)
		return error_set(otlp->err, -EBADMSG, "OTLP: sample: %u values for %u timestamps",
				 otlp->values.count, otlp->times.count);
	int rc = series_of(otlp, profile, sample, &series);
	if (!rc)
		rc = otlp_frames_stack(&otlp->frames, sample->stack, &stack);
	if (rc)
		return rc;
	return otlp->times.count ? add_hits(otlp, profile, series, stack)
				 : add_totals(otlp, profile, series, stack);
}

static int read_sample(struct otlp *otlp, struct otlp_profile *profile,
		       const struct wire_field *message)
{
	struct reader reader = wire_message(message);
	struct otlp_sample sample = { 0 };
	struct wire_field field;
	int rc = 0;

	otlp->values.count = otlp->times.count = 0;
	while (!rc && wire_next(&reader, &field)) {
		if (field.number == 1)
			sample.stack = field.value;
		else if (field.number == 2)
			rc = otlp_attribute_each(&otlp->tables, &field, read_thread, &sample);
		else if (field.number == 4)
			rc = add_numbers(otlp, &field, false, &otlp->values);
		else if (field.number == 5)
			rc = add_numbers(otlp, &field, true, &otlp->times);
	}
	if (!rc && reader.failed)
		rc = otlp_malformed(&otlp->tables, "sample");
	return rc ? rc : add_sample(otlp, profile, &sample);
}

// ---- profiles ---------------------------------------------------------------------------------

static void copy_string(const struct otlp *otlp, uint64_t index, char ret_text[TYPE_TEXT_BYTES])
{
	struct wire_text text = otlp_text_at(&otlp->tables, index);

	snprintf(ret_text, TYPE_TEXT_BYTES, "%.*s",
		 (int)(text.size < TYPE_TEXT_BYTES ? text.size : TYPE_TEXT_BYTES - 1), text.at);
}

static bool read_value_type(const struct otlp *otlp, const struct wire_field *message,
			    struct value_type *ret_type)
{
	struct reader reader = wire_message(message);
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		if (field.number == 1)
			copy_string(otlp, field.value, ret_type->type);
		else if (field.number == 2)
			copy_string(otlp, field.value, ret_type->unit);
	}
	return !reader.failed;
}

/** A type that cairn's agent names, which OTLP has three parts of; others than those known are made of these. */
static int read_own_type(void *context, const struct otlp_attribute *attribute)
{
	struct otlp_profile *profile = context;
	char text[PROFILE_TYPE_BYTES];

	if (!otlp_text_is(attribute->name, OTLP_TYPE_ATTRIBUTE) ||
	    attribute->value.size >= sizeof(text))
		return 0;
	snprintf(text, sizeof(text), "%.*s", (int)attribute->value.size, attribute->value.at);
	const struct profile_type_spec *spec = profile_type_spec(text);
	if (spec)
		profile->own_type = spec->type;
	return 0;
}

static int read_head(struct otlp *otlp, const struct wire_field *message,
		     struct otlp_profile *profile)
{
	struct reader reader = wire_message(message);
	struct wire_field field;
	bool is_sound = true;
	int rc = 0;

	while (!rc && is_sound && wire_next(&reader, &field)) {
		if (field.number == 1)
			is_sound = read_value_type(otlp, &field, &profile->sample);
		else if (field.number == 3)
			profile->time_ns = field.value;
		else if (field.number == 4)
			profile->duration_ns = field.value;
		else if (field.number == 5)
			is_sound = read_value_type(otlp, &field, &profile->period);
		else if (field.number == 6)
			profile->period_value = (int64_t)field.value;
		else if (field.number == 11)
			rc = otlp_attribute_each(&otlp->tables, &field, read_own_type, profile);
	}
	return rc || (is_sound && !reader.failed) ? rc : otlp_malformed(&otlp->tables, "profile");
}

/** Samples of a CPU are CPU time, as agents measure it; blocked time is called as agents call it. */
static void make_type(struct otlp_profile *profile)
{
	const struct value_type *sample = &profile->sample, *period = &profile->period;
	struct import_source source = { 0 };
	bool is_time = strcmp(sample->unit, "nanoseconds") == 0;

	profile->scale = 1;
	if (profile->own_type) {
		source.type = profile->own_type;
	} else if (strcmp(sample->type, "samples") == 0 && strcmp(sample->unit, "count") == 0 &&
		   strcmp(period->type, "cpu") == 0 && strcmp(period->unit, "nanoseconds") == 0 &&
		   profile->period_value > 0) {
		source.type = PROFILE_TYPE_CPU;
		profile->scale = profile->period_value;
	} else if (strcmp(sample->type, "off_cpu") == 0 && is_time) {
		source.type = PROFILE_TYPE_OFF_CPU;
	}
	import_type_make(&source, sample->type, sample->unit, period->type, period->unit,
			 &profile->type);
}

static int read_profile(struct otlp *otlp, const struct labels *resource,
			const struct wire_field *message)
{
	struct otlp_profile profile = { .resource = resource };
	struct reader reader = wire_message(message);
	struct wire_field field;
	int rc = read_head(otlp, message, &profile);

	otlp->profile_number++;
	make_type(&profile);
	while (!rc && wire_next(&reader, &field))
		if (field.number == 2)
			rc = read_sample(otlp, &profile, &field);
	return rc;
}

static int read_resource(struct otlp *otlp, const struct wire_field *message, struct labels *labels)
{
	struct reader reader = wire_message(message);
	struct otlp_attribute attribute;
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		if (field.number != 1)
			continue;
		if (!otlp_attribute_read(&otlp->tables, wire_message(&field), &attribute))
			return otlp_malformed(&otlp->tables, "resource.attributes");
		otlp_label_set(labels, attribute.name.at, attribute.name.size, attribute.value.at,
			       attribute.value.size);
	}
	return reader.failed ? otlp_malformed(&otlp->tables, "resource") : 0;
}

static int read_scope(struct otlp *otlp, const struct labels *resource,
		      const struct wire_field *message)
{
	struct reader reader = wire_message(message);
	struct wire_field field;
	int rc = 0;

	while (!rc && wire_next(&reader, &field))
		if (field.number == 2)
			rc = read_profile(otlp, resource, &field);
	return !rc && reader.failed ? otlp_malformed(&otlp->tables, "scope_profiles") : rc;
}

static int read_resource_profiles(struct otlp *otlp, const struct wire_field *message)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	struct reader reader = wire_message(message);
	struct wire_field field;
	int rc = 0;

	while (!rc && wire_next(&reader, &field))
		if (field.number == 1)
			rc = read_resource(otlp, &field, &labels);
	if (!rc && reader.failed)
		rc = otlp_malformed(&otlp->tables, "resource_profiles");
	if (!rc && otlp_labels_finish(&labels))
		rc = otlp_out_of(&otlp->tables, -ENOMEM, "labels");
	reader = wire_message(message);
	while (!rc && wire_next(&reader, &field))
		if (field.number == 2)
			rc = read_scope(otlp, &labels, &field);
	return rc;
}

int otlp_import(struct importer *importer, const void *bytes, size_t size, struct error *err)
{
	_cleanup_(otlp_deinit) struct otlp otlp = { .importer = importer, .err = err };
	struct reader reader = wire_reader(bytes, size);
	struct wire_field field;
	int rc = otlp_init(&otlp, bytes, size);

	while (!rc && wire_next(&reader, &field))
		if (field.number == 1)
			rc = read_resource_profiles(&otlp, &field);
	return rc;
}
