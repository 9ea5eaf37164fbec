// SPDX-License-Identifier: Apache-2.0
#include "base/import/import_file.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/import/chrome_trace_import.h"
#include "base/import/collapsed_import.h"
#include "base/import/perf_script_import.h"
#include "base/import/pprof_import.h"
#include "base/import/speedscope_import.h"

enum { HEAD_BYTES = 4096 };

#define TYPE_WALL "wall:wall:nanoseconds:wall:nanoseconds"

static const char *const names[] = {
	[IMPORT_PPROF] = "pprof",
	[IMPORT_SPEEDSCOPE] = "speedscope",
	[IMPORT_CHROME_TRACE] = "Chrome trace",
	[IMPORT_PERF_SCRIPT] = "perf script",
	[IMPORT_AUSTIN] = "Austin",
	[IMPORT_COLLAPSED] = "collapsed stacks",
};

const char *import_format_name(enum import_format format)
{
	return names[format];
}

/** Files that are often mistaken for a profile that can be read. */
static const struct {
	const char *magic, *words;
} others[] = {
	{ "PERFILE2", "a perf.data file: push what `perf script` prints of it" },
	{ "FLR", "a Java Flight Recorder file: let the profiler write pprof or collapsed stacks" },
	{ "MOJ", "Austin's binary format: convert it with mojo2austin" },
	{ "\x7f"
	  "ELF",
	  "an executable: `cairn upload` takes debug files" },
};

int import_format_of(const void *bytes, size_t size, enum import_format *ret_format,
		     struct error *err)
{
	static const struct {
		enum import_format format;
		bool (*is_likely)(const char *text, size_t size);
	} texts[] = {
		{ IMPORT_SPEEDSCOPE, speedscope_is_likely },
		{ IMPORT_CHROME_TRACE, chrome_trace_is_likely },
		{ IMPORT_AUSTIN, austin_is_likely },
		{ IMPORT_PERF_SCRIPT, perf_script_is_likely },
		{ IMPORT_COLLAPSED, collapsed_is_likely },
	};

	if (size == 0)
		return error_set(err, -ENOTSUP, "an empty file: its profiler sampled nothing");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (size >= strlen(others[i].magic) &&
		    memcmp(bytes, others[i].magic, strlen(others[i].magic)) == 0)
			return error_set(err, -ENOTSUP, "%s", others[i].words);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!texts[i].is_likely(bytes, size))
			continue;
		*ret_format = texts[i].format;
		return 0;
	}
	if (!pprof_is_likely(bytes, size))
		return error_set(
			err, -ENOTSUP,
			"not a profile that is read: pprof, perf script, collapsed stacks, "
			"speedscope, Chrome trace or Austin");
	*ret_format = IMPORT_PPROF;
	return 0;
}

/** Its header says whether it measured CPU or wall-clock time. */
static const char *austin_type(const void *bytes, size_t size)
{
	static const char wall[] = "# mode: wall";
	size_t head = size < HEAD_BYTES ? size : HEAD_BYTES;

	return memmem(bytes, head, wall, strlen(wall)) ? TYPE_WALL : PROFILE_TYPE_CPU;
}

int import_file(struct importer *importer, const struct import_source *source,
		enum import_format format, uint32_t hz, const void *bytes, size_t size,
		struct error *err)
{
	struct import_source timed = *source;

	switch (format) {
	case IMPORT_PPROF:
		return pprof_import(importer, source, bytes, size, err);
	case IMPORT_SPEEDSCOPE:
		return speedscope_import(importer, source, bytes, size, err);
	case IMPORT_CHROME_TRACE:
		return chrome_trace_import(importer, source, bytes, size, err);
	case IMPORT_AUSTIN:
		timed.value_scale = (int64_t)NS_PER_US;
		timed.type = source->type ? source->type : austin_type(bytes, size);
		timed.from_ns = source->from_ns ? source->from_ns : source->end_ns;
		return collapsed_import(importer, &timed, bytes, size, COLLAPSED_AUSTIN, err);
	case IMPORT_PERF_SCRIPT:
	case IMPORT_COLLAPSED:
		break;
	}
	if (hz) {
		timed.value_scale = (int64_t)(NS_PER_SECOND / hz);
		timed.type = source->type ? source->type : PROFILE_TYPE_CPU;
	}
	if (format == IMPORT_PERF_SCRIPT)
		return perf_script_import(importer, &timed, bytes, size, err);
	timed.from_ns = source->from_ns ? source->from_ns : source->end_ns;
	return collapsed_import(importer, &timed, bytes, size, COLLAPSED_COUNTED, err);
}
