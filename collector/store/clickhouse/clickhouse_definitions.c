// SPDX-License-Identifier: Apache-2.0
#include "collector/store/clickhouse/clickhouse_definitions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/store/clickhouse/clickhouse_row.h"
#include "collector/store/clickhouse/clickhouse_sql.h"

struct definitions *definitions_new(void)
{
	struct definitions *definitions = calloc(1, sizeof(*definitions));

	if (!definitions || !(definitions->profile = profile_new(1))) {
		free(definitions);
		return NULL;
	}
	atomic_init(&definitions->refs, 1);
	pthread_mutex_init(&definitions->lock, NULL);
	definitions->made_ns = clock_monotonic_ns();
	return definitions;
}

struct definitions *definitions_ref(struct definitions *definitions)
{
	definitions->refs++;
	return definitions;
}

void definitions_unref(struct definitions *definitions)
{
	if (!definitions || --definitions->refs)
		return;
	profile_free(definitions->profile);
	hash_table_deinit(&definitions->series_index);
	free(definitions);
}

uint64_t definitions_bytes(struct definitions *definitions)
{
	pthread_mutex_lock(&definitions->lock);
	const struct profile *profile = definitions->profile;
	uint64_t bytes = profile->strings.bytes_capacity +
			 (uint64_t)profile->strings.capacity * (sizeof(uint32_t) + 16) +
			 (uint64_t)profile->line_capacity * sizeof(*profile->lines) +
			 (uint64_t)profile->location_capacity * (sizeof(*profile->locations) + 16) +
			 (uint64_t)profile->stack_location_capacity * sizeof(uint32_t) +
			 (uint64_t)profile->stack_capacity * (sizeof(*profile->stacks) + 16) +
			 // Labels are allocated one by one.
			 (uint64_t)profile->series_capacity * (sizeof(*profile->series) + 1024);
	pthread_mutex_unlock(&definitions->lock);
	return bytes;
}

int definitions_copy_location(struct profile *into, const struct profile *from,
			      const struct location *location, uint32_t *ret_location)
{
	struct location copy = *location;
	struct line lines[LOCATION_LINES_MAX];
	uint32_t count = location->line_count < LOCATION_LINES_MAX ? location->line_count
								   : LOCATION_LINES_MAX;
	int rc = profile_add_string(into, profile_string(from, location->module), &copy.module);

	if (!rc)
		rc = profile_add_string(into, profile_string(from, location->build_id),
					&copy.build_id);
	for (uint32_t i = 0; i < count && !rc; i++) {
		const struct line *line = &from->lines[location->first_line + i];

		lines[i].number = line->number;
		rc = profile_add_string(into, profile_string(from, line->name), &lines[i].name);
		if (!rc)
			rc = profile_add_string(into, profile_string(from, line->file),
						&lines[i].file);
	}
	return rc ? rc : profile_add_location(into, &copy, lines, count, ret_location);
}

void definitions_learn(struct definitions *definitions, const struct profile *profile,
		       const struct location *location)
{
	uint32_t at;

	pthread_mutex_lock(&definitions->lock);
	if (profile_find_location(definitions->profile, location->id) != HASH_TABLE_NONE)
		definitions_copy_location(definitions->profile, profile, location, &at);
	pthread_mutex_unlock(&definitions->lock);
}

// ---- locations ------------------------------------------------------------------------------------

static int add_row_string(struct profile *profile, struct row_string string, uint32_t *ret_number)
{
	return string_table_add(&profile->strings, string.at, string.size, ret_number);
}

/** Strings of an array into @member of the lines (0: name, 1: file). */
static int read_line_strings(struct profile *profile, struct reader *reader, struct line *lines,
			     bool is_file, uint32_t *ret_count)
{
	uint64_t count = reader_varint(reader);
	int rc = 0;

	if (count > LOCATION_LINES_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < count && !rc; i++) {
		struct row_string string = row_string(reader);

		if (reader->failed)
			return 0;
		rc = add_row_string(profile, string, is_file ? &lines[i].file : &lines[i].name);
	}
	*ret_count = (uint32_t)count;
	return rc;
}

