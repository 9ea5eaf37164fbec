// SPDX-License-Identifier: Apache-2.0
// A view's API requests, each for one resolved range.

import { apiPath, request } from "./api.js";
import { LABEL_VALUES, TYPE } from "./contract.js";
import { SHEDDING_LABELS } from "./knob.js";
import { hasIdle, isForeign, LABELS_OF_TYPES, specOf } from "./profile_type.js";
import { regionsOf } from "./regions.js";
import { parseSelector, formatSelector, selectedValue, withValue } from "./selector.js";
import { withShares } from "./time_shares.js";

export const TOP_ROWS_MAX = 10000; // the table sorts and filters these itself
const IDLE = { name: "wait", op: "!=", value: "idle" };
// Types counted per container lack these labels.
const LABELS_OF_THREADS = [...LABELS_OF_TYPES, "process", "thread"];
const AGENT = "cairn-agent"; // the service of the agents' own series
const GROUPS_MAX = 100; // in an answer; the rest is summed in one more
const NODES_MAX = 200; // in a selector; beyond it load shedding on all nodes is shown

/** The label that @view groups by, "" for none. */
export function groupOf(view) {
	const { groupBy: label } = specOf(view.type);
	const isService = selectedValue(view.query, "service") !== null;

	if (view.group !== "auto")
		return view.group;
	// With one value selected the type's own label has nothing to group.
	if (label && (isService || selectedValue(view.query, label) === null))
		return label;
	return isService ? "" : "service";
}

/** Does @view exclude idle time? A selector on wait classes decides itself. */
export function excludesIdle(view) {
	const matchers = parseSelector(view.query);

	return hasIdle(view.type) && view.idle === "out" && matchers !== null && !matchers.some((m) => m.name === "wait");
}

/** What changes in @view to show @type: labels that only other types have are dropped. */
export function showType(view, type) {
	const matchers = parseSelector(view.query);
	const kept = matchers?.filter((m) => !isForeign(m.name, type));

	return { type, zoom: "", group: isForeign(view.group, type) ? "auto" : view.group,
		 query: matchers && kept.length < matchers.length ? formatSelector(kept) : view.query };
}

/** The selector of @view with @extra matchers. A bare word is written out, so that the collector cannot read it differently. */
export function selectorOf(view, extra = []) {
	const matchers = parseSelector(view.query);

	return matchers ? formatSelector([...matchers, ...extra]) : view.query;
}

/** The selector of @view, without idle time where it is excluded. */
export function rangeSelector(view) {
	return selectorOf(view, excludesIdle(view) ? [IDLE] : []);
}

function common(view, range) {
	return { query: rangeSelector(view), type: view.type,
		 from: range.from_ms, to: range.to_ms };
}

/** The same for the selected regions alone, if there are any. */
function selected(view, range) {
	const ranges = regionsOf(view).map(({ from_ms, to_ms }) => `${from_ms}/${to_ms}`).join(",");

	return ranges ? { ...common(view, range), from: null, to: null, ranges } : common(view, range);
}

export function fetchMerge(view, range, signal) {
	return request("merge", { ...selected(view, range), ...frames(view), max_nodes: view.nodes, group_by: groupOf(view) }, signal);
}

// Frames are functions, or their lines.
const frames = (view) => ({ lines: view.lines === "on" ? "all" : "none" });

/** { callers, callees }: the trees above and below the function in view.sandwich. */
export function fetchCallers(view, range, signal) {
	return request("callers", { ...selected(view, range), ...frames(view), max_nodes: view.nodes, function: view.sandwich }, signal);
}

/** The lines of the function in view.code, with their text. */
export function fetchLines(view, range, signal) {
	return request("lines", { ...selected(view, range), function: view.code }, signal);
}

