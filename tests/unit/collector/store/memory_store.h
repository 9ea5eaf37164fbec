// SPDX-License-Identifier: Apache-2.0
// A test double of the store: samples in a list, each partition's forest built anew for each scan.
// It stands in for every function of collector/store/store.h in the one program that includes it.
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/store/interval.h"
#include "collector/store/store.h"

enum { MEMORY_FRAMES_MAX = 32 };

struct memory_sample {
	uint32_t series;
	uint64_t slot_ns;
	uint64_t time_ns;                      // start of the slot
	uint32_t locations[MEMORY_FRAMES_MAX]; // leaf first, in store->profile
	uint32_t location_count;
	enum stack_end end;
	uint32_t more_slots; // an interval's, beside its first
	int64_t value;
};

struct memory_series {
	struct labels labels;
	char type[96];
};

struct store {
	uint64_t partition_ns;
	struct profile *profile; // holds the locations only
	struct memory_series *series;
	uint32_t series_count;
	struct memory_sample *samples; // sorted by series, then as added
	uint32_t sample_count;
	int scan_rc;                        // what store_scan() fails with
	int activity_rc;                    // what store_activity() fails with
	int append_rc;                      // what store_append() fails with
	struct store_append_result refused; // what store_append() says of refused rows
	struct id128 last_identity;         // of store_append()
	struct id128 unknown_stack;         // not zero: store_append() does not know it
	uint32_t appended;
	// Called with each batch; NULL: it is forgotten.
	void (*on_append)(const struct store_batch_id *batch, const struct profile *profile);
	uint32_t scan_sleep_ms;
	atomic_bool scans_held; // none ends
	atomic_uint scans;      // begun
	bool closed;
};

struct store *memory_store_new(uint64_t partition_ns);
uint32_t memory_store_add_series(struct store *store, const struct labels *labels,
				 const char *type);
void memory_store_add(struct store *store, const struct memory_sample *sample);

struct store *memory_store_new(uint64_t partition_ns)
{
	struct store *store = calloc(1, sizeof(*store));

	store->partition_ns = partition_ns;
	store->profile = profile_new(1);
	return store;
}

void store_close(struct store *store)
{
	for (uint32_t i = 0; i < store->series_count; i++)
		labels_deinit(&store->series[i].labels);
	free(store->series);
	free(store->samples);
	profile_free(store->profile);
	free(store);
}

uint32_t memory_store_add_series(struct store *store, const struct labels *labels, const char *type)
{
	struct memory_series series = { 0 };

	if (labels_copy(labels, &series.labels))
		abort();
	snprintf(series.type, sizeof(series.type), "%s", type);
	store->series = realloc(store->series, (store->series_count + 1) * sizeof(*store->series));
	store->series[store->series_count] = series;
	return store->series_count++;
}

void memory_store_add(struct store *store, const struct memory_sample *sample)
{
	store->samples =
		realloc(store->samples, (store->sample_count + 1) * sizeof(*store->samples));
	store->samples[store->sample_count++] = *sample;
}

int store_append(struct store *store, const struct store_batch_id *batch,
		 const struct profile *profile, struct store_append_result *ret_result,
		 struct error *err)
{
	if (store->on_append)
		store->on_append(batch, profile);
	*ret_result = store->refused;
	store->last_identity = batch->identity;
	if (store->append_rc)
		return error_set(err, store->append_rc, "append: as the test wants it");
	if (!id128_is_zero(store->unknown_stack)) {
		ret_result->unknown_stacks = malloc(sizeof(struct id128));
		ret_result->unknown_stacks[0] = store->unknown_stack;
		ret_result->unknown_stack_count = 1;
		return 0;
	}
	ret_result->duplicate = batch->sequence <= store->appended;
	if (!ret_result->duplicate)
		store->appended = (uint32_t)batch->sequence;
	return 0;
}

/** The selection's private part: the store's number of each selected series. */
static bool sample_in_range(const struct memory_sample *sample, struct time_range range)
{
	uint64_t last_ns = sample->time_ns + sample->more_slots * sample->slot_ns;

	return last_ns >= range.from_ns && sample->time_ns < range.to_ns;
}

