// SPDX-License-Identifier: Apache-2.0
// The regions of time selected in the heat map, as links carry them: FROM-TO,FROM-TO in Unix milliseconds. Pure functions.

export const SLOT_MS = 20; // of what is stored
export const REGIONS_MAX = 64; // the collector's limit of ranges

const REGION = /^(\d{1,14})-(\d{1,14})$/;

/** The regions of @text, [{ from_ms, to_ms }] in order; null if it has none that are valid. */
export function readRegions(text) {
	const regions = text === "" ? [] : text.split(",").map((part) => REGION.exec(part));

	if (regions.length > REGIONS_MAX || regions.some((found) => !found || Number(found[1]) >= Number(found[2])))
		return null;
	return joined(regions.map((found) => ({ from_ms: Number(found[1]), to_ms: Number(found[2]) })));
}

export function writeRegions(regions) {
	return regions.map(({ from_ms, to_ms }) => `${from_ms}-${to_ms}`).join(",");
}

/** The regions of a view. */
export function regionsOf(view) {
	return readRegions(view.sel) ?? [];
}

/** @regions in order, those that overlap or touch as one. */
export function joined(regions) {
	const result = [];

	for (const { from_ms, to_ms } of [...regions].sort((a, b) => a.from_ms - b.from_ms)) {
		const last = result.at(-1);
		if (last && from_ms <= last.to_ms)
			last.to_ms = Math.max(last.to_ms, to_ms);
		else
			result.push({ from_ms, to_ms });
	}
	return result;
}

/** The milliseconds in @regions, which are joined. */
export function lengthOf(regions) {
	return regions.reduce((sum, { from_ms, to_ms }) => sum + to_ms - from_ms, 0);
}

/** The slots around @from_ms and @to_ms. */
export function wholeSlots(from_ms, to_ms) {
	return { from_ms: Math.floor(from_ms / SLOT_MS) * SLOT_MS, to_ms: Math.max(Math.floor(from_ms / SLOT_MS) + 1, Math.ceil(to_ms / SLOT_MS)) * SLOT_MS };
}