static int read_location_locked(struct profile *profile, struct reader *reader)
{
	struct location location = { .id = row_id(reader) };
	struct line lines[LOCATION_LINES_MAX] = { 0 };
	uint32_t names = 0, files = 0, numbers = 0, at;

	location.kind = row_u8(reader);
	struct row_string module = row_string(reader), build_id = row_string(reader);
	location.offset = row_u64(reader);
	if (reader->failed)
		return 0;
	int rc = read_line_strings(profile, reader, lines, false, &names);
	if (!rc)
		rc = read_line_strings(profile, reader, lines, true, &files);
	if (rc)
		return rc;
	const uint8_t *line_numbers = row_array(reader, sizeof(uint32_t), &numbers);
	if (reader->failed)
		return 0;
	if (files != names || numbers != names)
		return -EBADMSG;
	for (uint32_t i = 0; i < names; i++)
		lines[i].number = row_array_u32(line_numbers, i);
	rc = add_row_string(profile, module, &location.module);
	if (!rc)
		rc = add_row_string(profile, build_id, &location.build_id);
	return rc ? rc : profile_add_location(profile, &location, lines, names, &at);
}

static int read_location(void *context, struct reader *reader)
{
	struct definitions *definitions = context;

	pthread_mutex_lock(&definitions->lock);
	int rc = read_location_locked(definitions->profile, reader);
	pthread_mutex_unlock(&definitions->lock);
	return rc;
}

// ---- stacks ---------------------------------------------------------------------------------------

/** Stacks as they come, before their locations are known. */
struct fetched {
	struct buffer stacks; // id, end, count, ids of locations
	uint32_t count;
};

static int read_stack(void *context, struct reader *reader)
{
	struct fetched *fetched = context;
	const uint8_t *begin = reader->at;
	uint32_t count;

	row_id(reader);
	row_u8(reader);
	row_array(reader, ID128_BYTES, &count);
	if (reader->failed)
		return 0;
	if (count > STACK_FRAMES_MAX)
		return -EBADMSG;
	buffer_append(&fetched->stacks, begin, (size_t)(reader->at - begin));
	fetched->count++;
	return fetched->stacks.rc;
}

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, ID128_BYTES);
}

/** Sort, and drop what is there twice. Returns how many are left. */
static uint32_t sort_ids(struct id128 *ids, uint32_t count)
{
	uint32_t kept = 0;

	if (count)
		qsort(ids, count, sizeof(*ids), compare_ids);
	for (uint32_t i = 0; i < count; i++)
		if (!kept || !id128_equal(ids[kept - 1], ids[i]))
			ids[kept++] = ids[i];
	return kept;
}

/** The locations that the stacks need and are not here. */
static int list_locations(struct definitions *definitions, const struct fetched *fetched,
			  struct id128 **ret_ids, uint32_t *ret_count)
{
	struct reader reader = { .at = fetched->stacks.bytes,
				 .end = fetched->stacks.bytes + fetched->stacks.size };
	uint32_t capacity = 0, count = 0;
	int rc = 0;

	for (uint32_t i = 0; i < fetched->count && !rc; i++) {
		uint32_t location_count;

		row_id(&reader);
		row_u8(&reader);
		const uint8_t *ids = row_array(&reader, ID128_BYTES, &location_count);
		rc = array_reserve(ret_ids, sizeof(**ret_ids), &capacity, count, location_count,
				   FETCH_IDS_MAX * STACK_FRAMES_MAX);
		for (uint32_t j = 0; j < location_count && !rc; j++) {
			struct id128 id = id128_decode(ids + (size_t)j * ID128_BYTES);

			if (profile_find_location(definitions->profile, id) == HASH_TABLE_NONE)
				(*ret_ids)[count++] = id;
		}
	}
	*ret_count = sort_ids(*ret_ids, count);
	return rc;
}

