// SPDX-License-Identifier: Apache-2.0
// The timeline page: threads as rows, what each did as colour, and below it the stacks of the bar that is selected.

import { gapsOf } from "./chart_marks.js";
import { element, icon } from "./element.js";
import { FlameGraph } from "./flame_graph.js";
import { frameNote, frameSentence, showBreadcrumb } from "./flame_notes.js";
import { PLAIN, shapeAnswer } from "./flame_shape.js";
import { FlameTree } from "./flame_tree.js";
import { formatCount, formatDuration, formatShare, formatSpan, formatStep } from "./format.js";
import { findFrame, frameKey } from "./frame_key.js";
import { Panel } from "./panel.js";
import { regionsOf, writeRegions } from "./regions.js";
import { withValue } from "./selector.js";
import { writeView } from "./state.js";
import { TimelineChart } from "./timeline_chart.js";
import { fetchStacks, fetchTimeline, perfettoPath, selectorOfPart } from "./timeline_query.js";
import { partOf, partsIn, timelineOf } from "./timeline_rows.js";
import { absoluteTime } from "./time_range.js";

const SPAN_MIN_MS = 200;
const PARTS_SHOWN = 6; // of a selection
const STACK_FIELDS = ["thread", "sel", "type"];
const SHAPE = { ...PLAIN, fold: true };

/** A page of pages.js. */
export function mountTimeline(root, context) {
	return new TimelinePage(root, context);
}

class TimelinePage {
	#state;
	#context;
	#range = null; // that is shown
	#timeline = null;
	#gaps = [];
	#shownStacks = ""; // of which thread and time
	#tree = null;

	constructor(root, context) {
		this.#context = context;
		this.#state = context.state;
		this.#makeChart();
		this.#makeStacks();
		root.append(this.head, this.stacks);
		this.chart = new TimelineChart(this.scroller, this.spacer, this.canvas, context.palette(), context.tooltip);
		this.graph = new FlameGraph(this.flame, this.flameSpacer, this.flameCanvas, context.palette());
		this.graph.resize();
		this.#listen();
	}

	/** What of a view the rows depend on, beside the range. */
	keyOf(view) {
		return [view.query];
	}

	async load(view, range) {
		const loaded = await this.panel.load((signal) => fetchTimeline(view, range, this.chart.slotsMax, signal));

		if (loaded === undefined) {
			if (!this.panel.busy && !this.#timeline)
				this.panel.setMessage(element("p", "", "Cancelled. Choose a time range to load again."));
			return;
		}
		const { answer, presence } = loaded;
		this.#range = range;
		this.#timeline = timelineOf(answer);
		this.#gaps = gapsOf(presence, range, this.#context.connection);
		this.#show(view);
		await this.#loadStacks(view);
	}

	fail(message) {
		this.#timeline = null;
		this.chart.setTimeline(null, false, [], this.#context.connection);
		this.panel.setMessage(element("p", "", message));
		this.facts.replaceChildren();
		this.legend.replaceChildren();
		this.stacks.hidden = true;
	}

	setPalette(palette) {
		this.chart.setPalette(palette);
		this.graph.setPalette(palette);
		this.#showLegend(palette);
	}

	get settled() {
		return !this.panel.busy && !this.stackPanel.busy && this.graph.settled;
	}

	/** What is shown, for tests: { plot, boxes }. */
	get shown() {
		return { plot: this.chart.plot(), boxes: this.graph.boxes() };
	}

	// ---- elements ---------------------------------------------------------------

	#makeChart() {
		const message = element("div", "panel-message"), progress = element("div", "progress");

		message.hidden = progress.hidden = true;
		this.facts = element("p", "facts");
		this.legend = element("ul", "timeline-legend");
		this.legend.ariaLabel = "What threads do";
		this.perfetto = element("a", "button quiet", icon("download"), element("span", "label", "Perfetto"));
		this.perfetto.title = "All threads with their stacks, as a file for ui.perfetto.dev";
		this.perfetto.download = "";
		this.canvas = element("canvas");
		this.spacer = element("div", "timeline-spacer", this.canvas);
		this.scroller = element("div", "timeline-scroller", this.spacer);
		this.scroller.tabIndex = 0;
		this.scroller.setAttribute("role", "application");
		this.scroller.ariaLabel = "Timeline. Arrow keys move between threads and slots, with Shift by ten; Enter shows the bar’s stacks, plus and minus zoom, Escape clears.";
		this.cell = element("p", "visually-hidden");
		this.cell.setAttribute("role", "status");
		this.panel = new Panel(progress, message);
		const zoomIn = this.#button("Zoom in", "+", () => this.#zoom(0.5)), zoomOut = this.#button("Zoom out", "−", () => this.#zoom(2));
		this.head = element("section", "panel timeline-panel",
				    element("div", "panel-head", element("h2", "", "Threads"), this.facts, element("span", "grow"), zoomOut, zoomIn, this.perfetto), this.legend,
				    element("div", "timeline-box", this.scroller, progress, message), this.cell);
		this.head.ariaLabel = "Threads over time";
	}

	#button(title, text, act) {
		const button = element("button", "button quiet zoom-step", text);

		Object.assign(button, { type: "button", title, ariaLabel: title });
		button.addEventListener("click", act);
		return button;
	}

