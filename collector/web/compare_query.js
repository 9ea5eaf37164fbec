// SPDX-License-Identifier: Apache-2.0
// What the compare page asks: the sides of a view, and their comparison. Pure, but for the requests.

import { request } from "./api.js";
import { FlameTree } from "./flame_tree.js";
import { isGauge, specOf } from "./profile_type.js";
import { rangeSelector } from "./queries.js";
import { regionsOf } from "./regions.js";
import { formatSelector, parseSelector, selectedValue, withValue } from "./selector.js";
import { absoluteTime, resolveRange } from "./time_range.js";

const ROWS_MAX = 2000; // functions; those that changed most come first
const REST_LENGTHS = 10; // the rest of a region reaches so many of its lengths to both sides

/** What a profile is compared with: [value of the view's field `against`, words]. */
export const BASELINES = [
	["before", "the time before"],
	["1h", "an hour earlier"],
	["1d", "yesterday"],
	["7d", "last week"],
	["rest", "the rest of a range"],
	["query", "another selection"],
	["range", "another time"],
];

/** What can be told apart: [value of the view's field `show`, words]. */
export const CHANGES = [["all", "All"], ["new", "New"], ["gone", "Gone"], ["grown", "Grown"], ["shrunk", "Shrunk"]];

/**
 * The times of the baseline in @view at @now_ms, for those that have any: { from_ms, to_ms } or { error }. The rest of what
 * regions of a heat map were selected in is the whole range.
 */
export function baselineRange(view, range, now_ms) {
	const length = range.to_ms - range.from_ms;

	if (view.base_from || view.base_to)
		return resolveRange(view.base_from || "now-15m", view.base_to || "now", now_ms);
	if (view.against === "rest" && view.sel)
		return range;
	if (view.against === "rest")
		return { from_ms: range.from_ms - REST_LENGTHS * length, to_ms: Math.min(range.to_ms + REST_LENGTHS * length, Math.max(now_ms, range.to_ms)) };
	return { from_ms: range.from_ms - length, to_ms: range.from_ms };
}

/** Does @view say what to compare with? */
export function isComplete(view) {
	return view.against !== "query" || view.base !== "";
}

/** The parameters of /api/v1/diff for @view, without those of the form of its answer. */
export function diffParams(view, range, now_ms) {
	const regions = regionsOf(view).map(({ from_ms, to_ms }) => `${from_ms}/${to_ms}`).join(",");
	const times = regions ? { ranges: regions } : { from: range.from_ms, to: range.to_ms };
	const params = { query: rangeSelector(view), type: view.type, ...times, norm: view.norm };
	const base = rangeSelector({ ...view, query: view.base || view.query });

	if (["1h", "1d", "7d"].includes(view.against))
		return { ...params, against: view.against };
	if (view.against === "query")
		return { ...params, against_query: base };
	if (view.against === "before")
		return params;
	const base_times = baselineRange(view, range, now_ms);
	return { ...params, against: view.against === "rest" ? "rest" : "", against_query: view.against === "range" && view.base ? base : "",
		 against_from: base_times.from_ms, against_to: base_times.to_ms };
}

/** A Comparison of @view. Throws ApiError, or Error on a malformed answer. */
export async function fetchDiff(view, range, now_ms, signal) {
	const params = { ...diffParams(view, range, now_ms), sort: view.by, limit: ROWS_MAX, max_nodes: view.nodes };
	const answer = await request("diff", params, signal);

	return new Comparison(answer);
}

/** Of @a and @b, comparable values: "new", "gone", "grown", "shrunk" or "same". */
export function changeOf(a, b) {
	if (a === 0 && b === 0)
		return "same";
	return a === 0 ? "new" : b === 0 ? "gone" : b > a ? "grown" : b < a ? "shrunk" : "same";
}

