// SPDX-License-Identifier: Apache-2.0
// A store as a plain list of samples, to compare a real one with.
#pragma once

#include "tests/unit/collector/store/store_fixture.h"

struct model_sample {
	uint32_t series, stack; // which of the random ones
	uint64_t slot;
	uint32_t more_slots;
	int64_t value;
};

struct model {
	struct model_sample *samples;
	uint32_t count, capacity;
	uint64_t random;
	uint32_t length_max; // half of the samples cover up to so many slots; 0: none does
	bool uneven;         // and their values do not divide by them
};

enum { MODEL_SERIES = 40, MODEL_STACKS = 60 };

static inline uint32_t model_random(struct model *model, uint32_t below)
{
	model->random = model->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((model->random >> 33) % below);
}

static inline void model_labels_text(uint32_t series, char *text)
{
	sprintf(text, "node=n%u,service=s%u,thread=t%u", series % 5, series % 3, series);
}

static inline void model_stack_text(uint32_t stack, char *text)
{
	uint32_t depth = 1 + stack % 9;

	strcpy(text, "main");
	for (uint32_t i = 1; i < depth; i++)
		sprintf(text + strlen(text), ";f%u", stack >> (depth - i) % 6);
	sprintf(text + strlen(text), ";leaf%u", stack);
}

static inline void model_add(struct model *model, const struct model_sample *sample)
{
	if (model->count == model->capacity) {
		model->capacity = model->capacity ? model->capacity * 2 : 1024;
		model->samples = realloc(model->samples, model->capacity * sizeof(*sample));
	}
	model->samples[model->count++] = *sample;
}

static inline void model_add_to_profile(const struct model_sample *sample, struct profile *profile)
{
	char labels[256], stack[1024];

	model_labels_text(sample->series, labels);
	model_stack_text(sample->stack, stack);
	assert_int_equal(0,
			 profile_add_interval(profile, series_of_text(profile, labels, TEST_TYPE),
					      stack_of_text(profile, stack, STACK_END_COMPLETE),
					      sample->slot, sample->more_slots, sample->value));
}

/**
 * Make it an interval within its minute. Unless it is to be uneven, its value divides by its slots: what each of them gets does
 * not depend on which rows were added up before.
 */
static inline void model_lengthen(struct model *model, struct model_sample *sample)
{
	uint64_t slots = 60 * NS_PER_SECOND / TEST_SLOT_NS;
	uint32_t left = (uint32_t)(slots - sample->slot % slots);
	uint32_t length_max = left < model->length_max ? left : model->length_max;

	sample->more_slots = model_random(model, model_random(model, 3) ? length_max : 2);
	if (sample->more_slots >= left)
		sample->more_slots = left - 1;
	if (model->uneven)
		sample->value += model_random(model, 10000);
	else
		sample->value *= sample->more_slots + 1;
}

/**
 * A batch of @count random samples in [from, from + length), added to the model too. Few slots and
 * stacks, so that equal rows meet in one batch and in several.
 */
static inline struct profile *model_batch(struct model *model, uint32_t count, uint64_t from_ns,
					  uint64_t length_ns)
{
	struct profile *profile = test_profile();

	for (uint32_t i = 0; i < count; i++) {
		uint64_t slots = length_ns / TEST_SLOT_NS;
		struct model_sample sample = {
			.series = model_random(model, MODEL_SERIES),
			.stack = model_random(model, MODEL_STACKS) * model_random(model, 3) / 2,
			.slot = from_ns / TEST_SLOT_NS + model_random(model, (uint32_t)slots),
			.value = model_random(model, 20) ? 10000000 + model_random(model, 4) * 1000
							 : -(int64_t)model_random(model, 1000000),
		};

		if (model->length_max && model_random(model, 2))
			model_lengthen(model, &sample);
		model_add_to_profile(&sample, profile);
		model_add(model, &sample);
	}
	return profile;
}

/** Does the series match @selector_text? */
static inline bool model_matches(uint32_t series, const struct selector *selector)
{
	struct labels labels = { 0 };
	char text[256];

	model_labels_text(series, text);
	labels_of_text(text, &labels);
	bool matches = selector_matches(selector, &labels);
	labels_deinit(&labels);
	return matches;
}

/** The number of the first slot that begins at @time_ns or later. */
static inline uint64_t slot_from(uint64_t time_ns)
{
	return time_ns / TEST_SLOT_NS + (time_ns % TEST_SLOT_NS != 0);
}

/** How many of its slots begin in @range. */
static inline uint32_t slots_in_range(const struct model_sample *sample, struct time_range range)
{
	uint64_t first = slot_from(range.from_ns), end = slot_from(range.to_ns);

	if (first < sample->slot)
		first = sample->slot;
	if (end > sample->slot + sample->more_slots + 1)
		end = sample->slot + sample->more_slots + 1;
	return end > first ? (uint32_t)(end - first) : 0;
}

/** What a series and a stack have in a range. */
struct model_sum {
	bool found;
	int64_t value;
};

static inline void dump_model_sums(const struct model_sum sums[MODEL_SERIES][MODEL_STACKS],
				   enum scan_detail detail, struct dump *dump)
{
	char line[2048];

	for (uint32_t series = 0; series < MODEL_SERIES; series++) {
		for (uint32_t stack = 0; stack < MODEL_STACKS; stack++) {
			if (!sums[series][stack].found)
				continue;
			line[0] = 0;
			if (detail == DUMP_SERVICE_SUMS)
				sprintf(line, "s%u", series % 3);
			else if (detail != SCAN_SUMS)
				model_labels_text(series, line);
			strcat(line, " ");
			model_stack_text(stack, line + strlen(line));
			dump_add(dump, line, sums[series][stack].value);
		}
	}
}

