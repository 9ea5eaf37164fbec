// SPDX-License-Identifier: Apache-2.0
// The tables of OTLP's dictionary, indexed in place, and the attributes that refer to them. Functions that return int fill the
// tables' error.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/contract/otlp_table.h"
#include "base/error.h"
#include "base/import/wire.h"

enum { OTLP_NUMBER_BYTES = 32 };

struct otlp_tables {
	struct error *err;
	struct wire_text *entries[OTLP_TABLES];
	uint32_t counts[OTLP_TABLES];
};

/**
 * Index the dictionary of an ExportProfilesServiceRequest of @size bytes, which outlive the tables. Returns 0, -EBADMSG or -ENOMEM.
 * The tables are to be freed after a failure, too.
 */
int otlp_tables_init(struct otlp_tables *tables, const void *bytes, size_t size, struct error *err);
void otlp_tables_deinit(struct otlp_tables *tables);

/** A string; "" if there is none at @index. */
struct wire_text otlp_text_at(const struct otlp_tables *tables, uint64_t index);

static inline bool otlp_text_is(struct wire_text text, const char *wanted)
{
	return text.size == strlen(wanted) && memcmp(text.at, wanted, text.size) == 0;
}

/** A name and a value as text. */
struct otlp_attribute {
	struct wire_text name, value;
	uint64_t index; // in its table
	char number[OTLP_NUMBER_BYTES];
};

/** Read a KeyValue (its key's index is field 3), or a KeyValueAndUnit (field 1). False: it is malformed. */
bool otlp_attribute_read(const struct otlp_tables *tables, struct reader reader,
			 struct otlp_attribute *ret_attribute);

typedef int (*otlp_attribute_fn)(void *context, const struct otlp_attribute *attribute);

/** Call @read with each attribute of a field of indices, until one returns an error. */
int otlp_attribute_each(const struct otlp_tables *tables, const struct wire_field *field,
			otlp_attribute_fn read, void *context);

/** -EBADMSG: @what is malformed. */
int otlp_malformed(const struct otlp_tables *tables, const char *what);
/** -EBADMSG: @field has @index, which @table has no entry for. */
int otlp_no_entry(const struct otlp_tables *tables, const char *field, uint64_t index,
		  enum otlp_table table);
/** @rc, which base/profile returned for @what. */
int otlp_out_of(const struct otlp_tables *tables, int rc, const char *what);
