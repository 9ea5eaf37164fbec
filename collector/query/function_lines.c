// SPDX-License-Identifier: Apache-2.0
#include "collector/query/function_lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "collector/query/query_gauge.h"
#include "collector/query/query_sums.h"
#include "collector/symbols/symbolizer.h"

enum { TITLE_BYTES = STRING_BYTES_MAX + 64 };

/** A place where a location is in the function. */
struct match {
	uint32_t path;
	uint32_t number;
	enum frame_kind kind;
	bool is_innermost; // self time is spent here
};

/** The matches of a location, innermost first. */
struct match_range {
	uint32_t first;
	uint32_t count;
	bool is_known;
};

struct file_key {
	uint32_t path, service, version, kind;
};

struct line_key {
	uint32_t file, number;
};

struct gathering {
	const struct query *query;
	const struct store_selection *selection;
	const struct query_groups *groups;
	const char *function;
	struct function_lines found;
	struct hash_table file_index, line_index;
	uint64_t symbolizer_ns; // the symbolizer's time left
	struct error *err;

	// Of the current partition.
	const struct store_forest *forest;
	enum frame_kind kind;       // of the location that is looked at
	struct match_range *ranges; // by location
	struct match *matches;
	uint32_t match_count, match_capacity;
};

void function_lines_deinit(struct function_lines *lines)
{
	string_table_deinit(&lines->strings);
	free(lines->files);
	free(lines->lines);
	*lines = (struct function_lines){ 0 };
}

static void gathering_deinit(struct gathering *gathering)
{
	function_lines_deinit(&gathering->found);
	hash_table_deinit(&gathering->file_index);
	hash_table_deinit(&gathering->line_index);
	free(gathering->ranges);
	free(gathering->matches);
}

static int fail(struct gathering *gathering, int rc)
{
	if (!rc || gathering->err->code)
		return rc;
	return rc == -E2BIG
		       ? error_set(
				 gathering->err, rc,
				 "the function has more than %d lines, or files; choose a shorter "
				 "range or fewer series",
				 FUNCTION_LINES_MAX)
		       : error_set(gathering->err, rc, "out of memory for a function's lines");
}

static void add_value(int64_t *sum, int64_t value)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)value); // wraps instead of being undefined
}

static int intern(struct gathering *gathering, const char *text, uint32_t *ret_number)
{
	return string_table_add(&gathering->found.strings, text, strlen(text), ret_number);
}

/* ---- which locations are in the function --------------------------------------------------- */

static int add_match(struct gathering *gathering, const char *path, uint32_t number,
		     bool is_innermost)
{
	struct match match = { .number = number,
			       .kind = gathering->kind,
			       .is_innermost = is_innermost };
	int rc = array_reserve(&gathering->matches, sizeof(match), &gathering->match_capacity,
			       gathering->match_count, 1, FUNCTION_MATCHES_MAX);

	if (!rc)
		rc = intern(gathering, path, &match.path);
	if (!rc)
		gathering->matches[gathering->match_count++] = match;
	return rc;
}

/** Of a location that the symbolizer found. */
static int match_source(void *context, const struct source_lines *lines)
{
	struct gathering *gathering = context;
	char title[TITLE_BYTES];
	int rc = 0;

	for (uint32_t i = 0; !rc && i < lines->count; i++) {
		const struct source_line *line = &lines->lines[i];

		frame_title_of_source(line, FRAME_LINES_NONE, title, sizeof(title));
		if (strcmp(title, gathering->function) == 0)
			rc = add_match(gathering, line->file, line->number, i == 0);
	}
	return rc;
}