static inline void model_dump(const struct model *model, const char *selector_text,
			      struct time_range range, enum scan_detail detail, struct dump *dump)
{
	struct model_sum sums[MODEL_SERIES][MODEL_STACKS] = { 0 };
	char labels[MODEL_SERIES][64], stacks[MODEL_STACKS][128], line[256];
	struct selector selector = selector_of(selector_text);
	bool wanted[MODEL_SERIES];

	*dump = (struct dump){ 0 };
	for (uint32_t i = 0; i < MODEL_SERIES; i++) {
		wanted[i] = model_matches(i, &selector);
		model_labels_text(i, labels[i]);
	}
	for (uint32_t i = 0; i < MODEL_STACKS; i++)
		model_stack_text(i, stacks[i]);
	for (uint32_t i = 0; i < model->count; i++) {
		const struct model_sample *sample = &model->samples[i];
		uint32_t slots = wanted[sample->series] ? slots_in_range(sample, range) : 0;
		int64_t each = sample->value / (sample->more_slots + 1);
		struct model_sum *sum = &sums[sample->series][sample->stack];

		if (!slots)
			continue;
		sum->found = true;
		sum->value += each * slots;
		if (detail != SCAN_ROWS)
			continue;
		char *end = stpcpy(line, labels[sample->series]);
		end += sprintf(end, " %llu",
			       (unsigned long long)(sample->slot * TEST_SLOT_NS / NS_PER_MS));
		end = stpcpy(append_length_text(sample->more_slots, end), " ");
		strcpy(end, stacks[sample->stack]);
		dump_add(dump, line, each * (sample->more_slots + 1)); // such rows come whole
	}
	if (detail != SCAN_ROWS)
		dump_model_sums(sums, detail, dump);
	dump_finish(dump);
	selector_deinit(&selector);
}

static inline void model_deinit(struct model *model)
{
	free(model->samples);
}

/** The store holds what the model holds, under every detail, for one selector and range. */
static inline void expect_model(const struct model *model, struct store *store,
				const char *selector, struct time_range range, const char *what)
{
	for (int detail = SCAN_ROWS; detail <= (int)DUMP_SERVICE_SUMS; detail++) {
		struct dump expected, actual;

		model_dump(model, selector, range, detail, &expected);
		dump_store(store, selector, range, detail, &actual);
		expect_equal_dumps(&expected, &actual, what);
		dump_deinit(&expected);
		dump_deinit(&actual);
	}
}

/** How activity is asked for: added up; by node; the same, and series of one node are left out. */
enum activity_rows { ACTIVITY_ONE_ROW, ACTIVITY_BY_NODE, ACTIVITY_OF_SOME };

enum { ACTIVITY_NODE_LEFT_OUT = 3 };

/** Activity of the selection equals the model's samples added up per slot. */
static inline void expect_activity(const struct model *model, struct store *store,
				   const char *selector_text, struct time_range range,
				   uint64_t slot_ns, enum activity_rows asked, const char *what)
{
	bool by_node = asked != ACTIVITY_ONE_ROW;
	struct selector selector = selector_of(selector_text);
	struct store_selection *selection;
	uint64_t slot_count = (range.to_ns - range.from_ns) / slot_ns;
	int64_t *expected = calloc(5 * slot_count, sizeof(*expected));
	int64_t *actual = calloc(5 * slot_count, sizeof(*actual));
	uint32_t rows[MODEL_SERIES];
	bool wanted[MODEL_SERIES];
	struct error err = { 0 };

	for (uint32_t i = 0; i < MODEL_SERIES; i++)
		wanted[i] = model_matches(i, &selector);
	assert_int_equal(0, store_select(store, &selector, NULL, range, &selection, &err));
	for (uint32_t i = 0; i < selection->series_count; i++) {
		rows[i] = (uint32_t)atoi(labels_get(&selection->series[i].labels, "node") + 1);
		if (asked == ACTIVITY_OF_SOME && rows[i] == ACTIVITY_NODE_LEFT_OUT)
			rows[i] = STORE_ROW_NONE;
	}
	if (store_activity(store, selection, range, slot_ns, by_node ? rows : NULL, actual, &err) <
	    0)
		fail_msg("%s: %s", what, err.text);
	for (uint32_t i = 0; i < model->count; i++) {
		const struct model_sample *sample = &model->samples[i];
		int64_t *row = expected + (by_node ? sample->series % 5 : 0) * slot_count;

		if (!wanted[sample->series] ||
		    (asked == ACTIVITY_OF_SOME && sample->series % 5 == ACTIVITY_NODE_LEFT_OUT))
			continue;
		for (uint32_t j = 0; j <= sample->more_slots; j++) {
			uint64_t time_ns = (sample->slot + j) * TEST_SLOT_NS;
			uint64_t slot = (time_ns - range.from_ns) / slot_ns;

			if (time_ns >= range.from_ns && slot < slot_count)
				row[slot] += sample->value / (sample->more_slots + 1);
		}
	}
	for (uint64_t i = 0; i < 5 * slot_count; i++)
		if (expected[i] != actual[i])
			fail_msg("%s: slot %llu has %lld, expected %lld", what,
				 (unsigned long long)i, (long long)actual[i],
				 (long long)expected[i]);
	free(expected);
	free(actual);
	store_selection_free(selection);
	selector_deinit(&selector);
}
