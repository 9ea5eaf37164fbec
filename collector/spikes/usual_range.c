// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/usual_range.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

// Quartiles of a Gumbel distribution: they lie 1.5725 of its scales apart, its mode 0.3665 below the median.
#define GUMBEL_QUARTILES 1.5725
#define GUMBEL_MEDIAN    0.3665
#define GUMBEL_SCALES    16.0 // over the mode: once in 10 million blocks
#define SPREAD_MIN       0.05 // of the upper quartile: steady series vary, too
#define HOLD_SHARE       0.4  // of the way from level to threshold: an interval ends below it
#define RECURRENCE_SHARE 0.7  // of a peak: earlier ones of this height make it usual
#define EDGE_SHARE       0.25 // of the mean rise: a slot at an edge with less is not part of it
#define SAME_EXTRA       0.85 // of a coarser scale's: the finer one tells the same, and when

enum { RECURRENCES = 2, FINER_INTERVALS_MAX = 3 };

/* The shorter a scale, the larger is what counts: more of its values are looked at, and less is lost by them. */
static const struct scale {
	uint64_t ns;
	double ratio;       // of the upper quartile of maxima, at least
	uint32_t gap_steps; // below the hold that do not end an interval
} scales[] = {
	{ 20 * NS_PER_MS, 2.0, 3 },      { 100 * NS_PER_MS, 1.75, 2 },
	{ 500 * NS_PER_MS, 1.6, 2 },     { NS_PER_SECOND, 1.5, 2 },
	{ 5 * NS_PER_SECOND, 1.35, 1 },  { 30 * NS_PER_SECOND, 1.25, 0 },
	{ 60 * NS_PER_SECOND, 1.25, 0 },
};

uint64_t usual_block_ns(uint64_t span_ns)
{
	uint64_t unit_ns = USUAL_BLOCK_S_MIN * NS_PER_SECOND;
	uint64_t units = (span_ns / USUAL_BLOCKS + unit_ns - 1) / unit_ns;
	uint64_t units_max = USUAL_BLOCK_S_MAX / USUAL_BLOCK_S_MIN;

	return (units < 1 ? 1 : units > units_max ? units_max : units) * unit_ns;
}

/** One scale of a series: its steps and blocks. */
struct scaled {
	const struct scale *scale;
	double *steps;
	uint32_t step_count;
	uint32_t slots_per_step, steps_per_block;
	double *maxima, *means; // by block
	bool *judged;           // by block: the service ran, and had not just started
	uint32_t block_count;
};

/** What is usual before a block. */
struct usual {
	double level;        // of a step: the median of blocks' means
	double mode, spread; // of maxima
	double upper;        // quartile of maxima
	double high, hold;   // above high an interval begins, below hold it ends
};

static void scaled_deinit(struct scaled *scaled)
{
	free(scaled->steps);
	free(scaled->maxima);
	free(scaled->means);
	free(scaled->judged);
}

