// SPDX-License-Identifier: Apache-2.0
// Turns a batch into rows. All of an agent's batches go to one shard, for a batch that lay in several could be there in
// part. (So a service's rows are in all shards, which add them up at the same time.)
#include "collector/store/clickhouse/clickhouse_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "collector/store/clickhouse/clickhouse_row.h"
#include "collector/store/clickhouse/clickhouse_sql.h"

enum { IDENTITY_WORDS = 6 };

/** An accepted sample. */
struct placed {
	uint32_t series, stack;
	uint64_t slot;
	uint32_t more_slots;
	int64_t value;
};

struct append {
	struct clickhouse_store *store;
	const struct profile *profile;
	uint32_t shard;
	struct id128 boot; // of identity, agent and boot
	struct id128 id;   // of the batch
	uint16_t day;      // of its oldest sample: the partition of all its rows
	struct placed *samples;
	uint32_t sample_count;
	uint64_t late, future;
	struct time_range accepted;
	bool *stack_used, *series_used;
	struct id128 *missing; // stacks that the batch does not define, and the day does not have
	uint32_t missing_count;
	struct id128 *unknown;
	uint32_t unknown_count;
	struct definitions *definitions;
	struct clickhouse_commit commit;
};

static void append_deinit(struct append *append)
{
	for (uint32_t i = 0; i < CLICKHOUSE_TABLES; i++)
		buffer_deinit(&append->commit.rows[i]);
	free(append->samples);
	free(append->stack_used);
	free(append->series_used);
	free(append->missing);
	free(append->unknown);
	definitions_unref(append->definitions);
}

// ---- which batch it is ----------------------------------------------------------------------------

static void identify(struct append *append, const struct store_batch_id *batch)
{
	uint64_t words[IDENTITY_WORDS + 1] = {
		batch->identity.high, batch->identity.low, batch->agent.high, batch->agent.low,
		batch->boot.high,     batch->boot.low,     batch->sequence,
	};

	// Of what restarts leave as it is.
	append->shard = (uint32_t)(id128_of(words, 4 * sizeof(*words)).high %
				   append->store->client.shard_count);
	append->boot = id128_of(words, IDENTITY_WORDS * sizeof(*words));
	append->id = id128_of(words, sizeof(words));
}

static int read_sequence(void *context, struct reader *reader)
{
	uint64_t *sequence = context;

	row_id(reader);
	uint64_t value = row_u64(reader);
	if (!reader->failed)
		*sequence = value;
	return 0;
}

/** Its sequence is in the servers. */
static void ignore_removed(void *context, const struct agent_entry *entry)
{
	(void)context, (void)entry;
}

static int set_agent(struct clickhouse_store *store, const struct store_batch_id *batch)
{
	pthread_mutex_lock(&store->agents_lock);
	uint64_t last = agent_table_find(&store->agents, batch);
	agent_table_begin(&store->agents);
	int rc = agent_table_reserve(&store->agents, batch, clickhouse_now_ns(store), NULL,
				     ignore_removed);
	if (!rc && last < batch->sequence) // a later one may have been faster
		agent_table_set(&store->agents, batch);
	pthread_mutex_unlock(&store->agents_lock);
	return rc;
}

/** The last acknowledged sequence: as this collector knows it, or the servers do. */
static int find_last(struct append *append, const struct store_batch_id *batch, uint64_t *ret_last,
		     struct error *err)
{
	struct clickhouse_store *store = append->store;
	struct store_batch_id last = *batch;

	pthread_mutex_lock(&store->agents_lock);
	*ret_last = agent_table_find(&store->agents, batch);
	pthread_mutex_unlock(&store->agents_lock);
	if (*ret_last)
		return 0;
	const struct clickhouse_request request = { .sql = SQL_LAST_SEQUENCE,
						    .ids = &append->boot,
						    .id_count = 1,
						    .row = read_sequence,
						    .context = ret_last,
						    .answer_bytes_max = 1 << 10 };
	int rc = clickhouse_ask(&store->client, append->shard, &request, err);
	last.sequence = *ret_last;
	if (!rc && *ret_last && set_agent(store, &last))
		rc = error_set(err, -ENOMEM, "store: out of memory for an agent");
	return rc;
}

