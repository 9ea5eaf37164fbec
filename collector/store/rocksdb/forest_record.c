// SPDX-License-Identifier: Apache-2.0
// Encodes a forest's growth as dictionary records, and decodes them. A record begins with the number
// of its first item, so that a missing record is noticed.
#include "collector/store/rocksdb/forest.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/store/store.h"

struct forest_mark forest_mark_of(const struct forest *forest)
{
	return (struct forest_mark){
		.strings = forest->locations->strings.count,
		.locations = forest->locations->location_count,
		.nodes = forest->node_count,
		.stacks = forest->stack_count,
		.renamed = forest->renamed_count,
	};
}

void forest_saved(struct forest *forest, const struct forest_mark *mark)
{
	if (!mark->renamed)
		return;
	forest->renamed_count -= mark->renamed;
	memmove(forest->renamed, forest->renamed + mark->renamed,
		forest->renamed_count * sizeof(*forest->renamed));
}

static void encode_strings(const struct profile *locations, uint32_t first, struct buffer *record)
{
	const struct string_table *strings = &locations->strings;

	if (first == strings->count)
		return;
	buffer_append_varint(record, first);
	buffer_append_varint(record, strings->count - first);
	for (uint32_t i = first; i < strings->count; i++) {
		const char *string = string_table_get(strings, i);

		buffer_append_varint(record, strlen(string));
		buffer_append_string(record, string);
	}
}

static void encode_location(const struct profile *locations, const struct location *location,
			    struct buffer *record)
{
	uint8_t id[ID128_BYTES];

	id128_encode(location->id, id);
	buffer_append(record, id, sizeof(id));
	buffer_append_byte(record, (uint8_t)location->kind);
	buffer_append_varint(record, location->module);
	buffer_append_varint(record, location->build_id);
	buffer_append_varint(record, location->offset);
	buffer_append_varint(record, location->line_count);
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct line *line = &locations->lines[location->first_line + i];

		buffer_append_varint(record, line->name);
		buffer_append_varint(record, line->file);
		buffer_append_varint(record, line->number);
	}
}

static void encode_locations(const struct forest *forest, uint32_t first, struct buffer *record)
{
	const struct profile *locations = forest->locations;

	if (first == locations->location_count && !forest->renamed_count)
		return;
	buffer_append_varint(record, first);
	buffer_append_varint(record, locations->location_count - first + forest->renamed_count);
	for (uint32_t i = first; i < locations->location_count; i++)
		encode_location(locations, &locations->locations[i], record);
	for (uint32_t i = 0; i < forest->renamed_count; i++)
		encode_location(locations, &locations->locations[forest->renamed[i]], record);
}

static void encode_nodes(const struct forest *forest, uint32_t first, struct buffer *record)
{
	if (first == forest->node_count)
		return;
	buffer_append_varint(record, first);
	buffer_append_varint(record, forest->node_count - first);
	for (uint32_t i = first; i < forest->node_count; i++) {
		uint32_t frame = forest->frames[i];

		// Most nodes follow their parent: a short distance. Ends become negative frames.
		buffer_append_varint(record, i - forest->parents[i]);
		buffer_append_svarint(record, frame >= FOREST_FRAME_END
						      ? -1 - (int64_t)(frame - FOREST_FRAME_END)
						      : (int64_t)frame);
	}
}

static void encode_stacks(const struct forest *forest, uint32_t first, struct buffer *record)
{
	uint8_t id[ID128_BYTES];

	if (first == forest->stack_count)
		return;
	buffer_append_varint(record, first);
	buffer_append_varint(record, forest->stack_count - first);
	for (uint32_t i = first; i < forest->stack_count; i++) {
		id128_encode(forest->stacks[i].id, id);
		buffer_append(record, id, sizeof(id));
		buffer_append_varint(record, forest->stacks[i].node);
	}
}

void forest_encode(const struct forest *forest, enum record_kind kind,
		   const struct forest_mark *mark, struct buffer *record)
{
	switch (kind) {
	case RECORD_STRINGS:
		encode_strings(forest->locations, mark->strings, record);
		break;
	case RECORD_LOCATIONS:
		encode_locations(forest, mark->locations, record);
		break;
	case RECORD_NODES:
		encode_nodes(forest, mark->nodes, record);
		break;
	case RECORD_STACKS:
		encode_stacks(forest, mark->stacks, record);
		break;
	default:
		break;
	}
}

// ---- decoding --------------------------------------------------------------------------------------

