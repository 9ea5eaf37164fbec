// SPDX-License-Identifier: Apache-2.0
// What tests of a store share: directories that go away, profiles written as text, and all rows of
// a store as sorted lines that can be compared.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/store/store.h"
#include "tests/test.h"
#include "base/contract/label_names.h"

#define TEST_SLOT_NS (20 * NS_PER_MS)
#define TEST_TYPE    PROFILE_TYPE_CPU

static inline void directory_new(char path[64])
{
	strcpy(path, "/tmp/cairn-store-XXXXXX");
	assert_non_null(mkdtemp(path));
}

static inline void directory_remove(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	rmdir(path);
}

/** The start of the hour before the one that is now: safely past and never dropped by an hour. */
static inline uint64_t hour_ns(int hours)
{
	uint64_t hour = 3600 * NS_PER_SECOND;

	return (clock_realtime_ns() / hour - 2 + (uint64_t)hours) * hour;
}

static inline struct profile *test_profile(void)
{
	struct profile *profile = profile_new(TEST_SLOT_NS);

	assert_non_null(profile);
	return profile;
}

/** "service=a,node=n1" */
static inline void labels_of_text(const char *text, struct labels *labels)
{
	char copy[512], *rest = copy, *pair;

	strncpy(copy, text, sizeof(copy) - 1);
	copy[sizeof(copy) - 1] = 0;
	while ((pair = strsep(&rest, ",")))
		if (*pair)
			assert_int_equal(0, labels_parse_pair(labels, pair, NULL));
}

/** A location that is the function @name in a binary of its own. */
static inline uint32_t location_of_name(struct profile *profile, const char *name, bool named)
{
	struct location location = { .kind = FRAME_KIND_NATIVE, .offset = 16 };
	struct line line = { 0 };
	uint32_t at;

	location.id = location_id_of_offset(location.kind, name, location.offset);
	assert_int_equal(0, profile_add_string(profile, "libtest.so", &location.module));
	assert_int_equal(0, profile_add_string(profile, name, &location.build_id));
	assert_int_equal(0, profile_add_string(profile, name, &line.name));
	assert_int_equal(0, profile_add_location(profile, &location, &line, named, &at));
	return at;
}

/** "main;run;leaf": root first. */
static inline uint32_t stack_of_text(struct profile *profile, const char *text, enum stack_end end)
{
	char copy[4096], *names[STACK_FRAMES_MAX], *rest = copy;
	uint32_t locations[STACK_FRAMES_MAX], count = 0, stack;

	strncpy(copy, text, sizeof(copy) - 1);
	copy[sizeof(copy) - 1] = 0;
	while ((names[count] = strsep(&rest, ";")))
		count++;
	for (uint32_t i = 0; i < count; i++)
		locations[i] = location_of_name(profile, names[count - 1 - i], true);
	assert_int_equal(0, profile_add_stack(profile, locations, count, end, &stack));
	return stack;
}

static inline uint32_t series_of_text(struct profile *profile, const char *labels_text,
				      const char *type)
{
	struct labels labels = { 0 };
	uint32_t series;

	labels_of_text(labels_text, &labels);
	assert_int_equal(0, profile_add_series(profile, &labels, type, &series));
	labels_deinit(&labels);
	return series;
}

static inline void add_text(struct profile *profile, const char *labels, uint64_t time_ns,
			    const char *stack, int64_t value)
{
	assert_int_equal(0, profile_add_sample(profile, series_of_text(profile, labels, TEST_TYPE),
					       stack_of_text(profile, stack, STACK_END_COMPLETE),
					       time_ns / profile->slot_ns, value));
}

/** The sample's stack is only named by its id. */
static inline void add_known(struct profile *profile, const char *labels, uint64_t time_ns,
			     const char *stack_text, int64_t value)
{
	struct profile *other = test_profile();
	uint32_t defined = stack_of_text(other, stack_text, STACK_END_COMPLETE), stack;

	assert_int_equal(0, profile_add_stack_id(profile, other->stacks[defined].id, &stack));
	profile_free(other);
	assert_int_equal(0, profile_add_sample(profile, series_of_text(profile, labels, TEST_TYPE),
					       stack, time_ns / profile->slot_ns, value));
}

