// SPDX-License-Identifier: Apache-2.0
#include "base/import/collapsed_import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum { LIKELY_LINES = 8, FRAMES_READ_MAX = 64 * 1024 };

/** A frame's text, and its location. */
struct frame {
	const char *at;
	uint32_t size, location;
};

struct collapsed {
	struct importer *importer;
	struct error *err;
	struct import_time time;
	int64_t scale;
	enum collapsed_counts counts;
	uint32_t series;
	uint64_t line; // counted from 1
	struct hash_table index;
	struct frame *frames; // distinct ones
	uint32_t frame_count, frame_capacity;
	uint32_t *stack; // of the line, root first
	uint32_t stack_count, stack_capacity;
};

static void collapsed_deinit(struct collapsed *collapsed)
{
	hash_table_deinit(&collapsed->index);
	free(collapsed->frames);
	free(collapsed->stack);
}

static bool is_equal(const void *context, uint32_t item, const void *key)
{
	const struct frame *frame = &((const struct collapsed *)context)->frames[item];
	const struct frame *wanted = key;

	return frame->size == wanted->size && memcmp(frame->at, wanted->at, wanted->size) == 0;
}

/** Austin's frame, "file.py:function:12", as "function (file.py:12)". Others stay as they are. */
static int add_austin_frame(struct collapsed *collapsed, const char *at, size_t size,
			    uint32_t *ret_location)
{
	char name[STRING_BYTES_MAX];
	const char *end = at + size;
	const char *number = memrchr(at, ':', size);
	const char *function = number ? memrchr(at, ':', (size_t)(number - at)) : NULL;

	if (!function || function == at || number == function + 1)
		return import_named_frame(collapsed->importer, at, size, ret_location);
	int length = snprintf(name, sizeof(name), "%.*s (%.*s:%.*s)", (int)(number - function - 1),
			      function + 1, (int)(function - at), at, (int)(end - number - 1),
			      number + 1);
	return import_named_frame(collapsed->importer, name,
				  length < (int)sizeof(name) ? (size_t)length : sizeof(name) - 1,
				  ret_location);
}

static int add_frame(struct collapsed *collapsed, const char *at, size_t size,
		     uint32_t *ret_location)
{
	struct frame frame = { at, (uint32_t)size, 0 };
	uint64_t hash = hash64_of(at, size);
	uint32_t item = hash_table_find(&collapsed->index, hash, is_equal, collapsed, &frame);

	if (item != HASH_TABLE_NONE) {
		*ret_location = collapsed->frames[item].location;
		return 0;
	}
	int rc = collapsed->counts == COLLAPSED_AUSTIN
			 ? add_austin_frame(collapsed, at, size, &frame.location)
			 : import_named_frame(collapsed->importer, at, size, &frame.location);
	if (!rc)
		rc = array_reserve(&collapsed->frames, sizeof(frame), &collapsed->frame_capacity,
				   collapsed->frame_count, 1, PROFILE_LOCATIONS_MAX);
	if (!rc)
		rc = hash_table_add(&collapsed->index, hash, collapsed->frame_count);
	if (rc)
		return rc;
	collapsed->frames[collapsed->frame_count++] = frame;
	*ret_location = frame.location;
	return 0;
}

// Frames of the line [@at, @end), separated by ';'. Empty ones are left out.
static int read_frames(struct collapsed *collapsed, const char *at, const char *end)
{
	int rc = 0;

	collapsed->stack_count = 0;
	while (at < end && !rc) {
		const char *next = memchr(at, ';', (size_t)(end - at));
		const char *stop = next ? next : end;
		uint32_t location;

		if (stop > at) {
			rc = add_frame(collapsed, at, (size_t)(stop - at), &location);
			if (!rc)
				rc = array_reserve(&collapsed->stack, sizeof(location),
						   &collapsed->stack_capacity,
						   collapsed->stack_count, 1, FRAMES_READ_MAX);
			if (!rc)
				collapsed->stack[collapsed->stack_count++] = location;
		}
		at = stop + (next != NULL);
	}
	return rc;
}

static int add_stack(struct collapsed *collapsed, uint32_t *ret_stack)
{
	uint32_t *stack = collapsed->stack, count = collapsed->stack_count;

	for (uint32_t i = 0; i < count / 2; i++) {
		uint32_t other = stack[count - 1 - i];

		stack[count - 1 - i] = stack[i];
		stack[i] = other;
	}
	return import_stack(collapsed->importer, stack, count, ret_stack);
}

