// SPDX-License-Identifier: Apache-2.0
#include "base/import/perf_script_import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"

enum {
	LIKELY_LINES = 64,
	WORDS_MAX = 24, // of a header: a comm has at most 15 bytes
	EVENT_BYTES = PROFILE_TYPE_PART_BYTES,
	COMM_BYTES = 64,
	FRAMES_READ_MAX = 64 * 1024,
};

struct text {
	const char *at;
	size_t size;
};

/** A header line: "comm 123/124 [001] 12.345678: 250000 cpu-clock:u: ...". */
struct header {
	char comm[COMM_BYTES];
	char event[EVENT_BYTES]; // without modifiers
	uint64_t time_ns;        // since boot
	int64_t period;          // 1: it has none
};

/** Series by comm and event: the last one and a table. */
struct known_series {
	char comm[COMM_BYTES];
	char event[EVENT_BYTES];
	uint32_t series;
};

struct perf {
	struct importer *importer;
	const struct import_source *source;
	struct error *err;
	uint64_t line;
	uint64_t first_ns, base_ns; // since boot, and the Unix time of it
	struct known_series *series;
	uint32_t series_count, series_capacity;
	struct hash_table series_index;
	uint32_t *stack;
	uint32_t stack_count, stack_capacity;
};

static int malformed(struct perf *perf, const char *what)
{
	return error_set(perf->err, -EBADMSG, "perf script: line %llu: %s",
			 (unsigned long long)perf->line, what);
}

// ---- headers ----------------------------------------------------------------------------------

static bool is_digits(const char *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (at[i] < '0' || at[i] > '9')
			return false;
	return size > 0;
}

/** "12345.678901:" as nanoseconds. */
static bool read_time(struct text word, uint64_t *ret_ns)
{
	const char *point = memchr(word.at, '.', word.size);
	uint64_t seconds = 0, fraction = 0, unit = NS_PER_SECOND;

	if (!point || word.size < 4 || word.at[word.size - 1] != ':')
		return false;
	size_t whole = (size_t)(point - word.at), rest = word.size - whole - 2;
	if (!is_digits(word.at, whole) || !is_digits(point + 1, rest) || whole > 10 || rest > 9)
		return false;
	for (size_t i = 0; i < whole; i++)
		seconds = seconds * 10 + (uint64_t)(word.at[i] - '0');
	for (size_t i = 0; i < rest; i++) {
		fraction = fraction * 10 + (uint64_t)(point[1 + i] - '0');
		unit /= 10;
	}
	*ret_ns = seconds * NS_PER_SECOND + fraction * unit;
	return true;
}

static uint32_t split(const char *at, const char *end, struct text words[WORDS_MAX])
{
	uint32_t count = 0;

	while (at < end && count < WORDS_MAX) {
		while (at < end && (*at == ' ' || *at == '\t'))
			at++;
		const char *begin = at;
		while (at < end && *at != ' ' && *at != '\t')
			at++;
		if (at > begin)
			words[count++] = (struct text){ begin, (size_t)(at - begin) };
	}
	return count;
}

/** "1234" or "1234/1235". */
static bool is_pid(struct text word)
{
	const char *slash = memchr(word.at, '/', word.size);

	if (!slash)
		return is_digits(word.at, word.size);
	return is_digits(word.at, (size_t)(slash - word.at)) &&
	       is_digits(slash + 1, word.size - (size_t)(slash + 1 - word.at));
}

/** The event's name without its modifiers: "cycles:P:" is cycles, "syscalls:sys_enter_read:" is itself. */
static bool read_event(struct text word, char ret_event[EVENT_BYTES])
{
	if (word.size < 2 || word.at[word.size - 1] != ':')
		return false;
	size_t size = word.size - 1;
	const char *colon = memrchr(word.at, ':', size);

	if (colon && strspn(colon + 1, "ukhGHIpPSDWe") >= size - (size_t)(colon + 1 - word.at))
		size = (size_t)(colon - word.at);
	size = size < EVENT_BYTES ? size : EVENT_BYTES - 1;
	memcpy(ret_event, word.at, size);
	ret_event[size] = '\0';
	return size > 0;
}

