// SPDX-License-Identifier: Apache-2.0
// Reads rows, sums and activity of a selection. What lies wholly in the range is added up in SQL; rows that cross an end
// of it come whole, and are cut here, as interval.h says. Samples are gathered up to GATHERED_MAX with the ids of their
// stacks; then the stacks are looked up, and given to the scanner with the samples as one partition.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "collector/store/clickhouse/clickhouse_row.h"
#include "collector/store/clickhouse/clickhouse_sql.h"
#include "collector/store/clickhouse/clickhouse_store.h"
#include "collector/store/interval.h"
#include "collector/store/slot_counts.h"

enum {
	GATHERED_MAX = 1 << 20, // samples in memory, 40 bytes each
	ROW_SAMPLES_MAX = 1 << 26,
	NODES_MAX = 1 << 28,
};

// ---- the forest -----------------------------------------------------------------------------------

struct growing_forest {
	uint32_t *parents, *frames;
	uint32_t count, parent_capacity, frame_capacity;
	struct hash_table index; // by parent and frame
	struct profile *locations;
};

struct node_key {
	uint32_t parent, frame;
};

static void forest_deinit(struct growing_forest *forest)
{
	free(forest->parents);
	free(forest->frames);
	hash_table_deinit(&forest->index);
	profile_free(forest->locations);
	*forest = (struct growing_forest){ 0 };
}

static bool node_has_key(const void *context, uint32_t item, const void *key)
{
	const struct growing_forest *forest = context;
	const struct node_key *wanted = key;

	return forest->parents[item] == wanted->parent && forest->frames[item] == wanted->frame;
}

static int add_node(struct growing_forest *forest, uint32_t parent, uint32_t frame,
		    uint32_t *ret_node)
{
	struct node_key key = { parent, frame };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t at = forest->count
			      ? hash_table_find(&forest->index, hash, node_has_key, forest, &key)
			      : HASH_TABLE_NONE;

	if (at != HASH_TABLE_NONE) {
		*ret_node = at;
		return 0;
	}
	at = forest->count;
	int rc = array_reserve(&forest->parents, sizeof(*forest->parents), &forest->parent_capacity,
			       at, 1, NODES_MAX);
	if (!rc)
		rc = array_reserve(&forest->frames, sizeof(*forest->frames),
				   &forest->frame_capacity, at, 1, NODES_MAX);
	if (!rc && at) // the root is nobody's child
		rc = hash_table_add(&forest->index, hash, at);
	if (rc)
		return rc;
	forest->parents[at] = parent;
	forest->frames[at] = frame;
	forest->count++;
	*ret_node = at;
	return 0;
}

static int forest_init(struct growing_forest *forest)
{
	uint32_t root;

	forest->locations = profile_new(1);
	return forest->locations ? add_node(forest, 0, 0, &root) : -ENOMEM;
}

/** @at: the stack in @from, or HASH_TABLE_NONE: its definition is lost. */
static int add_stack(struct growing_forest *forest, const struct profile *from, uint32_t at,
		     uint32_t *ret_node)
{
	const struct stack *stack = at == HASH_TABLE_NONE ? NULL : &from->stacks[at];
	uint32_t end = stack ? (uint32_t)stack->end : STACK_END_LOST, node = 0;
	int rc = 0;

	if (end != STACK_END_COMPLETE)
		rc = add_node(forest, 0, FOREST_FRAME_END + end, &node);
	for (uint32_t i = stack ? stack->location_count : 0; i-- > 0 && !rc;) {
		uint32_t location = from->stack_locations[stack->first_location + i], frame;

		rc = definitions_copy_location(forest->locations, from, &from->locations[location],
					       &frame);
		if (!rc)
			rc = add_node(forest, node, frame, &node);
	}
	*ret_node = node;
	return rc;
}

// ---- gathering ------------------------------------------------------------------------------------

struct gathered {
	uint64_t slot, slot_ns; // 0 of a sum
	int64_t value;
	uint32_t series, stack, more_slots;
};