/** A leap of the sequence would make each batch after it a duplicate. */
static int check_sequence(uint64_t last, uint64_t sequence, struct error *err)
{
	if (!last || sequence <= last + SEQUENCE_JUMP_MAX)
		return 0;
	return error_set(err, -EINVAL, "sequence: %llu is more than %d above the last one, %llu",
			 (unsigned long long)sequence, SEQUENCE_JUMP_MAX, (unsigned long long)last);
}

// ---- samples --------------------------------------------------------------------------------------

/** Minutes are read independently of each other: cut an interval at the end of its minute. */
static uint32_t more_slots_in_minute(const struct sample *sample, uint64_t slot_ns)
{
	uint64_t minute = sample->slot * slot_ns / MINUTE_NS;
	uint64_t left = slot_at((minute + 1) * MINUTE_NS, slot_ns) - sample->slot - 1;

	return sample->more_slots < left ? sample->more_slots : (uint32_t)left;
}

static int place_samples(struct append *append, struct error *err)
{
	const struct profile *profile = append->profile;
	uint64_t now_ns = clickhouse_now_ns(append->store), oldest = UINT64_MAX, newest = 0;

	append->accepted = (struct time_range){
		append->store->retention_ns ? ns_before(now_ns, append->store->retention_ns) : 0,
		now_ns + CLICKHOUSE_FUTURE_NS_MAX
	};
	append->samples = calloc(profile->sample_count + 1, sizeof(*append->samples));
	append->stack_used = calloc(profile->stack_count + 1, sizeof(bool));
	append->series_used = calloc(profile->series_count + 1, sizeof(bool));
	if (!append->samples || !append->stack_used || !append->series_used)
		return error_set(err, -ENOMEM, "store: out of memory");
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		uint64_t time_ns = sample->slot * profile->slot_ns;

		if (sample->slot > UINT64_MAX / profile->slot_ns ||
		    time_ns > append->accepted.to_ns) {
			append->future++;
			continue;
		}
		if (time_ns < append->accepted.from_ns) {
			append->late++;
			continue;
		}
		oldest = time_ns < oldest ? time_ns : oldest;
		newest = time_ns > newest ? time_ns : newest;
		append->stack_used[sample->stack] = true;
		append->series_used[sample->series] = true;
		append->samples[append->sample_count++] = (struct placed){
			.series = sample->series,
			.stack = sample->stack,
			.slot = sample->slot,
			.more_slots = more_slots_in_minute(sample, profile->slot_ns),
			.value = sample->value,
		};
	}
	if (append->sample_count && newest - oldest > CLICKHOUSE_BATCH_NS_MAX)
		return error_set(err, -EINVAL,
				 "samples: their slots lie in more than %llu hours; send one batch "
				 "for each",
				 CLICKHOUSE_BATCH_NS_MAX / (3600 * NS_PER_SECOND));
	append->day = append->sample_count ? (uint16_t)(oldest / DAY_NS) : 0;
	return 0;
}

static int compare_placed(const void *a, const void *b)
{
	const struct placed *left = a, *right = b;

	if (left->series != right->series)
		return left->series < right->series ? -1 : 1;
	if (left->slot != right->slot)
		return left->slot < right->slot ? -1 : 1;
	if (left->stack != right->stack)
		return left->stack < right->stack ? -1 : 1;
	return (left->more_slots > right->more_slots) - (left->more_slots < right->more_slots);
}

/** Add equal ones up. */
static void join_samples(struct append *append)
{
	uint32_t kept = 0;

	if (append->sample_count)
		qsort(append->samples, append->sample_count, sizeof(*append->samples),
		      compare_placed);
	for (uint32_t i = 0; i < append->sample_count; i++) {
		struct placed *last = &append->samples[kept - 1];

		// An interval's value is spread: two are not the same as one of their sum.
		if (kept && !compare_placed(last, &append->samples[i]) && !last->more_slots)
			last->value = (int64_t)((uint64_t)last->value +
						(uint64_t)append->samples[i].value);
		else
			append->samples[kept++] = append->samples[i];
	}
	append->sample_count = kept;
}

