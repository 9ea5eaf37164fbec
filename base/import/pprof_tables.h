// SPDX-License-Identifier: Apache-2.0
// The tables of a profile.proto message, in place. Functions that return int fill the tables' error.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/import/importer.h"
#include "base/import/wire.h"

// Field numbers of perftools.profiles.
enum pprof_field {
	PPROF_SAMPLE_TYPE = 1,
	PPROF_SAMPLE = 2,
	PPROF_MAPPING = 3,
	PPROF_LOCATION = 4,
	PPROF_FUNCTION = 5,
	PPROF_STRING = 6,
	PPROF_TIME = 9,
	PPROF_DURATION = 10,
	PPROF_PERIOD_TYPE = 11,
	PPROF_FIELDS = 15,
};

#define PPROF_NONE UINT32_MAX

struct pprof_id {
	uint64_t id;
	uint32_t at;
};

/** From ids to positions: an array if ids are small, as most writers' are, else sorted. */
struct pprof_ids {
	uint32_t *dense;
	uint64_t dense_count;
	struct pprof_id *sorted;
	uint32_t sorted_count;
};

/** Strings by their positions. */
struct pprof_function {
	uint64_t id, name, file;
};

struct pprof_mapping {
	uint64_t id, start, limit, offset, file, build_id;
};

struct pprof_location {
	uint64_t id;
	struct wire_text bytes;
};

struct pprof_type {
	uint64_t type, unit;
};

struct pprof_tables {
	struct error *err;
	uint32_t counts[PPROF_FIELDS]; // of each field
	struct wire_text *strings;
	struct pprof_function *functions;
	struct pprof_mapping *mappings;
	struct pprof_location *locations;
	struct pprof_ids function_index, mapping_index, location_index;
	struct pprof_type types[IMPORT_TYPES_MAX];
	struct pprof_type period;
	uint64_t time_ns, duration_ns;
};

/**
 * Read the tables of a message of @size bytes, which outlive them. Returns 0, -EBADMSG or -ENOMEM. The tables are to be freed after
 * a failure, too.
 */
int pprof_tables_init(struct pprof_tables *tables, const void *bytes, size_t size,
		      struct error *err);
void pprof_tables_deinit(struct pprof_tables *tables);

/** A string; "" if there is none at @index. */
struct wire_text pprof_text_at(const struct pprof_tables *tables, uint64_t index);

uint32_t pprof_find_sorted(const struct pprof_ids *index, uint64_t id);

/** The position of what has @id, or PPROF_NONE. */
static inline uint32_t pprof_find_id(const struct pprof_ids *index, uint64_t id)
{
	if (index->dense)
		return id < index->dense_count ? index->dense[id] : PPROF_NONE;
	return pprof_find_sorted(index, id);
}

/** Read the numbers of a message into @ret_values by field number, of those below @count. False: it is malformed. */
bool pprof_read_numbers(const struct wire_field *message, uint64_t *ret_values, uint32_t count);

/** -EBADMSG: @what is malformed. */
int pprof_malformed(const struct pprof_tables *tables, const char *what);
/** @rc, which base/profile returned for @what. */
int pprof_out_of(const struct pprof_tables *tables, int rc, const char *what);
