// SPDX-License-Identifier: Apache-2.0
#include "base/import/pprof_tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum {
	DENSE_PER_ITEM = 8,
	DENSE_MIN = 4096,
};

void pprof_tables_deinit(struct pprof_tables *tables)
{
	struct pprof_ids *const indexes[] = { &tables->function_index, &tables->mapping_index,
					      &tables->location_index };

	for (size_t i = 0; i < ARRAY_SIZE(indexes); i++) {
		free(indexes[i]->dense);
		free(indexes[i]->sorted);
	}
	free(tables->strings);
	free(tables->functions);
	free(tables->mappings);
	free(tables->locations);
}

int pprof_malformed(const struct pprof_tables *tables, const char *what)
{
	return error_set(tables->err, -EBADMSG, "pprof: %s: malformed", what);
}

int pprof_out_of(const struct pprof_tables *tables, int rc, const char *what)
{
	char where[64];

	snprintf(where, sizeof(where), "pprof: %s", what);
	return import_failed(rc, tables->err, where);
}

// ---- ids --------------------------------------------------------------------------------------

static int by_id(const void *a, const void *b)
{
	const struct pprof_id *left = a, *right = b;

	return left->id != right->id ? (left->id > right->id) - (left->id < right->id)
				     : (left->at > right->at) - (left->at < right->at);
}

/** Index @count items of @item_size bytes, each of which begins with its id. */
static int index_ids(struct pprof_ids *index, const void *items, size_t item_size, uint32_t count)
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
			(struct pprof_id){ *(const uint64_t *)(bytes + i * item_size), i };
	index->sorted_count = count;
	qsort(index->sorted, count, sizeof(*index->sorted), by_id);
	return 0;
}

uint32_t pprof_find_sorted(const struct pprof_ids *index, uint64_t id)
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
									: PPROF_NONE;
}

// ---- tables -----------------------------------------------------------------------------------

static int count_fields(struct pprof_tables *tables, const void *bytes, size_t size)
{
	struct reader reader = wire_reader(bytes, size);
	struct wire_field field;

	while (wire_next(&reader, &field))
		if (field.number < PPROF_FIELDS)
			tables->counts[field.number]++;
	if (reader.failed)
		return error_set(tables->err, -EBADMSG, "pprof: not a profile.proto message");
	if (!tables->counts[PPROF_STRING] || !tables->counts[PPROF_SAMPLE_TYPE])
		return error_set(tables->err, -EBADMSG,
				 "pprof: no string_table or no sample_type: not a profile");
	return 0;
}

static int allocate(struct pprof_tables *tables)
{
	const struct {
		void *array;
		uint32_t count;
		size_t size;
	} wanted[] = {
		{ &tables->strings, tables->counts[PPROF_STRING], sizeof(*tables->strings) },
		{ &tables->functions, tables->counts[PPROF_FUNCTION], sizeof(*tables->functions) },
		{ &tables->mappings, tables->counts[PPROF_MAPPING], sizeof(*tables->mappings) },
		{ &tables->locations, tables->counts[PPROF_LOCATION], sizeof(*tables->locations) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (array_allocate(wanted[i].array, wanted[i].count, wanted[i].size))
			return pprof_out_of(tables, -ENOMEM, "tables");
	return 0;
}

bool pprof_read_numbers(const struct wire_field *message, uint64_t *ret_values, uint32_t count)
{
	struct reader reader = wire_message(message);
	struct wire_field field;

	while (wire_next(&reader, &field))
		if (field.number < count && field.type == WIRE_VARINT)
			ret_values[field.number] = field.value;
	return !reader.failed;
}

static bool read_location(const struct wire_field *message, struct pprof_location *ret_location)
{
	uint64_t values[2] = { 0 };

	ret_location->bytes = wire_string(message);
	if (!pprof_read_numbers(message, values, ARRAY_SIZE(values)))
		return false;
	ret_location->id = values[1];
	return true;
}

static bool read_function(const struct wire_field *message, struct pprof_function *ret_function)
{
	uint64_t values[5] = { 0 };

	if (!pprof_read_numbers(message, values, ARRAY_SIZE(values)))
		return false;
	*ret_function =
		(struct pprof_function){ values[1], values[2] ? values[2] : values[3], values[4] };
	return true;
}

static bool read_mapping(const struct wire_field *message, struct pprof_mapping *ret_mapping)
{
	uint64_t values[7] = { 0 };

	if (!pprof_read_numbers(message, values, ARRAY_SIZE(values)))
		return false;
	*ret_mapping = (struct pprof_mapping){ values[1], values[2], values[3],
					       values[4], values[5], values[6] };
	return true;
}

static bool read_type(const struct wire_field *message, struct pprof_type *ret_type)
{
	uint64_t values[3] = { 0 };

	if (!pprof_read_numbers(message, values, ARRAY_SIZE(values)))
		return false;
	ret_type->type = values[1];
	ret_type->unit = values[2];
	return true;
}

/** @at: how many of the field came before. Returns whether it is sound. */
static bool read_table_item(struct pprof_tables *tables, const struct wire_field *field,
			    uint32_t at)
{
	switch (field->number) {
	case PPROF_SAMPLE_TYPE:
		return at >= IMPORT_TYPES_MAX || read_type(field, &tables->types[at]);
	case PPROF_MAPPING:
		return read_mapping(field, &tables->mappings[at]);
	case PPROF_LOCATION:
		return read_location(field, &tables->locations[at]);
	case PPROF_FUNCTION:
		return read_function(field, &tables->functions[at]);
	case PPROF_STRING:
		tables->strings[at] = wire_string(field);
		return field->type == WIRE_BYTES;
	case PPROF_TIME:
		tables->time_ns = field->value;
		return field->type == WIRE_VARINT;
	case PPROF_DURATION:
		tables->duration_ns = field->value;
		return field->type == WIRE_VARINT;
	case PPROF_PERIOD_TYPE:
		return read_type(field, &tables->period);
	default:
		return true;
	}
}

static int read_tables(struct pprof_tables *tables, const void *bytes, size_t size)
{
	struct reader reader = wire_reader(bytes, size);
	uint32_t counts[PPROF_FIELDS] = { 0 };
	struct wire_field field;
	char what[32];

	while (wire_next(&reader, &field)) {
		if (field.number >= PPROF_FIELDS)
			continue;
		if (read_table_item(tables, &field, counts[field.number]++))
			continue;
		snprintf(what, sizeof(what), "field %u", field.number);
		return pprof_malformed(tables, what);
	}
	int rc = index_ids(&tables->function_index, tables->functions, sizeof(*tables->functions),
			   tables->counts[PPROF_FUNCTION]);
	if (!rc)
		rc = index_ids(&tables->mapping_index, tables->mappings, sizeof(*tables->mappings),
			       tables->counts[PPROF_MAPPING]);
	if (!rc)
		rc = index_ids(&tables->location_index, tables->locations,
			       sizeof(*tables->locations), tables->counts[PPROF_LOCATION]);
	return rc ? pprof_out_of(tables, rc, "tables") : 0;
}

int pprof_tables_init(struct pprof_tables *tables, const void *bytes, size_t size,
		      struct error *err)
{
	*tables = (struct pprof_tables){ .err = err };
	int rc = count_fields(tables, bytes, size);

	if (!rc)
		rc = allocate(tables);
	return rc ? rc : read_tables(tables, bytes, size);
}

struct wire_text pprof_text_at(const struct pprof_tables *tables, uint64_t index)
{
	return index < tables->counts[PPROF_STRING] ? tables->strings[index]
						    : (struct wire_text){ "", 0 };
}