/** The table of functions; of CPU time with view.columns also where each one's time goes: time_shares.js. */
export async function fetchTop(view, range, signal) {
	const top = (of, extra = []) => request("top", { ...selected(of, range), query: selectorOf(of, extra), ...frames(view), limit: TOP_ROWS_MAX }, signal);
	const other = (type, ...extra) => top({ ...view, ...showType(view, type) }, extra);

	if (view.columns !== "on" || view.type !== TYPE.CPU)
		return request("top", { ...selected(view, range), ...frames(view), limit: TOP_ROWS_MAX }, signal);
	const [cpu, blocked, gpu, spin] = await Promise.all([top(view), other(TYPE.OFF_CPU, { name: "wait", op: "!~", value: "idle|gpu" }),
		other(TYPE.OFF_CPU, { name: "wait", op: "=", value: "gpu" }), other(TYPE.GPU_SPIN)]);
	return withShares(cpu, [blocked], [gpu, spin]);
}

const sumOf = (series) => series.reduce((sum, s) => sum + s.total, 0);

/**
 * The chart's series, and `idle`: the excluded idle time, or the idle part of wall-clock time; null where a type has
 * none. Grouped by wait class, one answer has both.
 */
export async function fetchSeries(view, range, signal) {
	const params = { ...common(view, range), group_by: groupOf(view) };
	const excluded = excludesIdle(view);

	if (excluded && params.group_by === IDLE.name) {
		const answer = await request("series", { ...params, query: selectorOf(view) }, signal);
		const isIdle = (s) => s.group === IDLE.value;
		return { ...answer, idle: sumOf(answer.series.filter(isIdle)), series: answer.series.filter((s) => !isIdle(s)) };
	}
	const [answer, idle] = await Promise.all([
		request("series", params, signal),
		excluded || view.type === TYPE.WALL ? request("series", { ...params, ...onlyIdle(view) }, signal) : null,
	]);
	return { ...answer, idle: idle ? sumOf(idle.series) : null };
}

function onlyIdle(view) {
	const chosen = view.type === TYPE.WALL ? { ...view, ...showType(view, TYPE.OFF_CPU) } : view;

	return { query: selectorOf(chosen, [{ ...IDLE, op: "=" }]), type: chosen.type, group_by: "" };
}

/** What is diagnosed of @range: from the first selected region to the last, if there are any. */
export function diagnosedRange(view, range) {
	const regions = regionsOf(view);

	return { from_ms: regions.at(0)?.from_ms ?? range.from_ms, to_ms: regions.at(-1)?.to_ms ?? range.to_ms };
}

/** The bottleneck of the selected threads, whatever profile type is shown. */
export function fetchDiagnosis(view, range, signal) {
	const { query } = showType(view, TYPE.CPU);
	const { from_ms, to_ms } = diagnosedRange(view, range);

	return request("diagnose", { query: selectorOf({ ...view, query }), from: from_ms, to: to_ms }, signal);
}

/** What changes in @view to show the profile type behind a verdict. */
export function showEvidence(view, { type, wait }) {
	const shown = showType(view, type);

	return wait ? { ...shown, query: withValue(shown.query, "wait", wait) } : shown;
}

/** The label of the rows of thread states. */
export function statesLabel(view) {
	return selectedValue(view.query, "service") === null ? "service" : "thread";
}

/** [{ group, total }] by @label in the range, or in the selected regions. */
async function fetchTotals(view, range, label, signal) {
	const { type, query } = view;

	if (!view.sel)
		return (await request("series", { from: range.from_ms, to: range.to_ms, type, query, group_by: label }, signal)).series;
	const { ranges } = selected(view, range);
	const { groups } = await request("top", { ranges, type, query, group_by: label, limit: 1 }, signal);
	return groups.map(({ group, total }) => ({ group: group === `(no ${label})` ? "" : group, total }));
}

/**
 * The time of each service, or each thread of one, by state: [{ group, total, running, run_queue, blocked, idle, isOther }],
 * most active (running or runnable) first. `blocked` excludes idle time.
 */
