// SPDX-License-Identifier: Apache-2.0
// Three passes over the bytes: count, index the tables, read the samples. A location becomes one of ours when the first sample
// uses it.
#include "base/import/pprof_import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/import/wire.h"

// Field numbers of perftools.profiles.
enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME = 9,
	PROFILE_DURATION = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_FIELDS = 15,
};

enum {
	TEXT_BYTES = PROFILE_TYPE_PART_BYTES,
	DENSE_PER_ITEM = 8,
	DENSE_MIN = 4096,
	RESERVED_MAX = 32 * 1024
};

#define NONE UINT32_MAX

struct id_entry {
	uint64_t id;
	uint32_t at;
};

/** From ids to positions: an array if ids are small, as most writers' are, else sorted. */
struct id_index {
	uint32_t *dense;
	uint64_t dense_count;
	struct id_entry *sorted;
	uint32_t sorted_count;
};

struct function {
	uint64_t id, name, file;
};

struct mapping {
	uint64_t id, start, limit, offset, file, build_id;
};

struct place {
	uint64_t id;
	struct wire_text bytes;
};

struct value_type {
	uint64_t type, unit;
	struct import_type made;
};

struct label_pair {
	uint64_t name, value;
};

/** Samples with equal labels. */
struct group {
	uint32_t first_pair, pair_count;
};

struct pprof {
	struct importer *importer;
	const struct import_source *source;
	struct error *err;
	uint32_t counts[PROFILE_FIELDS];
	struct wire_text *strings;
	uint32_t *numbers; // of the importer's strings; NONE: not used yet
	struct function *functions;
	struct mapping *mappings;
	struct place *places;
	uint32_t *locations; // by place: of the importer's profile; NONE: not used yet
	struct id_index function_index, mapping_index, place_index;
	struct value_type types[IMPORT_TYPES_MAX];
	uint32_t type_count;
	struct value_type period;
	uint64_t time_ns, duration_ns;
	struct import_time time;
	struct hash_table group_index;
	struct group *groups;
	struct label_pair *pairs;
	uint32_t group_count, group_capacity, pair_count, pair_capacity;
	uint32_t *series; // type_count of each group
	uint32_t series_capacity;
};

static void pprof_deinit(struct pprof *pprof)
{
	struct id_index *const indexes[] = { &pprof->function_index, &pprof->mapping_index,
					     &pprof->place_index };

	for (size_t i = 0; i < ARRAY_SIZE(indexes); i++) {
		free(indexes[i]->dense);
		free(indexes[i]->sorted);
	}
	free(pprof->strings);
	free(pprof->numbers);
	free(pprof->functions);
	free(pprof->mappings);
	free(pprof->places);
	free(pprof->locations);
	free(pprof->groups);
	free(pprof->pairs);
	free(pprof->series);
	hash_table_deinit(&pprof->group_index);
}

static int malformed(struct pprof *pprof, const char *what)
{
	return error_set(pprof->err, -EBADMSG, "pprof: %s: malformed", what);
}

static int out_of(struct pprof *pprof, int rc, const char *what)
{
	char where[64];

	snprintf(where, sizeof(where), "pprof: %s", what);
	return import_failed(rc, pprof->err, where);
}

// ---- ids --------------------------------------------------------------------------------------

static int by_id(const void *a, const void *b)
{
	const struct id_entry *left = a, *right = b;

	return left->id != right->id ? (left->id > right->id) - (left->id < right->id)
				     : (left->at > right->at) - (left->at < right->at);
}

/** Index @count items of @item_size bytes, each of which begins with its id. */
static int index_ids(struct id_index *index, const void *items, size_t item_size, uint32_t count)
{
	const uint8_t *bytes = items;
	uint64_t highest = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = *(const uint64_t *)(bytes + i * item_size);

		highest = id > highest ? id : highest;
	}
	if (highest < (uint64_t)count * DENSE_PER_ITEM + DENSE_MIN) {
		index->dense_count = highest + 1;
		index->dense = malloc(index->dense_count * sizeof(*index->dense));
		if (!index->dense)
			return -ENOMEM;
		memset(index->dense, 0xff, index->dense_count * sizeof(*index->dense));
		for (uint32_t i = 0; i < count; i++)
			index->dense[*(const uint64_t *)(bytes + i * item_size)] = i;
		return 0;
	}
	int rc = array_allocate(&index->sorted, count, sizeof(*index->sorted));
	if (rc)
		return rc;
	for (uint32_t i = 0; i < count; i++)
		index->sorted[i] =
			(struct id_entry){ *(const uint64_t *)(bytes + i * item_size), i };
	index->sorted_count = count;
	qsort(index->sorted, count, sizeof(*index->sorted), by_id);
	return 0;
}

