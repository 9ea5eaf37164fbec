// SPDX-License-Identifier: Apache-2.0
#include "base/export/speedscope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_type.h"
#include "base/export/named_stacks.h"
#include "base/export/thread_rows.h"
#include "base/json_text.h"
#include "base/saturating.h"
#include "base/version.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

/** Samples refer to frames by number: profiles are written first, and then the frames that they have. */
struct writer {
	const struct profile *profile;
	const char *type;
	const char *unit;
	struct named_stacks stacks;
	struct buffer *buffer;
	struct buffer weights; // of the profile being written, as text
	int64_t total;
	uint32_t samples, profiles;
	int64_t total_max; // the profile that is shown first
	uint32_t active;
};

static void writer_deinit(struct writer *writer)
{
	named_stacks_deinit(&writer->stacks);
	buffer_deinit(&writer->weights);
}

static const char *unit_of(const char *unit)
{
	return strcmp(unit, "nanoseconds") == 0 || strcmp(unit, "bytes") == 0 ? unit : "none";
}

static void begin_profile(struct writer *writer, const char *name, const char *thread)
{
	struct buffer *buffer = writer->buffer;
	_cleanup_(buffer_deinit) struct buffer title = { 0 };

	buffer_append_string(&title, name);
	if (*thread && strcmp(name, thread) != 0)
		buffer_printf(&title, " / %s", thread);
	buffer_append_string(buffer, writer->profiles++ ? ",\n" : "\n");
	buffer_append_string(buffer, "{\"type\":\"sampled\",\"name\":");
	json_append_string(buffer, buffer_string(&title));
	buffer_append_string(buffer, ",\"unit\":\"");
	buffer_append_string(buffer, writer->unit);
	buffer_append_string(buffer, "\",\"startValue\":0,\"samples\":[");
	buffer_clear(&writer->weights);
	writer->total = 0;
	writer->samples = 0;
}

static void end_profile(struct writer *writer)
{
	struct buffer *buffer = writer->buffer;

	buffer_append_string(buffer, "],\"weights\":[");
	buffer_append(buffer, writer->weights.bytes, writer->weights.size);
	buffer_append_string(buffer, "],\"endValue\":");
	json_append_int(buffer, writer->total);
	buffer_append_byte(buffer, '}');
	if (writer->total > writer->total_max) {
		writer->total_max = writer->total;
		writer->active = writer->profiles - 1;
	}
	if (writer->weights.rc && !buffer->rc)
		buffer->rc = writer->weights.rc;
}

/** @root: the number of a frame that stands before the stack's, UINT32_MAX: none. */
static int append_sample(struct writer *writer, uint32_t stack, uint32_t root, int64_t value)
{
	struct buffer *buffer = writer->buffer;
	bool is_first = true;
	int rc = named_stacks_read(&writer->stacks, stack);

	if (rc)
		return rc;
	buffer_append_string(buffer, writer->samples ? ",[" : "[");
	if (root != UINT32_MAX) {
		json_append_uint(buffer, root);
		is_first = false;
	}
	for (uint32_t i = 0; i < writer->stacks.frame_count; i++) {
		if (!is_first)
			buffer_append_byte(buffer, ',');
		is_first = false;
		json_append_uint(buffer, writer->stacks.frames[i].function);
	}
	buffer_append_byte(buffer, ']');
	if (writer->samples++)
		buffer_append_byte(&writer->weights, ',');
	json_append_int(&writer->weights, value);
	writer->total = add_saturating(writer->total, value);
	return buffer->rc;
}

// ---- samples --------------------------------------------------------------------------------

static bool has_time(const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->sample_count; i++)
		if (profile->samples[i].slot)
			return true;
	return false;
}

static int append_threads(struct writer *writer)
{
	_cleanup_(thread_rows_deinit) struct thread_rows rows = { 0 };
	_cleanup_free_ uint32_t *order = NULL;
	uint32_t count = 0, row = UINT32_MAX;
	int rc = thread_rows_init(&rows, writer->profile, writer->type);

	if (!rc)
		rc = thread_rows_order(&rows, writer->profile, writer->type, &order, &count);
	for (uint32_t i = 0; !rc && i < count; i++) {
		const struct sample *sample = &writer->profile->samples[order[i]];

		if (rows.of_series[sample->series] != row) {
			if (row != UINT32_MAX)
				end_profile(writer);
			row = rows.of_series[sample->series];
			begin_profile(writer,
				      string_table_get(&rows.strings, rows.rows[row].process_name),
				      string_table_get(&rows.strings, rows.rows[row].thread_name));
		}
		rc = append_sample(writer, sample->stack, UINT32_MAX, sample->value);
	}
	if (!rc && count)
		end_profile(writer);
	return rc;
}

static int append_merged(struct writer *writer, const char *title)
{
	const struct profile *profile = writer->profile;
	uint32_t type_number = string_table_find(&profile->strings, writer->type);
	int rc = 0;

	begin_profile(writer, title, "");
	for (uint32_t i = 0; !rc && i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		const struct series *series = &profile->series[sample->series];
		const char *process = labels_get(&series->labels, LABEL_PROCESS);
		uint32_t root;

		if (series->type != type_number)
			continue;
		rc = named_stacks_add(&writer->stacks, process ? process : "[unknown process]",
				      &root);
		if (!rc)
			rc = append_sample(writer, sample->stack, root, sample->value);
	}
	end_profile(writer);
	return rc;
}

// ---- the whole ------------------------------------------------------------------------------

static void append_frames(struct writer *writer)
{
	struct buffer *buffer = writer->buffer;

	for (uint32_t i = 0; i < writer->stacks.function_count; i++) {
		const char *file = named_function_file(&writer->stacks, i);

		buffer_append_string(buffer, i ? ",\n{\"name\":" : "\n{\"name\":");
		json_append_string(buffer, named_function_name(&writer->stacks, i));
		if (*file) {
			buffer_append_string(buffer, ",\"file\":");
			json_append_string(buffer, file);
		}
		buffer_append_byte(buffer, '}');
	}
}

int speedscope_encode(const struct profile *profile, const char *type, const char *title,
		      struct buffer *buffer)
{
	_cleanup_(writer_deinit) struct writer writer = {
		.profile = profile,
		.type = type,
		.buffer = buffer,
	};
	struct profile_type parts;
	int rc = profile_type_parse(type, &parts, NULL);

	if (!rc)
		rc = named_stacks_init(&writer.stacks, profile);
	if (rc)
		return rc;
	writer.unit = unit_of(parts.sample_unit);
	buffer_append_string(buffer, "{\"$schema\":\"" SCHEMA "\",\"name\":");
	json_append_string(buffer, title);
	buffer_append_string(buffer, ",\"exporter\":\"cairn " CAIRN_VERSION "\",\"profiles\":[");
	rc = has_time(profile) ? append_threads(&writer) : append_merged(&writer, title);
	if (rc)
		return rc;
	buffer_append_string(buffer, "],\"activeProfileIndex\":");
	json_append_uint(buffer, writer.active);
	buffer_append_string(buffer, ",\"shared\":{\"frames\":[");
	append_frames(&writer);
	buffer_append_string(buffer, "]}}\n");
	return buffer->rc;
}