static inline struct store_batch_id batch_of(uint64_t agent, uint64_t sequence)
{
	return (struct store_batch_id){ .agent = { agent, 1 },
					.boot = { agent, 2 },
					.clock = { agent, 3 },
					.sequence = sequence };
}

/** Append and free @profile; it must be stored. */
static inline void append_profile(struct store *store, uint64_t agent, uint64_t sequence,
				  struct profile *profile)
{
	struct store_batch_id batch = batch_of(agent, sequence);
	struct store_append_result result;
	struct error err = { 0 };

	if (store_append(store, &batch, profile, &result, &err) < 0)
		fail_msg("append: %s", err.text);
	assert_int_equal(0, result.unknown_stack_count);
	assert_false(result.duplicate);
	profile_free(profile);
}

static inline void append_text(struct store *store, uint64_t agent, uint64_t sequence,
			       const char *labels, uint64_t time_ns, const char *stack,
			       int64_t value)
{
	struct profile *profile = test_profile();

	add_text(profile, labels, time_ns, stack, value);
	append_profile(store, agent, sequence, profile);
}

static inline struct selector selector_of(const char *text)
{
	struct selector selector;
	struct error err = { 0 };

	if (selector_parse(text, SELECTOR_ALL_TENANTS, &selector, &err) < 0)
		fail_msg("selector %s: %s", text, err.text);
	return selector;
}

// ---- all rows as lines ------------------------------------------------------------------------------

struct dump_line {
	char *text; // "labels slot stack"
	int64_t value;
};

/** As SCAN_SERIES_SUMS, series of one service in one group. */
#define DUMP_SERVICE_SUMS ((enum scan_detail)(SCAN_SUMS + 1))

struct dump {
	const struct store_selection *selection;
	const struct store_forest *forest;
	enum scan_detail detail;
	struct dump_line *lines; // sorted once finished; equal ones are added up
	uint32_t count, capacity;
	uint64_t row_count; // as given, before equal ones were added up
};

static inline void dump_deinit(struct dump *dump)
{
	for (uint32_t i = 0; i < dump->count; i++)
		free(dump->lines[i].text);
	free(dump->lines);
	*dump = (struct dump){ 0 };
}

static inline void dump_add(struct dump *dump, const char *text, int64_t value)
{
	if (dump->count == dump->capacity) {
		dump->capacity = dump->capacity ? dump->capacity * 2 : 64;
		dump->lines = realloc(dump->lines, dump->capacity * sizeof(*dump->lines));
	}
	dump->lines[dump->count++] = (struct dump_line){ strdup(text), value };
}

static inline int dump_compare(const void *a, const void *b)
{
	return strcmp(((const struct dump_line *)a)->text, ((const struct dump_line *)b)->text);
}

static inline void dump_finish(struct dump *dump)
{
	uint32_t kept = 0;

	if (!dump->count)
		return;
	qsort(dump->lines, dump->count, sizeof(*dump->lines), dump_compare);
	for (uint32_t i = 1; i < dump->count; i++) {
		if (strcmp(dump->lines[kept].text, dump->lines[i].text)) {
			dump->lines[++kept] = dump->lines[i];
			continue;
		}
		dump->lines[kept].value = (int64_t)((uint64_t)dump->lines[kept].value +
						    (uint64_t)dump->lines[i].value);
		free(dump->lines[i].text);
	}
	dump->count = kept + 1;
}

/** The line with @text of a finished dump, or NULL. */
static inline const struct dump_line *dump_find(const struct dump *dump, const char *text)
{
	struct dump_line key = { .text = (char *)text };

	return dump->count ? bsearch(&key, dump->lines, dump->count, sizeof(key), dump_compare)
			   : NULL;
}

// The text that a line ends with, at @text. They return its end.

static inline char *append_stack_text(const struct store_forest *forest, uint32_t node, char *text)
{
	uint32_t frames[STACK_FRAMES_MAX + 1], depth = 0;

	for (; node; node = forest->parents[node]) {
		assert_true(depth <= STACK_FRAMES_MAX && forest->parents[node] < node);
		frames[depth++] = forest->frames[node];
	}
	while (depth-- > 0) {
		const struct profile *locations = forest->locations;
		const char *name;

		if (frames[depth] >= FOREST_FRAME_END) {
			name = stack_end_name(frames[depth] - FOREST_FRAME_END);
		} else {
			assert_true(frames[depth] < locations->location_count);
			const struct location *location = &locations->locations[frames[depth]];
			name = location->line_count
				       ? profile_string(locations,
							locations->lines[location->first_line].name)
				       : "?";
		}
		text = stpcpy(stpcpy(text, name), depth ? ";" : "");
	}
	return text;
}