/** The part of its value that lies in @range. */
static int64_t sample_value(const struct memory_sample *sample, struct time_range range)
{
	uint64_t slot_ns = sample->slot_ns;

	return interval_within(sample->time_ns / slot_ns, sample->more_slots, sample->value,
			       range.from_ns / slot_ns + (range.from_ns % slot_ns != 0),
			       range.to_ns / slot_ns + (range.to_ns % slot_ns != 0));
}

static bool series_in_range(const struct store *store, uint32_t series, struct time_range range)
{
	for (uint32_t i = 0; i < store->sample_count; i++) {
		if (store->samples[i].series == series &&
		    sample_in_range(&store->samples[i], range))
			return true;
	}
	return false;
}

int store_select(struct store *store, const struct selector *selector, const char *type,
		 struct time_range range, struct store_selection **ret_selection, struct error *err)
{
	struct store_selection *selection = calloc(1, sizeof(*selection));
	uint32_t *numbers = calloc(store->series_count + 1, sizeof(*numbers));

	selection->series = calloc(store->series_count + 1, sizeof(*selection->series));
	selection->private_ = numbers;
	for (uint32_t i = 0; i < store->series_count; i++) {
		if (!selector_matches(selector, &store->series[i].labels) ||
		    (type && strcmp(type, store->series[i].type) != 0) ||
		    !series_in_range(store, i, range))
			continue;
		numbers[selection->series_count] = i;
		selection->series[selection->series_count].number = selection->series_count;
		selection->series[selection->series_count].labels = store->series[i].labels;
		selection->series[selection->series_count].type = store->series[i].type;
		selection->series_count++;
	}
	selection->deadline = selector->deadline;
	int rc = selector_check_cost(selector, err);
	if (rc) {
		store_selection_free(selection);
		return rc;
	}
	*ret_selection = selection;
	return 0;
}

void store_selection_free(struct store_selection *selection)
{
	free(selection->series);
	free(selection->private_);
	free(selection);
}

/** A partition's forest while it grows. */
struct memory_forest {
	struct profile *profile;
	uint32_t *parents, *frames;
	uint32_t count;
};

static uint32_t memory_forest_child(struct memory_forest *forest, uint32_t parent, uint32_t frame)
{
	for (uint32_t node = 1; node < forest->count; node++) {
		if (forest->parents[node] == parent && forest->frames[node] == frame)
			return node;
	}
	forest->parents = realloc(forest->parents, (forest->count + 1) * sizeof(uint32_t));
	forest->frames = realloc(forest->frames, (forest->count + 1) * sizeof(uint32_t));
	forest->parents[forest->count] = parent;
	forest->frames[forest->count] = frame;
	return forest->count++;
}

static uint32_t memory_location(struct profile *into, const struct profile *from, uint32_t number)
{
	const struct location *old = &from->locations[number];
	struct location location = *old;
	struct line lines[LOCATION_LINES_MAX];
	uint32_t result;

	if (profile_add_string(into, profile_string(from, old->module), &location.module))
		abort();
	for (uint32_t i = 0; i < old->line_count; i++) {
		const struct line *line = &from->lines[old->first_line + i];

		lines[i].number = line->number;
		if (profile_add_string(into, profile_string(from, line->name), &lines[i].name) ||
		    profile_add_string(into, profile_string(from, line->file), &lines[i].file))
			abort();
	}
	if (profile_add_location(into, &location, lines, old->line_count, &result))
		abort();
	return result;
}

static uint32_t memory_node(struct store *store, struct memory_forest *forest,
			    const struct memory_sample *sample)
{
	uint32_t node = 0;

	if (sample->end != STACK_END_COMPLETE)
		node = memory_forest_child(forest, 0, FOREST_FRAME_END + sample->end);
	for (uint32_t i = sample->location_count; i-- > 0;)
		node = memory_forest_child(
			forest, node,
			memory_location(forest->profile, store->profile, sample->locations[i]));
	return node;
}

