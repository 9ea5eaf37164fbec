// SPDX-License-Identifier: Apache-2.0
#include "base/profile/wall_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/thread_states.h"

/* Which type has the stacks of which state. */
static const struct {
	const char *type;
	const char *state;
} parts[] = {
	{ PROFILE_TYPE_CPU, THREAD_STATE_RUNNING },
	{ PROFILE_TYPE_GPU_SPIN, THREAD_STATE_RUNNING }, // which is no CPU time in the profiles
	{ PROFILE_TYPE_SCHED_DELAY, THREAD_STATE_RUN_QUEUE },
	{ PROFILE_TYPE_OFF_CPU, THREAD_STATE_BLOCKED },
};

/* A series by what it shares with its counterpart: the labels without those that only one of the two has. */
struct keyed {
	struct id128 id; // of the labels, with the state
	uint32_t series;
	bool is_wall;
};

/* The time of a state of threads with the same labels. */
struct state {
	int64_t exact;    // in its wall-clock series
	int64_t measured; // in the stacks
	double carry;     // of the division so far
};

static const char *state_of(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strcmp(type, parts[i].type) == 0)
			return parts[i].state;
	return NULL;
}

bool wall_stacks_need(const char *type)
{
	return state_of(type) != NULL;
}

const char *wall_stacks_type(uint32_t number)
{
	return number < ARRAY_SIZE(parts) ? parts[number].type : NULL;
}

static int key_of(const struct profile *profile, uint32_t number, struct keyed *ret_keyed)
{
	const struct series *series = &profile->series[number];
	const char *type = profile_string(profile, series->type), *state = state_of(type);
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	int rc = labels_copy(&series->labels, &labels);

	if (!rc)
		rc = labels_set(&labels, LABEL_WAIT, "");
	if (!rc && state)
		rc = labels_set(&labels, LABEL_STATE, state);
	*ret_keyed =
		(struct keyed){ labels_id(&labels), number, strcmp(type, PROFILE_TYPE_WALL) == 0 };
	return rc;
}

/* Counterparts side by side, the wall-clock series first. */
static int compare(const void *left, const void *right)
{
	const struct keyed *a = left, *b = right;
	int order = memcmp(&a->id, &b->id, sizeof(a->id));

	return order ? order : b->is_wall - a->is_wall;
}

/* ret_wall[SERIES]: the number of its counterpart's series; that of a series without one is its own. */
static int pair_series(const struct profile *profile, uint32_t *ret_wall)
{
	_cleanup_free_ struct keyed *keys = calloc(profile->series_count + 1ULL, sizeof(*keys));
	int rc = keys ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < profile->series_count && !rc; i++)
		rc = key_of(profile, i, &keys[i]);
	if (rc)
		return rc;
	qsort(keys, profile->series_count, sizeof(*keys), compare);
	for (uint32_t i = 0, first = 0; i < profile->series_count; i++) {
		if (!id128_equal(keys[first].id, keys[i].id))
			first = i;
		ret_wall[keys[i].series] =
			keys[first].is_wall ? keys[first].series : keys[i].series;
	}
	return 0;
}

static void add_up(const struct profile *profile, const uint32_t *wall, struct state *states)
{
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		struct state *state = &states[wall[sample->series]];

		if (wall[sample->series] == sample->series)
			state->exact += sample->value;
		else
			state->measured += sample->value;
	}
}

/* Its part of the exact time; what rounding leaves goes to the next one. */
static int64_t divide(struct state *state, int64_t value)
{
	double part = (double)value * (double)state->exact / (double)state->measured + state->carry;
	int64_t whole = (int64_t)part;

	state->carry = part - (double)whole;
	return whole;
}

/* ret_target[SERIES]: the series of what it gets of its counterpart's time, which has its wait class, too. */
static int make_targets(struct profile *profile, const uint32_t *wall, uint32_t *ret_target)
{
	uint32_t count = profile->series_count; // before those that are added
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		const char *wait = labels_get(&profile->series[i].labels, LABEL_WAIT);
		_cleanup_(labels_deinit) struct labels labels = { 0 };

		ret_target[i] = wall[i];
		if (wall[i] == i || !wait)
			continue;
		rc = labels_copy(&profile->series[wall[i]].labels, &labels);
		if (!rc)
			rc = labels_set(&labels, LABEL_WAIT, wait);
		if (!rc)
			rc = profile_add_series(profile, &labels, PROFILE_TYPE_WALL,
						&ret_target[i]);
	}
	return rc;
}

static bool is_wall(const struct profile *profile, uint32_t series)
{
	return strcmp(profile_string(profile, profile->series[series].type), PROFILE_TYPE_WALL) ==
	       0;
}

/* What has no counterpart is left out: it is not in the wall-clock time either. */
static void move_samples(struct profile *profile, const uint32_t *wall, const uint32_t *target,
			 struct state *states)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		struct sample sample = profile->samples[i];
		struct state *state = &states[wall[sample.series]];
		bool has_stack = wall[sample.series] != sample.series;

		if (has_stack ? !state->exact
			      : state->measured > 0 || !is_wall(profile, sample.series))
			continue;
		if (has_stack)
			sample.value = divide(state, sample.value);
		sample.series = target[sample.series];
		profile->samples[kept++] = sample;
	}
	profile->sample_count = kept;
}

int wall_stacks_compose(struct profile *profile)
{
	_cleanup_free_ uint32_t *wall = calloc(profile->series_count + 1ULL, sizeof(*wall));
	_cleanup_free_ uint32_t *target = calloc(profile->series_count + 1ULL, sizeof(*target));
	_cleanup_free_ struct state *states = calloc(profile->series_count + 1ULL, sizeof(*states));
	int rc = wall && target && states ? pair_series(profile, wall) : -ENOMEM;

	if (!rc)
		rc = make_targets(profile, wall, target);
	if (rc)
		return rc;
	add_up(profile, wall, states);
	move_samples(profile, wall, target, states);
	return 0;
}
