// SPDX-License-Identifier: Apache-2.0
// Selects series, and lists label names and values, from the postings of each partition in the range.
// A series in several partitions has the same id in each.
#include "collector/store/rocksdb/rocksdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/array.h"
#include "collector/store/rocksdb/partition_presence.h"
#include "collector/store/rocksdb/partition_read.h"

// ---- series -----------------------------------------------------------------------------------------

/** A series of the selection being made. Strings are numbers in `strings`. */
struct found_series {
	struct id128 id;
	uint32_t type;
	uint32_t first_pair, pair_count; // in `pairs`: name, value, name, value ...
};

struct selecting {
	struct rocksdb_selection *selection;
	struct deadline *deadline;
	struct string_table strings;
	struct found_series *series;
	uint32_t series_count, series_capacity;
	uint32_t *pairs;
	uint32_t pair_count, pair_capacity;
	struct hash_table index;
};

static void selecting_deinit(struct selecting *selecting)
{
	string_table_deinit(&selecting->strings);
	free(selecting->series);
	free(selecting->pairs);
	hash_table_deinit(&selecting->index);
}

static bool found_equal(const void *context, uint32_t item, const void *key)
{
	const struct selecting *selecting = context;

	return id128_equal(selecting->series[item].id, *(const struct id128 *)key);
}

static int copy_string(struct selecting *selecting, const char *string, uint32_t *ret_number)
{
	return string_table_add(&selecting->strings, string, strlen(string), ret_number);
}

static int copy_pairs(struct selecting *selecting, const struct postings_view *postings,
		      const struct indexed_series *series)
{
	int rc = array_reserve(&selecting->pairs, sizeof(uint32_t), &selecting->pair_capacity,
			       selecting->pair_count, 2 * series->pair_count, UINT32_MAX / 2);

	for (uint32_t i = 0; i < series->pair_count && rc == 0; i++) {
		const struct label_pair *pair =
			&postings->pairs[postings->series_pairs[series->first_pair + i]];
		uint32_t *to = &selecting->pairs[selecting->pair_count];

		rc = copy_string(selecting, pair->name, &to[0]);
		if (rc == 0)
			rc = copy_string(selecting, pair->value, &to[1]);
		selecting->pair_count += 2;
	}
	return rc;
}

static int add_found(struct selecting *selecting, const struct postings_view *postings,
		     const struct indexed_series *series, uint32_t *ret_number)
{
	struct found_series found = { .id = series->id,
				      .first_pair = selecting->pair_count,
				      .pair_count = series->pair_count };
	uint32_t number = hash_table_find(&selecting->index, id128_hash(series->id), found_equal,
					  selecting, &series->id);

	if (number != HASH_TABLE_NONE) {
		*ret_number = number;
		return 0;
	}
	number = selecting->series_count;
	int rc = array_reserve(&selecting->series, sizeof(found), &selecting->series_capacity,
			       number, 1, UINT32_MAX / 2);
	if (rc == 0)
		rc = copy_string(selecting, postings->pairs[series->type].value, &found.type);
	if (rc == 0)
		rc = copy_pairs(selecting, postings, series);
	if (rc == 0)
		rc = hash_table_add(&selecting->index, id128_hash(series->id), number);
	if (rc < 0)
		return rc;
	selecting->series[number] = found;
	selecting->series_count++;
	*ret_number = number;
	return 0;
}

/** List the series of @set by group. */
static int list_groups(const struct postings_view *postings, const struct series_set *set,
		       struct selected_partition *selected)
{
	_cleanup_free_ uint32_t *counts = calloc(postings->group_count + 1, sizeof(*counts));
	_cleanup_free_ uint32_t *positions = calloc(postings->group_count + 1, sizeof(*positions));
	_cleanup_free_ uint32_t *sizes = calloc(postings->group_count + 1, sizeof(*sizes));

	selected->groups = calloc(postings->group_count + 1, sizeof(*selected->groups));
	if (!counts || !positions || !sizes || !selected->groups)
		return -ENOMEM;
	for (uint32_t i = 0; i < set->series_count; i++) {
		counts[postings->series[i].group] += series_set_has(set, i);
		sizes[postings->series[i].group] += !series_is_deleted(&postings->series[i]);
	}
	for (uint32_t i = 0; i < postings->group_count; i++) {
		if (!counts[i])
			continue;
		positions[i] = selected->group_count;
		struct selected_group *group = &selected->groups[selected->group_count++];
		*group = (struct selected_group){
			.group = i,
			.series_count = sizes[i],
			.series = malloc(counts[i] * sizeof(*group->series)),
		};
		if (!group->series)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < set->series_count; i++) {
		if (!series_set_has(set, i))
			continue;
		struct selected_group *group =
			&selected->groups[positions[postings->series[i].group]];
		group->series[group->selected_count++] = i;
	}
	return 0;
}

