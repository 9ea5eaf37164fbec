// SPDX-License-Identifier: Apache-2.0
// Sorting the samples of a profile: a radix sort over just the bits that differ between samples,
// because a batch has few series, few slots and many samples.
#include "base/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/saturating.h"

enum {
	DIGIT_BITS = 11, // 2048 counters: 8 KiB, which stay in the first-level cache
	DIGIT_COUNT = 1 << DIGIT_BITS,
	RADIX_SAMPLES_MIN = 512, // below this, clearing counters costs more than qsort()
};

enum sample_field { FIELD_MORE_SLOTS, FIELD_STACK, FIELD_SLOT, FIELD_SERIES, FIELD_COUNT };

static inline uint64_t field_of(const struct sample *sample, enum sample_field field)
{
	switch (field) {
	case FIELD_MORE_SLOTS:
		return sample->more_slots;
	case FIELD_STACK:
		return sample->stack;
	case FIELD_SLOT:
		return sample->slot;
	default:
		return sample->series;
	}
}

static int compare_samples(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;

	for (int field = FIELD_SERIES; field >= FIELD_MORE_SLOTS; field--) {
		uint64_t x = field_of(left, (enum sample_field)field);
		uint64_t y = field_of(right, (enum sample_field)field);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

// One stable pass: order @from by a digit of @field into @to.
static void sort_by_digit(const struct sample *from, struct sample *to, uint32_t count,
			  enum sample_field field, uint64_t least, unsigned int shift)
{
	uint32_t starts[DIGIT_COUNT] = { 0 };
	uint32_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		starts[((field_of(&from[i], field) - least) >> shift) & (DIGIT_COUNT - 1)]++;
	for (uint32_t i = 0; i < DIGIT_COUNT; i++) {
		uint32_t size = starts[i];

		starts[i] = sum;
		sum += size;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t digit = (field_of(&from[i], field) - least) >> shift;

		to[starts[digit & (DIGIT_COUNT - 1)]++] = from[i];
	}
}

// Least significant field first. Returns which of the two arrays holds the sorted samples.
static struct sample *radix_sort(struct sample *from, struct sample *to, uint32_t count)
{
	for (int field = FIELD_MORE_SLOTS; field < FIELD_COUNT; field++) {
		uint64_t least = UINT64_MAX, most = 0;

		for (uint32_t i = 0; i < count; i++) {
			uint64_t value = field_of(&from[i], (enum sample_field)field);

			least = value < least ? value : least;
			most = value > most ? value : most;
		}
		for (unsigned int shift = 0; shift < 64 && (most - least) >> shift;
		     shift += DIGIT_BITS) {
			sort_by_digit(from, to, count, (enum sample_field)field, least, shift);

			struct sample *sorted = to;
			to = from;
			from = sorted;
		}
	}
	return from;
}

static void sort(struct profile *profile)
{
	uint32_t count = profile->sample_count;
	_cleanup_free_ struct sample *scratch = NULL;

	if (count >= RADIX_SAMPLES_MIN)
		scratch = malloc(count * sizeof(*scratch));
	if (!scratch) { // few samples, or no memory to be fast with
		qsort(profile->samples, count, sizeof(*profile->samples), compare_samples);
		return;
	}
	if (radix_sort(profile->samples, scratch, count) == scratch)
		memcpy(profile->samples, scratch, count * sizeof(*scratch));
}

void profile_sort_samples(struct profile *profile)
{
	uint32_t kept = 0;

	if (profile->sample_count == 0)
		return;
	sort(profile);
	for (uint32_t i = 1; i < profile->sample_count; i++) {
		struct sample *last = &profile->samples[kept];
		const struct sample *next = &profile->samples[i];

		if (compare_samples(last, next) == 0)
			last->value = add_saturating(last->value, next->value);
		else
			profile->samples[++kept] = *next;
	}
	profile->sample_count = kept + 1;
}