/** Of sorted values, between neighbours. */
static double quantile(const double *sorted, uint32_t count, double share)
{
	double at = share * (count - 1);
	uint32_t below = (uint32_t)at;

	if (below + 1 >= count)
		return sorted[count - 1];
	return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

/** Did the service run through the block, and some time before it? */
static bool is_judged(const struct usual_series *series, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t before_ns = from_ns > USUAL_START_S * NS_PER_SECOND
				     ? from_ns - USUAL_START_S * NS_PER_SECOND
				     : 0;

	for (uint64_t unit = before_ns / series->unit_ns; unit < to_ns / series->unit_ns; unit++) {
		if (unit >= series->present_count || !series->present[unit])
			return false;
	}
	return true;
}

/** Sum the series by steps: of those of @finer (NULL: of the slots). */
static void sum_steps(const struct usual_series *series, const struct scaled *finer,
		      struct scaled *scaled)
{
	uint32_t parts = scaled->slots_per_step / (finer ? finer->slots_per_step : 1);

	for (uint32_t step = 0; step < scaled->step_count; step++) {
		double sum = 0;

		for (uint32_t i = step * parts; i < (step + 1) * parts; i++)
			sum += finer ? finer->steps[i] : (double)series->values[i];
		scaled->steps[step] = sum;
	}
}

static int scale_series(const struct usual_series *series, const struct scale *scale,
			const struct scaled *finer, struct scaled *ret_scaled)
{
	_cleanup_(scaled_deinit) struct scaled scaled = { .scale = scale };
	uint64_t block_ns = series->block_ns > scale->ns ? series->block_ns : scale->ns;

	scaled.slots_per_step = (uint32_t)(scale->ns / series->slot_ns);
	scaled.steps_per_block = (uint32_t)(block_ns / scale->ns);
	block_ns = scaled.steps_per_block * scale->ns; // whole steps
	scaled.step_count = series->count / scaled.slots_per_step;
	scaled.block_count = scaled.step_count / scaled.steps_per_block;
	scaled.steps = calloc(scaled.step_count + 1ULL, sizeof(*scaled.steps));
	scaled.maxima = calloc(scaled.block_count + 1ULL, sizeof(*scaled.maxima));
	scaled.means = calloc(scaled.block_count + 1ULL, sizeof(*scaled.means));
	scaled.judged = calloc(scaled.block_count + 1ULL, sizeof(*scaled.judged));
	if (!scaled.steps || !scaled.maxima || !scaled.means || !scaled.judged)
		return -ENOMEM;

	sum_steps(series, finer, &scaled);
	for (uint32_t block = 0; block < scaled.block_count; block++) {
		const double *steps = scaled.steps + (size_t)block * scaled.steps_per_block;
		double sum = 0, maximum = steps[0];

		for (uint32_t i = 0; i < scaled.steps_per_block; i++) {
			sum += steps[i];
			maximum = steps[i] > maximum ? steps[i] : maximum;
		}
		scaled.maxima[block] = maximum;
		scaled.means[block] = sum / scaled.steps_per_block;
		scaled.judged[block] = is_judged(series, block * block_ns, (block + 1) * block_ns);
	}
	*ret_scaled = scaled;
	scaled = (struct scaled){ 0 };
	return 0;
}

/** The judged blocks before one. */
struct history {
	struct sorted_window maxima, means;
	uint32_t next; // block: those before it are in
};

/** What the blocks before @block say. False: they are too few. Asked in order of blocks. */
static bool read_usual(const struct usual_series *series, const struct scaled *scaled,
		       uint32_t block, struct history *history, struct usual *ret_usual)
{
	for (; history->next < block; history->next++) {
		if (!scaled->judged[history->next])
			continue;
		sorted_window_add(&history->maxima, scaled->maxima[history->next]);
		sorted_window_add(&history->means, scaled->means[history->next]);
	}
	const double *maxima = history->maxima.sorted, *means = history->means.sorted;
	uint32_t count = history->maxima.count;
	if (count < USUAL_BLOCKS_MIN)
		return false;
	double lower = quantile(maxima, count, 0.25);
	double upper = quantile(maxima, count, 0.75);
	double spread = (upper - lower) / GUMBEL_QUARTILES;

	spread = fmax(spread, fmax(SPREAD_MIN * upper, series->quantum / 4));
	// Quartiles of few values are uncertain.
	double scales_over = GUMBEL_SCALES * (1 + 3 / sqrt(count));
	double mode = quantile(maxima, count, 0.5) - GUMBEL_MEDIAN * spread;
	double level = quantile(means, count, 0.5);
	double scale_s = (double)scaled->scale->ns / (double)NS_PER_SECOND;
	double high = fmax(mode + scales_over * spread, scaled->scale->ratio * upper);

	high = fmax(high, level + series->rise_min * scale_s);

	*ret_usual = (struct usual){
		.level = level,
		.mode = mode,
		.spread = spread,
		.upper = upper,
		.high = high,
		.hold = fmax(upper, level + HOLD_SHARE * (high - level)),
	};
	return true;
}

/** How often a value so far over what is usual at @block was reached before, apart from it and each other. */
static uint32_t count_recurrences(const struct scaled *scaled, uint32_t block,
				  const struct usual *usual, double peak)
{
	double height = usual->level + RECURRENCE_SHARE * (peak - usual->level);
	uint32_t count = 0, looked = 0;
	bool in_run = true; // what touches the interval is part of it

	for (uint32_t i = block; i-- > 0 && looked < USUAL_BLOCKS;) {
		if (!scaled->judged[i])
			continue;
		looked++;
		bool reaches = scaled->maxima[i] >= height;

		count += reaches && !in_run;
		in_run = reaches;
	}
	return count;
}

static double surprise_of(const struct usual *usual, double peak)
{
	// The tail of a Gumbel distribution falls as exp(-x).
	double digits = (peak - usual->mode) / usual->spread / log(10);

	return fmin(digits, USUAL_SURPRISE_MAX);
}

/** Drop the smallest for a larger one. */
static void keep_excursion(struct excursions *excursions, const struct excursion *excursion)
{
	uint32_t at = excursions->count;

	if (at < USUAL_EXCURSIONS_MAX) {
		excursions->items[excursions->count++] = *excursion;
		return;
	}
	excursions->dropped++;
	at = 0;
	for (uint32_t i = 1; i < USUAL_EXCURSIONS_MAX; i++)
		if (excursions->items[i].extra < excursions->items[at].extra)
			at = i;
	if (excursions->items[at].extra < excursion->extra)
		excursions->items[at] = *excursion;
}

/** The interval around step @at, which is above usual->high. Returns its end. */
static uint32_t hold_interval(const struct scaled *scaled, uint32_t at, const struct usual *usual,
			      uint32_t *ret_first)
{
	uint32_t first = at, end = at + 1;

	while (first > 0 && scaled->steps[first - 1] > usual->hold)
		first--;
	for (uint32_t i = end, below = 0;
	     i < scaled->step_count && below <= scaled->scale->gap_steps; i++) {
		bool holds = scaled->steps[i] > usual->hold;

		below = holds ? 0 : below + 1;
		end = holds ? i + 1 : end;
	}
	*ret_first = first;
	return end;
}

/** Add the excursion of [first, end) unless it is small, usual or before what is judged. */
static void judge_interval(const struct usual_series *series, const struct scaled *scaled,
			   const struct usual *usual, uint32_t first, uint32_t end,
			   double extra_min, struct excursions *excursions)
{
	struct excursion excursion = {
		.first = first * scaled->slots_per_step,
		.end = end * scaled->slots_per_step,
		.scale_ns = scaled->scale->ns,
		.goes_on = end >= scaled->step_count,
	};
	double peak = 0;

	for (uint32_t i = first; i < end; i++) {
		excursion.value += scaled->steps[i];
		peak = fmax(peak, scaled->steps[i]);
	}
	excursion.extra = excursion.value - usual->level * (end - first);
	excursion.surprise = surprise_of(usual, peak);
	if (excursion.end <= series->judged_from || excursion.extra < extra_min ||
	    count_recurrences(scaled, first / scaled->steps_per_block, usual, peak) >= RECURRENCES)
		return;
	keep_excursion(excursions, &excursion);
}

static void judge_scale(const struct usual_series *series, const struct scaled *scaled,
			double extra_min, struct excursions *excursions)
{
	struct history history = { 0 };
	struct usual usual;

	// A spike that began before what is judged is found from its begin.
	for (uint32_t block = 0; block < scaled->block_count; block++) {
		uint32_t end = (block + 1) * scaled->steps_per_block;

		if (!scaled->judged[block] ||
		    !read_usual(series, scaled, block, &history, &usual) ||
		    scaled->maxima[block] <= usual.high)
			continue;
		for (uint32_t at = block * scaled->steps_per_block; at < end; at++) {
			uint32_t first;

			if (scaled->steps[at] <= usual.high)
				continue;
			uint32_t after = hold_interval(scaled, at, &usual, &first);

			judge_interval(series, scaled, &usual, first, after, extra_min, excursions);
			at = after - 1;
			if (after > end) // it has used up the next blocks, or a part of them
				block = (after - 1) / scaled->steps_per_block;
			end = (block + 1) * scaled->steps_per_block;
			if (end > scaled->step_count)
				end = scaled->step_count;
		}
	}
}

// ---- scales, joined -------------------------------------------------------------------------

static int compare_starts(const void *a, const void *b)
{
	const struct excursion *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/** The excursions of one scale in a group. */
struct scale_sum {
	double extra;
	uint32_t count;
};

/** Of excursions that overlap, keep those of the finest scale that tell nearly all. */
static void join_group(const struct excursion *group, uint32_t count, struct excursions *joined)
{
	struct scale_sum sums[ARRAY_SIZE(scales)] = { 0 };
	double extra_max = 0, surprise = 0;
	size_t chosen = ARRAY_SIZE(scales);

	for (uint32_t i = 0; i < count; i++) {
		extra_max = fmax(extra_max, group[i].extra);
		surprise = fmax(surprise, group[i].surprise);
		for (size_t s = 0; s < ARRAY_SIZE(scales); s++) {
			if (scales[s].ns != group[i].scale_ns)
				continue;
			sums[s].extra += group[i].extra;
			sums[s].count++;
		}
	}
	for (size_t s = ARRAY_SIZE(scales); s-- > 0;) {
		if (sums[s].count && sums[s].count <= FINER_INTERVALS_MAX &&
		    sums[s].extra >= SAME_EXTRA * extra_max)
			chosen = s;
	}
	for (uint32_t i = 0; i < count; i++) {
		bool is_largest = chosen == ARRAY_SIZE(scales) && group[i].extra >= extra_max;
		struct excursion excursion = group[i];

		if (!is_largest &&
		    (chosen == ARRAY_SIZE(scales) || scales[chosen].ns != group[i].scale_ns))
			continue;
		excursion.surprise = surprise;
		keep_excursion(joined, &excursion);
		if (is_largest)
			return;
	}
}

static void join_scales(struct excursions *found, struct excursions *joined)
{
	qsort(found->items, found->count, sizeof(found->items[0]), compare_starts);
	joined->dropped = found->dropped;
	for (uint32_t i = 0, next; i < found->count; i = next) {
		uint32_t end = found->items[i].end;

		for (next = i + 1; next < found->count && found->items[next].first < end; next++)
			end = found->items[next].end > end ? found->items[next].end : end;
		join_group(&found->items[i], next - i, joined);
	}
	qsort(joined->items, joined->count, sizeof(joined->items[0]), compare_starts);
}

/** Its first and last steps began before it, or ended after it: leave out the slots that are as usual. */
static void tighten(const struct usual_series *series, struct excursion *excursion)
{
	uint32_t slots = excursion->end - excursion->first;
	uint32_t step = (uint32_t)(excursion->scale_ns / series->slot_ns);
	double level = (excursion->value - excursion->extra) / slots;
	double edge = level + EDGE_SHARE * excursion->extra / slots;
	uint32_t first = excursion->first, end = excursion->end;

	while (first - excursion->first < step && end - first > step &&
	       (double)series->values[first] <= edge)
		excursion->value -= (double)series->values[first++];
	while (excursion->end - end < step && end - first > step &&
	       (double)series->values[end - 1] <= edge)
		excursion->value -= (double)series->values[--end];
	excursion->extra = excursion->value - level * (end - first);
	excursion->first = first;
	excursion->end = end;
}

int usual_range_judge(const struct usual_series *series, double extra_min,
		      struct excursions *ret_excursions)
{
	_cleanup_(scaled_deinit) struct scaled finer = { 0 };
	struct excursions found = { 0 };

	*ret_excursions = (struct excursions){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(scales); i++) {
		struct scaled scaled;

		if (scales[i].ns % series->slot_ns || scales[i].ns < series->scale_min_ns)
			continue;
		int rc = scale_series(series, &scales[i], finer.scale ? &finer : NULL, &scaled);
		if (rc)
			return rc;
		judge_scale(series, &scaled, extra_min, &found);
		scaled_deinit(&finer);
		finer = scaled; // each scale is a multiple of those before
	}
	join_scales(&found, ret_excursions);
	for (uint32_t i = 0; i < ret_excursions->count; i++)
		tighten(series, &ret_excursions->items[i]);
	return 0;
}