static int number_series(struct selecting *selecting, const struct postings_view *postings,
			 const struct series_set *set, struct selected_partition *selected)
{
	int rc = 0;

	selected->wanted = malloc((set->series_count + 1) * sizeof(*selected->wanted));
	if (!selected->wanted)
		return -ENOMEM;
	selected->wanted_count = set->series_count;
	for (uint32_t i = 0; i < set->series_count && rc == 0; i++) {
		selected->wanted[i] = SERIES_UNWANTED;
		if (series_set_has(set, i))
			rc = add_found(selecting, postings, &postings->series[i],
				       &selected->wanted[i]);
	}
	return rc ? rc : list_groups(postings, set, selected);
}

static bool set_is_empty(const struct series_set *set)
{
	for (uint32_t i = 0; i <= set->series_count / 64; i++)
		if (set->words[i])
			return false;
	return true;
}

/** The arguments of a selection. */
struct match {
	struct rocksdb_store *store;
	const struct selector *selector;
	const char *type;
	struct time_range range;
};

/** Find the series of @partition that match. -ENOENT: it was dropped or is damaged. No lock is held. */
static int match_partition(const struct match *match, struct partition *partition,
			   struct postings_view *ret_view, struct series_set *ret_set,
			   struct error *err)
{
	uint64_t presence = partition_presence(partition, match->range.from_ns, match->range.to_ns);
	int rc = partition_read_postings(partition, match->store->db, ret_view, err);

	if (rc < 0)
		return rc == -EBADMSG ? -ENOENT : rc; // recorded: the answer says what it lacks
	rc = postings_select(ret_view, match->selector, match->type, presence, ret_set);
	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	return match->selector ? selector_check_cost(match->selector, err) : 0;
}

static int select_partition(const struct match *match, struct selecting *selecting,
			    struct partition *partition, struct error *err)
{
	struct rocksdb_selection *selection = selecting->selection;
	struct selected_partition *selected = &selection->partitions[selection->partition_count];
	_cleanup_(postings_view_deinit) struct postings_view view = { 0 };
	_cleanup_(series_set_deinit) struct series_set set = { 0 };
	int rc = match_partition(match, partition, &view, &set, err);

	if (rc == 0 && !set_is_empty(&set)) {
		selected->partition = partition_ref(partition);
		selection->partition_count++;
		rc = number_series(selecting, &view, &set, selected);
		if (rc < 0)
			error_set(err, rc, "store: out of memory");
	}
	return rc == -ENOENT ? 0 : rc;
}

/** Move the strings to the selection; its labels point into them. */
static int finish_selection(struct selecting *selecting, struct store_selection *result)
{
	struct rocksdb_selection *selection = selecting->selection;
	const uint32_t *offsets = selecting->strings.offsets;

	selection->strings = take(selecting->strings.bytes);
	selection->pairs = malloc((selecting->pair_count / 2 + 1) * sizeof(*selection->pairs));
	result->series = malloc((selecting->series_count + 1) * sizeof(*result->series));
	if (!selection->pairs || !result->series)
		return -ENOMEM;
	for (uint32_t i = 0; i < selecting->pair_count / 2; i++)
		selection->pairs[i] = (struct label){
			.name = selection->strings + offsets[selecting->pairs[2 * i]],
			.value = selection->strings + offsets[selecting->pairs[2 * i + 1]],
		};
	for (uint32_t i = 0; i < selecting->series_count; i++) {
		const struct found_series *found = &selecting->series[i];

		result->series[i] = (struct store_series){
			.number = i,
			.labels = { .pairs = selection->pairs + found->first_pair / 2,
				    .count = found->pair_count },
			.type = selection->strings + offsets[found->type],
		};
	}
	result->series_count = selecting->series_count;
	result->deadline = selecting->deadline;
	return 0;
}

void rocksdb_selection_free(struct store_selection *result)
{
	struct rocksdb_selection *selection = result->private_;

	for (uint32_t i = 0; i < selection->partition_count; i++) {
		struct selected_partition *selected = &selection->partitions[i];

		partition_unref(selected->partition);
		free(selected->wanted);
		for (uint32_t j = 0; j < selected->group_count; j++)
			free(selected->groups[j].series);
		free(selected->groups);
	}
	free(selection->partitions);
	free(selection->strings);
	free(selection->pairs);
	free(selection);
	free(result->series); // its labels' strings are the selection's
	free(result);
}

static struct store_selection *selection_new(uint32_t partitions)
{
	struct store_selection *result = calloc(1, sizeof(*result));
	struct rocksdb_selection *selection = calloc(1, sizeof(*selection));

	if (result && selection) {
		selection->partitions = calloc(partitions + 1, sizeof(*selection->partitions));
		result->private_ = selection;
		if (selection->partitions)
			return result;
	}
	free(selection);
	free(result);
	return NULL;
}

static void selection_freep(struct store_selection **selection)
{
	if (*selection)
		rocksdb_selection_free(*selection);
}