	#makeStacks() {
		this.what = element("p", "timeline-what");
		this.parts = element("div", "segments timeline-parts");
		this.parts.setAttribute("role", "group");
		this.parts.ariaLabel = "Stacks of";
		this.open = element("a", "button quiet", "Open the profile");
		this.open.title = "This thread and time on the page of profiles";
		this.path = element("nav", "breadcrumb");
		this.path.ariaLabel = "Zoomed frame";
		this.flameCanvas = element("canvas");
		this.flameSpacer = element("div", "flame-spacer", this.flameCanvas);
		this.flame = element("div", "flame-scroller", this.flameSpacer);
		this.flame.tabIndex = 0;
		this.flame.setAttribute("role", "application");
		this.flame.ariaLabel = "Flame graph of the selected bar. Arrow keys move between frames, Enter zooms, Escape resets.";
		this.focusText = element("p", "visually-hidden");
		this.focusText.setAttribute("role", "status");
		const message = element("div", "panel-message"), progress = element("div", "progress");
		message.hidden = progress.hidden = true;
		this.stackPanel = new Panel(progress, message);
		const clear = element("button", "button quiet", "Clear");
		Object.assign(clear, { type: "button", title: "Select nothing (Esc)" });
		clear.addEventListener("click", () => this.#clear());
		this.stacks = element("section", "panel timeline-stacks", element("div", "panel-head", this.what, element("span", "grow"), this.open, clear), this.parts, this.path,
				      element("div", "flame-box", this.flame, progress, message), this.focusText);
		this.stacks.ariaLabel = "Stacks of the selected bar";
		this.stacks.hidden = true;
	}

	// ---- the rows ---------------------------------------------------------------

	#show(view) {
		const timeline = this.#timeline;
		const withIdle = view.idle === "in" || timeline.rows.every(({ isIdle }) => isIdle);

