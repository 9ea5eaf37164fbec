// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/export_interval.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/stacks/sample_kind.h"
#include "agent/stacks/slot_room.h"
#include "agent/stacks/gpu_spin.h"
#include "agent/stacks/wait_class.h"
#include "agent/stacks/off_wake_stack.h"
#include "agent/stacks/thread_label.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_values.h"
#include "base/text.h"
#include "base/contract/label_names.h"

#define MINUTE_NS (60 * NS_PER_SECOND)
/*
 * A blocked time that began longer ago is shown as beginning then, its value kept. The wire allows profiles
 * of an hour. Blocked times are drained while they last, so longer ones come from a clock that was set or a
 * machine that slept.
 */
#define BACKDATED_NS_MAX (30 * MINUTE_NS)
#define SAMPLE_NS_MAX    (2 * BACKDATED_NS_MAX) // of one sample, whatever its count's key says
#define ROOM_SLOTS_MAX   (1 << 19) // of all threads with sampled off-CPU intervals: 4 MiB

int export_interval_init(struct export_interval *interval,
			 const struct export_interval_sources *sources, uint64_t slot_ns,
			 uint64_t from_ns)
{
	*interval = (struct export_interval){ .sources = *sources };
	interval->profile = profile_new(slot_ns);
	if (!interval->profile)
		return -ENOMEM;
	interval->profile->from_ns = from_ns;
	interval->slot_min = ns_before(from_ns, BACKDATED_NS_MAX) / slot_ns;
	interval->slot_first = UINT64_MAX;
	location_table_begin_profile(sources->frames.locations);
	return 0;
}

void export_interval_deinit(struct export_interval *interval)
{
	profile_free(interval->profile);
	free(interval->series);
	free(interval->waits.values);
	free(interval->spins.values);
	free(interval->off_cpu);
	calibration_deinit(&interval->calibration);
	hash_table_deinit(&interval->series_index);
	*interval = (struct export_interval){ 0 };
}

// ---- series ---------------------------------------------------------------------------------

static bool series_equals(const void *context, uint32_t item, const void *key)
{
	const struct export_interval *interval = context;
	const struct export_interval_series *series = &interval->series[item];

	return !memcmp(series, key, offsetof(struct export_interval_series, number));
}

// -E2BIG is no failure: a process with that many labels does without this one.
static int set_label(struct labels *labels, const char *name, const char *value)
{
	return labels_set(labels, name, value) == -ENOMEM ? -ENOMEM : 0;
}

// @class: 1 for one block, 2 for 2 and 3, 3 for 4 to 7, and so on; 0: not known.
static int set_grid(struct labels *labels, uint64_t class)
{
	char text[48];

	if (class < 1 || class > 63)
		return set_label(labels, LABEL_GRID, VALUE_UNKNOWN);
	uint64_t first = 1ULL << (class - 1), last = 2 * first - 1;
	if (class == 1)
		snprintf(text, sizeof(text), "1");
	else
		snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu64, first, last);
	return set_label(labels, LABEL_GRID, text);
}

static int add_series(struct export_interval *interval, const struct process *process,
		      struct export_interval_series *series)
{
	const struct sample_kind_type *kind = sample_kind_find(series->kind);
	struct labels labels = { 0 };
	int rc = labels_copy(&process->labels, &labels);

	if (!rc)
		rc = set_label(&labels, LABEL_THREAD, series->thread);
	if (!rc && kind->state)
		rc = set_label(&labels, LABEL_STATE, kind->state);
	if (!rc && kind->direction)
		rc = set_label(&labels, LABEL_DIRECTION, kind->direction);
	if (!rc && kind->memory)
		rc = set_label(&labels, LABEL_MEMORY, kind->memory);
	if (!rc && kind->has_wait)
		rc = set_label(&labels, LABEL_WAIT, wait_class_name(series->wait));
	if (!rc && kind->has_grid)
		rc = set_grid(&labels, series->grid);
	if (!rc && kind->is_of_communicator)
		rc = nccl_labels_set(&series->nccl, &labels);
	if (!rc)
		rc = profile_add_series(interval->profile, &labels, kind->type, &series->number);
	labels_deinit(&labels);
	return rc;
}

