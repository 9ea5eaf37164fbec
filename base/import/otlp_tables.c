// SPDX-License-Identifier: Apache-2.0
#include "base/import/otlp_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/import/importer.h"

void otlp_tables_deinit(struct otlp_tables *tables)
{
	for (int i = 0; i < OTLP_TABLES; i++)
		free(tables->entries[i]);
}

int otlp_malformed(const struct otlp_tables *tables, const char *what)
{
	return error_set(tables->err, -EBADMSG, "OTLP: %s: malformed", what);
}

int otlp_out_of(const struct otlp_tables *tables, int rc, const char *what)
{
	char where[64];

	snprintf(where, sizeof(where), "OTLP: %s", what);
	return import_failed(rc, tables->err, where);
}

int otlp_no_entry(const struct otlp_tables *tables, const char *field, uint64_t index,
		  enum otlp_table table)
{
	return error_set(tables->err, -EBADMSG,
			 "OTLP: %s: %" PRId64 " is not below the %u entries of its table", field,
			 (int64_t)index, tables->counts[table]);
}

// ---- the dictionary ---------------------------------------------------------------------------

static int allocate(struct otlp_tables *tables)
{
	int rc = 0;

	for (int i = 1; i < OTLP_TABLES && !rc; i++)
		rc = array_allocate(&tables->entries[i], tables->counts[i],
				    sizeof(**tables->entries));
	return rc ? otlp_out_of(tables, rc, "dictionary") : 0;
}

static int index_dictionary(struct otlp_tables *tables, const struct wire_field *message)
{
	struct reader reader = wire_message(message);
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		if (field.number >= OTLP_TABLES)
			continue;
		if (field.type != WIRE_BYTES)
			return otlp_malformed(tables, "dictionary");
		tables->counts[field.number]++;
	}
	if (reader.failed)
		return otlp_malformed(tables, "dictionary");
	int rc = allocate(tables);
	if (rc)
		return rc;
	memset(tables->counts, 0, sizeof(tables->counts));
	reader = wire_message(message);
	while (wire_next(&reader, &field))
		if (field.number < OTLP_TABLES)
			tables->entries[field.number][tables->counts[field.number]++] =
				wire_string(&field);
	return 0;
}

int otlp_tables_init(struct otlp_tables *tables, const void *bytes, size_t size, struct error *err)
{
	*tables = (struct otlp_tables){ .err = err };
	struct reader reader = wire_reader(bytes, size);
	bool has_profiles = false, has_dictionary = false;
	struct wire_field field;

	while (wire_next(&reader, &field)) {
		has_profiles |= field.number == 1;
		if (field.number != 2)
			continue;
		if (has_dictionary)
			return otlp_malformed(tables, "dictionary");
		has_dictionary = true;
		int rc = index_dictionary(tables, &field);
		if (rc)
			return rc;
	}
	if (reader.failed)
		return error_set(tables->err, -EBADMSG,
				 "OTLP: not an ExportProfilesServiceRequest of v1development");
	if (has_profiles && !has_dictionary)
		return error_set(tables->err, -EBADMSG,
				 "OTLP: dictionary: missing; the sender's version of OTLP is too "
				 "old: opentelemetry-proto 1.10 or 1.11 is read");
	return has_dictionary ? 0 : allocate(tables);
}

struct wire_text otlp_text_at(const struct otlp_tables *tables, uint64_t index)
{
	return index < tables->counts[OTLP_STRINGS] ? tables->entries[OTLP_STRINGS][index]
						    : (struct wire_text){ "", 0 };
}

// ---- attributes -------------------------------------------------------------------------------

static bool read_any_value(const struct otlp_tables *tables, const struct wire_field *message,
			   struct otlp_attribute *attribute)
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
			attribute->value = otlp_text_at(tables, field.value);
		}
	}
	return !reader.failed;
}

bool otlp_attribute_read(const struct otlp_tables *tables, struct reader reader,
			 struct otlp_attribute *ret_attribute)
{
	struct wire_field field;
	bool is_sound = true;

	*ret_attribute = (struct otlp_attribute){ .name = { "", 0 }, .value = { "", 0 } };
	while (is_sound && wire_next(&reader, &field)) {
		if (field.number == 1 && field.type == WIRE_BYTES)
			ret_attribute->name = wire_string(&field);
		else if ((field.number == 1 || field.number == 3) && field.type == WIRE_VARINT)
			ret_attribute->name = otlp_text_at(tables, field.value);
		else if (field.number == 2)
			is_sound = read_any_value(tables, &field, ret_attribute);
	}
	return is_sound && !reader.failed;
}

static int attribute_at(const struct otlp_tables *tables, uint64_t index,
			struct otlp_attribute *ret_attribute)
{
	if (index >= tables->counts[OTLP_ATTRIBUTES])
		return otlp_no_entry(tables, "attribute_indices", index, OTLP_ATTRIBUTES);
	struct wire_text entry = tables->entries[OTLP_ATTRIBUTES][index];
	if (!otlp_attribute_read(tables, wire_reader(entry.at, entry.size), ret_attribute))
		return otlp_malformed(tables, "attribute_table");
	ret_attribute->index = index;
	return 0;
}

int otlp_attribute_each(const struct otlp_tables *tables, const struct wire_field *field,
			otlp_attribute_fn read, void *context)
{
	struct reader reader = wire_message(field);
	struct otlp_attribute attribute;
	bool is_first = true;
	uint64_t index;
	int rc = 0;

	while (!rc && wire_next_number(field, &reader, &is_first, &index)) {
		rc = attribute_at(tables, index, &attribute);
		if (!rc)
			rc = read(context, &attribute);
	}
	return !rc && reader.failed ? otlp_malformed(tables, "attribute_indices") : rc;
}
