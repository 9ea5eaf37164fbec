// SPDX-License-Identifier: Apache-2.0
// Two passes over the bytes: the dictionary is indexed, then profiles are read. Entries of the dictionary become ours when the first
// sample uses them.
#include "base/import/otlp_import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/contract/otlp_table.h"
#include "base/import/otlp_labels.h"
#include "base/import/wire.h"

enum { VALUE_TEXT_BYTES = 32, TYPE_TEXT_BYTES = PROFILE_TYPE_PART_BYTES };

#define NONE UINT32_MAX

/** Numbers of a repeated field. */
struct number_list {
	uint64_t *numbers;
	uint32_t count, capacity;
};

struct otlp {
	struct importer *importer;
	struct error *err;
	struct wire_text *tables[OTLP_TABLES];
	uint32_t counts[OTLP_TABLES];
	uint32_t *numbers;   // by string: the importer's; NONE: not used yet
	uint32_t *locations; // by location
	uint32_t *stacks;    // by stack
	// By attribute that names a thread: the series of the profile that is read, if `marks` has its number.
	uint32_t *series, *marks;
	uint32_t profile_number;
	// Of the sample that is read.
	struct number_list values, times;
};

static void otlp_deinit(struct otlp *otlp)
{
	for (int i = 0; i < OTLP_TABLES; i++)
		free(otlp->tables[i]);
	free(otlp->numbers);
	free(otlp->locations);
	free(otlp->stacks);
	free(otlp->series);
	free(otlp->marks);
	free(otlp->values.numbers);
	free(otlp->times.numbers);
}

static int malformed(struct otlp *otlp, const char *what)
{
	return error_set(otlp->err, -EBADMSG, "OTLP: %s: malformed", what);
}

static int out_of(struct otlp *otlp, int rc, const char *what)
{
	char where[64];

	snprintf(where, sizeof(where), "OTLP: %s", what);
	return import_failed(rc, otlp->err, where);
}

static int no_entry(struct otlp *otlp, const char *field, uint64_t index, enum otlp_table table)
{
	return error_set(otlp->err, -EBADMSG,
			 "OTLP: %s: %" PRId64 " is not below the %u entries of its table", field,
			 (int64_t)index, otlp->counts[table]);
}

// ---- the dictionary ---------------------------------------------------------------------------

static int allocate_numbers(uint32_t **array, uint32_t count)
{
	int rc = array_allocate(array, count, sizeof(**array));

	if (!rc)
		memset(*array, 0xff, count * sizeof(**array));
	return rc;
}

static int allocate(struct otlp *otlp)
{
	int rc = 0;

	for (int i = 1; i < OTLP_TABLES && !rc; i++)
		rc = array_allocate(&otlp->tables[i], otlp->counts[i], sizeof(**otlp->tables));
	if (!rc)
		rc = allocate_numbers(&otlp->numbers, otlp->counts[OTLP_STRINGS]);
	if (!rc)
		rc = allocate_numbers(&otlp->locations, otlp->counts[OTLP_LOCATIONS]);
	if (!rc)
		rc = allocate_numbers(&otlp->stacks, otlp->counts[OTLP_STACKS]);
	if (!rc)
		rc = allocate_numbers(&otlp->series, otlp->counts[OTLP_ATTRIBUTES] + 1);
	if (!rc)
		rc = allocate_numbers(&otlp->marks, otlp->counts[OTLP_ATTRIBUTES] + 1);
	return rc ? out_of(otlp, rc, "dictionary") : 0;
}

static int index_dictionary(struct otlp *otlp, const struct wire_field *message)
{
	struct reader reader = wire_message(message);
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		if (field.number >= OTLP_TABLES)
			continue;
		if (field.type != WIRE_BYTES)
			return malformed(otlp, "dictionary");
		otlp->counts[field.number]++;
	}
	if (reader.failed)
		return malformed(otlp, "dictionary");
	int rc = allocate(otlp);
	if (rc)
		return rc;
	memset(otlp->counts, 0, sizeof(otlp->counts));
	reader = wire_message(message);
	while (wire_next(&reader, &field))
		if (field.number < OTLP_TABLES)
			otlp->tables[field.number][otlp->counts[field.number]++] =
				wire_string(&field);
	return 0;
}