static int decode_strings(struct forest *forest, struct reader *reader, uint32_t count)
{
	for (uint32_t i = 0; i < count && !reader->failed; i++) {
		uint64_t size = reader_varint(reader);
		const char *string = reader_bytes(reader, size);
		uint32_t number, expected = forest->locations->strings.count;

		if (!string)
			return -EBADMSG;
		int rc = string_table_add(&forest->locations->strings, string, size, &number);
		if (rc < 0)
			return rc;
		if (number != expected)
			return -EBADMSG;
	}
	return 0;
}

static int decode_line(const struct forest *forest, struct reader *reader, struct line *ret_line)
{
	uint64_t name = reader_varint(reader), file = reader_varint(reader);
	uint64_t number = reader_varint(reader);
	uint32_t strings = forest->locations->strings.count;

	if (name >= strings || file >= strings || number > UINT32_MAX)
		return -EBADMSG;
	*ret_line = (struct line){ (uint32_t)name, (uint32_t)file, (uint32_t)number };
	return 0;
}

static int decode_location(struct forest *forest, struct reader *reader)
{
	const uint8_t *id = reader_bytes(reader, ID128_BYTES);
	const uint8_t *kind = reader_bytes(reader, 1);
	uint64_t module = reader_varint(reader), build_id = reader_varint(reader);
	uint64_t offset = reader_varint(reader), line_count = reader_varint(reader);
	uint32_t strings = forest->locations->strings.count, at;
	struct line lines[LOCATION_LINES_MAX];

	if (reader->failed || module >= strings || build_id >= strings ||
	    line_count > LOCATION_LINES_MAX)
		return -EBADMSG;
	for (uint64_t i = 0; i < line_count; i++)
		if (decode_line(forest, reader, &lines[i]) < 0)
			return -EBADMSG;

	struct location location = {
		.id = id128_decode(id),
		.kind = (enum frame_kind) * kind,
		.module = (uint32_t)module,
		.build_id = (uint32_t)build_id,
		.offset = offset,
	};
	return profile_add_location(forest->locations, &location, lines, (uint32_t)line_count, &at);
}

static int decode_locations(struct forest *forest, struct reader *reader, uint32_t count)
{
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = decode_location(forest, reader);
	return rc;
}

static int decode_nodes(struct forest *forest, struct reader *reader, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t distance = reader_varint(reader);
		int64_t frame = reader_svarint(reader);
		uint32_t node = forest->node_count;
		bool is_end = frame < 0 && frame >= -STACK_END_COUNT;

		if (reader->failed || distance == 0 || distance > node ||
		    (!is_end && (frame < 0 || frame >= forest->locations->location_count)))
			return -EBADMSG;
		int rc = forest_restore_node(forest, node - (uint32_t)distance,
					     is_end ? FOREST_FRAME_END + (uint32_t)(-1 - frame)
						    : (uint32_t)frame);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int decode_stacks(struct forest *forest, struct reader *reader, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *id = reader_bytes(reader, ID128_BYTES);
		uint64_t node = reader_varint(reader);

		if (reader->failed || node >= forest->node_count)
			return -EBADMSG;
		int rc = forest_restore_stack(forest, id128_decode(id), (uint32_t)node);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int decode_items(struct forest *forest, enum record_kind kind, struct reader *reader)
{
	struct forest_mark mark = forest_mark_of(forest);
	uint64_t first = reader_varint(reader), count = reader_varint(reader);

	if (reader->failed || count > reader_left(reader))
		return -EBADMSG; // an item has at least one byte
	switch (kind) {
	case RECORD_STRINGS:
		return first == mark.strings ? decode_strings(forest, reader, (uint32_t)count)
					     : -EBADMSG;
	case RECORD_LOCATIONS:
		return first == mark.locations ? decode_locations(forest, reader, (uint32_t)count)
					       : -EBADMSG;
	case RECORD_NODES:
		return first == mark.nodes ? decode_nodes(forest, reader, (uint32_t)count)
					   : -EBADMSG;
	case RECORD_STACKS:
		return first == mark.stacks ? decode_stacks(forest, reader, (uint32_t)count)
					    : -EBADMSG;
	default:
		return -EBADMSG;
	}
}

int forest_decode(struct forest *forest, enum record_kind kind, struct bytes record,
		  struct error *err)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	int rc = decode_items(forest, kind, &reader);

	if (rc == 0 && (reader.failed || reader_left(&reader)))
		rc = -EBADMSG;
	if (rc == -EBADMSG || rc == -E2BIG)
		return error_set(
			err, -EBADMSG,
			"store: dictionary record of kind %d is damaged; restore the store "
			"from a backup, or move it away",
			kind);
	return rc ? error_set(err, rc, "store: out of memory for a dictionary") : 0;
}