/** An answer of /api/v1/diff, with comparable values. */
export class Comparison {
	constructor(answer) {
		this.sides = [answer.a, answer.b];
		this.isShare = answer.norm === "share";
		this.type = String(answer.type ?? "");
		this.unit = String(answer.unit ?? "");
		this.falseDiscoveries = Number(answer.false_discoveries ?? 0);
		this.functionCount = Number(answer.function_count ?? 0);
		this.divisors = this.sides.map((side) => Number(side?.divisor ?? 0));
		this.totals = this.sides.map((side, at) => this.#normal(Number(side?.total ?? 0), at));
		// Small fractions of a core read better as milliseconds per second.
		this.isSmall = this.unit === "nanoseconds" && Math.max(...this.totals) < 2;
		this.scale = this.isSmall ? 1000 : this.unit === "nanoseconds" ? 1 : 1e9;
		this.functions = (answer.functions ?? []).map((row) => this.#function(row));
		this.#readTree(answer);
	}

	/** Has the side anything? */
	has(side) {
		return Number(this.sides[side]?.total ?? 0) > 0;
	}

	#normal(value, side) {
		return this.divisors[side] > 0 ? value / this.divisors[side] : 0;
	}

	#value({ a, b, p, enough, significant }) {
		const values = [this.#normal(a, 0), this.#normal(b, 1)];

		return { a: values[0], b: values[1], change: values[1] - values[0], p: Number(p), enough: Boolean(enough),
			 significant: Boolean(significant), word: changeOf(...values) };
	}

	#function({ name, module, kind, self, total }) {
		return { name: String(name), module: String(module), kind: String(kind), self: this.#value(self), total: this.#value(total) };
	}

	/** A frame is as wide as the mean of both sides, so that new and gone ones are seen. */
	#readTree(answer) {
		const nodes = answer.nodes ?? {};
		const mean = (a, b) => (a ?? []).map((value, node) => (this.#normal(value, 0) + this.#normal(b?.[node] ?? 0, 1)) / 2);

		this.tree = new FlameTree({ ...answer, nodes: { ...nodes, self: mean(nodes.a_self, nodes.b_self), total: mean(nodes.a_total, nodes.b_total) } });
		this.nodes = { a: (nodes.a_total ?? []).map((value) => this.#normal(value, 0)),
			       b: (nodes.b_total ?? []).map((value) => this.#normal(value, 1)),
			       p: nodes.p ?? [], certainty: nodes.certainty ?? [] };
		for (const column of Object.values(this.nodes))
			if (column.length !== this.tree.count)
				throw new Error("diff: the columns of the nodes differ in length");
	}
}

/** What the compared values of @comparison are counted in: "cores per instance", "ms/s per instance". */
export function unitWords(comparison) {
	if (comparison.isShare)
		return "% of its side";
	if (comparison.isSmall)
		return "ms/s per instance";
	if (comparison.unit === "nanoseconds")
		return `${specOf(comparison.type).rate ?? "seconds per second"} per instance`;
	return `${["count", "bytes"].includes(comparison.unit) ? "" : `${comparison.unit} `}per second and instance`;
}

/** Can profiles of @type be compared? A level has no stacks that add up over time. */
export function isComparable(type) {
	return !isGauge(type) && !specOf(type).noStacks;
}

/** What changes in @view to compare two values of label @name. */
export function compareValues(view, name, a, b) {
	return { against: "query", base: withValue(view.query, name, a), query: withValue(view.query, name, b) };
}

/** What changes in @view to compare @value of label @name with all its other values. */
export function compareWithSiblings(view, name, value) {
	const others = (parseSelector(view.query) ?? []).filter((m) => m.name !== name);

	return { against: "query", query: withValue(view.query, name, value), base: formatSelector([...others, { name, op: "!=", value }]) };
}

/** What changes in @view to show side @side on the service page; isWhole: false where what lies between its parts is shown, too. */
export function openSide(view, comparison, side) {
	const { query, ranges_ns } = comparison.sides[side];
	const isWhole = ranges_ns.length === 1;
	const ends = [ranges_ns[0][0], ranges_ns.at(-1)[1]].map((ns) => absoluteTime(ns / 1e6));

	if (side === 1 && view.sel)
		return { page: "service", query: shortQuery(view, query), over: "heat", zoom: "", isWhole: true };
	return { page: "service", query: shortQuery(view, query), from: ends[0], to: ends[1], sel: "", zoom: "", isWhole };
}

// Idle time is excluded by the view's own field.
function shortQuery(view, query) {
	const matchers = parseSelector(query);

	return matchers ? formatSelector(matchers.filter((m) => !(m.name === "wait" && m.op === "!=" && m.value === "idle"))) : query;
}

/** The values of label @name in @view's service and range. */
export async function fetchValues(view, range, name, signal) {
	const service = selectedValue(view.query, "service");
	const query = service === null ? "" : formatSelector([{ name: "service", op: "=", value: service }]);
	const { values } = await request(`labels/${name}/values`, { query, from: range.from_ms, to: range.to_ms }, signal);

	return values.map(String).filter((value) => value !== "");
}