export async function fetchStates(view, range, signal) {
	const label = statesLabel(view);
	const blocked = { ...view, ...showType(view, TYPE.OFF_CPU) };
	const states = Object.keys(LABEL_VALUES.state);
	const part = (type, query) => fetchTotals({ ...view, type, query }, range, label, signal);
	const answers = await Promise.all([...states.map((state) => part(TYPE.WALL, selectorOf(view, [{ name: "state", op: "=", value: state }]))),
					   part(TYPE.OFF_CPU, selectorOf(blocked, [{ ...IDLE, op: "=" }]))]);
	const rows = new Map();

	answers.forEach((groups, at) => groups.forEach(({ group, total }, place) => {
		const row = rows.get(group) ?? { group, running: 0, run_queue: 0, blocked: 0, idle: 0, isOther: place >= GROUPS_MAX };
		rows.set(group, row);
		row[[...states, "idle"][at]] += total;
	}));
	for (const row of rows.values()) {
		// Off-CPU stacks may be sampled, states are exact: cap idle time at the blocked time.
		row.idle = Math.min(row.idle, row.blocked);
		row.total = row.running + row.run_queue + row.blocked;
		row.blocked -= row.idle;
	}
	// Most threads are blocked most of the time: sort by activity.
	const active = (row) => row.running + row.run_queue;
	return [...rows.values()].filter((row) => row.total > 0).sort((a, b) => active(b) - active(a) || b.total - a.total);
}

/**
 * The marks of every type's chart: throttling (by service, or by container of one service), load-shedding changes,
 * active load shedding, with any shedding the agents' overhead (all in the steps of fetchSeries()), and the agents' presence.
 */
export async function fetchMarks(view, range, signal) {
	const matchers = parseSelector(view.query) ?? [];
	const between = { from: range.from_ms, to: range.to_ms };
	const series = (type, chosen, group) => request("series", { ...between, type, query: formatSelector(chosen), group_by: group }, signal);
	const sheddingOf = (chosen) => Promise.all([TYPE.SHEDDING_CHANGES, TYPE.SHEDDING].map((type) => series(type, chosen, SHEDDING_LABELS.join(","))));
	const where = await nodesOf(matchers, between, signal);
	const [throttled, anywhere, presence] = await Promise.all([
		series(TYPE.THROTTLED, matchers.filter((m) => !LABELS_OF_THREADS.includes(m.name)), throttledLabel(view)),
		sheddingOf(matchers.filter((m) => m.name === "node")),
		presenceOf(where, range, signal),
	]);

	if (anywhere.every((answer) => answer.series.length === 0))
		return { throttled, changes: anywhere[0], shedding: anywhere[1], overhead: null, presence };
	// Some agent shed load: was it on this view's nodes?
	const [[changes, shedding], overhead] = await Promise.all([where.length ? sheddingOf(where) : anywhere, series(TYPE.OVERHEAD, where, "")]);
	return { throttled, changes, shedding, overhead, presence };
}

/** When the agents of @view's nodes sent data: for gapsOf(). */
export async function fetchPresence(view, range, signal) {
	const where = await nodesOf(parseSelector(view.query) ?? [], { from: range.from_ms, to: range.to_ms }, signal);

	return presenceOf(where, range, signal);
}

// With or without an overhead budget an agent sends its counters with each batch.
function presenceOf(where, range, signal) {
	return request("series", { from: range.from_ms, to: range.to_ms, type: TYPE.EVENTS, query: formatSelector(where), step: presenceStep(range) }, signal);
}

// Each agent sends several batches in such a step. The default is longer from 75 minutes on.
const PRESENCE_STEP_S = 15;
const DEFAULT_STEPS = 300;

function presenceStep(range) {
	return range.to_ms - range.from_ms < DEFAULT_STEPS * PRESENCE_STEP_S * 1000 ? `${PRESENCE_STEP_S}s` : "";
}

/** The label that groups throttling in @view. */
export function throttledLabel(view) {
	return selectedValue(view.query, "service") === null ? "service" : "container";
}

/** A matcher for the nodes that @matchers select, as [matcher]; none if that is all of them. */
async function nodesOf(matchers, between, signal) {
	const chosen = matchers.filter((m) => !LABELS_OF_TYPES.includes(m.name));

	if (chosen.length === 0)
		return [];
	const { values } = await request("labels/node/values", { ...between, query: formatSelector(chosen) }, signal);
	const quoted = values.map((value) => String(value).replace(/[\\^$.|?*+()[\]{}]/g, "\\$&"));
	return values.length > 0 && values.length <= NODES_MAX ? [{ name: "node", op: "=~", value: quoted.join("|") }] : [];
}