static int read_dictionary(struct otlp *otlp, const void *bytes, size_t size)
{
	struct reader reader = wire_reader(bytes, size);
	bool has_profiles = false, has_dictionary = false;
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		has_profiles |= field.number == 1;
		if (field.number != 2)
			continue;
		if (has_dictionary)
			return malformed(otlp, "dictionary");
		has_dictionary = true;
		int rc = index_dictionary(otlp, &field);
		if (rc)
			return rc;
	}
	if (reader.failed)
		return error_set(otlp->err, -EBADMSG,
				 "OTLP: not an ExportProfilesServiceRequest of v1development");
	if (has_profiles && !has_dictionary)
		return error_set(otlp->err, -EBADMSG,
				 "OTLP: dictionary: missing; the sender's version of OTLP is too "
				 "old: opentelemetry-proto 1.10 or 1.11 is read");
	return has_dictionary ? 0 : allocate(otlp);
}

static struct wire_text string_at(const struct otlp *otlp, uint64_t index)
{
	return index < otlp->counts[OTLP_STRINGS] ? otlp->tables[OTLP_STRINGS][index]
						  : (struct wire_text){ "", 0 };
}

static bool text_is(struct wire_text text, const char *wanted)
{
	return text.size == strlen(wanted) && memcmp(text.at, wanted, text.size) == 0;
}

static int number_of(struct otlp *otlp, uint64_t index, const char *field, uint32_t *ret_number)
{
	if (!index) {
		*ret_number = 0;
		return 0;
	}
	if (index >= otlp->counts[OTLP_STRINGS])
		return no_entry(otlp, field, index, OTLP_STRINGS);
	if (otlp->numbers[index] == NONE) {
		struct wire_text text = otlp->tables[OTLP_STRINGS][index];
		int rc = import_string(otlp->importer, text.at, text.size, &otlp->numbers[index]);

		if (rc)
			return out_of(otlp, rc, field);
	}
	*ret_number = otlp->numbers[index];
	return 0;
}

// ---- attributes -------------------------------------------------------------------------------

/** A name and a value as text. */
struct attribute {
	struct wire_text name, value;
	uint64_t index; // in its table
	char number[VALUE_TEXT_BYTES];
};

static bool read_any_value(const struct otlp *otlp, const struct wire_field *message,
			   struct attribute *attribute)
{
	struct reader reader = wire_message(message);
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		if (field.number == 1 && field.type == WIRE_BYTES) {
			attribute->value = wire_string(&field);
		} else if (field.number == 2) {
			attribute->value = field.value ? (struct wire_text){ "true", 4 }
						       : (struct wire_text){ "false", 5 };
		} else if (field.number == 3) {
			int size = snprintf(attribute->number, sizeof(attribute->number),
					    "%" PRId64, (int64_t)field.value);

			attribute->value = (struct wire_text){ attribute->number, (size_t)size };
		} else if (field.number == 8) {
			attribute->value = string_at(otlp, field.value);
		}
	}
	return !reader.failed;
}

/** A KeyValue (its key's index is field 3), or a KeyValueAndUnit (field 1). */
static bool read_attribute(const struct otlp *otlp, struct reader reader,
			   struct attribute *ret_attribute)
{
	struct wire_field field;
	bool is_sound = true;

	*ret_attribute = (struct attribute){ .name = { "", 0 }, .value = { "", 0 } };
	while (is_sound && wire_next(&reader, &field)) {
		if (field.number == 1 && field.type == WIRE_BYTES)
			ret_attribute->name = wire_string(&field);
		else if ((field.number == 1 || field.number == 3) && field.type == WIRE_VARINT)
			ret_attribute->name = string_at(otlp, field.value);
		else if (field.number == 2)
			is_sound = read_any_value(otlp, &field, ret_attribute);
	}
	return is_sound && !reader.failed;
}