static int match_location(struct gathering *gathering, const struct location *location)
{
	const struct profile *profile = gathering->forest->locations;
	struct symbolizer *symbolizer = gathering->query->symbolizer;
	char title[TITLE_BYTES];
	int rc = -ENOENT;

	gathering->kind = location->kind;
	if (!location->line_count && symbolizer)
		rc = symbolizer_find(symbolizer, profile, location, &gathering->symbolizer_ns,
				     match_source, gathering);
	if (rc != -ENOENT)
		return rc;
	rc = 0;
	for (uint32_t i = 0; !rc && (i < location->line_count || i == 0); i++) {
		const struct line *line = i < location->line_count
						  ? &profile->lines[location->first_line + i]
						  : &(const struct line){ 0 };

		frame_title(profile, location, i, FRAME_LINES_NONE, title, sizeof(title));
		if (strcmp(title, gathering->function) == 0)
			rc = add_match(gathering, profile_string(profile, line->file), line->number,
				       i == 0);
	}
	return rc;
}

/** The matches of a node's location; none of a truncated stack's end. */
static int find_matches(struct gathering *gathering, uint32_t node, struct match_range *ret_range)
{
	const struct store_forest *forest = gathering->forest;
	uint32_t frame = forest->frames[node];
	int rc = 0;

	*ret_range = (struct match_range){ 0 };
	if (node == 0 || frame >= FOREST_FRAME_END)
		return 0;
	if (frame >= forest->locations->location_count)
		return error_set(gathering->err, -EIO, "store: a stack refers to location %u of %u",
				 frame, forest->locations->location_count);
	struct match_range *range = &gathering->ranges[frame];
	if (!range->is_known) {
		range->first = gathering->match_count;
		rc = match_location(gathering, &forest->locations->locations[frame]);
		range->count = gathering->match_count - range->first;
		range->is_known = true;
	}
	*ret_range = *range;
	return rc;
}

/* ---- files and lines ----------------------------------------------------------------------- */

static bool file_has_key(const void *context, uint32_t item, const void *key)
{
	const struct function_file *file = &((const struct function_file *)context)[item];
	const struct file_key *wanted = key;

	return file->path == wanted->path && file->service == wanted->service &&
	       file->version == wanted->version && (uint32_t)file->kind == wanted->kind;
}

static bool line_has_key(const void *context, uint32_t item, const void *key)
{
	const struct function_line *line = &((const struct function_line *)context)[item];
	const struct line_key *wanted = key;

	return line->file == wanted->file && line->number == wanted->number;
}

static int find_file(struct gathering *gathering, const struct file_key *key, uint32_t *ret_file)
{
	struct function_lines *found = &gathering->found;
	uint64_t hash = hash64_of(key, sizeof(*key));
	int rc;

	*ret_file = hash_table_find(&gathering->file_index, hash, file_has_key, found->files, key);
	if (*ret_file != HASH_TABLE_NONE)
		return 0;
	rc = array_reserve(&found->files, sizeof(*found->files), &found->file_capacity,
			   found->file_count, 1, FUNCTION_FILES_MAX);
	if (rc)
		return rc;
	*ret_file = found->file_count++;
	found->files[*ret_file] = (struct function_file){
		.path = key->path,
		.service = key->service,
		.version = key->version,
		.kind = (enum frame_kind)key->kind,
	};
	return hash_table_add(&gathering->file_index, hash, *ret_file);
}

static int find_line(struct gathering *gathering, const struct line_key *key, uint32_t *ret_line)
{
	struct function_lines *found = &gathering->found;
	uint64_t hash = hash64_of(key, sizeof(*key));
	int rc;

	*ret_line = hash_table_find(&gathering->line_index, hash, line_has_key, found->lines, key);
	if (*ret_line != HASH_TABLE_NONE)
		return 0;
	rc = array_reserve(&found->lines, sizeof(*found->lines), &found->line_capacity,
			   found->line_count, 1, FUNCTION_LINES_MAX);
	if (rc)
		return rc;
	*ret_line = found->line_count++;
	found->lines[*ret_line] =
		(struct function_line){ .file = key->file, .number = key->number };
	return hash_table_add(&gathering->line_index, hash, *ret_line);
}

/* ---- values -------------------------------------------------------------------------------- */

