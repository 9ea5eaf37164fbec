// SPDX-License-Identifier: Apache-2.0
#include "base/import/importer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/label_patterns.h"
#include "base/text.h"
#include "base/utf8.h"

#define MINUTE_NS    (60 * NS_PER_SECOND)
#define MINUTE_SLOTS (MINUTE_NS / IMPORT_SLOT_NS)

int importer_init(struct importer *importer, uint64_t now_ns, uint64_t rows_max)
{
	*importer = (struct importer){ .now_ns = now_ns, .rows_max = rows_max };
	importer->profile = profile_new(IMPORT_SLOT_NS);
	return importer->profile ? 0 : -ENOMEM;
}

void importer_deinit(struct importer *importer)
{
	profile_free(importer->profile);
	importer->profile = NULL;
}

int import_failed(int rc, struct error *err, const char *where)
{
	if (rc == -E2BIG)
		return error_set(err, rc, "%s: too many, or a stack too deep; push less at once",
				 where);
	return error_errno(err, rc, "%s", where);
}

int import_string(struct importer *importer, const char *text, size_t size, uint32_t *ret_number)
{
	if (size > STRING_BYTES_MAX)
		size = utf8_cut(text, size, STRING_BYTES_MAX);
	return string_table_add(&importer->profile->strings, text, size, ret_number);
}

// ---- frames ---------------------------------------------------------------------------------

static struct id128 line_id(const struct profile *profile, enum frame_kind kind,
			    const struct line *line)
{
	return location_id_of_line(kind, profile_string(profile, line->name),
				   profile_string(profile, line->file), line->number);
}

// The lines' and the module's: names that somebody else gives the same code do not change it.
static struct id128 named_id(const struct profile *profile, const struct location *frame,
			     const struct line *lines, uint32_t count)
{
	struct id128 ids[LOCATION_LINES_MAX + 1];

	if (count == 1 && !frame->module)
		return line_id(profile, frame->kind, lines);
	for (uint32_t i = 0; i < count; i++)
		ids[i] = line_id(profile, frame->kind, &lines[i]);
	ids[count] =
		location_id_of_line(frame->kind, profile_string(profile, frame->module), "", 0);
	return id128_of(ids, (count + 1) * sizeof(*ids));
}

int import_frame(struct importer *importer, const struct location *frame, const struct line *lines,
		 uint32_t line_count, uint32_t *ret_location)
{
	struct profile *profile = importer->profile;
	struct location location = *frame;

	if (line_count > LOCATION_LINES_MAX)
		line_count = LOCATION_LINES_MAX; // the innermost
	if (line_count) {
		location.build_id = 0;
		location.offset = 0;
		location.id = named_id(profile, frame, lines, line_count);
	} else {
		uint32_t module = frame->build_id ? frame->build_id : frame->module;

		location.id = location_id_of_offset(frame->kind, profile_string(profile, module),
						    frame->offset);
	}
	return profile_add_location(profile, &location, lines, line_count, ret_location);
}

// "name (file.py:12)": py-spy's and our own way to write a Python frame.
static bool split_python(const char *text, size_t size, size_t *ret_name_size,
			 const char **ret_file, size_t *ret_file_size, uint32_t *ret_number)
{
	uint64_t number = 0;
	size_t at = size;

	if (size < 5 || text[size - 1] != ')')
		return false;
	for (at = size - 2; at > 0 && text[at] >= '0' && text[at] <= '9'; at--)
		;
	for (size_t i = at + 1; i < size - 1 && number <= UINT32_MAX; i++)
		number = number * 10 + (uint64_t)(text[i] - '0');
	if (text[at] != ':' || at + 2 > size - 1 || number > UINT32_MAX)
		return false;
	size_t file_end = at;
	while (at > 1 && !(text[at - 1] == '(' && text[at - 2] == ' '))
		at--;
	// "<frozen runpy>" and "<string>" are Python's files, too.
	if (at < 3 || file_end - at < 4 ||
	    (memcmp(text + file_end - 3, ".py", 3) != 0 &&
	     (text[at] != '<' || text[file_end - 1] != '>')))
		return false;
	*ret_name_size = at - 2;
	*ret_file = text + at;
	*ret_file_size = file_end - at;
	*ret_number = (uint32_t)number;
	return true;
}

int import_named_frame(struct importer *importer, const char *name, size_t size,
		       uint32_t *ret_location)
{
	static const char kernel[] = "_[k]";
	struct location frame = { .kind = FRAME_KIND_UNKNOWN };
	struct line line = { 0 };
	const char *file = "";
	size_t file_size = 0;

	if (size > strlen(kernel) &&
	    memcmp(name + size - strlen(kernel), kernel, strlen(kernel)) == 0) {
		frame.kind = FRAME_KIND_KERNEL;
		size -= strlen(kernel);
	} else if (split_python(name, size, &size, &file, &file_size, &line.number)) {
		frame.kind = FRAME_KIND_PYTHON;
	}
	int rc = import_string(importer, name, size, &line.name);
	if (!rc)
		rc = import_string(importer, file, file_size, &line.file);
	return rc ? rc : import_frame(importer, &frame, &line, 1, ret_location);
}