struct scan {
	struct clickhouse_store *store;
	const struct clickhouse_selection *selection;
	const struct store_scanner *scanner;
	struct time_range range;
	uint32_t shard;
	struct gathered *samples;
	uint32_t count, capacity;
	struct id128 *stacks; // distinct
	uint32_t stack_count, stack_capacity;
	struct hash_table stack_index;
	struct row_columns columns;
	struct error *err;
};

static void scan_deinit(struct scan *scan)
{
	free(scan->samples);
	free(scan->stacks);
	hash_table_deinit(&scan->stack_index);
	row_columns_deinit(&scan->columns);
}

static bool stack_has_id(const void *context, uint32_t item, const void *key)
{
	const struct scan *scan = context;

	return id128_equal(scan->stacks[item], *(const struct id128 *)key);
}

static int number_stack(struct scan *scan, struct id128 id, uint32_t *ret_stack)
{
	uint64_t hash = id128_hash(id);
	uint32_t at = hash_table_find(&scan->stack_index, hash, stack_has_id, scan, &id);

	if (at == HASH_TABLE_NONE) {
		at = scan->stack_count;
		int rc = array_reserve(&scan->stacks, sizeof(*scan->stacks), &scan->stack_capacity,
				       at, 1, ROW_SAMPLES_MAX);
		if (!rc)
			rc = hash_table_add(&scan->stack_index, hash, at);
		if (rc)
			return rc;
		scan->stacks[at] = id;
		scan->stack_count++;
	}
	*ret_stack = at;
	return 0;
}

static int gather(struct scan *scan, const struct gathered *sample, struct id128 stack)
{
	struct gathered added = *sample;
	int rc = number_stack(scan, stack, &added.stack);

	if (!rc)
		rc = array_reserve(&scan->samples, sizeof(*scan->samples), &scan->capacity,
				   scan->count, 1, ROW_SAMPLES_MAX);
	if (!rc)
		scan->samples[scan->count++] = added;
	return rc;
}

/** Give samples [from, from + count), which are of one series and slot length. */
static int give_rows(struct scan *scan, const uint32_t *nodes, uint32_t from, uint32_t count)
{
	const struct gathered *samples = scan->samples + from;
	struct row_columns *columns = &scan->columns;
	bool has_slots = scan->scanner->detail == SCAN_ROWS;
	uint32_t any = 0;
	int rc = row_columns_reserve(columns, count);

	for (uint32_t i = 0; i < count && !rc; i++) {
		columns->slots[i] = samples[i].slot;
		columns->more_slots[i] = samples[i].more_slots;
		columns->nodes[i] = nodes[samples[i].stack];
		columns->values[i] = samples[i].value;
		any |= samples[i].more_slots;
	}
	const struct store_rows rows = {
		.series = samples->series,
		.slot_ns = samples->slot_ns,
		.count = count,
		.slots = has_slots ? columns->slots : NULL,
		.more_slots = has_slots && any ? columns->more_slots : NULL,
		.nodes = columns->nodes,
		.values = columns->values,
	};
	return rc ? rc : scan->scanner->rows(scan->scanner->context, &rows);
}

static int give_partition(struct scan *scan, const struct growing_forest *forest,
			  const uint32_t *nodes)
{
	const struct store_scanner *scanner = scan->scanner;
	const struct store_forest view = { .node_count = forest->count,
					   .parents = forest->parents,
					   .frames = forest->frames,
					   .locations = forest->locations };
	uint32_t from = 0;
	int rc = scanner->partition ? scanner->partition(scanner->context, &view) : 0;

	for (uint32_t i = 1; i <= scan->count && !rc; i++) {
		if (i < scan->count && scan->samples[i].series == scan->samples[from].series &&
		    scan->samples[i].slot_ns == scan->samples[from].slot_ns)
			continue;
		rc = deadline_check(scan->selection->result.deadline, scan->err);
		if (!rc)
			rc = give_rows(scan, nodes, from, i - from);
		from = i;
	}
	if (!rc && scanner->partition_end)
		rc = scanner->partition_end(scanner->context);
	return rc;
}

static int grow_forest(struct scan *scan, struct definitions *definitions,
		       struct growing_forest *forest, uint32_t *nodes)
{
	int rc = forest_init(forest);