static int memory_scan_partition(struct store *store, const struct store_selection *selection,
				 struct time_range range, const struct store_scanner *scanner,
				 uint64_t partition)
{
	struct memory_forest forest = { .profile = profile_new(1) };
	uint32_t *nodes = calloc(store->sample_count + 1, sizeof(*nodes));
	const uint32_t *numbers = selection->private_;
	int rc = 0;

	memory_forest_child(&forest, 0, 0);
	for (uint32_t i = 0; i < store->sample_count; i++) {
		if (store->samples[i].time_ns / store->partition_ns == partition)
			nodes[i] = memory_node(store, &forest, &store->samples[i]);
	}
	const struct store_forest view = { forest.count, forest.parents, forest.frames,
					   forest.profile };
	rc = scanner->partition(scanner->context, &view);
	// One row a call, in the order of the samples: groups alternate as badly as they can.
	for (uint32_t i = 0; !rc && i < store->sample_count; i++) {
		const struct memory_sample *sample = &store->samples[i];
		const uint64_t slot = sample->time_ns / sample->slot_ns;
		// With slots an interval comes whole.
		const bool is_whole = scanner->detail == SCAN_ROWS;
		const int64_t value = is_whole ? sample->value : sample_value(sample, range);

		if (sample->time_ns / store->partition_ns != partition ||
		    !sample_in_range(sample, range))
			continue;
		for (uint32_t s = 0; !rc && s < selection->series_count; s++) {
			const struct store_rows rows = { .series = s,
							 .slot_ns = sample->slot_ns,
							 .count = 1,
							 .slots = &slot,
							 .more_slots = is_whole
									       ? &sample->more_slots
									       : NULL,
							 .nodes = &nodes[i],
							 .values = &value };
			if (numbers[s] == sample->series)
				rc = scanner->rows(scanner->context, &rows);
		}
	}
	if (!rc)
		rc = scanner->partition_end(scanner->context);
	free(nodes);
	free(forest.parents);
	free(forest.frames);
	profile_free(forest.profile);
	return rc;
}

int store_scan(struct store *store, const struct store_selection *selection,
	       struct time_range range, const struct store_scanner *scanner, struct error *err)
{
	uint64_t partition_max = 0;
	int rc = store->scan_rc;

	if (rc)
		return error_set(err, rc, "scan: as the test wants it");
	store->scans++;
	if (store->scan_sleep_ms)
		usleep(store->scan_sleep_ms * 1000);
	while (store->scans_held)
		usleep(1000);
	for (uint32_t i = 0; i < store->sample_count; i++) {
		if (store->samples[i].time_ns / store->partition_ns > partition_max)
			partition_max = store->samples[i].time_ns / store->partition_ns;
	}
	for (uint64_t partition = range.from_ns / store->partition_ns;
	     !rc && partition <= partition_max && partition * store->partition_ns < range.to_ns;
	     partition++)
		rc = memory_scan_partition(store, selection, range, scanner, partition);
	return rc;
}

int store_scan_ranges(struct store *store, const struct store_selection *selection,
		      const struct time_range *ranges, uint32_t range_count,
		      const struct store_scanner *scanner, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < range_count && !rc; i++)
		rc = store_scan(store, selection, ranges[i], scanner, err);
	return rc;
}

int store_activity(struct store *store, const struct store_selection *selection,
		   struct time_range range, uint64_t slot_ns, const uint32_t *rows, int64_t *counts,
		   struct error *err)
{
	const uint32_t *numbers = selection->private_;
	uint64_t slot_count = (range.to_ns - range.from_ns) / slot_ns;

	if (store->activity_rc)
		return error_set(err, store->activity_rc, "activity: as the test wants it");
	for (uint32_t i = 0; i < store->sample_count; i++) {
		const struct memory_sample *sample = &store->samples[i];

		for (uint32_t s = 0; s < selection->series_count; s++) {
			int64_t *row = counts + (rows ? rows[s] : 0) * slot_count;
			bool is_counted = numbers[s] == sample->series &&
					  (!rows || rows[s] != STORE_ROW_NONE);

			for (uint64_t slot = 0; is_counted && slot < slot_count; slot++) {
				uint64_t from_ns = range.from_ns + slot * slot_ns;
				struct time_range part = { from_ns, from_ns + slot_ns };

				// Sums wrap, as store.h says.
				row[slot] = (int64_t)((uint64_t)row[slot] +
						      (uint64_t)sample_value(sample, part));
			}
		}
	}
	return 0;
}