static bool read_period(struct text word, int64_t *ret_period)
{
	int64_t period = 0;

	if (!is_digits(word.at, word.size) || word.size > 18)
		return false;
	for (size_t i = 0; i < word.size; i++)
		period = period * 10 + (word.at[i] - '0');
	*ret_period = period;
	return true;
}

/** The words before the time are the comm, the pid, and perhaps the CPU. */
static bool read_header(const char *at, const char *end, struct header *ret_header)
{
	struct text words[WORDS_MAX];
	uint32_t count = split(at, end, words), time = 1;

	*ret_header = (struct header){ .period = 1 };
	while (time < count && !read_time(words[time], &ret_header->time_ns))
		time++;
	if (time + 1 >= count || time < 2)
		return false;
	uint32_t pid = time - 1;
	if (words[pid].at[0] == '[' && pid > 1)
		pid--;
	if (!is_pid(words[pid]))
		return false;
	size_t comm = (size_t)(words[pid - 1].at + words[pid - 1].size - words[0].at);
	comm = comm < COMM_BYTES ? comm : COMM_BYTES - 1;
	memcpy(ret_header->comm, words[0].at, comm);
	time++;
	if (read_period(words[time], &ret_header->period) && time + 1 < count)
		time++;
	return read_event(words[time], ret_header->event);
}

// ---- series -----------------------------------------------------------------------------------

enum event_kind { EVENT_CLOCK, EVENT_CYCLES, EVENT_OTHER };

static enum event_kind kind_of(const char *event)
{
	static const char *const cycles[] = { "cycles", "cpu-cycles", "cpu_core/cycles/",
					      "cpu_atom/cycles/", "ref-cycles" };

	if (strcmp(event, "cpu-clock") == 0 || strcmp(event, "task-clock") == 0)
		return EVENT_CLOCK;
	for (size_t i = 0; i < ARRAY_SIZE(cycles); i++)
		if (strcmp(event, cycles[i]) == 0)
			return EVENT_CYCLES;
	return EVENT_OTHER;
}

static void make_type(const struct perf *perf, const char *event, struct import_type *ret_type)
{
	struct import_source source = { .type = perf->source->type };
	enum event_kind kind = kind_of(event);

	if (kind == EVENT_CLOCK && !source.type)
		source.type = PROFILE_TYPE_CPU;
	source.name = kind == EVENT_OTHER ? "perf" : NULL;
	import_type_make(&source, kind == EVENT_OTHER ? event : "samples", "count",
			 kind == EVENT_OTHER ? "event" : "cpu",
			 kind == EVENT_OTHER ? "count" : "nanoseconds", ret_type);
}

static bool series_is(const void *context, uint32_t item, const void *key)
{
	const struct known_series *known = &((const struct perf *)context)->series[item];
	const struct header *header = key;

	return strcmp(known->comm, header->comm) == 0 && strcmp(known->event, header->event) == 0;
}

static int add_series(struct perf *perf, const struct header *header, uint32_t *ret_series)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	struct import_type type;
	int rc = labels_copy(perf->source->labels, &labels);

	if (!rc)
		import_label(&labels, LABEL_THREAD, strlen(LABEL_THREAD), header->comm,
			     strlen(header->comm));
	make_type(perf, header->event, &type);
	return rc ? rc
		  : profile_add_series(perf->importer->profile, &labels, type.text, ret_series);
}

static int find_series(struct perf *perf, const struct header *header, uint32_t *ret_series)
{
	const struct id128 names[] = { id128_of(header->comm, strlen(header->comm)),
				       id128_of(header->event, strlen(header->event)) };
	uint64_t hash = hash64_of(names, sizeof(names));
	uint32_t at = hash_table_find(&perf->series_index, hash, series_is, perf, header);

	if (at != HASH_TABLE_NONE) {
		*ret_series = perf->series[at].series;
		return 0;
	}
	int rc = array_reserve(&perf->series, sizeof(*perf->series), &perf->series_capacity,
			       perf->series_count, 1, IMPORT_SERIES_MAX);
	if (!rc)
		rc = add_series(perf, header, ret_series);
	if (!rc)
		rc = hash_table_add(&perf->series_index, hash, perf->series_count);
	if (rc)
		return error_errno(perf->err, rc, "perf script: series");
	struct known_series *known = &perf->series[perf->series_count++];
	memcpy(known->comm, header->comm, sizeof(known->comm));
	memcpy(known->event, header->event, sizeof(known->event));
	known->series = *ret_series;
	return 0;
}

