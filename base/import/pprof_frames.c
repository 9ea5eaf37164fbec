// SPDX-License-Identifier: Apache-2.0
#include "base/import/pprof_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

int pprof_frames_init(struct pprof_frames *frames, const struct pprof_tables *tables,
		      struct importer *importer)
{
	*frames = (struct pprof_frames){ .tables = tables, .importer = importer };
	uint32_t strings = tables->counts[PPROF_STRING], locations = tables->counts[PPROF_LOCATION];

	if (array_allocate(&frames->numbers, strings, sizeof(*frames->numbers)) ||
	    array_allocate(&frames->locations, locations, sizeof(*frames->locations)))
		return pprof_out_of(tables, -ENOMEM, "tables");
	memset(frames->numbers, 0xff, strings * sizeof(*frames->numbers));
	memset(frames->locations, 0xff, locations * sizeof(*frames->locations));
	return 0;
}

void pprof_frames_deinit(struct pprof_frames *frames)
{
	free(frames->numbers);
	free(frames->locations);
}

static int number_of(struct pprof_frames *frames, uint64_t string, uint32_t *ret_number)
{
	if (string >= frames->tables->counts[PPROF_STRING])
		return pprof_malformed(frames->tables, "a string's number");
	if (frames->numbers[string] == PPROF_NONE) {
		int rc = import_string(frames->importer, frames->tables->strings[string].at,
				       frames->tables->strings[string].size,
				       &frames->numbers[string]);
		if (rc)
			return pprof_out_of(frames->tables, rc, "strings");
	}
	*ret_number = frames->numbers[string];
	return 0;
}

static int read_line(struct pprof_frames *frames, const struct wire_field *message,
		     struct line *ret_line)
{
	uint64_t values[3] = { 0 };

	if (!pprof_read_numbers(message, values, ARRAY_SIZE(values)))
		return pprof_malformed(frames->tables, "location.line");
	uint32_t at = pprof_find_id(&frames->tables->function_index, values[1]);
	if (at == PPROF_NONE)
		return error_set(frames->tables->err, -EBADMSG,
				 "pprof: location.line.function_id: %llu is no function's id",
				 (unsigned long long)values[1]);
	ret_line->number = values[2] <= UINT32_MAX ? (uint32_t)values[2] : 0;
	int rc = number_of(frames, frames->tables->functions[at].name, &ret_line->name);
	return rc ? rc : number_of(frames, frames->tables->functions[at].file, &ret_line->file);
}

static int add_mapping(struct pprof_frames *frames, uint64_t id, uint64_t address,
		       struct location *frame)
{
	uint32_t at = id ? pprof_find_id(&frames->tables->mapping_index, id) : PPROF_NONE;

	frame->offset = address;
	if (at == PPROF_NONE)
		return 0;
	const struct pprof_mapping *mapping = &frames->tables->mappings[at];
	if (address >= mapping->start && (!mapping->limit || address < mapping->limit))
		frame->offset = address - mapping->start + mapping->offset;
	int rc = number_of(frames, mapping->file, &frame->module);
	return rc ? rc : number_of(frames, mapping->build_id, &frame->build_id);
}

static bool ends_in_py(const struct profile *profile, uint32_t file)
{
	const char *text = profile_string(profile, file);
	size_t size = strlen(text);

	return size > 3 && strcmp(text + size - 3, ".py") == 0;
}

int pprof_frames_add(struct pprof_frames *frames, uint32_t at)
{
	const struct pprof_location *location = &frames->tables->locations[at];
	struct reader reader = wire_reader(location->bytes.at, location->bytes.size);
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
			rc = read_line(frames, &field, &lines[count++]);
	}
	if (!rc && reader.failed)
		rc = pprof_malformed(frames->tables, "location");
	if (!rc)
		rc = add_mapping(frames, mapping, address, &frame);
	if (rc)
		return rc;
	if (count == 1 && !lines[0].name)
		count = 0; // a function without a name
	if (count && ends_in_py(frames->importer->profile, lines[0].file))
		frame.kind = FRAME_KIND_PYTHON;
	else if (frame.module || frame.build_id)
		frame.kind = FRAME_KIND_NATIVE;
	rc = import_frame(frames->importer, &frame, lines, count, &frames->locations[at]);
	return rc ? pprof_out_of(frames->tables, rc, "locations") : 0;
}