static int attribute_at(struct otlp *otlp, uint64_t index, struct attribute *ret_attribute)
{
	if (index >= otlp->counts[OTLP_ATTRIBUTES])
		return no_entry(otlp, "attribute_indices", index, OTLP_ATTRIBUTES);
	struct wire_text entry = otlp->tables[OTLP_ATTRIBUTES][index];
	if (!read_attribute(otlp, wire_reader(entry.at, entry.size), ret_attribute))
		return malformed(otlp, "attribute_table");
	ret_attribute->index = index;
	return 0;
}

typedef int (*attribute_fn)(struct otlp *otlp, void *context, const struct attribute *attribute);

/** Call @read with each attribute of a field of indices. */
static int each_attribute(struct otlp *otlp, const struct wire_field *field, attribute_fn read,
			  void *context)
{
	struct reader reader = wire_message(field);
	struct attribute attribute;
	bool is_first = true;
	uint64_t index;
	int rc = 0;

	while (!rc && wire_next_number(field, &reader, &is_first, &index)) {
		rc = attribute_at(otlp, index, &attribute);
		if (!rc)
			rc = read(otlp, context, &attribute);
	}
	return !rc && reader.failed ? malformed(otlp, "attribute_indices") : rc;
}

// ---- frames -----------------------------------------------------------------------------------

struct mapping {
	uint64_t start, limit, offset, file;
	uint32_t build_id; // the importer's string
	int rank;          // of the build id: GNU's is the one that debug files have
};

static int read_build_id(struct otlp *otlp, void *context, const struct attribute *attribute)
{
	static const char *const names[] = { "process.executable.build_id.cairn",
					     "process.executable.build_id.htlhash",
					     "process.executable.build_id.go",
					     "process.executable.build_id.gnu" };
	struct mapping *mapping = context;

	for (int i = 0; i < (int)ARRAY_SIZE(names); i++) {
		if (!text_is(attribute->name, names[i]) || mapping->rank > i)
			continue;
		mapping->rank = i + 1;
		int rc = import_string(otlp->importer, attribute->value.at, attribute->value.size,
				       &mapping->build_id);
		if (rc)
			return out_of(otlp, rc, "build ids");
	}
	return 0;
}

static int read_mapping(struct otlp *otlp, uint64_t index, struct mapping *ret_mapping)
{
	if (index >= otlp->counts[OTLP_MAPPINGS])
		return no_entry(otlp, "location.mapping_index", index, OTLP_MAPPINGS);
	struct wire_text entry = otlp->tables[OTLP_MAPPINGS][index];
	struct reader reader = wire_reader(entry.at, entry.size);
	struct wire_field field;
	int rc = 0;

	while (!rc && wire_next(&reader, &field)) {
		if (field.number == 1)
			ret_mapping->start = field.value;
		else if (field.number == 2)
			ret_mapping->limit = field.value;
		else if (field.number == 3)
			ret_mapping->offset = field.value;
		else if (field.number == 4)
			ret_mapping->file = field.value;
		else if (field.number == 5)
			rc = each_attribute(otlp, &field, read_build_id, ret_mapping);
	}
	return !rc && reader.failed ? malformed(otlp, "mapping_table") : rc;
}

static int read_function(struct otlp *otlp, uint64_t index, struct line *line)
{
	if (index >= otlp->counts[OTLP_FUNCTIONS])
		return no_entry(otlp, "line.function_index", index, OTLP_FUNCTIONS);
	struct wire_text entry = otlp->tables[OTLP_FUNCTIONS][index];
	struct reader reader = wire_reader(entry.at, entry.size);
	uint64_t name = 0, system_name = 0, file = 0;
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		if (field.number == 1)
			name = field.value;
		else if (field.number == 2)
			system_name = field.value;
		else if (field.number == 3)
			file = field.value;
	}
	if (reader.failed)
		return malformed(otlp, "function_table");
	int rc = number_of(otlp, name ? name : system_name, "function.name_strindex", &line->name);
	return rc ? rc : number_of(otlp, file, "function.filename_strindex", &line->file);
}

