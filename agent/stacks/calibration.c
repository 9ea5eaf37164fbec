// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/calibration.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/id128.h"

/*
 * Exact values differ from the sum by what was counted between a sweep and the swap of the count maps, or
 * dropped at a lock: little. A larger difference is time of which no stack is known: it is not theirs.
 */
#define EXACT_SCALE_MAX_DIVISOR 8

void calibration_deinit(struct calibration *calibration)
{
	free(calibration->threads);
	hash_table_deinit(&calibration->index);
	*calibration = (struct calibration){ 0 };
}

static bool threads_equal(const void *context, uint32_t item, const void *key)
{
	const struct calibration *calibration = context;
	const struct calibration_threads *threads = &calibration->threads[item];
	const struct count_key *wanted = key;

	return !memcmp(&threads->process, &wanted->process, sizeof(threads->process)) &&
	       !memcmp(threads->name, wanted->thread_name, sizeof(threads->name));
}

int calibration_find(struct calibration *calibration, const struct count_key *key,
		     uint32_t *ret_threads)
{
	uint64_t hash = hash64_of(&key->process, sizeof(key->process)) ^
			hash64_of(key->thread_name, sizeof(key->thread_name));
	uint32_t at = hash_table_find(&calibration->index, hash, threads_equal, calibration, key);
	int rc = 0;

	if (at == HASH_TABLE_NONE) {
		at = calibration->count;
		rc = array_reserve(&calibration->threads, sizeof(*calibration->threads),
				   &calibration->capacity, at, 1, UINT32_MAX);
		if (!rc)
			rc = hash_table_add(&calibration->index, hash, at);
		if (rc)
			return rc;
		calibration->threads[at] = (struct calibration_threads){ .process = key->process };
		memcpy(calibration->threads[at].name, key->thread_name, sizeof(key->thread_name));
		calibration->count++;
	}
	*ret_threads = at;
	return 0;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

void calibration_add_stack(struct calibration_sum *sum, uint64_t value, bool is_sampled)
{
	uint64_t *to = is_sampled ? &sum->sampled : &sum->exact;

	*to = add(*to, value);
}

void calibration_add_total(struct calibration_sum *sum, const struct count_key *key, uint64_t value)
{
	uint64_t last = add(key->slot, key->more_slots);

	if (!value)
		return;
	if (!sum->total || key->slot < sum->first_slot)
		sum->first_slot = key->slot;
	if (!sum->total || last > sum->last_slot)
		sum->last_slot = last;
	sum->total = add(sum->total, value);
}

// Without sampled values nothing stands in for what is missing.
static void fit_exact(struct calibration_sum *sum)
{
	uint64_t most = add(sum->exact, sum->exact / EXACT_SCALE_MAX_DIVISOR);

	sum->exact_scale.to = sum->total < most ? sum->total : sum->exact;
}

void calibration_fit(struct calibration_sum *sum)
{
	sum->exact_scale = (struct calibration_scale){ .from = sum->exact };
	sum->sampled_scale = (struct calibration_scale){ .from = sum->sampled };
	if (!sum->sampled) {
		fit_exact(sum);
	} else if (sum->total > sum->exact) {
		sum->exact_scale.to = sum->exact;
		sum->sampled_scale.to = sum->total - sum->exact;
	} else if (sum->exact) {
		// No time is left for them.
		sum->exact_scale.to = sum->total;
	}
	sum->missing = sum->total - sum->exact_scale.to - sum->sampled_scale.to;
}

uint64_t calibration_scale(struct calibration_sum *sum, uint64_t value, bool is_sampled)
{
	struct calibration_scale *scale = is_sampled ? &sum->sampled_scale : &sum->exact_scale;
	uint64_t done, part;

	if (!scale->from)
		return 0;
	scale->from_done = add(scale->from_done, value);
	done = scale->from_done < scale->from ? scale->from_done : scale->from;
	done = (uint64_t)((unsigned __int128)done * scale->to / scale->from);
	part = done - scale->to_done;
	scale->to_done = done;
	return part;
}