static uint64_t hash_of_series(const struct export_interval_series *series)
{
	return hash64_of(series, offsetof(struct export_interval_series, number));
}

static uint32_t find_added(const struct export_interval *interval,
			   const struct export_interval_series *series)
{
	return hash_table_find(&interval->series_index, hash_of_series(series), series_equals,
			       interval, series);
}

static void name_thread(const struct export_interval *interval, const struct process *process,
			const char *name, struct export_interval_series *series)
{
	char label[THREAD_LABEL_BYTES];

	if (interval->sources.folds_thread_names)
		thread_label_of(name, labels_get(&process->labels, LABEL_PROCESS), label);
	else
		thread_label_exact(name, label);
	memcpy(series->thread, label, sizeof(label));
}

static void name_other(struct export_interval_series *series)
{
	memset(series->thread, 0, sizeof(series->thread));
	memcpy(series->thread, VALUE_OTHER, sizeof(VALUE_OTHER));
}

// Past a quota the thread is "other", and what else a process may choose is left out. Types and wait classes stay.
static void apply_quota(struct export_interval *interval, struct export_interval_series *series)
{
	struct series_quota *quota = interval->sources.quota;
	uint64_t name = hash64_of(series->thread, sizeof(series->thread));

	if (!series_quota_admit_name(quota, &series->process, name)) {
		name_other(series);
		interval->threads_other++;
	}
	if (find_added(interval, series) != HASH_TABLE_NONE ||
	    series_quota_admit_series(quota, &series->process, hash_of_series(series)))
		return;
	name_other(series);
	series->grid = 0;
	memset(&series->nccl, 0, sizeof(series->nccl));
	interval->series_other++;
}

static int add_new(struct export_interval *interval, const struct process *process,
		   struct export_interval_series *series)
{
	int rc = add_series(interval, process, series);

	if (!rc)
		rc = array_reserve(&interval->series, sizeof(*interval->series),
				   &interval->series_capacity, interval->series_count, 1,
				   UINT32_MAX);
	if (!rc)
		rc = hash_table_add(&interval->series_index, hash_of_series(series),
				    interval->series_count);
	if (rc)
		return rc;
	interval->series[interval->series_count++] = *series;
	interval->communicators += series->nccl.identity != 0;
	return 0;
}

// The labels of a series are built once per interval, however many samples it has.
static int find_series(struct export_interval *interval, const struct process *process,
		       const struct count_key *key, uint32_t kind, enum wait_class wait,
		       uint32_t *ret_series)
{
	struct export_interval_series series = { .process = key->process,
						 .kind = kind,
						 .wait = wait };

	if (sample_kind_find(kind)->has_grid)
		series.grid = key->kernel_leaf;
	if (sample_kind_find(kind)->is_of_communicator)
		nccl_call_of_count(key, interval->communicators < NCCL_SERIES_MAX, &series.nccl);
	name_thread(interval, process, key->thread_name, &series);
	uint32_t at = find_added(interval, &series);

	if (at == HASH_TABLE_NONE && interval->sources.quota) {
		apply_quota(interval, &series);
		at = find_added(interval, &series);
	}
	if (at == HASH_TABLE_NONE) {
		int rc = add_new(interval, process, &series);
		if (rc)
			return rc;
		at = interval->series_count - 1;
	}
	*ret_series = interval->series[at].number;
	return 0;
}

// ---- stack ----------------------------------------------------------------------------------

static bool is_cupti(const struct export_interval *interval, uint32_t position)
{
	const struct location *location =
		&interval->profile->locations[interval->positions[position]];
	const char *name = path_base_name(profile_string(interval->profile, location->module));

	return text_begins_with(name, "libcairn_cupti.so") || text_begins_with(name, "libcupti.so");
}

// CUPTI and our helper in it lie between the GPU kernel and the code that launched it.
static void drop_cupti(struct export_interval *interval)
{
	uint32_t count = 1;

	while (count < interval->position_count && is_cupti(interval, count))
		count++;
	if (interval->position_count < 2)
		return;
	memmove(&interval->positions[1], &interval->positions[count],
		(interval->position_count - count) * sizeof(*interval->positions));
	interval->position_count -= count - 1;
}

