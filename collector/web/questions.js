// SPDX-License-Identifier: Apache-2.0
// The questions a view asks of the API, each for one resolved range.

import { apiPath, ask } from "./api.js";
import { parseSelector, formatSelector, selectedValue, withValue } from "./selector.js";

export const TOP_ROWS_MAX = 10000; // the table sorts and filters these itself

/** The label that @view groups by, "" for none. */
export function groupOf(view) {
	if (view.group !== "auto")
		return view.group;
	return selectedValue(view.query, "service") === null ? "service" : "";
}

function common(view, range) {
	// A bare word is written out, so that the collector and this page cannot read it differently.
	const matchers = parseSelector(view.query);

	return { query: matchers ? formatSelector(matchers) : view.query, type: view.type,
		 from: range.from_ms, to: range.to_ms };
}

export function askMerge(view, range, signal) {
	return ask("merge", { ...common(view, range), max_nodes: view.nodes, group_by: groupOf(view) }, signal);
}

export function askTop(view, range, signal) {
	return ask("top", { ...common(view, range), limit: TOP_ROWS_MAX }, signal);
}

export function askSeries(view, range, signal) {
	return ask("series", { ...common(view, range), group_by: groupOf(view) }, signal);
}

export function askTypes(view, range, signal) {
	const { query, from, to } = common(view, range);

	return ask("types", { query, from, to }, signal);
}

export function askLabels(view, range, signal) {
	const { query, from, to } = common(view, range);

	return ask("labels", { query, from, to }, signal);
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
	const params = { ...common(view, range), query: withValue(view.query, "service", null) };
	const [answer, names] = await Promise.all([
		ask("series", { ...params, group_by: "service" }, signal),
		ask("labels/service/values", { query: params.query, from: params.from, to: params.to }, signal),
	]);
	const whole = answer.series.reduce((sum, s) => sum + s.total, 0);
	const known = new Set(names.values);
	const services = answer.series.filter((s) => known.has(s.group)).map((s) => ({ name: s.group, value: s.total }));
	const listed = new Set(services.map((s) => s.name));

	// The collector tells the largest groups; the rest have a name but no value.
	for (const name of names.values) {
		if (!listed.has(name))
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
