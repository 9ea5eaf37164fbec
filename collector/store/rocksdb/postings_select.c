// SPDX-License-Identifier: Apache-2.0
// Selects series: one bit set per matcher, combined by AND.
#include "collector/store/rocksdb/postings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void series_set_deinit(struct series_set *set)
{
	free(set->words);
	*set = (struct series_set){ 0 };
}

static size_t word_count(const struct postings *postings)
{
	return postings->series_count / 64 + 1;
}

static void set_series(uint64_t *words, uint32_t series, bool value)
{
	uint64_t bit = 1ULL << (series % 64);

	words[series / 64] = value ? words[series / 64] | bit : words[series / 64] & ~bit;
}

/**
 * Clear the series that do not satisfy @matcher from @words. A missing label has the value "".
 */
static void apply_matcher(const struct postings *postings, const struct matcher *matcher,
			  uint64_t *words, uint64_t *scratch)
{
	uint32_t name = string_table_find(&postings->strings, matcher->name);

	memset(scratch, matcher_matches(matcher, "") ? 0xff : 0, word_count(postings) * 8);
	for (uint32_t i = 0; i < postings->pair_count && name != HASH_TABLE_NONE; i++) {
		const struct label_pair *pair = &postings->pairs[i];

		if (pair->name != name)
			continue;
		bool matches = matcher_matches(matcher, postings_value(postings, i));
		for (uint32_t j = 0; j < pair->series_count; j++)
			set_series(scratch, pair->series[j], matches);
	}
	for (size_t i = 0; i < word_count(postings); i++)
		words[i] &= scratch[i];
}

static void apply_presence(const struct postings *postings, const char *type, uint64_t presence,
			   uint64_t *words)
{
	for (uint32_t i = 0; i < postings->series_count; i++) {
		const struct indexed_series *series = &postings->series[i];

		if (!(series->presence & presence) ||
		    (type && strcmp(postings_value(postings, series->type), type)))
			set_series(words, i, false);
	}
}

int postings_select(const struct postings *postings, const struct selector *selector,
		    const char *type, uint64_t presence, struct series_set *ret_set)
{
	size_t words_count = word_count(postings);
	_cleanup_free_ uint64_t *words = malloc(words_count * 8);
	_cleanup_free_ uint64_t *scratch = malloc(words_count * 8);

	if (!words || !scratch)
		return -ENOMEM;
	memset(words, 0xff, words_count * 8);
	for (uint32_t i = 0; selector && i < selector->count; i++)
		apply_matcher(postings, &selector->matchers[i], words, scratch);
	apply_presence(postings, type, presence, words);
	// Clear the bits past the last series.
	words[postings->series_count / 64] &= (1ULL << (postings->series_count % 64)) - 1;
	*ret_set =
		(struct series_set){ .words = take(words), .series_count = postings->series_count };
	return 0;
}