static int add_stack(struct export_interval *interval, struct process *process,
		     const struct count_key *key, uint64_t now_ns, uint32_t *ret_stack)
{
	const struct sample_kind_type *kind = sample_kind_find(key->kind);
	struct stack_parts parts = { .process = process };
	struct joined_stack *joined = &interval->joined;

	if (kind->has_stack) {
		parts.user_leaf = key->user_leaf;
		parts.user = key->user;
	}
	// The BPF programs name the time for which they have no stack.
	if (kind->is_calibrated && !stack_hash_is_set(&key->user) &&
	    !stack_hash_is_set(&key->kernel))
		return profile_add_stack(interval->profile, NULL, 0, STACK_END_NOT_SAMPLED,
					 ret_stack);
	// A communicator is in the place of the kernel part.
	if (kind->has_stack && !kind->is_of_communicator) {
		parts.kernel_leaf = key->kernel_leaf;
		parts.kernel = key->kernel;
	}
	int rc = stack_parts_join(&parts, &interval->sources.frames, interval->sources.stacks,
				  now_ns, joined);
	interval->stacks_lost += joined->lost_parts;
	for (uint32_t i = 0; i < joined->count && !rc; i++)
		rc = location_table_put(interval->sources.frames.locations, joined->locations[i],
					interval->profile, &interval->positions[i]);
	if (rc)
		return rc;
	interval->position_count = joined->count;
	if (kind->has_cupti)
		drop_cupti(interval);
	return profile_add_stack(interval->profile, interval->positions, interval->position_count,
				 joined->end, ret_stack);
}

// ---- wait class, GPU busy-wait --------------------------------------------------------------

// The stack's value in the cache, NULL when out of memory.
static uint8_t *cached_value(const struct export_interval *interval,
			     struct export_interval_cache *cache, uint32_t stack)
{
	if (stack >= cache->capacity) {
		uint32_t capacity = interval->profile->stack_capacity;
		uint8_t *values = realloc(cache->values, capacity);

		if (!values)
			return NULL;
		memset(values + cache->capacity, 0, capacity - cache->capacity);
		cache->values = values;
		cache->capacity = capacity;
	}
	return &cache->values[stack];
}

// The waker's functions say nothing about what the thread waited for.
static enum wait_class class_of(const struct export_interval *interval, uint32_t stack,
				uint32_t kind)
{
	const struct profile *profile = interval->profile;
	struct wait_class_cache *cache = interval->sources.wait_classes;
	struct stack blocked = profile->stacks[stack];

	if (kind == SAMPLE_KIND_OFF_WAKE)
		blocked = off_wake_stack_blocked_part(profile, &blocked);
	return cache ? wait_class_cache_find(cache, profile, &blocked)
		     : wait_class_of_stack(profile, &blocked);
}

static int find_wait(struct export_interval *interval, const struct count_key *key, uint32_t stack,
		     enum wait_class *ret_wait)
{
	if (!sample_kind_find(key->kind)->has_wait) {
		*ret_wait = WAIT_CLASS_OTHER;
		return 0;
	}
	uint8_t *wait = cached_value(interval, &interval->waits, stack);
	if (!wait)
		return -ENOMEM;
	if (!*wait)
		*wait = 1 + class_of(interval, stack, key->kind);
	*ret_wait = *wait - 1;
	return 0;
}

// A GPU busy-wait is sampled as CPU time, and shown as a kind of its own.
static int find_kind(struct export_interval *interval, uint32_t stack, uint32_t *kind)
{
	const struct profile *profile = interval->profile;

	if (*kind != SAMPLE_KIND_ON_CPU)
		return 0;
	uint8_t *spin = cached_value(interval, &interval->spins, stack);
	if (!spin)
		return -ENOMEM;
	if (!*spin)
		*spin = 1 + gpu_spin_is(profile, &profile->stacks[stack]);
	if (*spin == 1 + true)
		*kind = SAMPLE_KIND_GPU_SPIN;
	return 0;
}

