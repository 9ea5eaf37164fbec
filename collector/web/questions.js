// SPDX-License-Identifier: Apache-2.0
// The questions a view asks of the API, each for one resolved range.

import { apiPath, ask } from "./api.js";
import { LABEL_VALUES, TYPE } from "./contract.js";
import { SHEDDING_LABELS } from "./knob.js";
import { hasIdle, isForeign, LABELS_OF_TYPES, specOf } from "./profile_type.js";
import { parseSelector, formatSelector, selectedValue, withValue } from "./selector.js";

export const TOP_ROWS_MAX = 10000; // the table sorts and filters these itself
const IDLE = { name: "wait", op: "!=", value: "idle" };
// What is counted per container has no processes and threads.
const LABELS_OF_THREADS = [...LABELS_OF_TYPES, "process", "thread"];
const AGENT = "cairn-agent"; // the service that agents' own figures are of; no other type has it
const GROUPS_MAX = 100; // that an answer tells apart; the rest is one more
const NODES_MAX = 200; // in a selector; beyond it load shedding on all nodes is shown

/** The label that @view groups by, "" for none. */
export function groupOf(view) {
	const { groupBy: label } = specOf(view.type);
	const isService = selectedValue(view.query, "service") !== null;

	if (view.group !== "auto")
		return view.group;
	// One value of the type's own label leaves nothing to tell apart.
	if (label && (isService || selectedValue(view.query, label) === null))
		return label;
	return isService ? "" : "service";
}

/** Are idle waits left out of @view? Not if its selector says itself which waits it wants. */
export function leavesIdleOut(view) {
	const matchers = parseSelector(view.query);

	return hasIdle(view.type) && view.idle === "out" && matchers !== null && !matchers.some((m) => m.name === "wait");
}

/** What changes in @view to show @type: what only other types understand is dropped. */
export function showType(view, type) {
	const matchers = parseSelector(view.query);
	const kept = matchers?.filter((m) => !isForeign(m.name, type));

	return { type, zoom: "", group: isForeign(view.group, type) ? "auto" : view.group,
		 query: matchers && kept.length < matchers.length ? formatSelector(kept) : view.query };
}

// A bare word is written out, so that the collector and this page cannot read it differently.
function selectorOf(view, extra = []) {
	const matchers = parseSelector(view.query);

	return matchers ? formatSelector([...matchers, ...extra]) : view.query;
}

function common(view, range) {
	return { query: selectorOf(view, leavesIdleOut(view) ? [IDLE] : []), type: view.type,
		 from: range.from_ms, to: range.to_ms };
}

export function askMerge(view, range, signal) {
	return ask("merge", { ...common(view, range), max_nodes: view.nodes, group_by: groupOf(view) }, signal);
}

export function askTop(view, range, signal) {
	return ask("top", { ...common(view, range), limit: TOP_ROWS_MAX }, signal);
}

const sumOf = (series) => series.reduce((sum, s) => sum + s.total, 0);

/**
 * What the chart shows, and `idle`: the value of what is left out of it as idle, or of all time what was idle; null
 * where there is no such thing. Grouped by what threads waited for, one answer has both.
 */
export async function askSeries(view, range, signal) {
	const params = { ...common(view, range), group_by: groupOf(view) };
	const leavesOut = leavesIdleOut(view);

	if (leavesOut && params.group_by === IDLE.name) {
		const answer = await ask("series", { ...params, query: selectorOf(view) }, signal);
		const isIdle = (s) => s.group === IDLE.value;
		return { ...answer, idle: sumOf(answer.series.filter(isIdle)), series: answer.series.filter((s) => !isIdle(s)) };
	}
	const [answer, idle] = await Promise.all([
		ask("series", params, signal),
		leavesOut || view.type === TYPE.WALL ? ask("series", { ...params, ...onlyIdle(view) }, signal) : null,
	]);
	return { ...answer, idle: idle ? sumOf(idle.series) : null };
}

function onlyIdle(view) {
	const chosen = view.type === TYPE.WALL ? { ...view, ...showType(view, TYPE.OFF_CPU) } : view;

	return { query: selectorOf(chosen, [{ ...IDLE, op: "=" }]), type: chosen.type, group_by: "" };
}

/** What holds the selected threads up; which profile is shown does not matter. */
export function askDiagnosis(view, range, signal) {
	const { query } = showType(view, TYPE.CPU);

	return ask("diagnose", { query: selectorOf({ ...view, query }), from: range.from_ms, to: range.to_ms }, signal);
}

/** What changes in @view to show the profile that a verdict was read from. */
export function showEvidence(view, { type, wait }) {
	const shown = showType(view, type);

	return wait ? { ...shown, query: withValue(shown.query, "wait", wait) } : shown;
}

/** The label whose values the states of the wall clock are told for. */
export function statesLabel(view) {
	return selectedValue(view.query, "service") === null ? "service" : "thread";
}

/**
 * Where the time of each service, or of each thread of one, went: [{ group, total, running, waiting, blocked, idle, isOther }],
 * those that ran or wanted to most first. Idle waits are no longer in `blocked`.
 */
