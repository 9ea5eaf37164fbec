// SPDX-License-Identifier: Apache-2.0
// Three passes over the bytes: count, index the tables, read the samples.
#include "base/import/pprof_import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/import/pprof_frames.h"
#include "base/import/pprof_tables.h"

enum { TEXT_BYTES = PROFILE_TYPE_PART_BYTES, RESERVED_MAX = 32 * 1024 };

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
	struct pprof_tables tables;
	struct pprof_frames frames;
	struct import_type types[IMPORT_TYPES_MAX];
	uint32_t type_count;
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
	pprof_tables_deinit(&pprof->tables);
	pprof_frames_deinit(&pprof->frames);
	free(pprof->groups);
	free(pprof->pairs);
	free(pprof->series);
	hash_table_deinit(&pprof->group_index);
}

// ---- types and time ---------------------------------------------------------------------------

static void copy_text(struct wire_text text, char ret_text[TEXT_BYTES])
{
	size_t size = text.size < TEXT_BYTES ? text.size : TEXT_BYTES - 1;

	memcpy(ret_text, text.at, size);
	ret_text[size] = '\0';
}

static int make_types(struct pprof *pprof)
{
	char type[TEXT_BYTES], unit[TEXT_BYTES], period_type[TEXT_BYTES], period_unit[TEXT_BYTES];

	pprof->type_count = pprof->tables.counts[PPROF_SAMPLE_TYPE];
	if (pprof->type_count > IMPORT_TYPES_MAX)
		return error_set(pprof->err, -EINVAL, "pprof: %u sample types, expected at most %d",
				 pprof->type_count, IMPORT_TYPES_MAX);
	if (pprof->source->type && pprof->type_count > 1)
		return error_set(pprof->err, -EINVAL,
				 "pprof: the profile has %u sample types, which one type cannot "
				 "stand for; leave the type out",
				 pprof->type_count);
	copy_text(pprof_text_at(&pprof->tables, pprof->tables.period.type), period_type);
	copy_text(pprof_text_at(&pprof->tables, pprof->tables.period.unit), period_unit);
	for (uint32_t i = 0; i < pprof->type_count; i++) {
		copy_text(pprof_text_at(&pprof->tables, pprof->tables.types[i].type), type);
		copy_text(pprof_text_at(&pprof->tables, pprof->tables.types[i].unit), unit);
		import_type_make(pprof->source, type, unit, period_type, period_unit,
				 &pprof->types[i]);
	}
	return 0;
}

/** Who pushes knows the time best; then the profile; a profile without a time ends now. */
static int make_time(struct pprof *pprof)
{
	const struct import_source *source = pprof->source;
	uint64_t duration_ns =
		pprof->tables.duration_ns > INT64_MAX ? 0 : pprof->tables.duration_ns;
	uint64_t from_ns = source->from_ns, to_ns = source->to_ns;

	if (!from_ns && pprof->tables.time_ns && pprof->tables.time_ns <= INT64_MAX)
		from_ns = pprof->tables.time_ns;
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
		rc = add_label(&labels, pprof_text_at(&pprof->tables, key->pairs[i].name),
			       pprof_text_at(&pprof->tables, key->pairs[i].value));
	}
	for (uint32_t i = 0; i < pprof->type_count && !rc; i++)
		rc = profile_add_series(pprof->importer->profile, &labels, pprof->types[i].text,
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
		return pprof_out_of(&pprof->tables, rc, "series");
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
	uint32_t at = pprof_find_id(&pprof->tables.location_index, id);

	if (at == PPROF_NONE)
		return error_set(pprof->err, -EBADMSG,
				 "pprof: sample.location_id: %llu is no location's id",
				 (unsigned long long)id);
	if (sample->location_count++ >= STACK_FRAMES_MAX)
		return 0;
	return pprof_frames_location(&pprof->frames, at,
				     &sample->locations[sample->location_count - 1]);
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
	return !rc && reader.failed ? pprof_malformed(&pprof->tables, "sample.location_id") : rc;
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
	return reader.failed ? pprof_malformed(&pprof->tables, "sample.value") : 0;
}

static int read_label(struct pprof *pprof, const struct wire_field *field,
		      struct sample_fields *sample)
{
	uint64_t values[3] = { 0 };

	if (!pprof_read_numbers(field, values, ARRAY_SIZE(values)))
		return pprof_malformed(&pprof->tables, "sample.label");
	// Numbers are sizes and ids.
	if (values[2] && sample->pair_count < IMPORT_SAMPLE_LABELS_MAX &&
	    !is_id(pprof_text_at(&pprof->tables, values[1])))
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
		rc = pprof_malformed(&pprof->tables, "sample");
	if (!rc && sample->value_count != pprof->type_count)
		rc = error_set(pprof->err, -EBADMSG, "pprof: sample.value: %u for %u sample types",
			       sample->value_count, pprof->type_count);
	return rc;
}

static int add_value(struct pprof *pprof, const struct import_type *type, uint32_t series,
		     uint32_t stack, int64_t value)
{
	int64_t scale = pprof->source->value_scale ? pprof->source->value_scale : 1;

	if (!value)
		return 0;
	if (__builtin_mul_overflow(value, scale, &value) ||
	    (type->is_gauge && import_gauge_value(&pprof->time, value, &value)))
		return error_set(pprof->err, -EINVAL, "pprof: sample.value: too large");
	return import_row(pprof->importer, series, stack, &pprof->time, value, pprof->err);
}

static int add_sample(struct pprof *pprof, const struct sample_fields *sample)
{
	uint32_t stack, group;
	int rc = import_stack(pprof->importer, sample->locations, sample->location_count, &stack);

	if (rc)
		return pprof_out_of(&pprof->tables, rc, "stacks");
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
	uint32_t samples = pprof->tables.counts[PPROF_SAMPLE];
	uint64_t rows = (uint64_t)samples * pprof->type_count * pprof->time.part_count;
	int rc = profile_reserve(pprof->importer->profile, at_most(samples, RESERVED_MAX),
				 at_most(rows, RESERVED_MAX));

	return rc ? pprof_out_of(&pprof->tables, rc, "samples") : 0;
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
		if (field.number != PPROF_SAMPLE)
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
	return wire_next(&reader, &field) && field.number == PPROF_SAMPLE_TYPE &&
	       field.type == WIRE_BYTES && field.size <= 22;
}

int pprof_import(struct importer *importer, const struct import_source *source, const void *bytes,
		 size_t size, struct error *err)
{
	_cleanup_(pprof_deinit) struct pprof pprof = { .importer = importer,
						       .source = source,
						       .err = err };
	int rc = pprof_tables_init(&pprof.tables, bytes, size, err);

	if (!rc)
		rc = pprof_frames_init(&pprof.frames, &pprof.tables, importer);
	if (!rc)
		rc = make_types(&pprof);
	if (!rc)
		rc = make_time(&pprof);
	return rc ? rc : read_samples(&pprof, bytes, size);
}