static uint64_t service_of(const struct series *series)
{
	const char *service = labels_get(&series->labels, LABEL_SERVICE);

	return service ? id128_of(service, strlen(service)).high : 0;
}

/** A row of @count samples of one series and minute. */
static void encode_row(struct append *append, const struct placed *samples, uint32_t count)
{
	const struct profile *profile = append->profile;
	const struct series *series = &profile->series[samples->series];
	struct buffer *row = &append->commit.rows[CLICKHOUSE_SAMPLES];
	uint64_t slot_ns = profile->slot_ns, minute = samples->slot * slot_ns / MINUTE_NS;
	uint64_t first_slot = slot_at(minute * MINUTE_NS, slot_ns), last = 0;
	uint32_t any = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t end = samples[i].slot + samples[i].more_slots;

		last = end > last ? end : last;
		any |= samples[i].more_slots;
	}
	row_put_u16(row, append->day);
	row_put_u64(row, service_of(series));
	row_put_id(row, series->id);
	row_put_u32(row, (uint32_t)minute);
	row_put_id(row, append->id);
	row_put_u64(row, slot_ns);
	row_put_u64(row, first_slot);
	row_put_u64(row, samples->slot * slot_ns);
	row_put_u64(row, last * slot_ns);
	buffer_append_varint(row, count);
	for (uint32_t i = 0; i < count; i++)
		row_put_u32(row, (uint32_t)(samples[i].slot - first_slot));
	buffer_append_varint(row, any ? count : 0);
	for (uint32_t i = 0; i < count && any; i++)
		row_put_u32(row, samples[i].more_slots);
	buffer_append_varint(row, count);
	for (uint32_t i = 0; i < count; i++)
		row_put_id(row, profile->stacks[samples[i].stack].id);
	buffer_append_varint(row, count);
	for (uint32_t i = 0; i < count; i++)
		row_put_u64(row, (uint64_t)samples[i].value);
}

static uint64_t minute_of(const struct append *append, uint32_t sample)
{
	return append->samples[sample].slot * append->profile->slot_ns / MINUTE_NS;
}

static void encode_samples(struct append *append)
{
	uint32_t from = 0;

	join_samples(append);
	for (uint32_t i = 1; i <= append->sample_count; i++) {
		if (i < append->sample_count &&
		    append->samples[i].series == append->samples[from].series &&
		    minute_of(append, i) == minute_of(append, from))
			continue;
		encode_row(append, append->samples + from, i - from);
		from = i;
	}
}

// ---- definitions ----------------------------------------------------------------------------------

static void put_lines(struct buffer *row, const struct profile *profile,
		      const struct location *location)
{
	const struct line *lines = &profile->lines[location->first_line];

	buffer_append_varint(row, location->line_count);
	for (uint32_t i = 0; i < location->line_count; i++)
		row_put_string(row, profile_string(profile, lines[i].name));
	buffer_append_varint(row, location->line_count);
	for (uint32_t i = 0; i < location->line_count; i++)
		row_put_string(row, profile_string(profile, lines[i].file));
	buffer_append_varint(row, location->line_count);
	for (uint32_t i = 0; i < location->line_count; i++)
		row_put_u32(row, lines[i].number);
}

static void encode_location(struct append *append, const struct profile *profile,
			    const struct location *location)
{
	const struct known_ids *known = &append->store->shards[append->shard].locations;
	struct buffer *row = &append->commit.rows[CLICKHOUSE_LOCATIONS];
	uint8_t detail = (uint8_t)location_detail(profile, location);

	if (known_ids_have(known, location->id, append->day, detail))
		return;
	row_put_u16(row, append->day);
	row_put_id(row, location->id);
	row_put_u8(row, detail);
	row_put_u8(row, (uint8_t)location->kind);
	row_put_string(row, profile_string(profile, location->module));
	row_put_string(row, profile_string(profile, location->build_id));
	row_put_u64(row, location->offset);
	put_lines(row, profile, location);
}