/** Define the stacks whose locations are all there. */
static int define_stacks(struct profile *profile, const struct fetched *fetched)
{
	struct reader reader = { .at = fetched->stacks.bytes,
				 .end = fetched->stacks.bytes + fetched->stacks.size };
	uint32_t locations[STACK_FRAMES_MAX];
	int rc = 0;

	for (uint32_t i = 0; i < fetched->count && rc == 0; i++) {
		struct id128 id = row_id(&reader);
		enum stack_end end = row_u8(&reader);
		uint32_t count, known = 0, stack;
		const uint8_t *ids = row_array(&reader, ID128_BYTES, &count);

		while (known < count) {
			locations[known] = profile_find_location(
				profile, id128_decode(ids + (size_t)known * ID128_BYTES));
			if (locations[known] == HASH_TABLE_NONE)
				break;
			known++;
		}
		if (known < count)
			continue;
		rc = profile_add_stack_id(profile, id, &stack);
		if (!rc && !profile->stacks[stack].defined)
			rc = profile_define_stack(profile, stack, locations, count, end);
		if (rc == -EBADMSG)
			rc = 0; // it stays unknown
	}
	return rc;
}

static int ask(struct clickhouse_client *client, uint32_t shard, const char *sql,
	       const struct id128 *ids, uint32_t count,
	       int (*row)(void *context, struct reader *reader), void *context,
	       struct deadline *deadline, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i += FETCH_IDS_MAX) {
		const struct clickhouse_request request = {
			.sql = sql,
			.ids = ids + i,
			.id_count = count - i < FETCH_IDS_MAX ? count - i : FETCH_IDS_MAX,
			.row = row,
			.context = context,
			.deadline = deadline,
		};
		rc = clickhouse_ask(client, shard, &request, err);
	}
	return rc;
}

static int no_memory(int rc, struct error *err)
{
	return rc ? error_set(err, rc == -E2BIG ? -EFBIG : rc,
			      rc == -E2BIG ? "store: more stacks than a query can hold; ask for a "
					     "shorter range"
					   : "store: out of memory")
		  : 0;
}

static int fetch_stacks(struct definitions *definitions, struct clickhouse_client *client,
			uint32_t shard, const struct id128 *ids, uint32_t count,
			struct deadline *deadline, struct error *err)
{
	_cleanup_free_ struct id128 *locations = NULL;
	struct fetched fetched = { 0 };
	uint32_t location_count = 0;
	int rc = ask(client, shard, SQL_STACKS, ids, count, read_stack, &fetched, deadline, err);

	if (!rc) {
		pthread_mutex_lock(&definitions->lock);
		rc = list_locations(definitions, &fetched, &locations, &location_count);
		pthread_mutex_unlock(&definitions->lock);
		rc = no_memory(rc, err);
	}
	if (!rc)
		rc = ask(client, shard, SQL_LOCATIONS, locations, location_count, read_location,
			 definitions, deadline, err);
	if (!rc) {
		pthread_mutex_lock(&definitions->lock);
		rc = no_memory(define_stacks(definitions->profile, &fetched), err);
		pthread_mutex_unlock(&definitions->lock);
	}
	buffer_deinit(&fetched.stacks);
	return rc;
}

uint32_t definitions_find_stack(const struct definitions *definitions, struct id128 id)
{
	uint32_t stack;

	// One that is not there is added without a definition.
	if (profile_add_stack_id(definitions->profile, id, &stack) ||
	    !definitions->profile->stacks[stack].defined)
		return HASH_TABLE_NONE;
	return stack;
}

int definitions_fetch_stacks(struct definitions *definitions, struct clickhouse_client *client,
			     uint32_t shard, const struct id128 *ids, uint32_t count,
			     struct deadline *deadline, struct error *err)
{
	_cleanup_free_ struct id128 *missing = calloc(count + 1, sizeof(*missing));
	uint32_t missing_count = 0;
	int rc = 0;

	if (!missing)
		return error_set(err, -ENOMEM, "store: out of memory");
	pthread_mutex_lock(&definitions->lock);
	for (uint32_t i = 0; i < count; i++)
		if (definitions_find_stack(definitions, ids[i]) == HASH_TABLE_NONE)
			missing[missing_count++] = ids[i];
	pthread_mutex_unlock(&definitions->lock);
	for (uint32_t i = 0; i < missing_count && !rc; i += FETCH_IDS_MAX)
		rc = fetch_stacks(definitions, client, shard, missing + i,
				  missing_count - i < FETCH_IDS_MAX ? missing_count - i
								    : FETCH_IDS_MAX,
				  deadline, err);
	return rc;
}