int rocksdb_select(struct rocksdb_store *store, const struct selector *selector, const char *type,
		   struct time_range range, struct store_selection **ret_selection,
		   struct error *err)
{
	struct match match = { store, selector, type, range };
	_cleanup_(partition_list_deinit) struct partition_list list = { 0 };
	_cleanup_(selecting_deinit) struct selecting selecting = { 0 };
	_cleanup_(selection_freep) struct store_selection *result = NULL;
	int rc = rocksdb_list_partitions(store, range, &list);

	if (rc == 0)
		rc = string_table_init(&selecting.strings);
	if (rc == 0 && !(result = selection_new(list.count)))
		rc = -ENOMEM;
	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	selecting.selection = result->private_;
	selecting.deadline = selector ? selector->deadline : NULL;
	for (uint32_t i = 0; i < list.count && rc == 0; i++)
		rc = select_partition(&match, &selecting, list.partitions[i], err);
	if (rc < 0)
		return rc;
	rc = finish_selection(&selecting, result);
	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	*ret_selection = take(result);
	return 0;
}

// ---- names and values -------------------------------------------------------------------------------

/** Mark the pairs of the series in @set. */
static void mark_pairs(const struct postings_view *view, const struct series_set *set, bool *marked)
{
	for (uint32_t i = 0; i < set->series_count; i++) {
		const struct indexed_series *series = &view->series[i];

		if (!series_set_has(set, i))
			continue;
		marked[series->type] = true;
		for (uint32_t j = 0; j < series->pair_count; j++)
			marked[view->series_pairs[series->first_pair + j]] = true;
	}
}

/** Add the label names (@name NULL), or the values of @name, of the series in @set to @strings. */
static int add_names(const struct postings_view *view, const struct series_set *set,
		     const char *name, struct string_table *strings)
{
	_cleanup_free_ bool *marked = calloc(view->pair_count + 1ULL, sizeof(*marked));
	int rc = marked ? 0 : -ENOMEM;

	if (rc == 0)
		mark_pairs(view, set, marked);
	for (uint32_t i = 0; i < view->pair_count && rc == 0; i++) {
		const struct label_pair *pair = &view->pairs[i];
		const char *wanted = name ? pair->value : pair->name;
		uint32_t number;

		if (marked[i] &&
		    (name ? !strcmp(pair->name, name) : strcmp(pair->name, POSTINGS_TYPE) != 0))
			rc = string_table_add(strings, wanted, strlen(wanted), &number);
	}
	return rc;
}

static int add_partition_names(const struct match *match, struct partition *partition,
			       const char *name, struct string_table *strings, struct error *err)
{
	_cleanup_(postings_view_deinit) struct postings_view view = { 0 };
	_cleanup_(series_set_deinit) struct series_set set = { 0 };
	int rc = match_partition(match, partition, &view, &set, err);

	if (rc == 0) {
		rc = add_names(&view, &set, name, strings);
		if (rc < 0)
			error_set(err, rc, "store: out of memory");
	}
	return rc == -ENOENT ? 0 : rc;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_strings(const struct string_table *strings, struct name_list *ret_list)
{
	struct name_list list = { .names = calloc(strings->count + 1, sizeof(*list.names)) };

	if (!list.names)
		return -ENOMEM;
	for (uint32_t i = 1; i < strings->count; i++) { // 0 is ""
		list.names[list.count] = strdup(string_table_get(strings, i));
		if (!list.names[list.count]) {
			name_list_deinit(&list);
			return -ENOMEM;
		}
		list.count++;
	}
	qsort(list.names, list.count, sizeof(*list.names), compare_names);
	*ret_list = list;
	return 0;
}

static int list_names(struct rocksdb_store *store, const char *name,
		      const struct selector *selector, struct time_range range,
		      struct name_list *ret_list, struct error *err)
{
	struct match match = { store, selector, NULL, range };
	_cleanup_(partition_list_deinit) struct partition_list list = { 0 };
	_cleanup_(string_table_deinit) struct string_table strings = { 0 };
	int rc = rocksdb_list_partitions(store, range, &list);

	if (rc == 0)
		rc = string_table_init(&strings);
	if (rc < 0)
		return error_set(err, rc, "store: out of memory");
	for (uint32_t i = 0; i < list.count && rc == 0; i++)
		rc = add_partition_names(&match, list.partitions[i], name, &strings, err);
	if (rc < 0)
		return rc;
	rc = list_strings(&strings, ret_list);
	return rc ? error_set(err, rc, "store: out of memory") : 0;
}

int rocksdb_label_names(struct rocksdb_store *store, const struct selector *selector,
			struct time_range range, struct name_list *ret_list, struct error *err)
{
	return list_names(store, NULL, selector, range, ret_list, err);
}

int rocksdb_label_values(struct rocksdb_store *store, const char *name,
			 const struct selector *selector, struct time_range range,
			 struct name_list *ret_list, struct error *err)
{
	return list_names(store, name, selector, range, ret_list, err);
}
