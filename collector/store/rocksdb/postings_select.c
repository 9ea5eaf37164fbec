// SPDX-License-Identifier: Apache-2.0
// Selects series of a view: each matcher runs once per label pair with its name, and one pass over the
// series adds up what their pairs say.
#include "collector/store/rocksdb/postings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

_Static_assert(SELECTOR_MATCHERS_MAX <= 32, "a verdict has 64 bits; a diagnosis adds matchers");

/** What a label pair says, one bit per matcher. */
struct verdict {
	uint64_t concerned; // the matcher is about this name
	uint64_t failed;    // and the value does not satisfy it
};

void series_set_deinit(struct series_set *set)
{
	free(set->words);
	*set = (struct series_set){ 0 };
}

static struct verdict judge_pair(const struct label_pair *pair, const struct selector *selector)
{
	struct verdict verdict = { 0 };

	for (uint32_t i = 0; i < selector->count; i++) {
		const struct matcher *matcher = &selector->matchers[i];

		if (strcmp(pair->name, matcher->name))
			continue;
		verdict.concerned |= 1ULL << i;
		if (!matcher_matches(matcher, pair->value))
			verdict.failed |= 1ULL << i;
	}
	return verdict;
}

/** The matchers that a series without their labels fails: a missing label has the value "". */
static uint64_t judge_missing(const struct selector *selector)
{
	uint64_t failed = 0;

	for (uint32_t i = 0; selector && i < selector->count; i++)
		if (!matcher_matches(&selector->matchers[i], ""))
			failed |= 1ULL << i;
	return failed;
}

static bool series_matches(const struct postings_view *view, const struct indexed_series *series,
			   const struct verdict *verdicts, uint64_t missing)
{
	struct verdict all = { 0 };

	for (uint32_t i = 0; i < series->pair_count; i++) {
		uint32_t pair = view->series_pairs[series->first_pair + i];

		all.concerned |= verdicts[pair].concerned;
		all.failed |= verdicts[pair].failed;
	}
	return !(all.failed | (missing & ~all.concerned));
}

static bool is_present(const struct indexed_series *series, uint64_t presence)
{
	return atomic_load_explicit(&series->presence, memory_order_relaxed) & presence;
}

int postings_select(const struct postings_view *view, const struct selector *selector,
		    const char *type, uint64_t presence, struct series_set *ret_set)
{
	_cleanup_free_ uint64_t *words = calloc(view->series_count / 64 + 1, 8);
	_cleanup_free_ struct verdict *verdicts =
		calloc(view->pair_count + 1ULL, sizeof(*verdicts));
	uint64_t missing = judge_missing(selector);

	if (!words || !verdicts)
		return -ENOMEM;
	for (uint32_t i = 0; selector && selector->count && i < view->pair_count; i++)
		verdicts[i] = judge_pair(&view->pairs[i], selector);
	for (uint32_t i = 0; i < view->series_count; i++) {
		const struct indexed_series *series = &view->series[i];

		if (is_present(series, presence) &&
		    (!type || !strcmp(view->pairs[series->type].value, type)) &&
		    series_matches(view, series, verdicts, missing))
			words[i / 64] |= 1ULL << (i % 64);
	}
	*ret_set = (struct series_set){ .words = take(words), .series_count = view->series_count };
	return 0;
}
