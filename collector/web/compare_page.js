// SPDX-License-Identifier: Apache-2.0
// The compare page: what is compared with what, the flame graph of both in blue and red, the table by change.

import { LatestRequest } from "./api.js";
import { colorByChange, LEGEND } from "./compare_colors.js";
import { BASELINES, CHANGES, compareValues, compareWithSiblings, fetchDiff, fetchValues, isComparable, isComplete, openSide, unitWords } from "./compare_query.js";
import { changeText, chanceText, comparedText, CompareTable, percentText } from "./compare_table.js";
import { element, icon } from "./element.js";
import { FlameGraph } from "./flame_graph.js";
import { showBreadcrumb } from "./flame_notes.js";
import { formatCount, formatRange, formatTime } from "./format.js";
import { findFrame, frameKey } from "./frame_key.js";
import { exactSearch, frameMatcher } from "./frame_search.js";
import { Panel } from "./panel.js";
import { typeTitle } from "./profile_type.js";
import { parseSelector } from "./selector.js";
import { writeView } from "./state.js";
import { absoluteTime, isRelative, resolveTime } from "./time_range.js";

const VALUES_MAX = 200; // of a label, to pick from

/** A page of pages.js. */
export function mountCompare(root, context) {
	return new ComparePage(root, context);
}

class ComparePage {
	#state;
	#context;
	#comparison = null;
	#values = new LatestRequest();