	pthread_mutex_lock(&definitions->lock);
	for (uint32_t i = 0; i < scan->stack_count && !rc; i++)
		rc = add_stack(forest, definitions->profile,
			       definitions_find_stack(definitions, scan->stacks[i]), &nodes[i]);
	pthread_mutex_unlock(&definitions->lock);
	return rc ? error_set(scan->err, rc, "store: out of memory for the stacks") : 0;
}

/** Give what is gathered, as a partition. */
static int flush(struct scan *scan)
{
	_cleanup_(forest_deinit) struct growing_forest forest = { 0 };
	struct definitions *definitions = clickhouse_definitions(scan->store);
	_cleanup_free_ uint32_t *nodes = calloc(scan->stack_count + 1, sizeof(*nodes));
	int rc = definitions && nodes ? 0 : error_set(scan->err, -ENOMEM, "store: out of memory");

	if (!rc)
		rc = definitions_fetch_stacks(definitions, &scan->store->client, scan->shard,
					      scan->stacks, scan->stack_count,
					      scan->selection->result.deadline, scan->err);
	if (!rc)
		rc = grow_forest(scan, definitions, &forest, nodes);
	definitions_unref(definitions);
	if (!rc)
		rc = give_partition(scan, &forest, nodes);
	scan->count = scan->stack_count = 0;
	hash_table_clear(&scan->stack_index);
	return rc;
}

static int flush_when_full(struct scan *scan, int rc)
{
	if (!rc && scan->count >= GATHERED_MAX)
		return flush(scan);
	return rc;
}

// ---- rows -----------------------------------------------------------------------------------------

/** A row of samples, its columns in place. */
struct sample_row {
	struct id128 series;
	uint64_t slot_ns, first_slot;
	const uint8_t *slots, *more_slots, *values, *stacks;
	uint32_t count;
	bool has_lengths;
};

/** Returns 0, also if it is not whole; -EBADMSG. */
static int read_sample_row(struct reader *reader, bool with_stacks, struct sample_row *row)
{
	uint32_t lengths, values, stacks = 0;

	row->series = row_id(reader);
	row->slot_ns = row_u64(reader);
	row->first_slot = row_u64(reader);
	row->slots = row_array(reader, sizeof(uint32_t), &row->count);
	row->more_slots = row_array(reader, sizeof(uint32_t), &lengths);
	row->values = row_array(reader, sizeof(int64_t), &values);
	if (with_stacks)
		row->stacks = row_array(reader, ID128_BYTES, &stacks);
	row->has_lengths = lengths > 0;
	if (reader->failed)
		return 0;
	if (row->slot_ns < SLOT_NS_MIN || row->slot_ns > MINUTE_NS ||
	    row->first_slot > INT64_MAX / row->slot_ns || values != row->count ||
	    (lengths && lengths != row->count) || (with_stacks && stacks != row->count))
		return -EBADMSG;
	for (uint32_t i = 0; i < row->count; i++)
		if (row_array_u32(row->slots, i) >= MINUTE_SLOTS_MAX ||
		    (lengths && row_array_u32(row->more_slots, i) >= MINUTE_SLOTS_MAX))
			return -EBADMSG;
	return 0;
}

/** Samples that overlap the range: whole with SCAN_ROWS, otherwise what lies in it. */
static int read_rows(void *context, struct reader *reader)
{
	struct scan *scan = context;
	struct sample_row row;
	int rc = read_sample_row(reader, true, &row);

	if (rc || reader->failed)
		return rc;
	uint32_t series = clickhouse_selection_find(scan->selection, row.series);
	uint64_t from = slot_at(scan->range.from_ns, row.slot_ns);
	uint64_t to = slot_at(scan->range.to_ns, row.slot_ns);
	for (uint32_t i = 0; i < row.count && series != HASH_TABLE_NONE && !rc; i++) {
		struct gathered sample = {
			.series = scan->scanner->detail == SCAN_SUMS ? 0 : series,
			.slot_ns = row.slot_ns,
			.slot = row.first_slot + row_array_u32(row.slots, i),
			.more_slots = row.has_lengths ? row_array_u32(row.more_slots, i) : 0,
			.value = row_array_i64(row.values, i),
		};

		if (sample.slot >= to || sample.slot + sample.more_slots < from)
			continue;
		if (scan->scanner->detail != SCAN_ROWS)
			sample.value = interval_within(sample.slot, sample.more_slots, sample.value,
						       from, to);
		rc = gather(scan, &sample, id128_decode(row.stacks + (size_t)i * ID128_BYTES));
	}
	return flush_when_full(scan, rc);
}