/** What calls of the function are above a place on its stack. */
struct above {
	bool function, file, line;
};

static void look_at(const struct gathering *gathering, struct match_range range, uint32_t from,
		    const struct match *match, struct above *above)
{
	for (uint32_t i = from; i < range.count; i++) {
		const struct match *other = &gathering->matches[range.first + i];
		bool is_file = other->path == match->path && other->kind == match->kind;

		above->function = true;
		above->file |= is_file;
		above->line |= is_file && other->number == match->number;
	}
}

/** Look for the function above the match at @at of @node. Its callers are live, so their matches are known. */
static struct above look_above(const struct gathering *gathering, uint32_t node,
			       struct match_range range, uint32_t at)
{
	const struct store_forest *forest = gathering->forest;
	const struct match *match = &gathering->matches[range.first + at];
	struct above above = { 0 };

	look_at(gathering, range, at + 1, match, &above);
	for (uint32_t caller = forest->parents[node]; caller && !above.line;
	     caller = forest->parents[caller])
		if (forest->frames[caller] < FOREST_FRAME_END)
			look_at(gathering, gathering->ranges[forest->frames[caller]], 0, match,
				&above);
	return above;
}

static int add_node(struct gathering *gathering, const struct file_key *labels, uint32_t node,
		    struct match_range range, int64_t self, int64_t total)
{
	struct function_lines *found = &gathering->found;
	int rc = 0;

	for (uint32_t at = 0; !rc && at < range.count; at++) {
		const struct match match = gathering->matches[range.first + at];
		const struct above above = look_above(gathering, node, range, at);
		struct file_key key = *labels;
		uint32_t file = 0, line = 0;

		key.path = match.path;
		key.kind = (uint32_t)match.kind;
		rc = find_file(gathering, &key, &file);
		if (!rc)
			rc = find_line(gathering, &(struct line_key){ file, match.number }, &line);
		if (rc)
			return rc;
		if (match.is_innermost) {
			add_value(&found->lines[line].self, self);
			add_value(&found->files[file].self, self);
			add_value(&found->self, self);
		}
		add_value(&found->lines[line].total, above.line ? 0 : total);
		add_value(&found->files[file].total, above.file ? 0 : total);
		add_value(&found->total, above.function ? 0 : total);
	}
	return rc;
}

static int on_partition(void *context, const struct store_forest *forest)
{
	struct gathering *gathering = context;

	free(gathering->ranges);
	gathering->forest = forest;
	gathering->match_count = 0;
	return fail(gathering, array_allocate(&gathering->ranges, forest->locations->location_count,
					      sizeof(*gathering->ranges)));
}

/** The labels that a group's lines belong to. */
static int read_labels(struct gathering *gathering, uint32_t group, struct file_key *ret_key)
{
	const struct store_series *first =
		&gathering->selection->series[gathering->groups->first_series[group]];
	const char *service = labels_get(&first->labels, LABEL_SERVICE);
	const char *version = labels_get(&first->labels, LABEL_VERSION);

	*ret_key = (struct file_key){ 0 };
	int rc = intern(gathering, service ? service : "", &ret_key->service);
	return rc ? rc : intern(gathering, version ? version : "", &ret_key->version);
}