// ---- frames -----------------------------------------------------------------------------------

/** "(/usr/lib/libc.so.6)" at the end of a frame's line. */
static struct text split_module(struct text *rest)
{
	struct text none = { "", 0 };

	if (!rest->size || rest->at[rest->size - 1] != ')')
		return none;
	const char *open = memrchr(rest->at, '(', rest->size);
	while (open && open > rest->at && open[-1] != ' ')
		open = memrchr(rest->at, '(', (size_t)(open - rest->at));
	if (!open)
		return none;
	struct text module = { open + 1, rest->size - (size_t)(open + 1 - rest->at) - 1 };
	rest->size = open > rest->at ? (size_t)(open - rest->at) - 1 : 0;
	return module;
}

static bool text_is(struct text text, const char *wanted)
{
	return text.size == strlen(wanted) && memcmp(text.at, wanted, text.size) == 0;
}

static bool is_kernel(struct text module)
{
	return (module.size > 7 && memcmp(module.at, "[kernel", 7) == 0) ||
	       (module.size > 3 && memcmp(module.at + module.size - 3, ".ko", 3) == 0) ||
	       (module.size > 1 && module.at[0] == '[' && !text_is(module, "[vdso]") &&
		!text_is(module, "[unknown]"));
}

/** A frame that perf could not name is its module: addresses are another process's each time. */
static int add_unnamed(struct perf *perf, struct text module, uint32_t *ret_location)
{
	char name[STRING_BYTES_MAX];
	const char *slash = memrchr(module.at, '/', module.size);
	const char *base = slash ? slash + 1 : module.at;

	snprintf(name, sizeof(name), *module.at == '[' ? "%.*s" : "[%.*s]",
		 (int)(module.at + module.size - base), base);
	return import_named_frame(perf->importer, module.size ? name : "[unknown]",
				  module.size ? strlen(name) : strlen("[unknown]"), ret_location);
}

static int add_named(struct perf *perf, struct text name, struct text module,
		     uint32_t *ret_location)
{
	struct location frame = { .kind = is_kernel(module) ? FRAME_KIND_KERNEL
							    : FRAME_KIND_NATIVE };
	struct line line = { 0 };
	const char *plus = memrchr(name.at, '+', name.size);

	if (plus && plus > name.at && name.size - (size_t)(plus - name.at) > 3 &&
	    memcmp(plus, "+0x", 3) == 0)
		name.size = (size_t)(plus - name.at);
	int rc = import_string(perf->importer, name.at, name.size, &line.name);
	if (!rc && !text_is(module, "inlined"))
		rc = import_string(perf->importer, module.at, module.size, &frame.module);
	return rc ? rc : import_frame(perf->importer, &frame, &line, 1, ret_location);
}

/** "    7f00 symbol+0x12 (/path/of/module)". */
static int read_frame(struct perf *perf, const char *at, const char *end)
{
	uint32_t location;
	int rc;

	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	const char *address = at;
	while (at < end && *at != ' ')
		at++;
	if (at == address || at == end)
		return malformed(perf, "no frame: expected an address, a symbol and (module)");
	struct text rest = { at + 1, (size_t)(end - at - 1) };
	struct text module = split_module(&rest);

	while (rest.size && rest.at[rest.size - 1] == ' ')
		rest.size--;
	if (!rest.size || text_is(rest, "[unknown]"))
		rc = add_unnamed(perf, module, &location);
	else
		rc = add_named(perf, rest, module, &location);
	if (!rc)
		rc = array_reserve(&perf->stack, sizeof(location), &perf->stack_capacity,
				   perf->stack_count, 1, FRAMES_READ_MAX);
	if (rc)
		return error_errno(perf->err, rc, "perf script: line %llu",
				   (unsigned long long)perf->line);
	perf->stack[perf->stack_count++] = location;
	return 0;
}

// ---- events -----------------------------------------------------------------------------------