	constructor(root, context) {
		this.#context = context;
		this.#state = context.state;
		this.controls = new Controls(this.#state, (patch) => this.#change(patch), () => this.#now_ms());
		this.sides = element("div", "compare-sides");
		this.table = new CompareTable(this.controls.shown, this.controls.by);
		this.#makeFlame();
		const panes = element("div", "compare-panes", this.flame, this.table.root);
		const message = element("div", "panel-message");
		const progress = element("div", "progress");
		message.hidden = progress.hidden = true;
		this.panel = new Panel(progress, message);
		root.append(element("section", "panel compare-head", this.controls.root, this.sides),
			    element("section", "panel compare-main", panes, progress, message));
		this.graph = new FlameGraph(this.scroller, this.spacer, this.canvas, context.palette());
		this.graph.resize();
		this.#listen();
	}

	async load(view, range) {
		this.controls.show(view, range);
		this.#loadValues(view, range);
		if (!isComparable(view.type) || !isComplete(view)) {
			this.#showNothing(isComplete(view) ? `${typeTitle(view.type)} has no stacks to compare. Choose another profile type.` :
				"Choose a baseline: pick two values above, or write selector A.");
			return;
		}
		const comparison = await this.panel.load((signal) => fetchDiff(view, range, this.#now_ms(), signal));
		if (comparison === undefined)
			return;
		this.#comparison = comparison;
		this.#showSides();
		if (!comparison.has(0) || !comparison.has(1)) {
			this.#showNothing(comparison.has(1) ? "A has no samples: there is nothing to compare with. Choose another baseline or time." :
				"B has no samples in this range. Choose another service or time.", { keepSides: true });
			return;
		}
		this.panel.setMessage();
		this.graph.setColoring(colorByChange(comparison));
		this.graph.setTree(comparison.tree, this.#zoomOf(this.#state.view));
		this.#showPath();
		this.#showSearch(this.#state.view);
		this.table.show(comparison, this.#state.view);
	}

	fail(message) {
		this.#showNothing(message);
	}

	setPalette(palette) {
		this.graph.setPalette(palette);
	}

	get settled() {
		return !this.panel.busy && this.graph.settled;
	}

	/** What is shown, for tests: { boxes, functions }. */
	get shown() {
		return { boxes: this.graph.boxes(), functions: this.#comparison?.functions ?? [] };
	}

	#now_ms() {
		return this.#context.connection.now_ms();
	}

	#change(patch) {
		this.#state.change(patch);
	}

	#makeFlame() {
		this.canvas = element("canvas");
		this.spacer = element("div", "flame-spacer", this.canvas);
		this.scroller = element("div", "flame-scroller", this.spacer);
		this.scroller.tabIndex = 0;
		this.scroller.setAttribute("role", "application");
		this.scroller.ariaLabel = "Flame graph of both sides. Arrow keys move between frames, Enter zooms, Escape resets.";
		this.focusText = element("p", "visually-hidden");
		this.focusText.setAttribute("role", "status");
		this.path = element("nav", "breadcrumb");
		this.path.ariaLabel = "Zoomed frame";
		this.search = element("input", "compare-search");
		Object.assign(this.search, { type: "text", placeholder: "Search frames", ariaLabel: "Search frames", autocomplete: "off", spellcheck: false, maxLength: 400 });
		const legend = element("ul", "diff-legend", ...LEGEND.map(([name, words, meaning]) => {
			const item = element("li", "", element("span", `swatch ${name}`), words);
			item.title = meaning;
			return item;
		}));
		legend.ariaLabel = "Colours: the change from A to B";
		legend.append(element("li", "muted", "Width: the mean of A and B"));
		this.flame = element("section", "pane flame-pane", element("div", "compare-flame-head", this.search, this.path),
				     element("div", "flame-box", this.scroller), this.focusText, element("div", "flame-foot", legend));
		this.flame.ariaLabel = "Flame graph by change";
	}

	#listen() {
		const change = (patch, options) => this.#state.change(patch, options);

		this.graph.addEventListener("zoom", ({ detail: node }) => change({ zoom: node === 0 ? "" : frameKey(this.#comparison.tree, node) }));
		this.graph.addEventListener("search", ({ detail: name }) => change({ search: exactSearch(name) }));
		this.graph.addEventListener("hover", ({ detail: frame }) => this.#showFrame(frame));
		this.graph.addEventListener("focus", ({ detail: frame }) => {
			this.#showFrame(frame);
			this.focusText.textContent = frame ? this.#noteOf(frame.node).join(". ") : "";
		});
		this.search.addEventListener("input", () => change({ search: this.search.value }, { replace: true }));
		this.table.addEventListener("pick", ({ detail: name }) =>
			change({ search: this.#state.view.search === exactSearch(name) ? "" : exactSearch(name) }));
		this.table.addEventListener("filter", ({ detail: text }) => change({ filter: text }, { replace: true }));
		this.scroller.addEventListener("keydown", (event) => event.key === "Escape" && change({ zoom: "", search: "" }));
		this.#state.addEventListener("change", ({ detail: changed }) => this.#onChange(changed));
	}

	#onChange(changed) {
		const { view } = this.#state;

		if (view.page !== "compare" || !this.#comparison)
			return;
		if (changed.has("zoom")) {
			this.graph.setZoom(this.#zoomOf(view));
			this.#showPath();
		}
		if (changed.has("search"))
			this.#showSearch(view);
		if (changed.has("show") || changed.has("filter")) {
			this.controls.show(view);
			this.table.show(this.#comparison, view);
		}
	}

	#zoomOf(view) {
		return view.zoom ? Math.max(0, findFrame(this.#comparison.tree, view.zoom)) : 0;
	}

	#showPath() {
		this.path.replaceChildren();
		if (this.#comparison && this.graph.zoomed !== 0)
			showBreadcrumb(this.path, this.#comparison.tree, this.graph.zoomed,
				       (node) => this.#change({ zoom: node === 0 ? "" : frameKey(this.#comparison.tree, node) }));
	}

	#showSearch(view) {
		if (this.search.value !== view.search)
			this.search.value = view.search;
		try {
			const matches = frameMatcher(view.search);

			this.graph.setSearch(matches ? this.#comparison.tree.find(matches) : null);
			this.search.ariaInvalid = "false";
		} catch {
			this.graph.setSearch(null);
			this.search.ariaInvalid = "true";
		}
	}

	#noteOf(node) {
		const { tree, nodes } = this.#comparison;
		const [a, b] = [nodes.a[node], nodes.b[node]];
		const value = { a, b, p: nodes.p[node], enough: nodes.certainty[node] > 0, word: a === 0 ? "new" : b === 0 ? "gone" : "" };
		const certain = nodes.certainty[node] === 2 ? "" : nodes.certainty[node] === 1 ? "; not significant" : "";

		return [tree.nameOf(node), `A ${comparedText(this.#comparison, a)} → B ${comparedText(this.#comparison, b)} ${unitWords(this.#comparison)}`,
			`${changeText(this.#comparison, b - a)}  ${percentText(value)}`, node === 0 && this.#comparison.isShare ? "" : `${chanceText(value)}${certain}`].filter((text) => text);
	}

	#showFrame(frame) {
		if (!frame || !this.#comparison) {
			this.#context.tooltip.hide();
			return;
		}
		const [name, ...lines] = this.#noteOf(frame.node);
		const module = this.#comparison.tree.moduleOf(frame.node);

		this.#context.tooltip.show([element("b", "", name), ...lines.map((line) => element("div", "", line)),
					    ...(module ? [element("div", "muted", module)] : [])], frame.x, frame.y);
	}

	#showNothing(message, { keepSides = false } = {}) {
		if (!keepSides) {
			this.sides.replaceChildren();
			this.#comparison = null;
		}
		this.graph.setTree(null);
		this.path.replaceChildren();
		this.table.show(null, this.#state.view);
		this.panel.setMessage(element("p", "", message));
	}

	#showSides() {
		const comparison = this.#comparison;
		const [a, b] = comparison.totals;
		const whole = { a, b, word: a === 0 ? "new" : b === 0 ? "gone" : "" };
		const changed = comparison.functions.filter(({ [this.#state.view.by]: value }) => value.significant).length;
		const sure = comparison.nodes.certainty[0] === 2 ? "" : ", not significant";
		const result = comparison.isShare ? [element("b", "", formatCount(changed)), element("span", "", "functions changed their share significantly")] :
			[element("b", "", percentText(whole) || "±0"), element("span", "", `per instance${sure}`),
			 element("span", "muted", `${formatCount(changed)} ${changed === 1 ? "function" : "functions"} changed significantly`)];

		this.sides.replaceChildren(this.#side(0), this.#side(1), element("div", "compare-result", ...result));
	}

	#side(number) {
		const comparison = this.#comparison;
		const side = comparison.sides[number];
		const [first, last] = [side.ranges_ns[0][0] / 1e6, side.ranges_ns.at(-1)[1] / 1e6];
		const view = this.#state.view;
		const { isWhole, ...patch } = openSide(view, comparison, number);
		const link = element("a", "button quiet", `Open ${"AB"[number]}`);
		const figure = comparison.isShare ? "" : `${comparedText(comparison, comparison.totals[number])} ${unitWords(comparison)}`;
		const instances = `${formatCount(side.instances)} ${side.instances === 1 ? "instance" : "instances"}`;
		const parts = partsText(side.ranges_ns, this.#now_ms());

		link.href = writeView({ ...view, ...patch }) || "/";
		link.title = isWhole ? "Its profile" : "Its profile over the whole span, gaps included";
		link.addEventListener("click", (event) => {
			if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
				return;
			event.preventDefault();
			this.#change(patch);
		});
		const range = element("span", "compare-time", `${formatRange(first, last, this.#now_ms())}${parts}`);
		range.title = `${formatTime(first)} to ${formatTime(last)}`;
		const text = element("span", "compare-query", patch.query || "all services");
		text.title = side.query || "{}";
		const figures = element("span", "muted", [figure, instances].filter((part) => part).join(" · "));
		figures.title = "An instance is a pod; outside pods a service.instance.id, or else a node";
		return element("div", `compare-side side-${"ab"[number]}`, element("span", "side-letter", "AB"[number]),
			       element("div", "side-text", text, range, figures), link);
	}

	async #loadValues(view, range) {
		try {
			const found = await this.#values.run(async (signal) => Object.fromEntries(await Promise.all(
				["version", "pod"].map(async (name) => [name, await fetchValues(view, range, name, signal)]))));
			if (found)
				this.controls.showValues(view, found);
		} catch {
			this.controls.showValues(view, {}); // the pickers only help
		}
	}
}

/** What of the time is left out: " without 14:05:30 – 14:05:32". */
function partsText(ranges_ns, now_ms) {
	if (ranges_ns.length === 2)
		return ` without ${formatRange(ranges_ns[0][1] / 1e6, ranges_ns[1][0] / 1e6, now_ms)}`;
	return ranges_ns.length > 2 ? ` in ${formatCount(ranges_ns.length)} parts, gaps excluded` : "";
}

/** A view's time @text as it is shown: local, unless it moves with the clock. */
function shownTime(text, now_ms) {
	return text === "" || isRelative(text) ? text : formatTime(Math.round(resolveTime(text, now_ms)));
}

/** @text as a view keeps it. What is no time stays, for the error. */
function keptTime(text, now_ms) {
	const time_ms = isRelative(text) ? null : resolveTime(text, now_ms);

	return time_ms === null ? text : absoluteTime(time_ms);
}

/** What is compared with what, and by what. */
class Controls {
	#state;
	#change;
	#values = {};
	#now_ms;

	constructor(state, change, now_ms) {
		this.#state = state;
		this.#now_ms = now_ms;
		this.#change = change;
		this.against = this.#select("Compare with", BASELINES, (value) => change(this.#againstPatch(value)));
		this.base = this.#input("The other selector, A", '{service="llm", version="1.4"}', "base");
		this.from = this.#input("Begin of A", "now-1h", "base_from");
		this.to = this.#input("End of A", "now", "base_to");
		this.values = element("span", "compare-values");
		this.norm = this.#segments("Compare by", [["rate", "Rate"], ["share", "Share"]], "norm");
		this.by = this.#segments("Value", [["self", "Self"], ["total", "Total"]], "by");
		this.shown = this.#segments("Changes", CHANGES, "show");
		this.root = element("div", "compare-controls", this.against.label, this.values, this.base, this.from, this.to,
				    element("span", "grow"), this.norm);
	}

	/** What the view is without what only the last baseline had. */
	#againstPatch(against) {
		return { against, base: "", base_from: "", base_to: "" };
	}

	show(view) {
		this.against.select.value = view.against;
		this.base.hidden = view.against !== "query" && view.against !== "range";
		this.from.hidden = this.to.hidden = view.against !== "rest" && view.against !== "range";
		for (const [input, value] of [[this.base, view.base], [this.from, shownTime(view.base_from, this.#now_ms())], [this.to, shownTime(view.base_to, this.#now_ms())]]) {
			if (document.activeElement !== input)
				input.value = value;
		}
		for (const group of [this.norm, this.by, this.shown])
			for (const button of group.children)
				button.ariaPressed = String(button.dataset.value === view[group.dataset.field]);
		this.showValues(view, this.#values);
	}

	/** Pickers for values of labels: two versions, or a pod and its siblings. */
	showValues(view, values) {
		this.#values = values;
		this.values.replaceChildren();
		if (view.against !== "query")
			return;
		const { version = [], pod = [] } = values;
		const chosen = (text, name) => (parseSelector(text) ?? []).find((m) => m.name === name && m.op === "=")?.value ?? "";

		if (version.length > 1)
			this.values.append(this.#pick("A", version, chosen(view.base, "version"), (a) => this.#change(compareValues(view, "version", a, chosen(view.query, "version") || version.at(-1)))),
					   this.#pick("B", version, chosen(view.query, "version"), (b) => this.#change(compareValues(view, "version", chosen(view.base, "version") || version[0], b))));
		if (pod.length > 1)
			this.values.append(this.#pick("pod against its siblings", pod, chosen(view.query, "pod"), (value) => this.#change(compareWithSiblings(view, "pod", value))));
	}

	#pick(label, values, chosen, onPick) {
		const title = label.length === 1 ? `version ${label}` : label;
		const { label: made, select } = this.#select(title, [["", "choose"], ...values.slice(0, VALUES_MAX).map((value) => [value, value])], (value) => value && onPick(value));

		select.value = chosen;
		return made;
	}

	#select(title, options, onChange) {
		const select = element("select", "", ...options.map(([value, words]) => new Option(words, value)));
		const label = element("label", "control", element("span", "control-label", title), select, icon("down"));

		select.addEventListener("change", () => onChange(select.value));
		return { label, select };
	}

	#input(title, placeholder, field) {
		const input = element("input", "compare-input");

		Object.assign(input, { type: "text", placeholder, ariaLabel: title, title: `${title}; Enter applies it`, autocomplete: "off", spellcheck: false, maxLength: 8192 });
		input.autocapitalize = "off";
		input.addEventListener("change", () => this.#change({ [field]: field === "base" ? input.value.trim() : keptTime(input.value.trim(), this.#now_ms()) }));
		return input;
	}

	#segments(title, choices, field) {
		const group = element("div", "segments", ...choices.map(([value, words]) => {
			const button = element("button", "", words);
			button.type = "button";
			button.dataset.value = value;
			button.addEventListener("click", () => this.#state.change({ [field]: value }, { replace: field === "show" }));
			return button;
		}));

		group.setAttribute("role", "group");
		group.ariaLabel = title;
		group.dataset.field = field;
		return group;
	}
}