export function fetchTypes(view, range, signal) {
	const matchers = (parseSelector(view.query) ?? []).filter((m) => !LABELS_OF_THREADS.includes(m.name));

	return request("types", { query: parseSelector(view.query) ? formatSelector(matchers) : view.query,
			      from: range.from_ms, to: range.to_ms }, signal);
}

export function fetchLabels(view, range, signal) {
	return request("labels", { query: selectorOf(view), from: range.from_ms, to: range.to_ms }, signal);
}

/** The labels of @names that series of @type can have. */
export function labelsOfType(names, type) {
	return names.filter((name) => !isForeign(name, type));
}

/** Throws ApiError if the collector rejects @query. */
export function checkSelector(query, range, signal) {
	return request("labels", { query, from: range.from_ms, to: range.to_ms }, signal);
}

/**
 * Services by their value in the range, whatever service is selected now:
 * { services: [{ name, value }], whole }.
 */
export async function fetchServices(view, range, signal) {
	const params = common({ ...view, query: withValue(view.query, "service", null) }, range);
	const [answer, names] = await Promise.all([
		request("series", { ...params, group_by: "service" }, signal),
		request("labels/service/values", { query: params.query, from: params.from, to: params.to }, signal),
	]);
	const whole = sumOf(answer.series);
	const known = new Set(names.values);
	const services = answer.series.filter((s) => known.has(s.group)).map((s) => ({ name: s.group, value: s.total }));
	const listed = new Set(services.map((s) => s.name));

	// The collector returns values of the largest groups only; the others have a name.
	for (const name of names.values) {
		if (!listed.has(name) && name !== AGENT)
			services.push({ name, value: null });
	}
	return { services, whole };
}

const DAY_MS = 86400e3;
const SERVICES_MAX = 2000; // of an overview; all others are in the total

/** The services' CPU time in @range and a day before, and over time: { now, before, series }. */
export async function fetchServiceCosts(range, signal) {
	const during = (shift_ms) => ({ type: TYPE.CPU, query: "{}", from: range.from_ms - shift_ms, to: range.to_ms - shift_ms });
	const [now, before, series] = await Promise.all([
		request("services", { ...during(0), limit: SERVICES_MAX }, signal),
		request("services", { ...during(DAY_MS), limit: SERVICES_MAX }, signal),
		request("series", { ...during(0), group_by: "service" }, signal),
	]);

	return { now, before, series };
}

// Counters of losses, and those of which a part may be lost.
const LOSS_COUNTERS = [...new Set(Object.entries(LABEL_VALUES.counter)
	.filter(([, { loss }]) => loss !== undefined)
	.flatMap(([counter, { loss }]) => loss ? [counter, loss] : [counter]))];

/** The fleet's health in @range: { status, agents, now_ns, overhead, shedding, counters }, the latter three series by node. */
export async function fetchFleet(range, signal) {
	const between = { from: range.from_ms, to: range.to_ms };
	const series = (type, query, group) => request("series", { ...between, type, query, group_by: group }, signal);
	const [status, listed, overhead, shedding, counters] = await Promise.all([
		request("status", {}, signal), request("agents", {}, signal), series(TYPE.OVERHEAD, "{}", "node"),
		series(TYPE.SHEDDING, "{}", "node,knob"),
		series(TYPE.EVENTS, formatSelector([{ name: "counter", op: "=~", value: LOSS_COUNTERS.join("|") }]), "node,counter"),
	]);

	return { status, agents: listed.agents, now_ns: listed.now_ns, overhead, shedding, counters };
}

/** The downloads of @view: [{ label, note, href }]. */
export function downloads(view, range) {
	const href = (format) => apiPath("merge", { ...selected(view, range), format });

	return [
		{ label: "pprof", note: ".pb.gz", href: href("pprof") },
		{ label: "Collapsed stacks", note: ".collapsed", href: href("collapsed") },
		{ label: "Flame graph", note: ".svg", href: href("svg") },
	];
}