static int on_sums(void *context, const struct forest_sums *sums)
{
	struct gathering *gathering = context;
	struct file_key labels;
	int rc = read_labels(gathering, sums->group, &labels);

	add_value(&gathering->found.whole, sums->total[0]);
	for (uint32_t i = 0; !rc && i < sums->live_count; i++) {
		uint32_t node = sums->live[i];
		struct match_range range;

		rc = find_matches(gathering, node, &range);
		if (!rc)
			rc = add_node(gathering, &labels, node, range, sums->self[node],
				      sums->total[node]);
	}
	return fail(gathering, rc);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static int compare_files(const void *left, const void *right, void *context)
{
	const struct function_file *files = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	if (files[a].self != files[b].self)
		return files[a].self < files[b].self ? 1 : -1;
	if (files[a].total != files[b].total)
		return files[a].total < files[b].total ? 1 : -1;
	return a < b ? -1 : a > b;
}

static int compare_lines(const void *left, const void *right)
{
	const struct function_line *a = left, *b = right;

	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

/** Sort files by value, and each one's lines by number. */
static int arrange(struct function_lines *found)
{
	_cleanup_free_ uint32_t *order = NULL, *place = NULL;
	_cleanup_free_ struct function_file *sorted = NULL;

	if (array_allocate(&order, found->file_count, sizeof(*order)) ||
	    array_allocate(&place, found->file_count, sizeof(*place)) ||
	    array_allocate(&sorted, found->file_count, sizeof(*sorted)))
		return -ENOMEM;
	for (uint32_t i = 0; i < found->file_count; i++)
		order[i] = i;
	if (found->file_count)
		qsort_r(order, found->file_count, sizeof(*order), compare_files, found->files);
	for (uint32_t i = 0; i < found->file_count; i++) {
		sorted[i] = found->files[order[i]];
		place[order[i]] = i;
	}
	for (uint32_t i = 0; i < found->line_count; i++)
		found->lines[i].file = place[found->lines[i].file];
	if (found->line_count)
		qsort(found->lines, found->line_count, sizeof(*found->lines), compare_lines);
	for (uint32_t i = found->line_count; i-- > 0;) {
		sorted[found->lines[i].file].first_line = i;
		sorted[found->lines[i].file].line_count++;
	}
	free(found->files);
	found->files = take(sorted);
	return 0;
}

/** Divide a gauge's sums. */
static void average(struct function_lines *found, int64_t seconds)
{
	int64_t *const sums[] = { &found->self, &found->total, &found->whole };

	for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
		*sums[i] = query_gauge_mean(*sums[i], seconds);
	for (uint32_t i = 0; i < found->file_count; i++) {
		found->files[i].self = query_gauge_mean(found->files[i].self, seconds);
		found->files[i].total = query_gauge_mean(found->files[i].total, seconds);
	}
	for (uint32_t i = 0; i < found->line_count; i++) {
		found->lines[i].self = query_gauge_mean(found->lines[i].self, seconds);
		found->lines[i].total = query_gauge_mean(found->lines[i].total, seconds);
	}
}

static int gather(struct gathering *gathering)
{
	const struct sums_reader reader = {
		.context = gathering,
		.partition = on_partition,
		.sums = on_sums,
	};
	uint64_t rows;
	int rc = fail(gathering, string_table_init(&gathering->found.strings));

	if (!rc && gathering->selection->series_count)
		rc = query_sum(gathering->query, gathering->selection, gathering->groups, &reader,
			       &rows, gathering->err);
	return rc ? rc : fail(gathering, arrange(&gathering->found));
}

int query_function_lines(const struct query *asked, const char *function,
			 struct function_lines *ret_lines, struct error *err)
{
	static const char *const labels[] = { LABEL_SERVICE, LABEL_VERSION };
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
	struct query query = *asked;
	int64_t seconds = 1;

	*err = (struct error){ 0 };
	query_widen_gauge(&query);
	int rc = query_select(&query, &selection, err);
	if (!rc)
		rc = query_gauge_seconds(&query, selection, &seconds, err);
	if (rc)
		return rc;
	rc = query_groups_init(&groups, selection, labels, ARRAY_SIZE(labels));
	if (rc)
		return error_set(err, rc, "too many services and versions");

	_cleanup_(gathering_deinit) struct gathering gathering = {
		.query = &query,
		.selection = selection,
		.groups = &groups,
		.function = function,
		.symbolizer_ns = SYMBOLIZER_NS_MAX,
		.err = err,
	};
	rc = gather(&gathering);
	if (rc)
		return rc;
	average(&gathering.found, seconds);
	*ret_lines = gathering.found;
	gathering.found = (struct function_lines){ 0 };
	return 0;
}
