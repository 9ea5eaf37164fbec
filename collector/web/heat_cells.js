// SPDX-License-Identifier: Apache-2.0
// The cells of a heat map: a column is a second or more, its rows are fiftieths of it, the earliest at the bottom. A cell's
// value is a mean, or the largest slot in it. Pure functions.

import { rateOf } from "./format.js";
import { SLOT_MS } from "./regions.js";

export const ROWS = 50;
const COLUMNS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const SCALE_QUANTILE = 0.995; // a few larger cells share the last colour
// A lane that hardly varies: of the cells between its first and its last with a value so many have one, and 80 % of these are
// within so much of the median.
const LEVEL_FILLED_MIN = 0.8;
const LEVEL_SPREAD_MAX = 0.2;
const LEVEL_SCALE_MIN = 0.25; // of the median: less than that is pale

/** The columns of @range that fit @columnsMax: { from_ms, column_ms, cell_ms, columns }. They are whole: the first may begin before it. */
export function gridOf(range, columnsMax) {
	const fits = (seconds) => Math.ceil(range.to_ms / (seconds * 1000)) - Math.floor(range.from_ms / (seconds * 1000)) <= columnsMax;
	const column_ms = (COLUMNS_S.find(fits) ?? COLUMNS_S.at(-1)) * 1000;
	const from_ms = Math.floor(range.from_ms / column_ms) * column_ms;

	return { from_ms, column_ms, cell_ms: column_ms / ROWS, columns: Math.max(1, Math.ceil((range.to_ms - from_ms) / column_ms)) };
}

/** Does a cell hold more than one stored slot? */
export function isCoarse(grid) {
	return grid.cell_ms > SLOT_MS;
}

/**
 * What a lane draws of an answer of /api/v1/heatmap: { rates, peaks, rate, top, isClipped } for the means and for the peaks, in
 * the unit of @rate. top is the value of the last colour; isClipped: some cells are above. Where the lane hardly varies, usual is
 * its level, otherwise null: then colours are distances from it, and top is the largest distance.
 */
export function laneOf(answer) {
	const rate = rateOf(answer.type, answer.unit, answer.slot_ns);
	const means = scaled(answer.values, rate.scale);
	const peaks = answer.peaks ? scaled(answer.peaks, rateOf(answer.type, answer.unit, answer.peak_ns).scale) : means;

	return { rate, mean: { rates: means, ...topOf(means) }, max: { rates: peaks, ...topOf(peaks) } };
}

function scaled(values, scale) {
	return Float64Array.from(values, (value) => value * scale);
}

/** What most cells of @rates have, @some of which are the positive ones, sorted; null if they vary. */
function usualOf(rates, some) {
	const span = rates.findLastIndex((value) => value > 0) + 1 - rates.findIndex((value) => value > 0);
	const at = (share) => some[Math.floor((some.length - 1) * share)];

	return some.length > 1 && some.length >= LEVEL_FILLED_MIN * span && at(0.9) - at(0.1) <= LEVEL_SPREAD_MAX * at(0.5) ? at(0.5) : null;
}

function topValue(sorted) {
	return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * SCALE_QUANTILE))];
}

function topOf(rates) {
	const some = rates.filter((value) => value > 0).sort();
	const usual = usualOf(rates, some);

	if (usual !== null) {
		const away = some.map((value) => Math.abs(value - usual)).sort();
		const far = Math.max(topValue(away), LEVEL_SCALE_MIN * usual);
		return { top: far, isClipped: away.at(-1) > far, usual };
	}
	const top = some.length ? topValue(some) : 0;

	return { top, isClipped: some.length > 0 && some.at(-1) > top, usual };
}

/** The share of the scale of topOf() that @value has. */
export function scaleShare(value, { top, usual }) {
	return (usual === null ? value : Math.abs(value - usual)) / top;
}

/** The mean rate of @lane in @regions that are made of whole cells of @grid. */
export function meanOf(lane, grid, regions) {
	let sum = 0, count = 0;

	for (const { from_ms, to_ms } of regions) {
		const first = Math.max(0, Math.round((from_ms - grid.from_ms) / grid.cell_ms));
		const end = Math.min(lane.mean.rates.length, Math.round((to_ms - grid.from_ms) / grid.cell_ms));
		for (let at = first; at < end; at++)
			sum += lane.mean.rates[at];
		count += Math.max(0, end - first);
	}
	return count ? sum / count : 0;
}
