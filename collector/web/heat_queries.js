// SPDX-License-Identifier: Apache-2.0
// What the heat map asks: which lanes have data, and a map for each.

import { request } from "./api.js";
import { TYPE } from "./contract.js";
import { isCoarse } from "./heat_cells.js";
import { valueTitle } from "./label_value.js";
import { typeTitle } from "./profile_type.js";
import { selectorOf, showType } from "./queries.js";
import { withValue } from "./selector.js";
import { SLOT_MS } from "./regions.js";

// In this order. Off-CPU time has a lane per wait class.
const LANE_TYPES = [TYPE.CPU, TYPE.SCHED_DELAY, TYPE.OFF_CPU, TYPE.PAGE_FAULT, TYPE.GPU_SPIN, TYPE.GPU_WAIT, TYPE.GPU_LAUNCH,
		    TYPE.GPU_COPY, TYPE.GPU_IDLE, TYPE.NCCL_SKEW];
const CLASSES_MAX = 10; // lanes of off-CPU time
// What makes a lane of a wait class: its share of the time without idle time, or threads in its largest step. A stall of a
// second is little of an hour of sleep.
const CLASS_SHARE_MIN = 0.01;
const CLASS_PEAK_MIN = 0.05;

/**
 * The lanes of @view in @range on @grid (gridOf()), [{ key, type, wait, title, answer }]. A lane is a profile type with data, or a
 * wait class of off-CPU time. Idle time has a lane only where the view includes it.
 */
export async function fetchLanes(view, range, grid, signal) {
	const { query } = showType(view, TYPE.CPU); // without labels that only one type has
	const chosen = { ...view, query };
	const between = { from: range.from_ms, to: range.to_ms };
	const { types } = await request("types", { ...between, query: selectorOf(chosen) }, signal);
	const known = new Set(types.map(({ type }) => type));
	const lanes = (await Promise.all(LANE_TYPES.filter((type) => known.has(type)).map(async (type) => (
		type === TYPE.OFF_CPU ? (await fetchClasses(view, chosen, between, signal)).map((wait) => laneOf(type, wait)) : [laneOf(type, "")])))).flat();

	return Promise.all(lanes.map(async (lane) => ({ ...lane, answer: await fetchMap(chosen, lane, grid, signal) })));
}

function laneOf(type, wait) {
	return { key: `${type}/${wait}`, type, wait, title: wait ? `${typeTitle(type)}: ${valueTitle("wait", wait)}` : typeTitle(type) };
}

/** The wait classes with most time, the largest first. */
async function fetchClasses(view, chosen, between, signal) {
	const { series, step_ns } = await request("series", { ...between, type: TYPE.OFF_CPU, query: selectorOf(chosen), group_by: "wait" }, signal);
	return classesOf(series, step_ns, view.idle === "in");
}

/** The wait classes of @series that have lanes. */
export function classesOf(series, step_ns, withIdle) {
	const classes = series.filter(({ group }) => group !== "" && (group !== "idle" || withIdle));
	const whole = classes.reduce((sum, { group, total }) => sum + (group === "idle" ? 0 : total), 0);

	const isLarge = ({ group, total, values }) => group === "idle" || total >= CLASS_SHARE_MIN * whole || Math.max(...values) >= CLASS_PEAK_MIN * step_ns;

	return classes.filter(isLarge).slice(0, CLASSES_MAX).map(({ group }) => group);
}

function fetchMap(chosen, { type, wait }, grid, signal) {
	const { from_ms, column_ms, columns, cell_ms } = grid;

	return request("heatmap", { type, query: wait ? withValue(selectorOf(chosen), "wait", wait) : selectorOf(chosen),
				    from: from_ms, to: from_ms + columns * column_ms, slot: `${cell_ms}ms`,
				    peak: isCoarse(grid) ? `${SLOT_MS}ms` : "" }, signal);
}