// ---- time slots -----------------------------------------------------------------------------

// The first slot after @slot that begins in a later minute.
static uint64_t next_minute(uint64_t slot, uint64_t slot_ns)
{
	uint64_t minute_ns = (slot * slot_ns / MINUTE_NS + 1) * MINUTE_NS;

	return (minute_ns + slot_ns - 1) / slot_ns;
}

// The wire's and the store's values are signed.
static int64_t value_of(uint64_t value)
{
	return value < INT64_MAX ? (int64_t)value : INT64_MAX;
}

// The share of @value in @part of @whole slots, rounded down.
static int64_t share_of(int64_t value, uint64_t part, uint64_t whole)
{
	return (int64_t)((__int128)value * part / whole);
}

// Split at minutes; the first piece gets what rounding leaves.
static int add_pieces(struct export_interval *interval, uint32_t series, uint32_t stack,
		      uint64_t slot, uint64_t last, int64_t value)
{
	struct profile *profile = interval->profile;
	uint64_t slots = last - slot + 1, first_end = next_minute(slot, profile->slot_ns);
	int64_t left = value;
	int rc = 0;

	for (uint64_t begin = first_end, end; begin <= last && !rc; begin = end) {
		end = next_minute(begin, profile->slot_ns);
		if (end > last + 1)
			end = last + 1;
		int64_t share = share_of(value, end - begin, slots);
		left -= share;
		rc = profile_add_interval(profile, series, stack, begin, end - begin - 1, share);
	}
	if (first_end > last + 1)
		first_end = last + 1;
	return rc ? rc
		  : profile_add_interval(profile, series, stack, slot, first_end - slot - 1, left);
}

static int add_slots(struct export_interval *interval, uint32_t series, uint32_t stack,
		     uint64_t slot, uint64_t last, int64_t value)
{
	uint64_t slots_max = SAMPLE_NS_MAX / interval->profile->slot_ns;

	if (slot < interval->slot_min)
		slot = interval->slot_min;
	if (last < slot)
		last = slot;
	if (last - slot > slots_max)
		last = slot + slots_max;
	if (slot < interval->slot_first)
		interval->slot_first = slot;
	return add_pieces(interval, series, stack, slot, last, value);
}

// Kinds measured in time or bytes may have a type that counts the events, too.
static int add_number(struct export_interval *interval, const struct process *process,
		      const struct count_key *key, const struct count *count, uint32_t stack)
{
	uint32_t kind = sample_kind_find(key->kind)->number_kind, series;

	if (!kind)
		return 0;
	int rc = find_series(interval, process, key, kind, WAIT_CLASS_OTHER, &series);
	return rc ? rc
		  : add_slots(interval, series, stack, key->slot, key->slot + key->more_slots,
			      (int64_t)count->samples);
}

// ---- off-CPU time ---------------------------------------------------------------------------

static int add_total(struct export_interval *interval, const struct count_key *key, uint64_t ns)
{
	enum calibrated_time time =
		key->kind == SAMPLE_KIND_BLOCKED ? CALIBRATED_BLOCKED : CALIBRATED_RUN_QUEUE;
	uint32_t threads;

	if ((key->kind != SAMPLE_KIND_BLOCKED && key->kind != SAMPLE_KIND_RUN_QUEUE) ||
	    key->kernel_leaf == TOTALS_WITHOUT_STACKS)
		return 0;
	int rc = calibration_find(&interval->calibration, key, &threads);
	if (!rc)
		calibration_add_total(&interval->calibration.threads[threads].sums[time], key, ns);
	return rc;
}

