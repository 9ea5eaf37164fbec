// SPDX-License-Identifier: Apache-2.0
// The frames may stand behind the profiles that use them: each array is found first, and read when what it needs is known.
#include "base/import/speedscope_import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/import/json_reader.h"

enum { HEAD_BYTES = 4096, DEPTH_MAX = 64 * 1024 };

#define TIME_NS_MAX 4e18 // of a file: more is no time

static const struct {
	const char *unit;
	int64_t ns; // 0: no time
	const char *sample_type, *type_unit;
} units[] = {
	{ "nanoseconds", 1, "cpu", "nanoseconds" },
	{ "microseconds", 1000, "cpu", "nanoseconds" },
	{ "milliseconds", 1000000, "cpu", "nanoseconds" },
	{ "seconds", 1000000000, "cpu", "nanoseconds" },
	{ "bytes", 0, "alloc_space", "bytes" },
	{ "none", 0, "samples", "count" },
};

struct speedscope {
	struct importer *importer;
	const struct import_source *source;
	struct error *err;
	struct json_reader frames, profiles; // their arrays
	bool has_frames, has_profiles;
	uint32_t *locations; // by frame
	uint32_t location_count, location_capacity;
	uint32_t profile_count;
	uint64_t from_ns; // of all profiles
	uint32_t *stack;  // root first
	uint32_t stack_count, stack_capacity;
};

/** One profile of the file. */
struct part {
	struct json_text name, unit, type;
	struct json_reader samples, weights, events;
	bool has_samples, has_weights, has_events;
	double start, end;
	size_t which; // of `units`
	uint32_t series;
};

static int malformed(struct speedscope *scope, const char *what)
{
	return error_set(scope->err, -EBADMSG, "speedscope: %s: malformed", what);
}

/** Record where a value is, and go past it. */
static void note(struct json_reader *reader, struct json_reader *ret_value, bool *ret_has)
{
	*ret_value = *reader;
	*ret_has = true;
	json_skip(reader);
}

// ---- frames -----------------------------------------------------------------------------------

static int add_text(struct speedscope *scope, struct json_text text, uint32_t *ret_number)
{
	_cleanup_(buffer_deinit) struct buffer plain = { 0 };

	json_append_unescaped(&plain, text);
	if (plain.rc)
		return plain.rc;
	return import_string(scope->importer, (const char *)plain.bytes, plain.size, ret_number);
}

static bool ends_in_py(struct json_text file)
{
	return file.size > 3 && memcmp(file.at + file.size - 3, ".py", 3) == 0;
}

/** A frame with a file, or one whose name says all. */
static int add_frame(struct speedscope *scope, struct json_text name, struct json_text file,
		     int64_t number, uint32_t *ret_location)
{
	struct location frame = { .kind = ends_in_py(file) ? FRAME_KIND_PYTHON
							   : FRAME_KIND_UNKNOWN };
	_cleanup_(buffer_deinit) struct buffer plain = { 0 };
	struct line line = { 0 };

	if (!file.size) {
		json_append_unescaped(&plain, name);
		return plain.rc ? plain.rc
				: import_named_frame(scope->importer, (const char *)plain.bytes,
						     plain.size, ret_location);
	}
	line.number = number > 0 && number <= UINT32_MAX ? (uint32_t)number : 0;
	int rc = add_text(scope, name, &line.name);
	if (!rc)
		rc = add_text(scope, file, &line.file);
	return rc ? rc : import_frame(scope->importer, &frame, &line, 1, ret_location);
}

static int read_frame(struct speedscope *scope, struct json_reader *reader)
{
	struct json_text key, name = { "", 0 }, file = { "", 0 };
	bool is_first = true;
	int64_t number = 0;
	uint32_t at;

	json_enter(reader, '{');
	while (json_next_member(reader, &is_first, &key)) {
		if (json_text_is(key, "name"))
			json_read_string(reader, &name);
		else if (json_text_is(key, "file") && json_peek(reader) == JSON_IS_STRING)
			json_read_string(reader, &file);
		else if (json_text_is(key, "line") && json_peek(reader) == JSON_IS_NUMBER)
			json_read_scaled(reader, 1, &number);
		else
			json_skip(reader);
	}
	if (reader->failed || !name.size)
		return malformed(scope, "shared.frames");
	int rc = add_frame(scope, name, file, number, &at);
	if (!rc)
		rc = array_reserve(&scope->locations, sizeof(at), &scope->location_capacity,
				   scope->location_count, 1, PROFILE_LOCATIONS_MAX);
	if (rc)
		return error_errno(scope->err, rc, "speedscope: shared.frames");
	scope->locations[scope->location_count++] = at;
	return 0;
}

