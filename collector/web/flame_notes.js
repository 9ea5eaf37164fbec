// SPDX-License-Identifier: Apache-2.0
// Texts around the flame graph: a frame's tooltip, the path to the zoomed frame, the share of each
// kind of code, and what is truncated or not drawn.

import { element } from "./element.js";
import { formatCount, formatShare, formatValue } from "./format.js";
import { isGauge, specOf } from "./profile_type.js";

const CRUMBS_MAX = 6; // links in the path; what lies between is one link
const CUT_NOTABLE = 0.0005; // of the total; less does not show in a share of one decimal
const MODULES_LISTED = 6; // in the legend
const CRUMB_LONG = 14; // characters; shorter names are never cut

const KIND_WORDS = {
	python: "Python", native: "Native", kernel: "Kernel", jit: "JIT", unknown: "Unknown",
	truncated: "Truncated", group: "Group", root: "All",
};

function kindWord(kind) {
	return KIND_WORDS[kind] ?? kind;
}

function swatch(kind) {
	return element("span", `swatch kind-${kind in KIND_WORDS ? kind : "unknown"}`);
}

/** The tooltip of @node: [elements]. @span_ms: the length of the range, for a number of cores. */
export function frameNote(tree, node, span_ms) {
	const kind = tree.kindOf(node);
	const rows = element("dl", "tooltip-rows");
	const row = (what, ...values) => rows.append(element("dt", "", what), element("dd", "", ...values));
	const whole = tree.value;
	const parent = tree.total[tree.parent[node]];

	row("Total", formatValue(tree.total[node], tree.unit), element("b", "", formatShare(tree.total[node], whole)));
	row("Self", formatValue(tree.self[node], tree.unit), element("b", "", formatShare(tree.self[node], whole)));
	if (node !== 0)
		row("Of parent", "", element("b", "", formatShare(tree.total[node], parent)));
	if (tree.unit === "nanoseconds" && span_ms > 0)
		row("On average", `${(tree.total[node] / (span_ms * 1e6)).toPrecision(2)} ${specOf(tree.type).rate}`, "");
	const where = element("span", "muted", swatch(kind), kindWord(kind));
	if (tree.moduleOf(node))
		where.append(element("span", "module", tree.moduleOf(node)));
	return [element("strong", "frame-name", tree.nameOf(node)), where, rows];
}

/** One sentence on @node for screen readers. */
export function frameSentence(tree, node) {
	return `${tree.nameOf(node)}, ${kindWord(tree.kindOf(node))}, total ` +
		`${formatValue(tree.total[node], tree.unit)}, ${formatShare(tree.total[node], tree.value)} of all, ` +
		`self ${formatShare(tree.self[node], tree.value)}`;
}

/** Fill @nav with the path to @node; a click on a step calls onStep(node). */
export function showBreadcrumb(nav, tree, node, onStep) {
	const path = tree.pathOf(node);
	const hidden = path.length > CRUMBS_MAX ? path.splice(1, path.length - CRUMBS_MAX) : [];

	nav.replaceChildren();
	path.forEach((step, at) => {
		if (at === 1 && hidden.length > 0)
			nav.append(separator(), gap(hidden, tree, onStep));
		if (at > 0)
			nav.append(separator());
		nav.append(crumb(tree, step, step === node, onStep));
	});
	nav.append(element("span", "crumb-facts",
		`${formatValue(tree.total[node], tree.unit)}${isGauge(tree.type) ? " on average" : ""}` +
		`${node === 0 ? "" : `, ${formatShare(tree.total[node], tree.value)} of total`}`));
}

function separator() {
	return element("span", "crumb-separator", "›");
}

function gap(hidden, tree, onStep) {
	const last = hidden[hidden.length - 1];
	const button = crumb(tree, last, false, onStep);

	button.className = "crumb";
	button.textContent = `${hidden.length} more`;
	button.title = hidden.map((step) => tree.nameOf(step)).join("\n");
	return button;
}

function crumb(tree, step, current, onStep) {
	const name = tree.nameOf(step);
	const button = element(current ? "span" : "button", name.length > CRUMB_LONG ? "crumb long" : "crumb", name);

	button.title = name;
	if (current) {
		button.ariaCurrent = "location";
	} else {
		button.type = "button";
		button.addEventListener("click", () => onStep(step));
	}
	return button;
}

/**
 * Fill @list with each kind's share of self time; with @modules, [{ name, color, value }] largest first, with theirs
 * instead.
 */
export function showLegend(list, tree, modules) {
	const rows = modules.slice(0, MODULES_LISTED).map(({ name, color, value }) => {
		const mark = element("span", "swatch");
		mark.style.background = color;
		return element("li", "", mark, `${name} `, element("b", "", formatShare(value, tree.value)));
	});

	for (const [kind, value] of modules.length > 0 ? [] : tree.selfByKind())
		rows.push(element("li", "", swatch(kind), `${kindWord(kind)} `,
				  element("b", "", formatShare(value, tree.value))));
	if (tree.cut > 0)
		rows.push(element("li", "", element("span", "swatch undrawn"), "Not drawn ",
				  element("b", "", formatShare(tree.cut, tree.value))));
	list.replaceChildren(...rows);
	list.title = modules.length > 0 ? "Share of self time of the largest files and modules" :
		"Share of self time by kind of code: native, Python, kernel, JIT";
}

/**
 * Fill @paragraph with what the graph does not show: truncated stacks and nodes too small to draw.
 * onMore() requests more nodes; null at the limit.
 * onUnfold() shows the interpreter frames that were folded.
 */
export function showCoverage(paragraph, tree, onMore, onUnfold) {
	const truncated = tree.truncatedValue();
	const parts = [`${formatCount(tree.stackCount)} stacks of ${formatCount(tree.seriesCount)} series`];

	parts.push(truncated > 0 ? `${formatShare(truncated, tree.value)} in truncated stacks` : "no stack truncated");
	paragraph.replaceChildren(parts.join("; "));
	if (tree.nodeCount <= tree.received) {
		paragraph.append("; every frame drawn");
	} else {
		paragraph.append(`; not drawn: the smallest ${formatCount(tree.nodeCount - tree.received)} of ` +
			`${formatCount(tree.nodeCount)} frames `);
		if (onMore)
			paragraph.append(linkButton("draw more", onMore));
	}
	if (tree.folded > 0)
		paragraph.append(`; ${formatCount(tree.folded)} interpreter ${tree.folded === 1 ? "frame" : "frames"} folded `, linkButton("show", onUnfold));
}

function linkButton(text, onClick) {
	const button = element("button", "link", text);

	button.type = "button";
	button.addEventListener("click", onClick);
	return button;
}

/** "3 of 17, 12.4 %": the match at @at of @found.nodes. */
export function stepSentence(tree, found, at) {
	return `${formatCount(at + 1)} of ${formatCount(found.count)}, ${formatShare(tree.total[found.nodes[at]], tree.value)}`;
}

/** The search's result line for @found (FlameTree.find()). */
export function searchSentence(tree, found) {
	if (found.count === 0)
		return tree.cut > 0 ? "no match among the frames drawn" : "no match";
	const frames = `${formatCount(found.count)} ${found.count === 1 ? "frame" : "frames"}`;
	// Frames too small to draw may match as well.
	const least = tree.cut > CUT_NOTABLE * tree.value ? "at least " : "";

	return `matched: ${least}${formatShare(found.value, tree.value)} of total in ${frames}`;
}