static int read_sum(void *context, struct reader *reader)
{
	struct scan *scan = context;
	struct gathered sum = { 0 };

	if (scan->scanner->detail == SCAN_SERIES_SUMS) {
		sum.series = clickhouse_selection_find(scan->selection, row_id(reader));
	}
	struct id128 stack = row_id(reader);
	sum.value = (int64_t)row_u64(reader);
	if (reader->failed || sum.series == HASH_TABLE_NONE)
		return 0;
	return flush_when_full(scan, gather(scan, &sum, stack));
}

static int ask(struct scan *scan, const char *sql, const char *condition,
	       int (*row)(void *context, struct reader *reader))
{
	const struct clickhouse_selection *selection = scan->selection;
	_cleanup_(buffer_deinit) struct buffer where = { 0 }, text = { 0 };

	buffer_printf(&where, "%s%s AND series IN ids", condition, selection->services);
	buffer_printf(&text, sql, buffer_string(&where));
	if (where.rc || text.rc)
		return error_set(scan->err, -ENOMEM, "store: out of memory");
	const struct clickhouse_request request = {
		.sql = buffer_string(&text),
		.ids = selection->shards[scan->shard].ids,
		.id_count = selection->shards[scan->shard].count,
		.row = row,
		.context = scan,
		.deadline = selection->result.deadline,
	};
	return clickhouse_ask(&scan->store->client, scan->shard, &request, scan->err);
}

static int scan_shard(struct scan *scan)
{
	enum scan_detail detail = scan->scanner->detail;
	char overlapping[CLICKHOUSE_CONDITION_BYTES], whole[CLICKHOUSE_CONDITION_BYTES];
	char crossing[2 * CLICKHOUSE_CONDITION_BYTES];
	int rc = 0;

	if (!scan->selection->shards[scan->shard].count ||
	    !clickhouse_range_condition(scan->range, false, overlapping) ||
	    !clickhouse_range_condition(scan->range, true, whole))
		return 0;
	snprintf(crossing, sizeof(crossing), "%s AND NOT (first_ns >= %llu AND last_ns <= %llu)",
		 overlapping, (unsigned long long)scan->range.from_ns,
		 (unsigned long long)scan->range.to_ns - 1);
	if (detail == SCAN_ROWS) {
		rc = ask(scan, SQL_ROWS, overlapping, read_rows);
	} else {
		rc = ask(scan, detail == SCAN_SUMS ? SQL_SUMS : SQL_SERIES_SUMS, whole, read_sum);
		if (!rc)
			rc = ask(scan, SQL_ROWS, crossing, read_rows);
	}
	return !rc && scan->count ? flush(scan) : rc;
}

static int scan_range(struct clickhouse_store *store, const struct store_selection *selection,
		      struct time_range range, const struct store_scanner *scanner,
		      struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < store->client.shard_count && !rc; i++) {
		_cleanup_(scan_deinit) struct scan scan = { .store = store,
							    .selection = selection->private_,
							    .scanner = scanner,
							    .range = range,
							    .shard = i,
							    .err = err };
		rc = scan_shard(&scan);
	}
	return rc;
}

int clickhouse_scan(struct store *base, const struct store_selection *selection,
		    const struct time_range *ranges, uint32_t range_count,
		    const struct store_scanner *scanner, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < range_count && !rc; i++)
		rc = scan_range((struct clickhouse_store *)base, selection, ranges[i], scanner,
				err);
	return rc;
}

// ---- activity -------------------------------------------------------------------------------------

struct counting {
	const struct clickhouse_selection *selection;
	struct slot_counts slots;
	struct row_columns columns;
};