static int read_frames(struct speedscope *scope)
{
	struct json_reader *reader = &scope->frames;
	bool is_first = true;
	int rc = 0;

	json_enter(reader, '[');
	while (!rc && json_next_item(reader, &is_first))
		rc = read_frame(scope, reader);
	return !rc && reader->failed ? malformed(scope, "shared.frames") : rc;
}

// ---- samples ----------------------------------------------------------------------------------

static int push(struct speedscope *scope, int64_t frame)
{
	if (frame < 0 || frame >= scope->location_count)
		return error_set(scope->err, -EBADMSG,
				 "speedscope: frame %lld is not below the %u of shared.frames",
				 (long long)frame, scope->location_count);
	int rc = array_reserve(&scope->stack, sizeof(*scope->stack), &scope->stack_capacity,
			       scope->stack_count, 1, DEPTH_MAX);
	if (rc)
		return error_errno(scope->err, rc, "speedscope: a stack of more than %d frames",
				   DEPTH_MAX);
	scope->stack[scope->stack_count++] = scope->locations[frame];
	return 0;
}

/** The stack, which is root first, as ours. */
static int add_stack(struct speedscope *scope, uint32_t *ret_stack)
{
	uint32_t leaf_first[STACK_FRAMES_MAX];
	uint32_t count = scope->stack_count;

	for (uint32_t i = 0; i < count && i < STACK_FRAMES_MAX; i++)
		leaf_first[i] = scope->stack[count - 1 - i];
	int rc = import_stack(scope->importer, leaf_first, count, ret_stack);
	return rc ? error_errno(scope->err, rc, "speedscope: stacks") : 0;
}

static int add_interval(struct speedscope *scope, const struct part *part, double from, double to,
			int64_t value)
{
	double ns = units[part->which].ns ? (double)units[part->which].ns : 0;
	if (!((to - part->start) * ns < TIME_NS_MAX))
		return malformed(scope, "a time");
	uint64_t from_ns = scope->from_ns + (uint64_t)((from - part->start) * ns);
	uint64_t to_ns = scope->from_ns + (uint64_t)((to - part->start) * ns);
	uint32_t stack = 0;
	int rc = add_stack(scope, &stack);

	return rc ? rc
		  : import_interval(scope->importer, part->series, stack, from_ns, to_ns, value,
				    scope->err);
}

/** A weight as a value of the type. */
static bool value_of(const struct part *part, double weight, int64_t *ret_value)
{
	int64_t ns = units[part->which].ns;
	double value = weight * (double)(ns ? ns : 1);

	if (!(value >= 0 && value <= (double)IMPORT_VALUE_MAX))
		return false;
	*ret_value = (int64_t)(value + 0.5);
	return true;
}

static int read_sampled(struct speedscope *scope, struct part *part)
{
	struct json_reader *samples = &part->samples, *weights = &part->weights;
	bool is_first_sample = true, is_first_weight = true;
	double at = part->start, weight = 1;
	int rc = 0;

	json_enter(samples, '[');
	json_enter(weights, '[');
	while (!rc && json_next_item(samples, &is_first_sample)) {
		bool is_first = true;
		int64_t frame, value = 0;

		scope->stack_count = 0;
		json_enter(samples, '[');
		while (!rc && json_next_item(samples, &is_first))
			rc = json_read_integer(samples, &frame) ? push(scope, frame)
								: malformed(scope, "samples");
		if (!rc && (!json_next_item(weights, &is_first_weight) ||
			    !json_read_double(weights, &weight) || !value_of(part, weight, &value)))
			rc = malformed(scope, "weights");
		if (!rc)
			rc = add_interval(scope, part, at, at + weight, value);
		at += weight;
		scope->importer->samples++;
	}
	return !rc && samples->failed ? malformed(scope, "samples") : rc;
}