static void encode_stack(struct append *append, const struct profile *profile,
			 const struct stack *stack)
{
	const uint32_t *locations = &profile->stack_locations[stack->first_location];
	struct buffer *row = &append->commit.rows[CLICKHOUSE_STACKS];

	row_put_u16(row, append->day);
	row_put_id(row, stack->id);
	row_put_u8(row, (uint8_t)stack->end);
	buffer_append_varint(row, stack->location_count);
	for (uint32_t i = 0; i < stack->location_count; i++)
		row_put_id(row, profile->locations[locations[i]].id);
}

/** A stack that the batch only names, and the day does not have: from what an earlier day has. */
static void encode_missing_locked(struct append *append, struct id128 id)
{
	const struct profile *profile = append->definitions->profile;
	uint32_t at = definitions_find_stack(append->definitions, id);

	if (at == HASH_TABLE_NONE) {
		append->unknown[append->unknown_count++] = id;
		return;
	}
	const struct stack *stack = &profile->stacks[at];
	for (uint32_t i = 0; i < stack->location_count; i++)
		encode_location(
			append, profile,
			&profile->locations[profile->stack_locations[stack->first_location + i]]);
	encode_stack(append, profile, stack);
}

static void encode_series(struct append *append, const struct series *series)
{
	struct buffer *row = &append->commit.rows[CLICKHOUSE_SERIES];

	row_put_u16(row, append->day);
	row_put_id(row, series->id);
	row_put_string(row, profile_string(append->profile, series->type));
	buffer_append_varint(row, series->labels.count);
	for (uint32_t i = 0; i < series->labels.count; i++)
		row_put_string(row, series->labels.pairs[i].name);
	buffer_append_varint(row, series->labels.count);
	for (uint32_t i = 0; i < series->labels.count; i++)
		row_put_string(row, series->labels.pairs[i].value);
}

/** What the day does not have of the batch's own definitions. The lock of the known ids is held. */
static void encode_definitions(struct append *append)
{
	const struct clickhouse_shard *shard = &append->store->shards[append->shard];
	const struct profile *profile = append->profile;

	for (uint32_t i = 0; i < profile->location_count; i++)
		encode_location(append, profile, &profile->locations[i]);
	for (uint32_t i = 0; i < profile->stack_count; i++) {
		const struct stack *stack = &profile->stacks[i];

		if (!append->stack_used[i] ||
		    known_ids_have(&shard->stacks, stack->id, append->day, 0))
			continue;
		if (stack->defined)
			encode_stack(append, profile, stack);
		else
			append->missing[append->missing_count++] = stack->id;
	}
	for (uint32_t i = 0; i < profile->series_count; i++)
		if (append->series_used[i] &&
		    !known_ids_have(&shard->series, profile->series[i].id, append->day, 0))
			encode_series(append, &profile->series[i]);
}

static int encode(struct append *append, const struct store_batch_id *batch, struct error *err)
{
	struct clickhouse_store *store = append->store;
	struct clickhouse_shard *shard = &store->shards[append->shard];
	struct buffer *rows = append->commit.rows;

	append->missing = calloc(append->profile->stack_count + 1, sizeof(*append->missing));
	append->unknown = calloc(append->profile->stack_count + 1, sizeof(*append->unknown));
	append->definitions = clickhouse_definitions(store);
	if (!append->missing || !append->unknown || !append->definitions)
		return error_set(err, -ENOMEM, "store: out of memory");
	pthread_mutex_lock(&shard->known_lock);
	if (append->sample_count)
		encode_definitions(append);
	pthread_mutex_unlock(&shard->known_lock);
	int rc = definitions_fetch_stacks(append->definitions, &store->client, append->shard,
					  append->missing, append->missing_count, NULL, err);
	if (rc)
		return rc;
	pthread_mutex_lock(&shard->known_lock);
	pthread_mutex_lock(&append->definitions->lock);
	for (uint32_t i = 0; i < append->missing_count; i++)
		encode_missing_locked(append, append->missing[i]);
	pthread_mutex_unlock(&append->definitions->lock);
	pthread_mutex_unlock(&shard->known_lock);
	encode_samples(append);
	// The day in which it arrives: what acknowledges it lives longer than a late sample's partition.
	row_put_u16(&rows[CLICKHOUSE_BATCHES], (uint16_t)(clickhouse_now_ns(store) / DAY_NS));
	row_put_id(&rows[CLICKHOUSE_BATCHES], append->boot);
	row_put_u64(&rows[CLICKHOUSE_BATCHES], batch->sequence);
	for (uint32_t i = 0; i < CLICKHOUSE_TABLES; i++)
		rc = rows[i].rc ? rows[i].rc : rc;
	return rc ? error_set(err, rc == -EFBIG ? -EINVAL : rc,
			      rc == -EFBIG ? "samples: too many for one batch"
					   : "store: out of memory")
		  : 0;
}