static inline char *append_labels_text(const struct labels *labels, char *text)
{
	for (uint32_t i = 0; i < labels->count; i++) {
		text = stpcpy(stpcpy(text, i ? "," : ""), labels->pairs[i].name);
		text = stpcpy(stpcpy(text, "="), labels->pairs[i].value);
	}
	return text;
}

static inline char *append_length_text(uint32_t more_slots, char *text)
{
	return text + (more_slots ? sprintf(text, "+%u", more_slots) : 0);
}

static inline int dump_partition(void *context, const struct store_forest *forest)
{
	((struct dump *)context)->forest = forest;
	return 0;
}

static inline int dump_rows(void *context, const struct store_rows *rows)
{
	struct dump *dump = context;
	static char line[8192];

	for (uint32_t i = 0; i < rows->count; i++) {
		char *end = line;

		if (dump->detail == DUMP_SERVICE_SUMS)
			end = stpcpy(end, labels_get(&dump->selection->series[rows->series].labels,
						     LABEL_SERVICE));
		else if (dump->detail != SCAN_SUMS)
			end = append_labels_text(&dump->selection->series[rows->series].labels,
						 end);
		if (dump->detail == SCAN_ROWS)
			end += sprintf(
				end, " %llu",
				(unsigned long long)(rows->slots[i] * rows->slot_ns / NS_PER_MS));
		if (rows->more_slots)
			end = append_length_text(rows->more_slots[i], end);
		append_stack_text(dump->forest, rows->nodes[i], stpcpy(end, " "));
		dump_add(dump, line, rows->values[i]);
	}
	dump->row_count += rows->count;
	return 0;
}

/** By series: the first of its service. */
static inline uint32_t *groups_of_services(const struct store_selection *selection)
{
	uint32_t *groups = calloc(selection->series_count + 1, sizeof(*groups));

	for (uint32_t i = 0; i < selection->series_count; i++)
		while (strcmp(labels_get(&selection->series[groups[i]].labels, LABEL_SERVICE),
			      labels_get(&selection->series[i].labels, LABEL_SERVICE)))
			groups[i]++;
	return groups;
}

static inline void dump_store(struct store *store, const char *selector_text,
			      struct time_range range, enum scan_detail detail, struct dump *dump)
{
	struct selector selector = selector_of(selector_text);
	struct store_selection *selection;
	struct error err = { 0 };

	if (store_select(store, &selector, NULL, range, &selection, &err) < 0)
		fail_msg("select: %s", err.text);
	*dump = (struct dump){ .selection = selection, .detail = detail };
	_cleanup_free_ uint32_t *groups =
		detail == DUMP_SERVICE_SUMS ? groups_of_services(selection) : NULL;
	struct store_scanner scanner = { .context = dump,
					 .detail = groups ? SCAN_SERIES_SUMS : detail,
					 .groups = groups,
					 .partition = dump_partition,
					 .rows = dump_rows };
	if (store_scan(store, selection, range, &scanner, &err) < 0)
		fail_msg("scan: %s", err.text);
	dump_finish(dump);
	store_selection_free(selection);
	selector_deinit(&selector);
}

static inline void expect_equal_dumps(const struct dump *expected, const struct dump *actual,
				      const char *what)
{
	for (uint32_t i = 0; i < expected->count && i < actual->count; i++) {
		const struct dump_line *wanted = &expected->lines[i], *line = &actual->lines[i];

		if (strcmp(wanted->text, line->text))
			fail_msg("%s: line %u is \"%s\", expected \"%s\"", what, i, line->text,
				 wanted->text);
		EXPECT_EQ(wanted->value, line->value, wanted->text);
	}
	EXPECT_EQ(expected->count, actual->count, what);
}

static const struct time_range all_time = { 0, UINT64_MAX };