struct event {
	bool is_open, is_close;
	int64_t frame;
	double at;
};

static bool read_event(struct json_reader *reader, struct event *ret_event)
{
	struct json_text key, type = { "", 0 };
	bool is_first = true, is_sound = true;

	json_enter(reader, '{');
	while (is_sound && json_next_member(reader, &is_first, &key)) {
		if (json_text_is(key, "type"))
			is_sound = json_read_string(reader, &type);
		else if (json_text_is(key, "frame"))
			is_sound = json_read_integer(reader, &ret_event->frame);
		else if (json_text_is(key, "at"))
			is_sound = json_read_double(reader, &ret_event->at);
		else
			json_skip(reader);
	}
	ret_event->is_open = json_text_is(type, "O");
	ret_event->is_close = json_text_is(type, "C");
	return is_sound && !reader->failed && (ret_event->is_open || ret_event->is_close);
}

static int read_evented(struct speedscope *scope, struct part *part)
{
	struct json_reader *reader = &part->events;
	double before = part->start;
	bool is_first = true;
	int rc = 0;

	scope->stack_count = 0;
	json_enter(reader, '[');
	while (!rc && json_next_item(reader, &is_first)) {
		struct event event = { .at = before };
		int64_t value = 0;

		if (!read_event(reader, &event) || event.at < before ||
		    !value_of(part, event.at - before, &value) ||
		    (event.is_close && !scope->stack_count))
			return malformed(scope, "events");
		if (scope->stack_count && value) {
			rc = add_interval(scope, part, before, event.at, value);
			scope->importer->samples++;
		}
		before = event.at;
		if (event.is_close)
			scope->stack_count--;
		else if (!rc)
			rc = push(scope, event.frame);
	}
	return !rc && reader->failed ? malformed(scope, "events") : rc;
}

// ---- profiles ---------------------------------------------------------------------------------

static bool read_part(struct json_reader *reader, struct part *ret_part)
{
	struct json_text key;
	bool is_first = true;

	*ret_part = (struct part){ .name = { "", 0 }, .unit = { "none", 4 }, .type = { "", 0 } };
	json_enter(reader, '{');
	while (json_next_member(reader, &is_first, &key)) {
		if (json_text_is(key, "name") && json_peek(reader) == JSON_IS_STRING)
			json_read_string(reader, &ret_part->name);
		else if (json_text_is(key, "unit"))
			json_read_string(reader, &ret_part->unit);
		else if (json_text_is(key, "type"))
			json_read_string(reader, &ret_part->type);
		else if (json_text_is(key, "startValue"))
			json_read_double(reader, &ret_part->start);
		else if (json_text_is(key, "endValue"))
			json_read_double(reader, &ret_part->end);
		else if (json_text_is(key, "samples"))
			note(reader, &ret_part->samples, &ret_part->has_samples);
		else if (json_text_is(key, "weights"))
			note(reader, &ret_part->weights, &ret_part->has_weights);
		else if (json_text_is(key, "events"))
			note(reader, &ret_part->events, &ret_part->has_events);
		else
			json_skip(reader);
	}
	return !reader->failed;
}

static int set_unit(struct speedscope *scope, struct part *part)
{
	for (part->which = 0; part->which < ARRAY_SIZE(units); part->which++)
		if (json_text_is(part->unit, units[part->which].unit))
			return 0;
	return error_set(scope->err, -EBADMSG, "speedscope: unit: \"%.*s\" is not known",
			 (int)(part->unit.size < 40 ? part->unit.size : 40), part->unit.at);
}

static int add_series(struct speedscope *scope, struct part *part)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	_cleanup_(buffer_deinit) struct buffer name = { 0 };
	struct import_type type;
	int rc = labels_copy(scope->source->labels, &labels);

	json_append_unescaped(&name, part->name);
	if (!rc && scope->profile_count > 1 && !labels_get(&labels, LABEL_THREAD))
		import_label(&labels, LABEL_THREAD, strlen(LABEL_THREAD), (const char *)name.bytes,
			     name.size);
	import_type_make(scope->source, units[part->which].sample_type,
			 units[part->which].type_unit, units[part->which].sample_type,
			 units[part->which].type_unit, &type);
	if (!rc)
		rc = profile_add_series(scope->importer->profile, &labels, type.text,
					&part->series);
	return rc ? error_errno(scope->err, rc, "speedscope: series") : 0;
}