/** The batch is stored: its definitions need not be inserted again today. */
static void note_known(struct append *append)
{
	struct clickhouse_shard *shard = &append->store->shards[append->shard];
	const struct profile *profile = append->profile;

	if (!append->sample_count)
		return;
	pthread_mutex_lock(&shard->known_lock);
	for (uint32_t i = 0; i < profile->location_count; i++) {
		const struct location *location = &profile->locations[i];
		uint8_t detail = (uint8_t)location_detail(profile, location);

		if (known_ids_have(&shard->locations, location->id, append->day, detail))
			continue;
		known_ids_add(&shard->locations, location->id, append->day, detail);
		definitions_learn(append->definitions, profile, location);
	}
	for (uint32_t i = 0; i < profile->stack_count; i++)
		if (append->stack_used[i])
			known_ids_add(&shard->stacks, profile->stacks[i].id, append->day, 0);
	for (uint32_t i = 0; i < profile->series_count; i++)
		if (append->series_used[i])
			known_ids_add(&shard->series, profile->series[i].id, append->day, 0);
	pthread_mutex_unlock(&shard->known_lock);
}

// ---- the batch ------------------------------------------------------------------------------------

/** Insert what place_samples() accepted; stacks that nobody defined go to @result instead. */
static int insert(struct append *append, const struct store_batch_id *batch,
		  struct store_append_result *result, struct error *err)
{
	struct clickhouse_counters *counters = &append->store->counters;
	int rc = encode(append, batch, err);

	if (rc)
		return rc;
	if (append->unknown_count) {
		result->unknown_stack_count = append->unknown_count;
		result->unknown_stacks = take(append->unknown);
		return 0;
	}
	rc = clickhouse_commit(append->store, append->shard, &append->commit, err);
	if (rc) {
		counters->refused++;
		return rc;
	}
	note_known(append);
	set_agent(append->store, batch); // without memory for it the servers are asked again
	counters->batches++;
	counters->rows += append->sample_count;
	return 0;
}

static int store_batch(struct append *append, const struct store_batch_id *batch,
		       struct store_append_result *result, struct error *err)
{
	struct clickhouse_counters *counters = &append->store->counters;
	int rc = place_samples(append, err);

	// Not one row is accepted: nothing is recorded that would make the batch a duplicate.
	bool is_refused = append->profile->sample_count && !append->sample_count;
	if (!rc && !is_refused)
		rc = insert(append, batch, result, err);
	if (rc || result->unknown_stack_count)
		return rc;
	counters->late += append->late;
	counters->future += append->future;
	result->rows_late = append->late;
	result->rows_future = append->future;
	result->accepted = append->accepted;
	return 0;
}

int clickhouse_append(struct clickhouse_store *store, const struct store_batch_id *batch,
		      const struct profile *profile, struct store_append_result *ret_result,
		      struct error *err)
{
	_cleanup_(append_deinit) struct append append = { .store = store, .profile = profile };
	struct store_append_result result = { 0 };
	uint64_t last = 0;
	int rc = clickhouse_check_shards(store, err);

	if (rc)
		return rc;
	identify(&append, batch);
	rc = find_last(&append, batch, &last, err);
	if (!rc && last >= batch->sequence) {
		result.duplicate = true;
		store->counters.duplicates++;
	} else if (!rc) {
		rc = check_sequence(last, batch->sequence, err);
		if (!rc)
			rc = store_batch(&append, batch, &result, err);
	}
	if (!rc)
		*ret_result = result;
	return rc;
}