int import_stack(struct importer *importer, const uint32_t *locations, size_t count,
		 uint32_t *ret_stack)
{
	bool is_cut = count > STACK_FRAMES_MAX;

	importer->cut_stacks += is_cut;
	return profile_add_stack(importer->profile, locations,
				 is_cut ? STACK_FRAMES_MAX : (uint32_t)count,
				 is_cut ? STACK_END_DEPTH : STACK_END_COMPLETE, ret_stack);
}

// ---- time -----------------------------------------------------------------------------------

int import_time_set(struct import_time *time, uint64_t from_ns, uint64_t to_ns, struct error *err)
{
	if (from_ns > INT64_MAX || to_ns > INT64_MAX)
		return error_set(err, -EINVAL, "time: %llu ns is beyond the year 2262",
				 (unsigned long long)(from_ns > to_ns ? from_ns : to_ns));
	if (to_ns > from_ns && to_ns - from_ns > IMPORT_NS_MAX)
		return error_set(err, -EINVAL,
				 "time: the profile covers %llu s, expected at most %d minutes; "
				 "push shorter ones",
				 (unsigned long long)((to_ns - from_ns) / NS_PER_SECOND),
				 IMPORT_MINUTES_MAX);
	uint64_t slot = from_ns / IMPORT_SLOT_NS, end = slot + 1;

	if (to_ns > from_ns)
		end = (to_ns + IMPORT_SLOT_NS - 1) / IMPORT_SLOT_NS;
	*time = (struct import_time){ .from_ns = from_ns,
				      .to_ns = to_ns > from_ns ? to_ns : from_ns + IMPORT_SLOT_NS,
				      .slot_count = end - slot };
	while (slot < end) {
		uint64_t minute_end = (slot / MINUTE_SLOTS + 1) * MINUTE_SLOTS;
		uint64_t part_end = end < minute_end ? end : minute_end;

		time->parts[time->part_count].slot = slot;
		time->parts[time->part_count++].slot_count = (uint32_t)(part_end - slot);
		slot = part_end;
	}
	return 0;
}

static int check_row(const struct importer *importer, int64_t value, struct error *err)
{
	if (value > IMPORT_VALUE_MAX || value < -IMPORT_VALUE_MAX)
		return error_set(err, -EINVAL, "value: %lld is larger than 2^53", (long long)value);
	if (importer->profile->sample_count >= importer->rows_max)
		return error_set(err, -E2BIG,
				 "more than %llu rows of time and stack: push shorter profiles, "
				 "or with fewer labels",
				 (unsigned long long)importer->rows_max);
	return 0;
}

int import_interval(struct importer *importer, uint32_t series, uint32_t stack, uint64_t from_ns,
		    uint64_t to_ns, int64_t value, struct error *err)
{
	uint64_t span_ns = to_ns > from_ns ? to_ns - from_ns : 0;
	uint64_t begin_ns = from_ns;
	struct import_time time;
	int64_t given = 0;

	for (;;) {
		bool is_last = to_ns <= begin_ns || to_ns - begin_ns <= IMPORT_NS_MAX;
		uint64_t end_ns = is_last ? to_ns : begin_ns + IMPORT_NS_MAX;
		int rc = import_time_set(&time, begin_ns, end_ns, err);
		int64_t until = is_last ? value
					: (int64_t)((__int128)value * (__int128)(end_ns - from_ns) /
						    (__int128)span_ns);
		if (!rc)
			rc = import_row(importer, series, stack, &time, until - given, err);
		import_cover(importer, &time);
		if (rc || is_last)
			return rc;
		given = until;
		begin_ns = end_ns;
	}
}

int import_row(struct importer *importer, uint32_t series, uint32_t stack,
	       const struct import_time *time, int64_t value, struct error *err)
{
	int64_t given = 0;
	uint64_t slots = 0;

	for (uint32_t i = 0; i < time->part_count; i++) {
		slots += time->parts[i].slot_count;
		// The parts add up to the value, however they are rounded: of all slots it is all of it.
		int64_t until =
			(int64_t)((__int128)value * (int64_t)slots / (int64_t)time->slot_count);
		int64_t part = until - given;

		given = until;
		if (!part)
			continue;
		int rc = check_row(importer, value, err);
		if (rc)
			return rc;
		rc = profile_add_interval(importer->profile, series, stack, time->parts[i].slot,
					  time->parts[i].slot_count - 1, part);
		if (rc)
			return error_errno(err, rc, "samples");
	}
	return 0;
}

void import_cover(struct importer *importer, const struct import_time *time)
{
	struct profile *profile = importer->profile;

	if (!profile->to_ns || time->from_ns < profile->from_ns)
		profile->from_ns = time->from_ns;
	if (time->to_ns > profile->to_ns)
		profile->to_ns = time->to_ns;
}

