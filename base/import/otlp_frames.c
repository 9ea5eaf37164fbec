// SPDX-License-Identifier: Apache-2.0
#include "base/import/otlp_frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

#define NONE UINT32_MAX

static int allocate_numbers(uint32_t **array, uint32_t count)
{
	int rc = array_allocate(array, count, sizeof(**array));

	if (!rc)
		memset(*array, 0xff, count * sizeof(**array));
	return rc;
}

int otlp_frames_init(struct otlp_frames *frames, const struct otlp_tables *tables,
		     struct importer *importer)
{
	*frames = (struct otlp_frames){ .tables = tables, .importer = importer };
	int rc = allocate_numbers(&frames->numbers, tables->counts[OTLP_STRINGS]);

	if (!rc)
		rc = allocate_numbers(&frames->locations, tables->counts[OTLP_LOCATIONS]);
	if (!rc)
		rc = allocate_numbers(&frames->stacks, tables->counts[OTLP_STACKS]);
	return rc ? otlp_out_of(tables, rc, "dictionary") : 0;
}

void otlp_frames_deinit(struct otlp_frames *frames)
{
	free(frames->numbers);
	free(frames->locations);
	free(frames->stacks);
}

static int number_of(struct otlp_frames *frames, uint64_t index, const char *field,
		     uint32_t *ret_number)
{
	if (!index) {
		*ret_number = 0;
		return 0;
	}
	if (index >= frames->tables->counts[OTLP_STRINGS])
		return otlp_no_entry(frames->tables, field, index, OTLP_STRINGS);
	if (frames->numbers[index] == NONE) {
		struct wire_text text = frames->tables->entries[OTLP_STRINGS][index];
		int rc = import_string(frames->importer, text.at, text.size,
				       &frames->numbers[index]);

		if (rc)
			return otlp_out_of(frames->tables, rc, field);
	}
	*ret_number = frames->numbers[index];
	return 0;
}

struct mapping {
	struct otlp_frames *frames;
	uint64_t start, limit, offset, file;
	uint32_t build_id; // the importer's string
	int rank;          // of the build id: GNU's is the one that debug files have
};

static int read_build_id(void *context, const struct otlp_attribute *attribute)
{
	static const char *const names[] = { "process.executable.build_id.cairn",
					     "process.executable.build_id.htlhash",
					     "process.executable.build_id.go",
					     "process.executable.build_id.gnu" };
	struct mapping *mapping = context;

	for (int i = 0; i < (int)ARRAY_SIZE(names); i++) {
		if (!otlp_text_is(attribute->name, names[i]) || mapping->rank > i)
			continue;
		mapping->rank = i + 1;
		int rc = import_string(mapping->frames->importer, attribute->value.at,
				       attribute->value.size, &mapping->build_id);
		if (rc)
			return otlp_out_of(mapping->frames->tables, rc, "build ids");
	}
	return 0;
}

static int read_mapping(struct otlp_frames *frames, uint64_t index, struct mapping *ret_mapping)
{
	if (index >= frames->tables->counts[OTLP_MAPPINGS])
		return otlp_no_entry(frames->tables, "location.mapping_index", index,
				     OTLP_MAPPINGS);
	struct wire_text entry = frames->tables->entries[OTLP_MAPPINGS][index];
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
			rc = otlp_attribute_each(frames->tables, &field, read_build_id,
						 ret_mapping);
	}
	return !rc && reader.failed ? otlp_malformed(frames->tables, "mapping_table") : rc;
}

static int read_function(struct otlp_frames *frames, uint64_t index, struct line *line)
{
	if (index >= frames->tables->counts[OTLP_FUNCTIONS])
		return otlp_no_entry(frames->tables, "line.function_index", index, OTLP_FUNCTIONS);
	struct wire_text entry = frames->tables->entries[OTLP_FUNCTIONS][index];
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
		return otlp_malformed(frames->tables, "function_table");
	int rc =
		number_of(frames, name ? name : system_name, "function.name_strindex", &line->name);
	return rc ? rc : number_of(frames, file, "function.filename_strindex", &line->file);
}

static int read_line(struct otlp_frames *frames, const struct wire_field *message,
		     struct line *ret_line)
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
	return reader.failed ? otlp_malformed(frames->tables, "location.lines")
			     : read_function(frames, function, ret_line);
}

static int read_frame_type(void *context, const struct otlp_attribute *attribute)
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

	if (!otlp_text_is(attribute->name, "profile.frame.type"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (otlp_text_is(attribute->value, types[i].type))
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

static int add_location(struct otlp_frames *frames, uint64_t index)
{
	struct wire_text entry = frames->tables->entries[OTLP_LOCATIONS][index];
	struct reader reader = wire_reader(entry.at, entry.size);
	struct location frame = { .kind = FRAME_KIND_UNKNOWN };
	struct line lines[LOCATION_LINES_MAX];
	struct mapping mapping = { .frames = frames };
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
			rc = read_line(frames, &field, &lines[count++]);
		else if (field.number == 4)
			rc = otlp_attribute_each(frames->tables, &field, read_frame_type,
						 &frame.kind);
	}
	if (!rc && reader.failed)
		rc = otlp_malformed(frames->tables, "location_table");
	if (!rc && mapping_index)
		rc = read_mapping(frames, mapping_index, &mapping);
	if (!rc)
		rc = number_of(frames, mapping.file, "mapping.filename_strindex", &frame.module);
	if (rc)
		return rc;
	frame.build_id = mapping.build_id;
	frame.offset = file_offset(&mapping, frame.offset);
	if (count == 1 && !lines[0].name)
		count = 0;
	if (frame.kind == FRAME_KIND_UNKNOWN && frame.module)
		frame.kind = FRAME_KIND_NATIVE;
	rc = import_frame(frames->importer, &frame, lines, count, &frames->locations[index]);
	return rc ? otlp_out_of(frames->tables, rc, "locations") : 0;
}

static int add_stack(struct otlp_frames *frames, uint64_t index)
{
	struct wire_text entry = frames->tables->entries[OTLP_STACKS][index];
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
			if (at >= frames->tables->counts[OTLP_LOCATIONS])
				return otlp_no_entry(frames->tables, "stack.location_indices", at,
						     OTLP_LOCATIONS);
			if (count++ >= STACK_FRAMES_MAX)
				continue;
			if (frames->locations[at] == NONE)
				rc = add_location(frames, at);
			locations[count - 1] = frames->locations[at];
		}
		if (!rc && numbers.failed)
			rc = otlp_malformed(frames->tables, "stack_table");
	}
	if (!rc && reader.failed)
		rc = otlp_malformed(frames->tables, "stack_table");
	if (rc)
		return rc;
	rc = import_stack(frames->importer, locations, count, &frames->stacks[index]);
	return rc ? otlp_out_of(frames->tables, rc, "stacks") : 0;
}

int otlp_frames_stack(struct otlp_frames *frames, uint64_t index, uint32_t *ret_stack)
{
	if (index >= frames->tables->counts[OTLP_STACKS])
		return otlp_no_entry(frames->tables, "sample.stack_index", index, OTLP_STACKS);
	if (frames->stacks[index] == NONE) {
		int rc = add_stack(frames, index);
		if (rc)
			return rc;
	}
	*ret_stack = frames->stacks[index];
	return 0;
}
