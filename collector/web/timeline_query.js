// SPDX-License-Identifier: Apache-2.0
// What the timeline page asks: the threads of a view, the stacks of one bar, the file for Perfetto.

import { apiPath, request } from "./api.js";
import { TYPE } from "./contract.js";
import { fetchPresence, selectorOf, showType } from "./queries.js";
import { regionsOf } from "./regions.js";
import { withValue } from "./selector.js";

const SLOTS_MS = [20, 40, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 14400000, 43200000, 86400000];
const ROWS_MAX = 200; // of which a screen shows 20
const VALUES_MAX = 1 << 21; // of the collector
const PARTS = 18; // that a thread has at most

/** @view's selector, without labels that only some profile types have. */
export function threadsSelector(view) {
	return selectorOf({ ...view, query: showType(view, TYPE.CPU).query });
}

/** The shortest slot of which @slotsMax hold @range. */
function slotOf(range, slotsMax) {
	return SLOTS_MS.find((slot_ms) => (range.to_ms - range.from_ms) / slot_ms <= slotsMax) ?? SLOTS_MS.at(-1);
}

/** What the threads of @view did in @range, and when agents sent data: { answer, presence }. */
export async function fetchTimeline(view, range, slotsMax, signal) {
	const slot_ms = slotOf(range, slotsMax);
	const slots = Math.ceil((range.to_ms - range.from_ms) / slot_ms) + 1;
	const limit = Math.max(20, Math.min(ROWS_MAX, Math.floor(VALUES_MAX / slots / PARTS)));
	const [answer, presence] = await Promise.all([
		request("timeline", { query: threadsSelector(view), from: range.from_ms, to: range.to_ms, slot: `${slot_ms}ms`, limit }, signal),
		fetchPresence(view, range, signal),
	]);

	return { answer, presence };
}

/** The merged stacks of @view's selected thread in its selected time. */
export function fetchStacks(view, signal) {
	return request("merge", { query: view.thread, type: view.type, lines: "none", max_nodes: view.nodes,
				  ranges: regionsOf(view).map(({ from_ms, to_ms }) => `${from_ms}/${to_ms}`).join(",") }, signal);
}

/** The selector of what @part says that the threads of @selector did. */
export function selectorOfPart(selector, { wait }) {
	return wait ? withValue(selector, "wait", wait) : withValue(selector, "wait", null);
}

/** The address of the threads' timeline as a file, with their stacks. */
export function perfettoPath(view, range) {
	return apiPath("merge", { type: TYPE.WALL, format: "chrome", query: threadsSelector(view), from: range.from_ms, to: range.to_ms });
}