// ---- series ---------------------------------------------------------------------------------------

static bool series_equal(const void *context, uint32_t item, const void *key)
{
	const struct definitions *definitions = context;

	return id128_equal(definitions->profile->series[item].id, *(const struct id128 *)key);
}

uint32_t definitions_find_series(const struct definitions *definitions, struct id128 id)
{
	return hash_table_find(&definitions->series_index, id128_hash(id), series_equal,
			       definitions, &id);
}

static int copy_text(struct row_string string, char *text, size_t size)
{
	if (string.size >= size)
		return -EBADMSG;
	memcpy(text, string.at, string.size);
	text[string.size] = '\0';
	return 0;
}

/** Names, then values. A name or value that no agent could have sent is malformed. */
static int read_labels(struct reader *reader, struct labels *labels)
{
	char names[LABELS_MAX][LABEL_NAME_BYTES_MAX + 1], value[LABEL_VALUE_BYTES_MAX + 1];
	uint64_t count = reader_varint(reader);
	int rc = count > LABELS_MAX ? -EBADMSG : 0;

	for (uint64_t i = 0; i < count && !rc; i++) {
		struct row_string name = row_string(reader);

		if (reader->failed)
			return 0;
		rc = copy_text(name, names[i], sizeof(names[i]));
	}
	uint64_t value_count = reader_varint(reader);
	if (!rc && !reader->failed && value_count != count)
		rc = -EBADMSG;
	for (uint64_t i = 0; i < count && !rc && !reader->failed; i++) {
		struct row_string text = row_string(reader);

		if (reader->failed)
			return 0;
		rc = copy_text(text, value, sizeof(value));
		if (!rc)
			rc = labels_set(labels, names[i], value);
	}
	return rc == -EINVAL || rc == -E2BIG ? -EBADMSG : rc;
}

static int add_series(struct definitions *definitions, struct id128 id, const struct labels *labels,
		      const char *type)
{
	uint32_t at;
	int rc = 0;

	if (!id128_equal(series_id_of(labels, type), id))
		return 0; // it stays unknown
	pthread_mutex_lock(&definitions->lock);
	if (definitions_find_series(definitions, id) == HASH_TABLE_NONE) {
		rc = profile_add_series(definitions->profile, labels, type, &at);
		if (!rc)
			rc = hash_table_add(&definitions->series_index, id128_hash(id), at);
	}
	pthread_mutex_unlock(&definitions->lock);
	return rc;
}

static int read_series(void *context, struct reader *reader)
{
	struct labels labels = { 0 };
	struct id128 id = row_id(reader);
	struct row_string string = row_string(reader);
	char type[LABEL_VALUE_BYTES_MAX + 1];

	if (reader->failed)
		return 0;
	int rc = copy_text(string, type, sizeof(type));
	if (!rc)
		rc = read_labels(reader, &labels);
	if (!rc && !reader->failed)
		rc = add_series(context, id, &labels, type);
	labels_deinit(&labels);
	return rc;
}

int definitions_fetch_series(struct definitions *definitions, struct clickhouse_client *client,
			     uint32_t shard, const struct id128 *ids, uint32_t count,
			     struct deadline *deadline, struct error *err)
{
	_cleanup_free_ struct id128 *missing = calloc(count + 1, sizeof(*missing));
	uint32_t missing_count = 0;

	if (!missing)
		return error_set(err, -ENOMEM, "store: out of memory");
	pthread_mutex_lock(&definitions->lock);
	for (uint32_t i = 0; i < count; i++)
		if (definitions_find_series(definitions, ids[i]) == HASH_TABLE_NONE)
			missing[missing_count++] = ids[i];
	pthread_mutex_unlock(&definitions->lock);
	return ask(client, shard, SQL_SERIES_BY_ID, missing, missing_count, read_series,
		   definitions, deadline, err);
}