static int add_event(struct perf *perf, const struct header *header)
{
	int64_t scale = perf->source->value_scale ? perf->source->value_scale : 1;
	// Cycles are no time: each sample counts once.
	int64_t value = kind_of(header->event) == EVENT_CYCLES ? 1 : header->period;
	uint64_t at_ns = perf->base_ns + (header->time_ns - perf->first_ns);
	uint32_t series = 0, stack = 0;
	int rc = find_series(perf, header, &series);

	if (!rc)
		rc = import_stack(perf->importer, perf->stack, perf->stack_count, &stack);
	if (rc)
		return perf->err->code ? rc : error_errno(perf->err, rc, "perf script: stacks");
	perf->importer->samples++;
	if (perf->source->type)
		value = kind_of(header->event) == EVENT_CLOCK ? header->period : scale;
	return import_interval(perf->importer, series, stack, at_ns, at_ns, value, perf->err);
}

struct lines {
	const char *at, *end;
};

static bool next_line(struct lines *lines, const char **ret_at, const char **ret_end)
{
	if (lines->at >= lines->end)
		return false;
	const char *newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
	const char *stop = newline ? newline : lines->end;

	*ret_at = lines->at;
	*ret_end = stop > lines->at && stop[-1] == '\r' ? stop - 1 : stop;
	lines->at = stop + 1;
	return true;
}

static bool is_blank(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	return at == end;
}

/** The first and the last time of the file. */
static void find_times(struct lines lines, uint64_t *ret_first_ns, uint64_t *ret_last_ns)
{
	const char *at, *end;
	struct header header;

	*ret_first_ns = UINT64_MAX;
	*ret_last_ns = 0;
	while (next_line(&lines, &at, &end)) {
		if (at == end || *at == ' ' || *at == '\t' || *at == '#' ||
		    !read_header(at, end, &header))
			continue;
		*ret_first_ns = header.time_ns < *ret_first_ns ? header.time_ns : *ret_first_ns;
		*ret_last_ns = header.time_ns > *ret_last_ns ? header.time_ns : *ret_last_ns;
	}
}

static int read_events(struct perf *perf, struct lines lines)
{
	bool has_event = false;
	const char *at, *end;
	struct header header;
	int rc = 0;

	while (!rc && next_line(&lines, &at, &end)) {
		perf->line++;
		if (is_blank(at, end)) {
			if (has_event)
				rc = add_event(perf, &header);
			has_event = false;
		} else if (*at == '#') {
			continue;
		} else if (*at == ' ' || *at == '\t') {
			// A comm may begin with blanks: perf aligns it.
			if (has_event)
				rc = read_frame(perf, at, end);
			else if (read_header(at, end, &header))
				has_event = true, perf->stack_count = 0;
		} else {
			if (has_event)
				rc = add_event(perf, &header);
			perf->stack_count = 0;
			has_event = read_header(at, end, &header);
			if (!rc && !has_event)
				rc = malformed(perf,
					       "no event's header: expected a command, a pid, "
					       "a time and an event");
		}
	}
	return !rc && has_event ? add_event(perf, &header) : rc;
}

bool perf_script_is_likely(const char *text, size_t size)
{
	struct lines lines = { text, text + size };
	const char *at, *end;
	struct header header;

	for (uint32_t i = 0; i < LIKELY_LINES && next_line(&lines, &at, &end); i++)
		if (at < end && *at != '#')
			return read_header(at, end, &header);
	return false;
}

int perf_script_import(struct importer *importer, const struct import_source *source,
		       const char *text, size_t size, struct error *err)
{
	struct perf perf = { .importer = importer, .source = source, .err = err };
	const struct lines lines = { text, text + size };
	uint64_t last_ns, end_ns = source->end_ns ? source->end_ns : importer->now_ns;

	find_times(lines, &perf.first_ns, &last_ns);
	if (!last_ns)
		return error_set(err, -EBADMSG,
				 "perf script: no event with a time; print them with "
				 "the fields comm,pid,tid,time,event,ip,sym,dso");
	perf.base_ns =
		source->from_ns ? source->from_ns : ns_before(end_ns, last_ns - perf.first_ns);
	int rc = read_events(&perf, lines);
	free(perf.series);
	free(perf.stack);
	hash_table_deinit(&perf.series_index);
	return rc;
}