// It becomes a sample when the sum is known.
static int add_off_cpu(struct export_interval *interval, const struct count_key *key,
		       uint64_t value, uint32_t series, uint32_t stack)
{
	struct export_interval_wait wait = {
		.series = series,
		.stack = stack,
		.more_slots = key->more_slots,
		.slot = key->slot,
		.value = value,
		.time = key->kind == SAMPLE_KIND_OFF_CPU || key->kind == SAMPLE_KIND_OFF_CPU_SAMPLED
				? CALIBRATED_BLOCKED
				: CALIBRATED_RUN_QUEUE,
		.is_sampled = key->kind == SAMPLE_KIND_OFF_CPU_SAMPLED ||
			      key->kind == SAMPLE_KIND_SCHED_DELAY_SAMPLED,
	};
	int rc = calibration_find(&interval->calibration, key, &wait.threads);

	if (!rc)
		rc = array_reserve(&interval->off_cpu, sizeof(*interval->off_cpu),
				   &interval->off_cpu_capacity, interval->off_cpu_count, 1,
				   PROFILE_SAMPLES_MAX);
	if (rc)
		return rc;
	calibration_add_stack(&interval->calibration.threads[wait.threads].sums[wait.time], value,
			      wait.is_sampled);
	interval->off_cpu[interval->off_cpu_count++] = wait;
	return 0;
}

static int add_missing(struct export_interval *interval, const struct calibration_threads *threads,
		       enum calibrated_time time)
{
	const struct calibration_sum *sum = &threads->sums[time];
	struct count_key key = { .process = threads->process };
	uint32_t series, stack;

	if (!sum->missing)
		return 0;
	key.kind = time == CALIBRATED_BLOCKED ? SAMPLE_KIND_OFF_CPU : SAMPLE_KIND_SCHED_DELAY;
	memcpy(key.thread_name, threads->name, sizeof(key.thread_name));
	struct process *process = process_table_get(interval->sources.frames.processes,
						    &key.process, key.thread_name);
	int rc = process ? profile_add_stack(interval->profile, NULL, 0, STACK_END_NOT_SAMPLED,
					     &stack)
			 : -ENOMEM;
	if (!rc)
		rc = find_series(interval, process, &key, key.kind, WAIT_CLASS_OTHER, &series);
	return rc ? rc
		  : add_slots(interval, series, stack, sum->first_slot, sum->last_slot,
			      value_of(sum->missing));
}

/* By threads of the calibration, of those that have sampled intervals. */
struct rooms {
	struct slot_room *of;
	uint32_t count;
};

static void rooms_deinit(struct rooms *rooms)
{
	for (uint32_t i = 0; i < rooms->count; i++)
		slot_room_deinit(&rooms->of[i]);
	free(rooms->of);
}

/* Past ROOM_SLOTS_MAX in all, and where memory is short, sampled intervals stay where they are. */
static void find_rooms(const struct calibration *calibration, enum calibrated_time time,
		       uint64_t slot_ns, struct rooms *rooms)
{
	uint64_t left = ROOM_SLOTS_MAX;

	rooms->of = calloc(calibration->count + 1, sizeof(*rooms->of));
	rooms->count = rooms->of ? calibration->count : 0;
	for (uint32_t i = 0; i < rooms->count && left; i++) {
		const struct calibration_sum *sum = &calibration->threads[i].sums[time];
		struct slot_range range = { sum->first_slot, sum->last_slot };

		if (!sum->sampled_scale.to || range.last - range.first >= left)
			continue;
		if (!slot_room_init(&rooms->of[i], range, slot_ns, sum->total))
			left -= rooms->of[i].count;
	}
}

static int add_calibrated(struct export_interval *interval, const struct export_interval_wait *wait,
			  struct slot_room *room)
{
	struct calibration_sum *sum =
		&interval->calibration.threads[wait->threads].sums[wait->time];
	uint64_t value = calibration_scale(sum, wait->value, wait->is_sampled);
	struct slot_piece pieces[SLOT_PIECES_MAX] = {
		{ { wait->slot, wait->slot + wait->more_slots }, value },
	};
	uint32_t count = 1;
	int rc = 0;

	if (wait->is_sampled && (!room || !room->ns))
		interval->unspread++;
	else if (wait->is_sampled)
		count = slot_room_place(room, pieces[0].range, value, pieces);
	else if (room)
		slot_room_take(room, pieces[0].range, value);
	for (uint32_t i = 0; i < count && !rc; i++)
		if (pieces[i].ns)
			rc = add_slots(interval, wait->series, wait->stack, pieces[i].range.first,
				       pieces[i].range.last, value_of(pieces[i].ns));
	return rc;
}

