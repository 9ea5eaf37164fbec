// SPDX-License-Identifier: Apache-2.0
// The cells of a heat map: a column is a second or more, its rows are fiftieths of it, the earliest at the bottom. A cell's
// value is a mean, or the largest slot in it. Pure functions.

import { rateOf } from "./format.js";
import { SLOT_MS } from "./regions.js";

export const ROWS = 50;
const COLUMNS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const SCALE_QUANTILE = 0.995; // a few larger cells share the last colour

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
 * the unit of @rate. top is the value of the last colour; isClipped: some cells are above.
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

function topOf(rates) {
	const some = rates.filter((value) => value > 0).sort();
	const top = some.length ? some[Math.min(some.length - 1, Math.floor(some.length * SCALE_QUANTILE))] : 0;

	return { top, isClipped: some.length > 0 && some.at(-1) > top };
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