		this.panel.setMessage(...(timeline.rows.length ? [] : this.#explainEmpty(view)));
		this.chart.setTimeline(timeline.rows.length ? timeline : null, withIdle, this.#gaps, this.#context.connection);
		this.perfetto.href = perfettoPath(view, this.#range);
		this.perfetto.hidden = timeline.rows.length === 0;
		this.#showFacts(withIdle);
		this.#showLegend(this.#context.palette());
		this.#showSelection(view);
	}

	#showFacts(withIdle) {
		const { rows, groups, grid, leftOut, leftOutShare, hasWall } = this.#timeline;
		const idle = rows.filter(({ isIdle }) => isIdle).length;
		const facts = [];

		if (rows.length) {
			const threads = rows.reduce((sum, row) => sum + Math.max(1, row.threads), 0);
			facts.push(element("span", "", element("b", "", formatCount(threads)), ` ${threads === 1 ? "thread" : "threads"} of ${formatCount(groups.length)} ${groups.length === 1 ? "process" : "processes"}`),
				   element("span", "", `${formatStep(grid.slot_ms)} a column`));
		}
		if (idle > 0 && idle < rows.length)
			facts.push(this.#idleButton(idle, withIdle));
		if (leftOut > 0)
			facts.push(element("span", "", `${formatCount(leftOut)} more ${leftOut === 1 ? "thread" : "threads"} (${formatShare(leftOutShare, 1)} of the active time): choose a pod or a process to see them`));
		if (rows.length && !hasWall)
			facts.push(element("span", "", "Time without samples is not hatched: agents lack --profiles wall"));
		this.facts.replaceChildren(...facts);
	}

	#idleButton(count, withIdle) {
		const button = element("button", "link", withIdle ? `Hide ${formatCount(count)} idle` : `Show ${formatCount(count)} idle`);

		button.type = "button";
		button.addEventListener("click", () => this.#state.change({ idle: withIdle ? "out" : "in" }));
		return button;
	}

	#showLegend(palette) {
		const entry = (color, title, meaning) => {
			const swatch = element("span", "swatch");
			const item = element("li", "", swatch, title);
			swatch.style.backgroundColor = palette.values.get(color) ?? palette[color];
			item.title = meaning;
			return item;
		};
		const parts = this.#timeline?.parts ?? [];

		this.legend.replaceChildren(...parts.map(({ color, title }) => entry(color, title, "")),
			...(parts.length ? [this.#unsampledEntry(), element("li", "hint", "Click a bar for its stacks, or drag along a thread's row")] : []));
	}

	#unsampledEntry() {
		const item = element("li", "", element("span", "swatch unsampled"), "Not sampled");

		item.title = "The thread existed; no sample shows what it did";
		return item;
	}

	#explainEmpty(view) {
		const { newest_ms } = this.#context.connection;
		const action = (text, patch) => {
			const button = element("button", "button", text);
			button.type = "button";
			button.addEventListener("click", () => this.#state.change(patch));
			return button;
		};
		const actions = element("p", "actions");

		if (view.query)
			actions.append(action("Show all services", { query: "" }));
		if (newest_ms && (newest_ms < this.#range.from_ms || newest_ms > this.#range.to_ms))
			actions.append(action("Go to the newest samples", { from: absoluteTime(newest_ms - 10000), to: absoluteTime(newest_ms) }));
		return [element("h3", "", "No threads in this range."), element("p", "", newest_ms ? "Choose another service or time." : "No agent has sent data."), actions];
	}

	#zoom(times) {
		const { from_ms, to_ms } = regionsOf(this.#state.view).at(0) ?? this.#range ?? { from_ms: 0, to_ms: 0 };

		if (this.#range)
			this.#zoomTo((from_ms + to_ms) / 2, (this.#range.to_ms - this.#range.from_ms) * times);
	}

	#zoomTo(middle_ms, span_ms) {
		const half_ms = Math.max(SPAN_MIN_MS, span_ms) / 2;
		const from_ms = Math.round(middle_ms - half_ms);

		this.#state.change({ from: absoluteTime(from_ms), to: absoluteTime(from_ms + Math.round(2 * half_ms)) });
	}

	// ---- the stacks of a bar -----------------------------------------------------

	#select({ row, part, from_ms, to_ms }) {
		this.#state.change({ thread: selectorOfPart(row.selector, part), type: part.type, zoom: "", sel: writeRegions([{ from_ms: Math.floor(from_ms), to_ms: Math.ceil(to_ms) }]),
				     from: absoluteTime(this.#range.from_ms), to: absoluteTime(this.#range.to_ms) });
	}

	#clear() {
		if (this.#state.view.sel)
			this.#state.change({ thread: "", sel: "", zoom: "" });
	}

	/** The row that @view selects. */
	#rowOf(view) {
		const key = withValue(view.thread, "wait", null);

		return this.#timeline?.rows.find((row) => row.selector === key) ?? null;
	}

	#showSelection(view) {
		const [region] = regionsOf(view);
		const row = region && view.thread ? this.#rowOf(view) : null;

		this.stacks.hidden = !region || !view.thread;
		this.chart.setSelection(row ? { key: row.key, ...region } : null);
		if (this.stacks.hidden)
			return;
		const open = { ...view, page: "service", query: view.thread, thread: "", over: "heat" };
		this.open.href = writeView(open) || "/";
		this.what.replaceChildren(element("b", "", row?.name ?? "This thread"), ` ${formatSpan(region.from_ms, region.to_ms)}, `,
					  element("b", "", formatDuration((region.to_ms - region.from_ms) * 1e6)));
		this.#showParts(view, row, region);
	}

	/** What the thread did in the region: each has stacks of its own. */
	#showParts(view, row, { from_ms, to_ms }) {
		const { grid } = this.#timeline;
		const slotAt = (time_ms) => Math.min(grid.count, Math.max(0, Math.round((time_ms - grid.from_ms) / grid.slot_ms)));
		const { parts } = row ? partsIn(row, slotAt(from_ms), slotAt(to_ms)) : { parts: [] };

		this.parts.replaceChildren(...parts.slice(0, PARTS_SHOWN).map((part) => {
			const button = element("button", "", part.title, " ", element("span", "muted", formatDuration(part.value)));
			button.type = "button";
			button.ariaPressed = String(view.type === part.type && view.thread === selectorOfPart(row.selector, part));
			button.addEventListener("click", () => this.#state.change({ thread: selectorOfPart(row.selector, part), type: part.type, zoom: "" }));
			return button;
		}));
		this.parts.hidden = parts.length === 0;
	}

	async #loadStacks(view) {
		const key = STACK_FIELDS.map((name) => view[name]).join("\n");

		if (this.stacks.hidden || key === this.#shownStacks)
			return;
		this.#shownStacks = "";
		try {
			const answer = await this.stackPanel.load((signal) => fetchStacks(view, signal));
			if (answer === undefined)
				return;
			this.#shownStacks = key;
			this.#tree = new FlameTree(shapeAnswer(answer, SHAPE, false), false);
			this.#showTree(this.#state.view);
		} catch (error) {
			this.#tree = null;
			this.graph.setTree(null);
			this.stackPanel.setMessage(element("p", "", error.away ? "The collector does not answer. Select the bar again." : `Query failed: ${error.message}`));
		}
	}

	#showTree(view) {
		const hasStacks = this.#tree.value > 0;
		const { title } = partOf(view.type, "");

		this.graph.setTree(hasStacks ? this.#tree : null, hasStacks ? this.#zoomOf(view) : 0);
		this.stackPanel.setMessage(...(hasStacks ? [] : [element("p", "", `No stacks of ${title.toLowerCase()} in this time.`)]));
		this.#showPath();
	}

	#zoomOf(view) {
		return view.zoom ? Math.max(0, findFrame(this.#tree, view.zoom)) : 0;
	}

	#showPath() {
		this.path.replaceChildren();
		if (this.#tree?.value > 0)
			showBreadcrumb(this.path, this.#tree, this.graph.zoomed, (node) => this.#zoomFrame(node));
	}

	#zoomFrame(node) {
		this.#state.change({ zoom: node === 0 ? "" : frameKey(this.#tree, node) });
	}

	#showFrame(frame) {
		const [region] = regionsOf(this.#state.view);

		if (frame && this.#tree)
			this.#context.tooltip.show(frameNote(this.#tree, frame.node, region ? region.to_ms - region.from_ms : 0), frame.x, frame.y);
		else
			this.#context.tooltip.hide();
	}

	// ---- what happens ------------------------------------------------------------

	#listen() {
		this.chart.addEventListener("select", ({ detail }) => this.#select(detail));
		this.chart.addEventListener("clear", () => this.#clear());
		this.chart.addEventListener("zoom", ({ detail: { middle_ms, span_ms } }) => this.#zoomTo(middle_ms, span_ms));
		this.chart.addEventListener("cell", ({ detail }) => (this.cell.textContent = detail));
		this.graph.addEventListener("zoom", ({ detail: node }) => this.#zoomFrame(node));
		this.graph.addEventListener("hover", ({ detail: frame }) => this.#showFrame(frame));
		this.graph.addEventListener("focus", ({ detail: frame }) => {
			this.#showFrame(frame);
			this.focusText.textContent = frame ? frameSentence(this.#tree, frame.node) : "";
		});
		this.flame.addEventListener("keydown", (event) => event.key === "Escape" && this.#state.change({ zoom: "" }));
		this.#state.addEventListener("change", ({ detail: changed }) => this.#onChange(changed));
	}

	#onChange(changed) {
		const { view } = this.#state;

		if (view.page !== "timeline" || !this.#timeline)
			return;
		if (changed.has("idle"))
			this.#show(view);
		if (STACK_FIELDS.some((name) => changed.has(name))) {
			this.#showSelection(view);
			this.#loadStacks(view);
		} else if (changed.has("zoom") && this.#tree) {
			this.graph.setZoom(this.#zoomOf(view));
			this.#showPath();
		}
	}
}