/* Exact intervals first: they leave room for sampled ones, and are where they are. */
static int add_waits(struct export_interval *interval, enum calibrated_time time)
{
	_cleanup_(rooms_deinit) struct rooms rooms = { 0 };
	int rc = 0;

	find_rooms(&interval->calibration, time, interval->profile->slot_ns, &rooms);
	for (int is_sampled = 0; is_sampled <= 1; is_sampled++)
		for (uint32_t i = 0; i < interval->off_cpu_count && !rc; i++) {
			const struct export_interval_wait *wait = &interval->off_cpu[i];

			if (wait->time == time && wait->is_sampled == is_sampled)
				rc = add_calibrated(interval, wait,
						    rooms.count ? &rooms.of[wait->threads] : NULL);
		}
	return rc;
}

static int calibrate(struct export_interval *interval)
{
	struct calibration *calibration = &interval->calibration;
	int rc = 0;

	for (uint32_t i = 0; i < calibration->count && !rc; i++)
		for (uint32_t time = 0; time < CALIBRATED_TIMES && !rc; time++) {
			calibration_fit(&calibration->threads[i].sums[time]);
			rc = add_missing(interval, &calibration->threads[i], time);
		}
	for (uint32_t time = 0; time < CALIBRATED_TIMES && !rc; time++)
		rc = add_waits(interval, time);
	return rc;
}

struct profile *export_interval_finish(struct export_interval *interval, uint64_t to_ns)
{
	struct profile *profile = interval->profile;

	if (calibrate(interval))
		return NULL;
	if (interval->slot_first < profile->from_ns / profile->slot_ns)
		profile->from_ns = interval->slot_first * profile->slot_ns;
	profile->to_ns = to_ns;
	profile_sort_samples(profile);
	return take(interval->profile);
}

// ---- counts ---------------------------------------------------------------------------------

// Is it to be added now?
static bool is_wanted(struct export_interval *interval, const struct process *process,
		      const struct count_key *key, const struct count *count, uint64_t now_ns)
{
	if (process->is_excluded) {
		interval->excluded += count->samples;
		return false;
	}
	return !interval->sources.held || !process_awaits_pod(process, now_ns) ||
	       !held_counts_add(interval->sources.held, key, count);
}

int export_interval_add(struct export_interval *interval, const struct count_key *key,
			const struct count *count, uint64_t now_ns)
{
	const struct sample_kind_type *type = sample_kind_find(key->kind);
	struct process *process;
	enum wait_class wait = WAIT_CLASS_OTHER;
	uint32_t series, stack, kind = key->kind;
	int rc;

	if (!type)
		return -EINVAL;
	process = process_table_get(interval->sources.frames.processes, &key->process,
				    key->thread_name);
	if (process && !is_wanted(interval, process, key, count, now_ns))
		return 0;
	rc = process ? add_stack(interval, process, key, now_ns, &stack) : -ENOMEM;
	if (!rc)
		rc = find_wait(interval, key, stack, &wait);
	if (!rc)
		rc = find_kind(interval, stack, &kind);
	if (!rc)
		rc = find_series(interval, process, key, type->exact_kind ? type->exact_kind : kind,
				 wait, &series);
	if (!rc && type->is_calibrated)
		return add_off_cpu(interval, key, count->value, series, stack);
	if (!rc)
		rc = add_total(interval, key, count->value);
	if (!rc)
		rc = add_slots(interval, series, stack, key->slot, key->slot + key->more_slots,
			       (int64_t)count->value);
	return rc ? rc : add_number(interval, process, key, count, stack);
}

int export_interval_add_value(struct export_interval *interval, const struct labels *labels,
			      const char *type, uint64_t slot, uint64_t last_slot, int64_t value)
{
	uint32_t series, stack;
	int rc = profile_add_series(interval->profile, labels, type, &series);

	if (!rc)
		rc = profile_add_stack(interval->profile, NULL, 0, STACK_END_COMPLETE, &stack);
	return rc ? rc : add_slots(interval, series, stack, slot, last_slot, value);
}