static int import_part(struct speedscope *scope, struct part *part)
{
	int rc = set_unit(scope, part);

	if (!rc)
		rc = add_series(scope, part);
	if (rc)
		return rc;
	if (part->has_events)
		return read_evented(scope, part);
	return part->has_samples && part->has_weights ? read_sampled(scope, part)
						      : malformed(scope, "profiles");
}

/** Count the profiles, and find how long the longest takes. */
static int measure(struct speedscope *scope, uint64_t *ret_span_ns)
{
	struct json_reader reader = scope->profiles;
	bool is_first = true;
	struct part part;

	*ret_span_ns = 0;
	json_enter(&reader, '[');
	while (json_next_item(&reader, &is_first)) {
		if (!read_part(&reader, &part))
			return malformed(scope, "profiles");
		int rc = set_unit(scope, &part);
		if (rc)
			return rc;
		double ns = (part.end - part.start) * (double)units[part.which].ns;
		if (ns > (double)*ret_span_ns && ns < (double)INT64_MAX)
			*ret_span_ns = (uint64_t)ns;
		scope->profile_count++;
	}
	return reader.failed ? malformed(scope, "profiles") : 0;
}

static int import_profiles(struct speedscope *scope)
{
	const struct import_source *source = scope->source;
	uint64_t end_ns = source->end_ns ? source->end_ns : scope->importer->now_ns, span_ns;
	bool is_first = true;
	struct part part;
	int rc = measure(scope, &span_ns);

	scope->from_ns = source->from_ns ? source->from_ns : ns_before(end_ns, span_ns);
	json_enter(&scope->profiles, '[');
	while (!rc && json_next_item(&scope->profiles, &is_first))
		rc = read_part(&scope->profiles, &part) ? import_part(scope, &part)
							: malformed(scope, "profiles");
	return rc;
}

static int find_parts(struct speedscope *scope, const char *text, size_t size)
{
	struct json_reader reader = { text, text + size, false };
	bool is_first = true, is_first_shared = true;
	struct json_text key;

	json_enter(&reader, '{');
	while (json_next_member(&reader, &is_first, &key)) {
		if (json_text_is(key, "profiles")) {
			note(&reader, &scope->profiles, &scope->has_profiles);
		} else if (json_text_is(key, "shared") && !scope->has_frames) {
			json_enter(&reader, '{');
			while (json_next_member(&reader, &is_first_shared, &key)) {
				if (json_text_is(key, "frames"))
					note(&reader, &scope->frames, &scope->has_frames);
				else
					json_skip(&reader);
			}
		} else {
			json_skip(&reader);
		}
	}
	if (reader.failed)
		return malformed(scope, "file");
	return scope->has_profiles && scope->has_frames
		       ? 0
		       : malformed(scope, "profiles or shared.frames");
}

bool speedscope_is_likely(const char *text, size_t size)
{
	static const char schema[] = "speedscope.app/file-format-schema", shared[] = "\"shared\"";
	size_t head = size < HEAD_BYTES ? size : HEAD_BYTES;

	return memmem(text, head, schema, strlen(schema)) ||
	       (size > HEAD_BYTES &&
		memmem(text + size - HEAD_BYTES, HEAD_BYTES, schema, strlen(schema))) ||
	       (head && *text == '{' && memmem(text, head, shared, strlen(shared)) &&
		memmem(text, head, "\"frames\"", 8));
}

int speedscope_import(struct importer *importer, const struct import_source *source,
		      const char *text, size_t size, struct error *err)
{
	struct speedscope scope = { .importer = importer, .source = source, .err = err };
	int rc = find_parts(&scope, text, size);

	if (!rc)
		rc = read_frames(&scope);
	if (!rc)
		rc = import_profiles(&scope);
	free(scope.locations);
	free(scope.stack);
	return rc;
}