void name_list_deinit(struct name_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		free(list->names[i]);
	free(list->names);
	*list = (struct name_list){ 0 };
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void name_list_add(struct name_list *list, const char *name)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (strcmp(list->names[i], name) == 0)
			return;
	}
	list->names = realloc(list->names, (list->count + 1) * sizeof(*list->names));
	list->names[list->count++] = strdup(name);
	qsort(list->names, list->count, sizeof(*list->names), compare_names);
}

int store_label_names(struct store *store, const struct selector *selector, struct time_range range,
		      struct name_list *ret_list, struct error *err)
{
	(void)err;
	*ret_list = (struct name_list){ 0 };
	for (uint32_t i = 0; i < store->series_count; i++) {
		const struct labels *labels = &store->series[i].labels;

		if (!selector_matches(selector, labels) || !series_in_range(store, i, range))
			continue;
		for (uint32_t l = 0; l < labels->count; l++)
			name_list_add(ret_list, labels->pairs[l].name);
	}
	return 0;
}

int store_label_values(struct store *store, const char *name, const struct selector *selector,
		       struct time_range range, struct name_list *ret_list, struct error *err)
{
	(void)err;
	*ret_list = (struct name_list){ 0 };
	for (uint32_t i = 0; i < store->series_count; i++) {
		const struct labels *labels = &store->series[i].labels;
		const char *value = strcmp(name, "__type__") == 0 ? store->series[i].type
								  : labels_get(labels, name);

		if (value && selector_matches(selector, labels) && series_in_range(store, i, range))
			name_list_add(ret_list, value);
	}
	return 0;
}

int store_delete(struct store *store, const struct selector *selector, struct time_range range,
		 struct store_deletion *ret_deletion, struct error *err)
{
	struct store_selection *selection;
	int rc = store_select(store, selector, NULL, range, &selection, err);
	uint32_t kept = 0;

	if (rc < 0)
		return rc;
	*ret_deletion = (struct store_deletion){ .series = selection->series_count,
						 .partitions = selection->series_count > 0 };
	store_selection_free(selection);
	for (uint32_t i = 0; i < store->sample_count; i++) {
		const struct memory_sample *sample = &store->samples[i];

		if (sample->time_ns < range.from_ns || sample->time_ns >= range.to_ns ||
		    !selector_matches(selector, &store->series[sample->series].labels))
			store->samples[kept++] = *sample;
	}
	store->sample_count = kept;
	return 0;
}

int store_maintain(struct store *store, uint64_t now_ns, struct error *err)
{
	(void)store, (void)now_ns, (void)err;
	return 0;
}

int store_flush(struct store *store, struct error *err)
{
	(void)store, (void)err;
	return 0;
}

void store_read_damage(struct store *store, struct time_range range,
		       struct store_damage *ret_damage)
{
	(void)store;
	// For tests of what answers say: the first second of Unix time is damaged.
	*ret_damage = (struct store_damage){ .partitions = range.from_ns < NS_PER_SECOND };
}

uint64_t store_resolution(struct store *store, struct time_range range)
{
	(void)store;
	// For tests of what answers say: the first second of Unix time is downsampled.
	return range.from_ns < NS_PER_SECOND ? NS_PER_SECOND : 0;
}

void store_read_health(struct store *store, struct store_health *ret_health)
{
	(void)store;
	*ret_health = (struct store_health){ .takes_batches = true };
}

void store_read_stats(struct store *store, struct store_stats *ret_stats)
{
	*ret_stats = (struct store_stats){
		.rows_appended = store->sample_count,
		.series = store->series_count,
		.stored_bytes = 4711,
		.disk_free_bytes = 1234,
		.oldest_ns = store->sample_count ? UINT64_MAX : 0,
	};
	for (uint32_t i = 0; i < store->sample_count; i++) {
		uint64_t time_ns = store->samples[i].time_ns;

		if (time_ns < ret_stats->oldest_ns)
			ret_stats->oldest_ns = time_ns;
		if (time_ns > ret_stats->newest_ns)
			ret_stats->newest_ns = time_ns;
	}
}