export async function askStates(view, range, signal) {
	const label = statesLabel(view);
	const blocked = { ...view, ...showType(view, TYPE.OFF_CPU) };
	const states = Object.keys(LABEL_VALUES.state);
	const part = (type, query) => ask("series", { from: range.from_ms, to: range.to_ms, type, query, group_by: label }, signal);
	const answers = await Promise.all([...states.map((state) => part(TYPE.WALL, selectorOf(view, [{ name: "state", op: "=", value: state }]))),
					   part(TYPE.OFF_CPU, selectorOf(blocked, [{ ...IDLE, op: "=" }]))]);
	const rows = new Map();

	answers.forEach(({ series }, at) => series.forEach(({ group, total }, place) => {
		const row = rows.get(group) ?? { group, running: 0, waiting: 0, blocked: 0, idle: 0, isOther: place >= GROUPS_MAX };
		rows.set(group, row);
		row[[...states, "idle"][at]] += total;
	}));
	for (const row of rows.values()) {
		// Stacks of waits may be sampled, the states are exact: of their sum idle is a part at most.
		row.idle = Math.min(row.idle, row.blocked);
		row.total = row.running + row.waiting + row.blocked;
		row.blocked -= row.idle;
	}
	// Most threads rest most of the time; first is who does something, or wants to.
	const active = (row) => row.running + row.waiting;
	return [...rows.values()].filter((row) => row.total > 0).sort((a, b) => active(b) - active(a) || b.total - a.total);
}

/**
 * What is shown beside any type: the answers to how long quotas throttled (by service, or of one service by container),
 * to which steps of load shedding the agents took and how long each was active, and if any then to their overhead. The
 * steps of time are those of askSeries().
 */
export async function askMarks(view, range, signal) {
	const matchers = parseSelector(view.query) ?? [];
	const between = { from: range.from_ms, to: range.to_ms };
	const series = (type, chosen, group) => ask("series", { ...between, type, query: formatSelector(chosen), group_by: group }, signal);
	const sheddingOf = (chosen) => Promise.all([TYPE.SHEDDING_CHANGES, TYPE.SHEDDING].map((type) => series(type, chosen, SHEDDING_LABELS.join(","))));
	const [throttled, anywhere] = await Promise.all([
		series(TYPE.THROTTLED, matchers.filter((m) => !LABELS_OF_THREADS.includes(m.name)), throttledLabel(view)),
		sheddingOf(matchers.filter((m) => m.name === "node")),
	]);

	if (anywhere.every((answer) => answer.series.length === 0))
		return { throttled, changes: anywhere[0], shedding: anywhere[1], overhead: null };
	// Load was shed somewhere: now it is worth asking whether it was where this view looks.
	const where = await nodesOf(matchers, between, signal);
	const [[changes, shedding], overhead] = await Promise.all([where.length ? sheddingOf(where) : anywhere, series(TYPE.OVERHEAD, where, "")]);
	return { throttled, changes, shedding, overhead };
}

/** The label that tells apart what was throttled in @view. */
export function throttledLabel(view) {
	return selectedValue(view.query, "service") === null ? "service" : "container";
}

/** A matcher for the nodes that @matchers select, as [matcher]; none if that is all of them. */
async function nodesOf(matchers, between, signal) {
	const chosen = matchers.filter((m) => !LABELS_OF_TYPES.includes(m.name));

	if (chosen.length === 0)
		return [];
	const { values } = await ask("labels/node/values", { ...between, query: formatSelector(chosen) }, signal);
	const quoted = values.map((value) => String(value).replace(/[\\^$.|?*+()[\]{}]/g, "\\$&"));
	return values.length > 0 && values.length <= NODES_MAX ? [{ name: "node", op: "=~", value: quoted.join("|") }] : [];
}

export function askTypes(view, range, signal) {
	const matchers = (parseSelector(view.query) ?? []).filter((m) => !LABELS_OF_THREADS.includes(m.name));

	return ask("types", { query: parseSelector(view.query) ? formatSelector(matchers) : view.query,
			      from: range.from_ms, to: range.to_ms }, signal);
}

export function askLabels(view, range, signal) {
	return ask("labels", { query: selectorOf(view), from: range.from_ms, to: range.to_ms }, signal);
}

/** The labels of @names that series of @type can have. */
export function labelsOfType(names, type) {
	return names.filter((name) => !isForeign(name, type));
}

/** Does the collector accept @query? Throws ApiError when not. */
export function checkSelector(query, range, signal) {
	return ask("labels", { query, from: range.from_ms, to: range.to_ms }, signal);
}

/**
 * Services by their value in the range, whatever service is selected now:
 * { services: [{ name, value }], whole }.
 */
export async function askServices(view, range, signal) {
	const params = common({ ...view, query: withValue(view.query, "service", null) }, range);
	const [answer, names] = await Promise.all([
		ask("series", { ...params, group_by: "service" }, signal),
		ask("labels/service/values", { query: params.query, from: params.from, to: params.to }, signal),
	]);
	const whole = sumOf(answer.series);
	const known = new Set(names.values);
	const services = answer.series.filter((s) => known.has(s.group)).map((s) => ({ name: s.group, value: s.total }));
	const listed = new Set(services.map((s) => s.name));

	// The collector tells the largest groups; the rest have a name but no value.
	for (const name of names.values) {
		if (!listed.has(name) && name !== AGENT)
			services.push({ name, value: null });
	}
	return { services, whole };
}

/** The downloads of @view: [{ label, note, href }]. */
export function downloads(view, range) {
	const href = (format) => apiPath("merge", { ...common(view, range), format });

	return [
		{ label: "pprof", note: ".pb.gz", href: href("pprof") },
		{ label: "Collapsed stacks", note: ".collapsed", href: href("collapsed") },
		{ label: "Flame graph", note: ".svg", href: href("svg") },
	];
}