static uint32_t find_sorted(const struct id_index *index, uint64_t id)
{
	uint32_t low = 0, high = index->sorted_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (index->sorted[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < index->sorted_count && index->sorted[low].id == id ? index->sorted[low].at
									: NONE;
}

static inline uint32_t find_id(const struct id_index *index, uint64_t id)
{
	if (index->dense)
		return id < index->dense_count ? index->dense[id] : NONE;
	return find_sorted(index, id);
}

// ---- tables -----------------------------------------------------------------------------------

static int count_fields(struct pprof *pprof, const void *bytes, size_t size)
{
	struct reader reader = wire_reader(bytes, size);
	struct wire_field field;

	while (wire_next(&reader, &field))
		if (field.number < PROFILE_FIELDS)
			pprof->counts[field.number]++;
	if (reader.failed)
		return error_set(pprof->err, -EBADMSG, "pprof: not a profile.proto message");
	if (!pprof->counts[PROFILE_STRING] || !pprof->counts[PROFILE_SAMPLE_TYPE])
		return error_set(pprof->err, -EBADMSG,
				 "pprof: no string_table or no sample_type: not a profile");
	return 0;
}

static int allocate(struct pprof *pprof)
{
	const struct {
		void *array;
		uint32_t count;
		size_t size;
	} wanted[] = {
		{ &pprof->strings, pprof->counts[PROFILE_STRING], sizeof(*pprof->strings) },
		{ &pprof->numbers, pprof->counts[PROFILE_STRING], sizeof(*pprof->numbers) },
		{ &pprof->functions, pprof->counts[PROFILE_FUNCTION], sizeof(*pprof->functions) },
		{ &pprof->mappings, pprof->counts[PROFILE_MAPPING], sizeof(*pprof->mappings) },
		{ &pprof->places, pprof->counts[PROFILE_LOCATION], sizeof(*pprof->places) },
		{ &pprof->locations, pprof->counts[PROFILE_LOCATION], sizeof(*pprof->locations) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (array_allocate(wanted[i].array, wanted[i].count, wanted[i].size))
			return out_of(pprof, -ENOMEM, "tables");
	memset(pprof->numbers, 0xff, pprof->counts[PROFILE_STRING] * sizeof(*pprof->numbers));
	memset(pprof->locations, 0xff, pprof->counts[PROFILE_LOCATION] * sizeof(*pprof->locations));
	return 0;
}

/** Read the numbers of a message into @ret_values by field number, of those below @count. */
static bool read_numbers(const struct wire_field *message, uint64_t *ret_values, uint32_t count)
{
	struct reader reader = wire_message(message);
	struct wire_field field;

	while (wire_next(&reader, &field))
		if (field.number < count && field.type == WIRE_VARINT)
			ret_values[field.number] = field.value;
	return !reader.failed;
}

static bool read_place(const struct wire_field *message, struct place *ret_place)
{
	uint64_t values[2] = { 0 };

	ret_place->bytes = wire_string(message);
	if (!read_numbers(message, values, ARRAY_SIZE(values)))
		return false;
	ret_place->id = values[1];
	return true;
}

static bool read_function(const struct wire_field *message, struct function *ret_function)
{
	uint64_t values[5] = { 0 };

	if (!read_numbers(message, values, ARRAY_SIZE(values)))
		return false;
	*ret_function =
		(struct function){ values[1], values[2] ? values[2] : values[3], values[4] };
	return true;
}

static bool read_mapping(const struct wire_field *message, struct mapping *ret_mapping)
{
	uint64_t values[7] = { 0 };

	if (!read_numbers(message, values, ARRAY_SIZE(values)))
		return false;
	*ret_mapping = (struct mapping){ values[1], values[2], values[3],
					 values[4], values[5], values[6] };
	return true;
}

static bool read_type(const struct wire_field *message, struct value_type *ret_type)
{
	uint64_t values[3] = { 0 };

	if (!read_numbers(message, values, ARRAY_SIZE(values)))
		return false;
	ret_type->type = values[1];
	ret_type->unit = values[2];
	return true;
}

/** @at: how many of the field came before. Returns whether it is sound. */
static bool read_table_item(struct pprof *pprof, const struct wire_field *field, uint32_t at)
{
	switch (field->number) {
	case PROFILE_SAMPLE_TYPE:
		return at >= IMPORT_TYPES_MAX || read_type(field, &pprof->types[at]);
	case PROFILE_MAPPING:
		return read_mapping(field, &pprof->mappings[at]);
	case PROFILE_LOCATION:
		return read_place(field, &pprof->places[at]);
	case PROFILE_FUNCTION:
		return read_function(field, &pprof->functions[at]);
	case PROFILE_STRING:
		pprof->strings[at] = wire_string(field);
		return field->type == WIRE_BYTES;
	case PROFILE_TIME:
		pprof->time_ns = field->value;
		return field->type == WIRE_VARINT;
	case PROFILE_DURATION:
		pprof->duration_ns = field->value;
		return field->type == WIRE_VARINT;
	case PROFILE_PERIOD_TYPE:
		return read_type(field, &pprof->period);
	default:
		return true;
	}
}

static int read_tables(struct pprof *pprof, const void *bytes, size_t size)
{
	struct reader reader = wire_reader(bytes, size);
	uint32_t counts[PROFILE_FIELDS] = { 0 };
	struct wire_field field;
	char what[32];

	while (wire_next(&reader, &field)) {
		if (field.number >= PROFILE_FIELDS)
			continue;
		if (read_table_item(pprof, &field, counts[field.number]++))
			continue;
		snprintf(what, sizeof(what), "field %u", field.number);
		return malformed(pprof, what);
	}
	int rc = index_ids(&pprof->function_index, pprof->functions, sizeof(*pprof->functions),
			   pprof->counts[PROFILE_FUNCTION]);
	if (!rc)
		rc = index_ids(&pprof->mapping_index, pprof->mappings, sizeof(*pprof->mappings),
			       pprof->counts[PROFILE_MAPPING]);
	if (!rc)
		rc = index_ids(&pprof->place_index, pprof->places, sizeof(*pprof->places),
			       pprof->counts[PROFILE_LOCATION]);
	return rc ? out_of(pprof, rc, "tables") : 0;
}

// ---- types and time ---------------------------------------------------------------------------

static struct wire_text string_at(const struct pprof *pprof, uint64_t number)
{
	return number < pprof->counts[PROFILE_STRING] ? pprof->strings[number]
						      : (struct wire_text){ "", 0 };
}

static void copy_text(struct wire_text text, char ret_text[TEXT_BYTES])
{
	size_t size = text.size < TEXT_BYTES ? text.size : TEXT_BYTES - 1;

	memcpy(ret_text, text.at, size);
	ret_text[size] = '\0';
}

static int make_types(struct pprof *pprof)
{
	char type[TEXT_BYTES], unit[TEXT_BYTES], period_type[TEXT_BYTES], period_unit[TEXT_BYTES];

	pprof->type_count = pprof->counts[PROFILE_SAMPLE_TYPE];
	if (pprof->type_count > IMPORT_TYPES_MAX)
		return error_set(pprof->err, -EINVAL, "pprof: %u sample types, expected at most %d",
				 pprof->type_count, IMPORT_TYPES_MAX);
	if (pprof->source->type && pprof->type_count > 1)
		return error_set(pprof->err, -EINVAL,
				 "pprof: the profile has %u sample types, which one type cannot "
				 "stand for; leave the type out",
				 pprof->type_count);
	copy_text(string_at(pprof, pprof->period.type), period_type);
	copy_text(string_at(pprof, pprof->period.unit), period_unit);
	for (uint32_t i = 0; i < pprof->type_count; i++) {
		copy_text(string_at(pprof, pprof->types[i].type), type);
		copy_text(string_at(pprof, pprof->types[i].unit), unit);
		import_type_make(pprof->source, type, unit, period_type, period_unit,
				 &pprof->types[i].made);
	}
	return 0;
}

/** Who pushes knows the time best; then the profile; a profile without a time ends now. */
static int make_time(struct pprof *pprof)
{
	const struct import_source *source = pprof->source;
	uint64_t duration_ns = pprof->duration_ns > INT64_MAX ? 0 : pprof->duration_ns;
	uint64_t from_ns = source->from_ns, to_ns = source->to_ns;

	if (!from_ns && pprof->time_ns && pprof->time_ns <= INT64_MAX)
		from_ns = pprof->time_ns;
	if (!from_ns)
		from_ns = ns_before(to_ns            ? to_ns
				    : source->end_ns ? source->end_ns
						     : pprof->importer->now_ns,
				    duration_ns);
	if (!to_ns)
		to_ns = from_ns + duration_ns;
	int rc = import_time_set(&pprof->time, from_ns, to_ns, pprof->err);
	if (!rc)
		import_cover(pprof->importer, &pprof->time);
	return rc;
}

// ---- locations --------------------------------------------------------------------------------

static int number_of(struct pprof *pprof, uint64_t string, uint32_t *ret_number)
{
	if (string >= pprof->counts[PROFILE_STRING])
		return malformed(pprof, "a string's number");
	if (pprof->numbers[string] == NONE) {
		int rc = import_string(pprof->importer, pprof->strings[string].at,
				       pprof->strings[string].size, &pprof->numbers[string]);
		if (rc)
			return out_of(pprof, rc, "strings");
	}
	*ret_number = pprof->numbers[string];
	return 0;
}

static int read_line(struct pprof *pprof, const struct wire_field *message, struct line *ret_line)
{
	uint64_t values[3] = { 0 };

	if (!read_numbers(message, values, ARRAY_SIZE(values)))
		return malformed(pprof, "location.line");
	uint32_t at = find_id(&pprof->function_index, values[1]);
	if (at == NONE)
		return error_set(pprof->err, -EBADMSG,
				 "pprof: location.line.function_id: %llu is no function's id",
				 (unsigned long long)values[1]);
	ret_line->number = values[2] <= UINT32_MAX ? (uint32_t)values[2] : 0;
	int rc = number_of(pprof, pprof->functions[at].name, &ret_line->name);
	return rc ? rc : number_of(pprof, pprof->functions[at].file, &ret_line->file);
}

static int add_mapping(struct pprof *pprof, uint64_t id, uint64_t address, struct location *frame)
{
	uint32_t at = id ? find_id(&pprof->mapping_index, id) : NONE;

	frame->offset = address;
	if (at == NONE)
		return 0;
	const struct mapping *mapping = &pprof->mappings[at];
	if (address >= mapping->start && (!mapping->limit || address < mapping->limit))
		frame->offset = address - mapping->start + mapping->offset;
	int rc = number_of(pprof, mapping->file, &frame->module);
	return rc ? rc : number_of(pprof, mapping->build_id, &frame->build_id);
}

static bool ends_in_py(const struct profile *profile, uint32_t file)
{
	const char *text = profile_string(profile, file);
	size_t size = strlen(text);

	return size > 3 && strcmp(text + size - 3, ".py") == 0;
}

static int add_place(struct pprof *pprof, uint32_t at)
{
	const struct place *place = &pprof->places[at];
	struct reader reader = wire_reader(place->bytes.at, place->bytes.size);
	struct location frame = { .kind = FRAME_KIND_UNKNOWN };
	struct line lines[LOCATION_LINES_MAX];
	uint64_t mapping = 0, address = 0;
	struct wire_field field;
	uint32_t count = 0;
	int rc = 0;

	while (!rc && wire_next(&reader, &field)) {
		if (field.number == 2)
			mapping = field.value;
		else if (field.number == 3)
			address = field.value;
		else if (field.number == 4 && count < LOCATION_LINES_MAX)
			rc = read_line(pprof, &field, &lines[count++]);
	}
	if (!rc && reader.failed)
		rc = malformed(pprof, "location");
	if (!rc)
		rc = add_mapping(pprof, mapping, address, &frame);
	if (rc)
		return rc;
	if (count == 1 && !lines[0].name)
		count = 0; // a function without a name
	if (count && ends_in_py(pprof->importer->profile, lines[0].file))
		frame.kind = FRAME_KIND_PYTHON;
	else if (frame.module || frame.build_id)
		frame.kind = FRAME_KIND_NATIVE;
	rc = import_frame(pprof->importer, &frame, lines, count, &pprof->locations[at]);
	return rc ? out_of(pprof, rc, "locations") : 0;
}

// ---- series -----------------------------------------------------------------------------------

struct group_key {
	const struct label_pair *pairs;
	uint32_t count;
};

static bool group_has(const void *context, uint32_t item, const void *key)
{
	const struct pprof *pprof = context;
	const struct group_key *wanted = key;
	const struct group *group = &pprof->groups[item];

	return group->pair_count == wanted->count &&
	       (!wanted->count || memcmp(&pprof->pairs[group->first_pair], wanted->pairs,
					 wanted->count * sizeof(*wanted->pairs)) == 0);
}

/** Ids of one span or profile are labels of one sample: each would be a series. */
static bool is_id(struct wire_text name)
{
	static const char *const ids[] = { "span_id",           "trace_id", "profile_id",
					   "profile_trace_id",  "span id",  "trace id",
					   "local root span id" };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (name.size == strlen(ids[i]) && memcmp(name.at, ids[i], name.size) == 0)
			return true;
	return false;
}

/** What the pusher says of the whole profile wins. */
static int add_label(struct labels *labels, struct wire_text name, struct wire_text value)
{
	_cleanup_(labels_deinit) struct labels one = { 0 };
	int rc = 0;

	if (import_label(&one, name.at, name.size, value.at, value.size) &&
	    !labels_get(labels, one.pairs[0].name))
		rc = labels_set(labels, one.pairs[0].name, one.pairs[0].value);
	return rc == -E2BIG ? 0 : rc; // there is no room for all
}

static int add_series(struct pprof *pprof, const struct group_key *key, uint32_t at)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	int rc = labels_copy(pprof->source->labels, &labels);

	for (uint32_t i = 0; i < key->count && !rc; i++) {
		rc = add_label(&labels, string_at(pprof, key->pairs[i].name),
			       string_at(pprof, key->pairs[i].value));
	}
	for (uint32_t i = 0; i < pprof->type_count && !rc; i++)
		rc = profile_add_series(pprof->importer->profile, &labels,
					pprof->types[i].made.text,
					&pprof->series[at * pprof->type_count + i]);
	return rc;
}

static int add_group(struct pprof *pprof, const struct group_key *key, uint64_t hash,
		     uint32_t *ret_group)
{
	uint32_t at = pprof->group_count;
	int rc = array_reserve(&pprof->groups, sizeof(*pprof->groups), &pprof->group_capacity, at,
			       1, IMPORT_SERIES_MAX);

	if (!rc)
		rc = array_reserve(&pprof->pairs, sizeof(*pprof->pairs), &pprof->pair_capacity,
				   pprof->pair_count, key->count,
				   IMPORT_SERIES_MAX * IMPORT_SAMPLE_LABELS_MAX);
	if (!rc)
		rc = array_reserve(&pprof->series, sizeof(*pprof->series), &pprof->series_capacity,
				   at * pprof->type_count, pprof->type_count,
				   IMPORT_SERIES_MAX * IMPORT_TYPES_MAX);
	if (!rc)
		rc = add_series(pprof, key, at);
	if (!rc)
		rc = hash_table_add(&pprof->group_index, hash, at);
	if (rc)
		return out_of(pprof, rc, "series");
	pprof->groups[at] = (struct group){ pprof->pair_count, key->count };
	if (key->count)
		memcpy(&pprof->pairs[pprof->pair_count], key->pairs,
		       key->count * sizeof(*key->pairs));
	pprof->pair_count += key->count;
	pprof->group_count++;
	*ret_group = at;
	return 0;
}

static int find_group(struct pprof *pprof, struct group_key key, uint32_t *ret_group)
{
	bool is_full = pprof->group_count >= IMPORT_SERIES_MAX / pprof->type_count;
	uint64_t hash = hash64_of(key.pairs, key.count * sizeof(*key.pairs));
	uint32_t at = hash_table_find(&pprof->group_index, hash, group_has, pprof, &key);

	if (at == HASH_TABLE_NONE && is_full && pprof->group_count) {
		at = 0; // made first: no labels of samples
		pprof->importer->left_out++;
	}
	if (at == HASH_TABLE_NONE)
		return add_group(pprof, &key, hash, ret_group);
	*ret_group = at;
	return 0;
}

// ---- samples ----------------------------------------------------------------------------------

struct sample_fields {
	uint32_t locations[STACK_FRAMES_MAX];
	size_t location_count; // all of them
	int64_t values[IMPORT_TYPES_MAX];
	uint32_t value_count;
	struct label_pair pairs[IMPORT_SAMPLE_LABELS_MAX];
	uint32_t pair_count;
};

static int add_frame(struct pprof *pprof, uint64_t id, struct sample_fields *sample)
{
	uint32_t at = find_id(&pprof->place_index, id);

	if (at == NONE)
		return error_set(pprof->err, -EBADMSG,
				 "pprof: sample.location_id: %llu is no location's id",
				 (unsigned long long)id);
	if (sample->location_count++ >= STACK_FRAMES_MAX)
		return 0;
	if (pprof->locations[at] == NONE) {
		int rc = add_place(pprof, at);
		if (rc)
			return rc;
	}
	sample->locations[sample->location_count - 1] = pprof->locations[at];
	return 0;
}

/** Most of a profile is this: ids of one or two bytes, of locations that are known. */
static int read_locations(struct pprof *pprof, const struct wire_field *field,
			  struct sample_fields *sample)
{
	struct reader reader = wire_message(field);
	int rc = 0;

	if (field->type == WIRE_VARINT)
		return add_frame(pprof, field->value, sample);
	while (!rc && !reader.failed && reader.at < reader.end) {
		uint64_t id = *reader.at;

		if (id < 0x80) {
			reader.at++;
		} else if (reader.end - reader.at > 1 && reader.at[1] < 0x80) {
			id = (id & 0x7f) | (uint64_t)reader.at[1] << 7;
			reader.at += 2;
		} else {
			id = reader_varint(&reader);
		}
		rc = reader.failed ? 0 : add_frame(pprof, id, sample);
	}
	return !rc && reader.failed ? malformed(pprof, "sample.location_id") : rc;
}

static int read_values(struct pprof *pprof, const struct wire_field *field,
		       struct sample_fields *sample)
{
	struct reader reader = wire_message(field);
	bool is_first = true;
	uint64_t value;

	while (wire_next_number(field, &reader, &is_first, &value)) {
		if (sample->value_count < IMPORT_TYPES_MAX)
			sample->values[sample->value_count] = (int64_t)value;
		sample->value_count++;
	}
	return reader.failed ? malformed(pprof, "sample.value") : 0;
}

static int read_label(struct pprof *pprof, const struct wire_field *field,
		      struct sample_fields *sample)
{
	uint64_t values[3] = { 0 };

	if (!read_numbers(field, values, ARRAY_SIZE(values)))
		return malformed(pprof, "sample.label");
	// Numbers are sizes and ids.
	if (values[2] && sample->pair_count < IMPORT_SAMPLE_LABELS_MAX &&
	    !is_id(string_at(pprof, values[1])))
		sample->pairs[sample->pair_count++] = (struct label_pair){ values[1], values[2] };
	return 0;
}

static int read_fields(struct pprof *pprof, const struct wire_field *message,
		       struct sample_fields *sample)
{
	struct reader reader = wire_message(message);
	struct wire_field field;
	int rc = 0;

	sample->location_count = 0;
	sample->value_count = 0;
	sample->pair_count = 0;
	while (!rc && wire_next(&reader, &field)) {
		if (field.number == 1)
			rc = read_locations(pprof, &field, sample);
		else if (field.number == 2)
			rc = read_values(pprof, &field, sample);
		else if (field.number == 3)
			rc = read_label(pprof, &field, sample);
	}
	if (!rc && reader.failed)
		rc = malformed(pprof, "sample");
	if (!rc && sample->value_count != pprof->type_count)
		rc = error_set(pprof->err, -EBADMSG, "pprof: sample.value: %u for %u sample types",
			       sample->value_count, pprof->type_count);
	return rc;
}

static int add_value(struct pprof *pprof, const struct value_type *type, uint32_t series,
		     uint32_t stack, int64_t value)
{
	int64_t scale = pprof->source->value_scale ? pprof->source->value_scale : 1;

	if (!value)
		return 0;
	if (__builtin_mul_overflow(value, scale, &value) ||
	    (type->made.is_gauge && import_gauge_value(&pprof->time, value, &value)))
		return error_set(pprof->err, -EINVAL, "pprof: sample.value: too large");
	return import_row(pprof->importer, series, stack, &pprof->time, value, pprof->err);
}

static int add_sample(struct pprof *pprof, const struct sample_fields *sample)
{
	uint32_t stack, group;
	int rc = import_stack(pprof->importer, sample->locations, sample->location_count, &stack);

	if (rc)
		return out_of(pprof, rc, "stacks");
	rc = find_group(pprof, (struct group_key){ sample->pairs, sample->pair_count }, &group);
	for (uint32_t i = 0; i < pprof->type_count && !rc; i++)
		rc = add_value(pprof, &pprof->types[i],
			       pprof->series[group * pprof->type_count + i], stack,
			       sample->values[i]);
	pprof->importer->samples++;
	return rc;
}

static uint32_t at_most(uint64_t number, uint32_t limit)
{
	return number < limit ? (uint32_t)number : limit;
}

/** Room for all samples of usual profiles at once; larger ones make theirs as they are read. */
static int reserve(struct pprof *pprof)
{
	uint32_t samples = pprof->counts[PROFILE_SAMPLE];
	uint64_t rows = (uint64_t)samples * pprof->type_count * pprof->time.part_count;
	int rc = profile_reserve(pprof->importer->profile, at_most(samples, RESERVED_MAX),
				 at_most(rows, RESERVED_MAX));

	return rc ? out_of(pprof, rc, "samples") : 0;
}

static int read_samples(struct pprof *pprof, const void *bytes, size_t size)
{
	struct reader reader = wire_reader(bytes, size);
	struct sample_fields sample;
	struct wire_field field;
	uint32_t group;
	int rc = find_group(pprof, (struct group_key){ NULL, 0 }, &group);

	if (!rc)
		rc = reserve(pprof);
	while (!rc && wire_next(&reader, &field)) {
		if (field.number != PROFILE_SAMPLE)
			continue;
		rc = read_fields(pprof, &field, &sample);
		if (!rc)
			rc = add_sample(pprof, &sample);
	}
	return rc;
}

// ---- the whole --------------------------------------------------------------------------------

bool pprof_is_likely(const void *bytes, size_t size)
{
	struct reader reader = wire_reader(bytes, size);
	struct wire_field field;

	// Writers begin with the sample types; a text does not look like a sound message with one.
	return wire_next(&reader, &field) && field.number == PROFILE_SAMPLE_TYPE &&
	       field.type == WIRE_BYTES && field.size <= 22;
}

int pprof_import(struct importer *importer, const struct import_source *source, const void *bytes,
		 size_t size, struct error *err)
{
	_cleanup_(pprof_deinit) struct pprof pprof = { .importer = importer,
						       .source = source,
						       .err = err };
	int rc = count_fields(&pprof, bytes, size);

	if (!rc)
		rc = allocate(&pprof);
	if (!rc)
		rc = read_tables(&pprof, bytes, size);
	if (!rc)
		rc = make_types(&pprof);
	if (!rc)
		rc = make_time(&pprof);
	return rc ? rc : read_samples(&pprof, bytes, size);
}