static int read_line(struct otlp *otlp, const struct wire_field *message, struct line *ret_line)
{
	struct reader reader = wire_message(message);
	struct wire_field field;
	uint64_t function = 0;

	*ret_line = (struct line){ 0 };
	while (wire_next(&reader, &field)) {
		if (field.number == 1)
			function = field.value;
		else if (field.number == 2)
			ret_line->number = field.value <= UINT32_MAX ? (uint32_t)field.value : 0;
	}
	return reader.failed ? malformed(otlp, "location.lines")
			     : read_function(otlp, function, ret_line);
}

static int read_frame_type(struct otlp *otlp, void *context, const struct attribute *attribute)
{
	static const struct {
		const char *type;
		enum frame_kind kind;
	} types[] = {
		{ "native", FRAME_KIND_NATIVE },  { "go", FRAME_KIND_NATIVE },
		{ "rust", FRAME_KIND_NATIVE },    { "kernel", FRAME_KIND_KERNEL },
		{ "cpython", FRAME_KIND_PYTHON }, { "jvm", FRAME_KIND_JIT },
		{ "v8js", FRAME_KIND_JIT },       { "dotnet", FRAME_KIND_JIT },
		{ "jit", FRAME_KIND_JIT }, // cairn's own
	};
	enum frame_kind *kind = context;

	(void)otlp;
	if (!text_is(attribute->name, "profile.frame.type"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (text_is(attribute->value, types[i].type))
			*kind = types[i].kind;
	return 0;
}

/** Addresses are in the file if the mapping does not say where it was in memory. */
static uint64_t file_offset(const struct mapping *mapping, uint64_t address)
{
	return mapping->start && address >= mapping->start && address < mapping->limit
		       ? address - mapping->start + mapping->offset
		       : address;
}

static int add_location(struct otlp *otlp, uint64_t index)
{
	struct wire_text entry = otlp->tables[OTLP_LOCATIONS][index];
	struct reader reader = wire_reader(entry.at, entry.size);
	struct location frame = { .kind = FRAME_KIND_UNKNOWN };
	struct line lines[LOCATION_LINES_MAX];
	struct mapping mapping = { 0 };
	struct wire_field field;
	uint64_t mapping_index = 0;
	uint32_t count = 0;
	int rc = 0;

	while (!rc && wire_next(&reader, &field)) {
		if (field.number == 1)
			mapping_index = field.value;
		else if (field.number == 2)
			frame.offset = field.value;
		else if (field.number == 3 && count < LOCATION_LINES_MAX)
			rc = read_line(otlp, &field, &lines[count++]);
		else if (field.number == 4)
			rc = each_attribute(otlp, &field, read_frame_type, &frame.kind);
	}
	if (!rc && reader.failed)
		rc = malformed(otlp, "location_table");
	if (!rc && mapping_index)
		rc = read_mapping(otlp, mapping_index, &mapping);
	if (!rc)
		rc = number_of(otlp, mapping.file, "mapping.filename_strindex", &frame.module);
	if (rc)
		return rc;
	frame.build_id = mapping.build_id;
	frame.offset = file_offset(&mapping, frame.offset);
	if (count == 1 && !lines[0].name)
		count = 0;
	if (frame.kind == FRAME_KIND_UNKNOWN && frame.module)
		frame.kind = FRAME_KIND_NATIVE;
	rc = import_frame(otlp->importer, &frame, lines, count, &otlp->locations[index]);
	return rc ? out_of(otlp, rc, "locations") : 0;
}

static int add_stack(struct otlp *otlp, uint64_t index)
{
	struct wire_text entry = otlp->tables[OTLP_STACKS][index];
	struct reader reader = wire_reader(entry.at, entry.size);
	uint32_t locations[STACK_FRAMES_MAX];
	struct wire_field field;
	size_t count = 0;
	int rc = 0;

	while (!rc && wire_next(&reader, &field)) {
		struct reader numbers = wire_message(&field);
		bool is_first = true;
		uint64_t at;

		if (field.number != 1)
			continue;
		while (!rc && wire_next_number(&field, &numbers, &is_first, &at)) {
			if (at >= otlp->counts[OTLP_LOCATIONS])
				return no_entry(otlp, "stack.location_indices", at, OTLP_LOCATIONS);
			if (count++ >= STACK_FRAMES_MAX)
				continue;
			if (otlp->locations[at] == NONE)
				rc = add_location(otlp, at);
			locations[count - 1] = otlp->locations[at];
		}
		if (!rc && numbers.failed)
			rc = malformed(otlp, "stack_table");
	}
	if (!rc && reader.failed)
		rc = malformed(otlp, "stack_table");
	if (rc)
		return rc;
	rc = import_stack(otlp->importer, locations, count, &otlp->stacks[index]);
	return rc ? out_of(otlp, rc, "stacks") : 0;
}

static int stack_at(struct otlp *otlp, uint64_t index, uint32_t *ret_stack)
{
	if (index >= otlp->counts[OTLP_STACKS])
		return no_entry(otlp, "sample.stack_index", index, OTLP_STACKS);
	if (otlp->stacks[index] == NONE) {
		int rc = add_stack(otlp, index);
		if (rc)
			return rc;
	}
	*ret_stack = otlp->stacks[index];
	return 0;
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

static int read_thread(struct otlp *otlp, void *context, const struct attribute *attribute)
{
	struct otlp_sample *sample = context;

	(void)otlp;
	// A number is in @attribute itself, and no name.
	if (text_is(attribute->name, "thread.name") && attribute->value.at != attribute->number) {
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
		return out_of(otlp, rc, "series");
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
		return malformed(otlp, "profile.time_unix_nano");
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
		return rc ? out_of(otlp, rc, "sample") : 0;
	}
	while (!rc && !reader.failed && reader.at < reader.end)
		rc = add_number(list, is_fixed ? wire_fixed(&reader, sizeof(uint64_t))
					       : wire_varint(&reader));
	if (rc)
		return out_of(otlp, rc, "sample");
	return reader.failed ? malformed(otlp, "sample") : 0;
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
		rc = stack_at(otlp, sample->stack, &stack);
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
			rc = each_attribute(otlp, &field, read_thread, &sample);
		else if (field.number == 4)
			rc = add_numbers(otlp, &field, false, &otlp->values);
		else if (field.number == 5)
			rc = add_numbers(otlp, &field, true, &otlp->times);
	}
	if (!rc && reader.failed)
		rc = malformed(otlp, "sample");
	return rc ? rc : add_sample(otlp, profile, &sample);
}

// ---- profiles ---------------------------------------------------------------------------------

static void copy_string(const struct otlp *otlp, uint64_t index, char ret_text[TYPE_TEXT_BYTES])
{
	struct wire_text text = string_at(otlp, index);

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
static int read_own_type(struct otlp *otlp, void *context, const struct attribute *attribute)
{
	struct otlp_profile *profile = context;
	char text[PROFILE_TYPE_BYTES];

	(void)otlp;
	if (!text_is(attribute->name, OTLP_TYPE_ATTRIBUTE) || attribute->value.size >= sizeof(text))
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
			rc = each_attribute(otlp, &field, read_own_type, profile);
	}
	return rc || (is_sound && !reader.failed) ? rc : malformed(otlp, "profile");
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
	struct attribute attribute;
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		if (field.number != 1)
			continue;
		if (!read_attribute(otlp, wire_message(&field), &attribute))
			return malformed(otlp, "resource.attributes");
		otlp_label_set(labels, attribute.name.at, attribute.name.size, attribute.value.at,
			       attribute.value.size);
	}
	return reader.failed ? malformed(otlp, "resource") : 0;
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
	return !rc && reader.failed ? malformed(otlp, "scope_profiles") : rc;
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
		rc = malformed(otlp, "resource_profiles");
	if (!rc && otlp_labels_finish(&labels))
		rc = out_of(otlp, -ENOMEM, "labels");
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
	int rc = read_dictionary(&otlp, bytes, size);

	while (!rc && wire_next(&reader, &field))
		if (field.number == 1)
			rc = read_resource_profiles(&otlp, &field);
	return rc;
}