static int read_count(void *context, struct reader *reader)
{
	struct counting *counting = context;
	const struct slot_counts *slots = &counting->slots;
	uint32_t series =
		slots->rows ? clickhouse_selection_find(counting->selection, row_id(reader)) : 0;
	uint64_t slot = row_u64(reader);
	uint64_t value = row_u64(reader);

	if (reader->failed || series == HASH_TABLE_NONE ||
	    (slots->rows && slots->rows[series] == STORE_ROW_NONE))
		return 0;
	if (slot >= slots->slot_count)
		return -EBADMSG;
	int64_t *count =
		slots->counts + (slots->rows ? slots->rows[series] : 0) * slots->slot_count + slot;
	*count = (int64_t)((uint64_t)*count + value);
	return 0;
}

static int read_intervals(void *context, struct reader *reader)
{
	struct counting *counting = context;
	struct row_columns *columns = &counting->columns;
	struct sample_row row;
	int rc = read_sample_row(reader, false, &row);

	if (rc || reader->failed)
		return rc;
	uint32_t series = clickhouse_selection_find(counting->selection, row.series);
	rc = row_columns_reserve(columns, row.count);
	if (rc || series == HASH_TABLE_NONE || !row.has_lengths)
		return rc;
	for (uint32_t i = 0; i < row.count; i++) {
		columns->slots[i] = row.first_slot + row_array_u32(row.slots, i);
		columns->more_slots[i] = row_array_u32(row.more_slots, i);
		columns->values[i] = row_array_i64(row.values, i);
	}
	const struct store_rows rows = { .series = series,
					 .slot_ns = row.slot_ns,
					 .count = row.count,
					 .slots = columns->slots,
					 .more_slots = columns->more_slots,
					 .values = columns->values };
	slot_counts_add(&counting->slots, &rows);
	return 0;
}

static int count_shard(struct clickhouse_store *store, uint32_t shard, struct counting *counting,
		       struct time_range range, struct error *err)
{
	const struct clickhouse_selection *selection = counting->selection;
	_cleanup_(buffer_deinit) struct buffer where = { 0 }, counts = { 0 }, intervals = { 0 };
	char condition[CLICKHOUSE_CONDITION_BYTES];

	if (!selection->shards[shard].count || !clickhouse_range_condition(range, false, condition))
		return 0;
	buffer_printf(&where, "%s%s AND series IN ids", condition, selection->services);
	buffer_printf(&counts, SQL_ACTIVITY, counting->slots.rows ? "series, " : "",
		      buffer_string(&where), (unsigned long long)range.from_ns,
		      (unsigned long long)range.to_ns, (unsigned long long)counting->slots.slot_ns);
	buffer_printf(&intervals, SQL_INTERVALS, buffer_string(&where));
	if (where.rc || counts.rc || intervals.rc)
		return error_set(err, -ENOMEM, "store: out of memory");
	struct clickhouse_request request = { .sql = buffer_string(&counts),
					      .ids = selection->shards[shard].ids,
					      .id_count = selection->shards[shard].count,
					      .row = read_count,
					      .context = counting,
					      .deadline = selection->result.deadline };
	int rc = clickhouse_ask(&store->client, shard, &request, err);
	request.sql = buffer_string(&intervals);
	request.row = read_intervals;
	return rc ? rc : clickhouse_ask(&store->client, shard, &request, err);
}

int clickhouse_activity(struct store *base, const struct store_selection *result,
			struct time_range range, uint64_t slot_ns, const uint32_t *rows,
			int64_t *counts, struct error *err)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;
	struct counting counting = {
		.selection = result->private_,
		.slots = { .from_ns = range.from_ns,
			   .slot_ns = slot_ns,
			   .rows = rows,
			   .counts = counts },
	};
	int rc = 0;

	if (range.from_ns >= range.to_ns)
		return 0;
	counting.slots.slot_count = (range.to_ns - range.from_ns) / slot_ns;
	range.to_ns = range.from_ns + counting.slots.slot_count * slot_ns;
	for (uint32_t i = 0; i < store->client.shard_count && !rc; i++)
		rc = count_shard(store, i, &counting, range, err);
	row_columns_deinit(&counting.columns);
	return rc;
}
