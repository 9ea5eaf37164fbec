// SPDX-License-Identifier: Apache-2.0
// Turns the collector's series into stacked rates for a chart. Pure functions.

import { rateOf } from "./format.js";
import { hasColors, placeOf } from "./label_value.js";
import { SERIES_COLORS } from "./palette.js";
import { addsUp, isGauge } from "./profile_type.js";
import { coveredMs } from "./time_range.js";

const OTHER = "other";	 // name of the sum of series beyond the colours
const GROUPS_MAX = 100;	 // in the collector's answer; it sums the rest under the same name
const KNOWN_MAX = 16;	 // series of a label whose values have colours of their own

/**
 * What a chart draws of @answer for @range (in ms), grouped by @label; @stored: { oldest_ms, newest_ms } of
 * all samples, 0 if unknown. edges are the steps' times, rates and tops (sums from the first series on) are per step,
 * arrived_ms is the last edge before which data is complete. For series that do not sum, tops are rates and `whole`,
 * of each step, is a mean.
 */
export function stackSeries(answer, range, stored, label = "") {
	const { first_ms, step_ms, stepCount } = stepsOf(answer);
	const rate = rateOf(answer.type, answer.unit, answer.step_ns);
	const something = answer.series.filter((s) => s.total !== 0); // skip empty groups
	const ordered = (something.length ? something : answer.series.slice(0, 1)).sort((a, b) => placeOf(label, a.group) - placeOf(label, b.group));
	const isStacked = addsUp(answer.type);
	const series = stacked(keepLargest(ordered, hasColors(label) ? KNOWN_MAX : SERIES_COLORS, isStacked), stepCount, rate.scale, isStacked);
	const whole = wholeOf(ordered, stepCount, rate.scale, isStacked);
	// Steps are whole and may reach beyond the range; only what lies within is drawn.
	const edges = Array.from({ length: stepCount + 1 }, (unused, at) =>
		Math.min(Math.max(first_ms + at * step_ms, range.from_ms), range.to_ms));
	const arrived = wholeSteps(first_ms, step_ms, stepCount, stored.newest_ms || range.to_ms);
	// Time before the first sample does not count as zero usage.
	const begun = wholeSteps(first_ms, step_ms, stepCount, stored.oldest_ms);

	const meanOf = isGauge(answer.type) ? (rates) => mean(rates.subarray(begun, arrived)) :
		(rates) => meanWithin(rates, first_ms, step_ms, range, stored);
	for (const one of series)
		one.mean = meanOf(one.rates);
	return { ...range, edges, rate, series, label, whole, isStacked,
		 arrived_ms: arrived < stepCount ? edges[arrived] : range.to_ms,
		 facts: { mean: meanOf(whole), peak: Math.max(0, ...series.map(({ tops }) => tops.reduce((a, b) => Math.max(a, b), 0))),
			  total: series.reduce((sum, s) => sum + s.total, 0) } };
}

/** Where the steps of @answer lie: { first_ms, step_ms, stepCount }. */
export function stepsOf(answer) {
	return { first_ms: answer.first_step_ns / 1e6, step_ms: answer.step_ns / 1e6,
		 stepCount: Math.max(0, ...answer.series.map((s) => s.values.length)) };
}

/** How many of the first steps end before @until_ms: a partial step looks like a drop. */
function wholeSteps(first_ms, step_ms, stepCount, until_ms) {
	return Math.min(stepCount, Math.max(0, Math.floor((until_ms - first_ms) / step_ms)));
}

/**
 * The mean of amounts over what @range has of stored time, as that of a merged profile: of a step that begins before the
 * range the part in it, and of one that is on its way what has arrived.
 */
function meanWithin(rates, first_ms, step_ms, range, stored) {
	let sum = 0, span_ms = 0;

	rates.forEach((rate, at) => {
		const step = { from_ms: first_ms + at * step_ms, to_ms: first_ms + (at + 1) * step_ms };
		const inside_ms = coveredMs({ from_ms: Math.max(step.from_ms, range.from_ms), to_ms: Math.min(step.to_ms, range.to_ms) }, stored);
		span_ms += inside_ms;
		if (inside_ms > 0)
			sum += (rate * step_ms * inside_ms) / coveredMs(step, stored);
	});
	return span_ms > 0 ? sum / span_ms : 0;
}

function mean(values) {
	return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0;
}

/** At most @most series; the smallest are merged into their sum, or their mean if they do not sum. */
function keepLargest(series, most, doAdd) {
	if (series.length <= most)
		return series;
	if (series.length > GROUPS_MAX)
		series = [...series.filter((s) => s.group !== OTHER), ...series.filter((s) => s.group === OTHER)];
	const rest = series.slice(most - 1);
	const sum = { group: OTHER, isOther: true, total: 0, values: rest[0].values.map(() => 0) };

	for (const { total, values } of rest) {
		sum.total += total;
		values.forEach((value, at) => (sum.values[at] += doAdd ? value : value / rest.length));
	}
	return [...series.slice(0, most - 1), sum];
}

function stacked(series, stepCount, scale, doAdd) {
	const below = new Float64Array(stepCount);

	return series.map((s) => {
		const rates = Float64Array.from(s.values, (value) => value * scale);
		rates.forEach((value, at) => (below[at] += value));
		return { ...s, rates, tops: doAdd ? below.slice() : rates };
	});
}

/** The sum of @series in each step, or their mean. */
function wholeOf(series, stepCount, scale, doAdd) {
	return Float64Array.from({ length: stepCount }, (unused, at) => {
		const sum = series.reduce((before, { values }) => before + values[at] * scale, 0);
		return doAdd ? sum : sum / series.length;
	});
}