// ---- types and labels -----------------------------------------------------------------------

// Names that Pyroscope's clients give the profiles of these sample types.
static const struct {
	const char *sample_type, *name;
	bool is_gauge;
} known[] = {
	{ "cpu", "process_cpu", false },     { "samples", "process_cpu", false },
	{ "wall", "wall", false },           { "inuse_objects", "memory", true },
	{ "inuse_space", "memory", true },   { "alloc_objects", "memory", false },
	{ "alloc_space", "memory", false },  { "goroutine", "goroutine", true },
	{ "goroutines", "goroutine", true }, { "contentions", "mutex", false },
	{ "delay", "mutex", false },         { "lock_count", "mutex", false },
	{ "lock_time", "mutex", false },     { "exceptions", "exceptions", false },
};

// A part of a type is [a-z0-9_.]-like: without colons and blanks, and not empty.
static void append_part(char *text, size_t *at, const char *part, const char *otherwise)
{
	size_t count = 0;

	if (*at)
		text[(*at)++] = ':';
	if (!part || !*part)
		part = otherwise;
	for (; *part && count < PROFILE_TYPE_PART_BYTES - 1; part++, count++) {
		unsigned char byte = (unsigned char)*part;
		bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
				(byte >= '0' && byte <= '9') || strchr("_-./", byte);

		text[(*at)++] = is_plain ? (char)byte : '_';
	}
	text[*at] = '\0';
}

void import_type_make(const struct import_source *source, const char *sample_type, const char *unit,
		      const char *period_type, const char *period_unit,
		      struct import_type *ret_type)
{
	const char *name = source->name;
	struct import_type type = { 0 };
	size_t at = 0;

	if (source->type) {
		snprintf(type.text, sizeof(type.text), "%s", source->type);
		type.is_gauge = profile_type_is_gauge(type.text);
		*ret_type = type;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].sample_type, sample_type) != 0)
			continue;
		name = name && *name ? name : known[i].name;
		type.is_gauge = known[i].is_gauge;
	}
	append_part(type.text, &at, name, *sample_type ? sample_type : "profile");
	append_part(type.text, &at, sample_type, "samples");
	append_part(type.text, &at, unit, "count");
	append_part(type.text, &at, type.is_gauge ? "gauge" : period_type,
		    *sample_type ? sample_type : "samples");
	append_part(type.text, &at, type.is_gauge ? "second" : period_unit,
		    unit && *unit ? unit : "count");
	*ret_type = type;
}

int import_gauge_value(const struct import_time *time, int64_t value, int64_t *ret_value)
{
	uint64_t ns = time->to_ns - time->from_ns;
	__int128 sum;

	if (ns < NS_PER_SECOND)
		ns = NS_PER_SECOND;
	sum = (__int128)value * (int64_t)ns / (int64_t)NS_PER_SECOND;
	if (sum > IMPORT_VALUE_MAX || sum < -IMPORT_VALUE_MAX)
		return -ERANGE;
	*ret_value = (int64_t)sum;
	return 0;
}

bool import_label(struct labels *labels, const char *name, size_t name_size, const char *value,
		  size_t value_size)
{
	char name_text[LABEL_NAME_BYTES_MAX + 1], value_text[LABEL_VALUE_BYTES_MAX + 1];

	if (!name_size || name_size >= sizeof(name_text) || !value_size)
		return false;
	snprintf(name_text, sizeof(name_text), "%.*s", (int)name_size, name);
	snprintf(value_text, sizeof(value_text), "%.*s",
		 (int)(value_size < sizeof(value_text) ? value_size : sizeof(value_text) - 1),
		 value);
	// Pyroscope's private ones are not labels: __name__, __session_id__ ...
	if (text_begins_with(name_text, "__") || !*name_text)
		return false;
	if (strcmp(name_text, "service_name") == 0 || strcmp(name_text, "service.name") == 0)
		snprintf(name_text, sizeof(name_text), LABEL_SERVICE);
	label_name_from(name_text, sizeof(name_text));
	// Whose the series is, and what was left out of it, the collector alone says.
	if (strcmp(name_text, LABEL_TENANT) == 0 || strcmp(name_text, LABEL_OTHER) == 0)
		return false;
	return labels_set(labels, name_text, value_text) == 0;
}

static int set_default(struct labels *labels, const char *name, const char *value)
{
	char text[LABEL_VALUE_BYTES_MAX + 1];

	if (labels_get(labels, name))
		return 0;
	snprintf(text, sizeof(text), "%s", value);
	return labels_set(labels, name, text);
}

int import_finish_labels(struct labels *labels)
{
	int rc = set_default(labels, LABEL_SERVICE, IMPORT_SERVICE);

	return rc ? rc : set_default(labels, LABEL_PROCESS, labels_get(labels, LABEL_SERVICE));
}