// The number after the last blank of the line. False: there is none.
static bool split_count(const char *at, const char **end, int64_t *ret_count)
{
	const char *digit = *end;
	uint64_t count = 0;

	while (digit > at && digit[-1] >= '0' && digit[-1] <= '9')
		digit--;
	if (digit == *end || digit == at || (digit[-1] != ' ' && digit[-1] != '\t'))
		return false;
	for (const char *i = digit; i < *end; i++) {
		if (count > (uint64_t)IMPORT_VALUE_MAX / 10)
			return false;
		count = count * 10 + (uint64_t)(*i - '0');
	}
	while (digit > at && (digit[-1] == ' ' || digit[-1] == '\t'))
		digit--;
	*end = digit;
	*ret_count = (int64_t)count;
	return digit > at;
}

static int add_line(struct collapsed *collapsed, const char *at, const char *end, int64_t count)
{
	uint32_t stack = 0;
	int rc = read_frames(collapsed, at, end);

	if (!rc)
		rc = add_stack(collapsed, &stack);
	if (rc) {
		char where[64];

		snprintf(where, sizeof(where), "collapsed stacks: line %llu",
			 (unsigned long long)collapsed->line);
		return import_failed(rc, collapsed->err, where);
	}
	if (__builtin_mul_overflow(count, collapsed->scale, &count))
		return error_set(collapsed->err, -EINVAL,
				 "collapsed stacks: line %llu: the count is too large",
				 (unsigned long long)collapsed->line);
	collapsed->importer->samples++;
	return import_row(collapsed->importer, collapsed->series, stack, &collapsed->time, count,
			  collapsed->err);
}

static int read_line(struct collapsed *collapsed, const char *at, const char *end,
		     enum collapsed_counts counts)
{
	int64_t count = 1;

	while (end > at && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
		end--;
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	if (at == end || *at == '#')
		return 0;
	if (counts != COLLAPSED_UNCOUNTED && !split_count(at, &end, &count))
		return error_set(collapsed->err, -EBADMSG,
				 "collapsed stacks: line %llu: does not end in a blank and a count",
				 (unsigned long long)collapsed->line);
	// "P12;T0:34;...": the process's and the thread's numbers would be frames.
	for (const char *pair = "PT";
	     counts == COLLAPSED_AUSTIN && *pair && at < end && *at == *pair; pair++) {
		const char *next = memchr(at, ';', (size_t)(end - at));
		at = next ? next + 1 : end;
	}
	return add_line(collapsed, at, end, count);
}

bool austin_is_likely(const char *text, size_t size)
{
	static const char head[] = "# austin:";

	return size > strlen(head) && memcmp(text, head, strlen(head)) == 0;
}

bool collapsed_is_likely(const char *text, size_t size)
{
	const char *at = text, *end = text + size;
	uint32_t lines = 0;

	while (at < end && lines < LIKELY_LINES) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end, *name_end = stop;
		int64_t count;

		if (stop > at && stop[-1] == '\r')
			name_end--;
		if (stop > at && *at != '#') {
			if (memchr(at, '\0', (size_t)(stop - at)) ||
			    !split_count(at, &name_end, &count))
				return false;
			lines++;
		}
		at = stop + 1;
	}
	return lines > 0;
}

int collapsed_import(struct importer *importer, const struct import_source *source,
		     const char *text, size_t size, enum collapsed_counts counts, struct error *err)
{
	_cleanup_(collapsed_deinit) struct collapsed collapsed = {
		.importer = importer,
		.err = err,
		.counts = counts,
		.scale = source->value_scale ? source->value_scale : 1,
	};
	uint64_t from_ns = source->from_ns ? source->from_ns : importer->now_ns;
	struct import_type type;
	const char *at = text, *end = text + size;

	import_type_make(source, "samples", "count", "cpu", "nanoseconds", &type);
	int rc = import_time_set(&collapsed.time, from_ns, source->to_ns, err);
	if (rc)
		return rc;
	import_cover(importer, &collapsed.time);
	rc = profile_add_series(importer->profile, source->labels, type.text, &collapsed.series);
	if (rc)
		return error_errno(err, rc, "collapsed stacks");
	while (at < end && !rc) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;

		collapsed.line++;
		rc = read_line(&collapsed, at, stop, counts);
		at = stop + 1;
	}
	return rc;
}
