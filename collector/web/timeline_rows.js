// SPDX-License-Identifier: Apache-2.0
// The rows of a timeline: threads, what each did in every slot, and the bars that it makes. Pure functions.

import { LABEL_VALUES, TYPE } from "./contract.js";
import { valueTitle } from "./label_value.js";
import { typeTitle } from "./profile_type.js";
import { formatSelector } from "./selector.js";

// What a thread does, as a row stacks it from the bottom: what the CPU works on, what waits for it, then what is blocked.
const WAITS = Object.keys(LABEL_VALUES.wait).filter((wait) => wait !== "idle");
const ORDER = [`${TYPE.CPU}/`, `${TYPE.GPU_SPIN}/`, `${TYPE.SCHED_DELAY}/`, "gil", "lock", "gpu", ...WAITS, "idle"]
	.map((key) => (key.includes("/") ? key : `${TYPE.OFF_CPU}/${key}`));
const PLACE = new Map([...ORDER.entries()].reverse().map(([at, key]) => [key, at]));
const TITLES = new Map([[`${TYPE.CPU}/`, "Running"]]);
const COLORS = new Map([[`${TYPE.CPU}/`, "state/running"], [`${TYPE.SCHED_DELAY}/`, "state/run_queue"]]);
const NAMES = ["service", "node", "namespace", "pod", "container", "instance", "process", "thread"]; // of a thread, but for its tenant
const ACTIVE_MIN = 0.001; // of the time: a thread with less is idle

/** What is done: { key, type, wait, title, colour } of a part of a thread's time; the colour is the palette's name. */
export function partOf(type, wait) {
	const key = `${type}/${wait}`;

	return { key, type, wait, title: TITLES.get(key) ?? (wait ? `Blocked: ${valueTitle("wait", wait)}` : typeTitle(type)),
		 color: COLORS.get(key) ?? (wait ? `wait/${wait}` : "gpu-spin") };
}

/** The values of @runs, a number for each of @count slots. */
function decode(runs, count) {
	const values = new Float64Array(count);
	let at = 0;

	for (let run = 0; run + 2 < runs.length; run += 3) {
		at += runs[run];
		values.fill(runs[run + 2], at, at + runs[run + 1]);
		at += runs[run + 1];
	}
	return values;
}

/**
 * The rows of an answer of /api/v1/timeline, by process: { grid: { from_ms, slot_ms, count }, groups: [{ title, where, rows }], parts, leftOut,
 * leftOutShare, hasWall }. A row is { key, name, labels, selector, threads, isIdle, parts: [{ ...partOf(), total, values }], whole, largest }:
 * whole has each slot's time, largest the position of its largest part, -1 for none.
 */
export function timelineOf(answer) {
	const grid = { from_ms: answer.from_ns / 1e6, slot_ms: answer.slot_ns / 1e6, count: answer.slot_count };
	const isShown = (name) => answer.threads.some(({ labels }) => labels[name] !== undefined);
	const shown = NAMES.filter(isShown);
	const rows = answer.threads.map((thread) => rowOf(thread, answer, shown));
	const active = answer.threads.reduce((sum, thread) => sum + thread.active, 0);
	const parts = new Map(rows.flatMap((row) => row.parts.map((part) => [part.key, part])));

	return { grid, groups: groupsOf(rows), rows, parts: [...parts.values()].sort(byPlace), leftOut: answer.left_out,
		 leftOutShare: answer.left_out_active / Math.max(1, active + answer.left_out_active),
		 hasWall: rows.some((row) => row.threads > 0) };
}

const byPlace = (a, b) => (PLACE.get(a.key) ?? ORDER.length) - (PLACE.get(b.key) ?? ORDER.length);

function rowOf({ labels, active, parts }, { slot_ns, slot_count: count }, shown) {
	const decoded = parts.map(({ type, wait = "", total, runs }) => ({ ...partOf(type, wait), total, values: decode(runs, count) }));
	const wall = decoded.find(({ type }) => type === TYPE.WALL)?.values;
	const done = decoded.filter(({ type }) => type !== TYPE.WALL).sort(byPlace);
	const whole = new Float64Array(count), largest = new Int16Array(count).fill(-1);

	for (let slot = 0; slot < count; slot++) {
		let sum = 0, most = 0;
		done.forEach(({ values }, at) => {
			sum += values[slot];
			if (values[slot] > most) {
				most = values[slot];
				largest[slot] = at;
			}
		});
		// Without wall-clock time it is one thread, of which only what was measured is known.
		whole[slot] = Math.max(sum, wall ? wall[slot] : sum && slot_ns);
	}
	const selector = formatSelector(shown.map((name) => ({ name, op: "=", value: labels[name] ?? "" })).concat(
		labels.tenant === undefined ? [] : [{ name: "tenant", op: "=", value: labels.tenant }]));
	return { key: selector, labels, selector, name: labels.thread ?? labels.process ?? "(no name)", threads: threadsIn(wall, slot_ns),
		 isIdle: active < ACTIVE_MIN * slot_ns * count, parts: done, whole, largest };
}

/** How many threads share a name, on average while there are any; 0: not known. */
function threadsIn(wall, slot_ns) {
	const known = wall?.filter((value) => value > slot_ns / 20) ?? [];

	return known.length ? Math.max(1, Math.round(known.reduce((sum, value) => sum + value, 0) / known.length / slot_ns)) : 0;
}

/** Rows of one process, with what its processes have in common in the title. */
function groupsOf(rows) {
	const groups = new Map();
	const differs = NAMES.slice(0, -2).filter((name) => new Set(rows.map(({ labels }) => labels[name])).size > 1);

	for (const row of rows) {
		const key = JSON.stringify(NAMES.slice(0, -1).map((name) => row.labels[name] ?? null));
		const group = groups.get(key) ?? { title: row.labels.process ?? "(no process)", rows: [],
						   where: differs.map((name) => row.labels[name]).filter((value) => value !== undefined).join(", ") };
		group.rows.push(row);
		groups.set(key, group);
	}
	return [...groups.values()];
}

/** The bar around @slot of @row: { part, first, end } of slots with the same largest part; null where nothing is known. */
export function barAt(row, slot) {
	const part = row.largest[slot];
	let first = slot, end = slot + 1;

	if (part < 0)
		return null;
	while (first > 0 && row.largest[first - 1] === part)
		first--;
	while (end < row.largest.length && row.largest[end] === part)
		end++;
	return { part: row.parts[part], first, end };
}

/** The parts of @row in slots [@first, @end), the largest first: [{ ...part, value }], and what is not known of its time. */
export function partsIn(row, first, end) {
	const parts = row.parts.map((part) => ({ ...part, value: sumOf(part.values, first, end) })).filter(({ value }) => value > 0)
		.sort((a, b) => b.value - a.value);
	const whole = sumOf(row.whole, first, end);

	return { parts, whole, unknown: Math.max(0, whole - parts.reduce((sum, { value }) => sum + value, 0)) };
}

function sumOf(values, first, end) {
	let sum = 0;

	for (let at = first; at < end; at++)
		sum += values[at];
	return sum;
}
