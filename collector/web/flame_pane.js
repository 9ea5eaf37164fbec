// SPDX-License-Identifier: Apache-2.0
// The flame graph's pane: loads the merged tree, or a function's callers and callees, shapes it as the view says,
// follows zoom and search, and shows the notes on the graph.

import { copyText } from "./clipboard.js";
import { byId, element } from "./element.js";
import { COLORINGS, modulesOf } from "./flame_colors.js";
import { FlameGraph } from "./flame_graph.js";
import { FlameOptions, hiddenOf } from "./flame_options.js";
import { frameNote, frameSentence, showBreadcrumb, showCoverage, showLegend } from "./flame_notes.js";
import { FlameSearch } from "./flame_search.js";
import { shapeAnswer } from "./flame_shape.js";
import { FlameTree } from "./flame_tree.js";
import { findFrame, frameKey } from "./frame_key.js";
import { FrameMenu } from "./frame_menu.js";
import { exactSearch } from "./frame_search.js";
import { valueTitle } from "./label_value.js";
import { Panel } from "./panel.js";
import { fetchCallers, fetchMerge, groupOf } from "./queries.js";
import { regionsOf } from "./regions.js";
import { functionOf } from "./source_pane.js";
import { NODES_MAX } from "./state.js";
import { coveredMs } from "./time_range.js";
import { showToast } from "./toast.js";

export class FlamePane {
	#state;
	#tooltip;
	#palette;
	#explainEmpty;
	#answer = null; // of the collector, before it is shaped
	#callers = null; // of the function in view.sandwich
	#callerTree = null;
	#label = "";
	#stored;
	#tree = null;
	#span_ms = 0;

	/** @explainEmpty(): elements to show without samples. @stored: { oldest_ms, newest_ms } of all samples, read at each use. */
	constructor(state, palette, tooltip, explainEmpty, stored) {
		this.#state = state;
		this.#stored = stored;
		this.#tooltip = tooltip;
		this.#palette = palette;
		this.#explainEmpty = explainEmpty;
		this.panel = new Panel(byId("flame-progress"), byId("flame-message"));
		this.graph = new FlameGraph(byId("flame-scroller"), byId("flame-spacer"), byId("flame"), palette);
		this.callers = new FlameGraph(byId("callers-scroller"), byId("callers-spacer"), byId("callers"), palette);
		this.callers.setRootAtTop(false);
		this.options = new FlameOptions(state);
		this.menu = new FrameMenu();
		this.search = new FlameSearch(state, this.graph);
		this.#listen();
	}

	/** Load and show. Throws ApiError, or Error on a malformed answer. */
	async load(view, range) {
		const answer = await this.panel.load((signal) =>
			(view.sandwich ? fetchCallers : fetchMerge)(view, range, signal));

		if (answer === undefined)
			return;
		this.#span_ms = (view.sel ? regionsOf(view) : [range]).reduce((sum, part) => sum + coveredMs(part, this.#stored), 0);
		this.#label = view.sandwich ? "" : groupOf(view);
		this.#answer = view.sandwich ? answer.callees : answer;
		this.#callers = view.sandwich ? answer.callers : null;
		this.#shape(view);
	}

	/** The view's shape or colours have changed. */
	showShape(view) {
		this.graph.setColoring(COLORINGS[view.color]);
		this.callers.setColoring(COLORINGS[view.color]);
		this.options.show(view);
		if (this.#answer)
			this.#shape(view);
	}

	#treeOf(answer, view, shape) {
		const shaped = shapeAnswer(answer, { fold: view.fold === "on", recursion: view.recursion === "on",
						     libraries: view.libraries === "on", hide: hiddenOf(view), ...shape }, this.#label !== "");

		return new FlameTree(shaped, this.#label !== "", (value) => valueTitle(this.#label, value));
	}

	#shape(view) {
		const whole = this.#treeOf(this.#answer, view, { focus: view.sandwich ? "" : view.focus });
		const tree = whole.value > 0 ? whole : null;
		const focused = this.#focusedKey();

		this.panel.setMessage(...(tree ? [] : view.focus || view.sandwich ? [element("p", "", "No stack has this function in this range.")] :
			this.#explainEmpty()));
		this.#tree = tree;
		this.#callerTree = this.#callers ? this.#treeOf(this.#callers, view, { focus: "", inverted: true }) : null;
		byId("flame-box").dataset.sandwich = String(this.#callers !== null);
		this.search.setTree(tree);
		this.graph.setTree(tree, this.#zoomOf(view));
		this.callers.setTree(this.#callerTree?.value > 0 ? this.#callerTree : null);
		this.graph.setFocus(tree && focused ? findFrame(tree, focused) : -1);
		this.#showNotes();
		this.options.show(view);
		this.showSearch(view);
	}

	#focusedKey() {
		return this.#tree && this.graph.focused >= 0 ? frameKey(this.#tree, this.graph.focused) : "";
	}

	/** Show @message instead of data. */
	fail(message) {
		this.#answer = this.#callers = this.#tree = null;
		this.graph.setTree(null);
		this.callers.setTree(null);
		this.search.setTree(null);
		this.#showNotes();
		this.showSearch(this.#state.view);
		this.panel.setMessage(element("p", "", message));
	}

	showZoom(view) {
		this.graph.setZoom(this.#zoomOf(view));
		this.#showPath();
	}

	showRoot(view) {
		this.graph.setRootAtTop(view.root === "top");
		byId("orientation-text").textContent = view.root === "top" ? "Icicle" : "Flame";
	}

	showSearch(view) {
		this.search.show(view);
		this.callers.setSearch(this.#callerTree ? this.search.findIn(this.#callerTree, view) : null);
		this.#showReset();
	}

	/** Go to the search's next match; @by -1: the one before. */
	step(by) {
		this.search.step(by);
	}

	/** Does the view show all of the graph? */
	get isReset() {
		const { search, zoom, hide, focus, sandwich } = this.#state.view;

		return [search, zoom, hide, focus, sandwich].every((text) => text === "") && !this.graph.isMoved;
	}

	#showReset() {
		byId("reset").disabled = this.isReset;
	}

	/** The node that @view zooms to; the root where it is not in this tree. */
	#zoomOf(view) {
		return this.#tree && view.zoom ? Math.max(0, findFrame(this.#tree, view.zoom)) : 0;
	}

	#zoomTo(node) {
		// After a pan the root may be zoomed to already, but is not all of the picture.
		if (node === this.graph.zoomed && !this.#state.view.zoom) {
			this.graph.setZoom(node);
			return;
		}
		if (node === this.graph.zoomed)
			this.graph.setZoom(node);
		this.#state.change({ zoom: node === 0 ? "" : frameKey(this.#tree, node) });
	}

	#showNotes() {
		const tree = this.#tree;
		const nodesMax = Number(this.#state.view.nodes);
		const more = nodesMax < NODES_MAX ? () => this.#state.change({ nodes: String(NODES_MAX) }) : null;

		byId("legend").replaceChildren();
		byId("coverage").replaceChildren();
		this.#showPath();
		byId("flame-foot").hidden = !tree;
		if (!tree)
			return;
		showLegend(byId("legend"), tree, this.#state.view.color === "module" ? modulesOf(tree, this.#palette) : []);
		showCoverage(byId("coverage"), tree, more, () => this.#state.change({ fold: "off" }, { replace: true }));
	}

	#showPath() {
		const nav = byId("breadcrumb");

		nav.replaceChildren();
		this.#showReset();
		if (!this.#tree)
			return;
		showBreadcrumb(nav, this.#tree, this.graph.zoomed, (node) => this.#zoomTo(node));
		if (this.#state.view.zoom && this.graph.zoomed === 0)
			nav.append(element("span", "crumb-note", "The zoomed frame has no samples here."));
	}

	#listen() {
		const change = (patch, options) => this.#state.change(patch, options);

		this.graph.addEventListener("zoom", (event) => this.#zoomTo(event.detail));
		this.callers.addEventListener("zoom", (event) => change({ sandwich: this.#callerTree.nameOf(event.detail), zoom: "" }));
		for (const graph of [this.graph, this.callers]) {
			graph.addEventListener("search", (event) => change({ search: exactSearch(event.detail) }));
			graph.addEventListener("hover", (event) => this.#showFrame(graph.tree, event.detail));
			graph.addEventListener("focus", (event) => this.#onFocus(graph.tree, event.detail));
			graph.addEventListener("menu", (event) => this.#openMenu(graph, event.detail));
			graph.addEventListener("copy", (event) => this.#copyStack(graph, event.detail));
		}
		byId("reset").addEventListener("click", () => this.reset());
		byId("orientation").addEventListener("click", () =>
			change({ root: this.#state.view.root === "top" ? "bottom" : "top" }, { replace: true }));
	}

	/** Show all of the graph again: reset zoom, search, what is hidden and in focus. */
	reset() {
		if (this.#tree && !this.#state.view.zoom)
			this.graph.setZoom(0); // a drag may have moved it
		this.#state.change({ zoom: "", search: "", hide: "", focus: "", sandwich: "" });
	}

	setPalette(palette) {
		this.graph.setPalette(palette);
		this.callers.setPalette(palette);
		this.#palette = palette;
		this.#showNotes();
	}

	/** Open the menu of @node beside its box. */
	openMenu(node) {
		this.#openMenu(this.graph, { node, x: 100, y: 100 });
	}

	#openMenu(graph, { node, x, y }) {
		const { tree } = graph;
		const name = tree.nameOf(node);
		const isFrame = !["root", "group", "truncated"].includes(tree.kindOf(node));
		const actions = [
			...(graph === this.graph ? [{ label: "Zoom to it", note: "Enter", act: () => this.#zoomTo(node) }] : []),
			...(isFrame ? this.#actionsOn(name, tree.kindOf(node)) : []),
			{ label: "Copy the stack", note: "c", act: () => this.#copyStack(graph, node) },
		];

		this.#tooltip.hide();
		this.menu.open(name, actions, x, y, graph.scroller);
	}

	/** Open the menu of the function called @name at (@x, @y); @returnTo has the focus when it closes. */
	openFunctionMenu({ name, kind, x, y, row }) {
		this.menu.open(name, this.#actionsOn(name, kind), x, y, row);
	}

	// In each but the lines' the flame graph shows.
	#actionsOn(name, kind) {
		const { view } = this.#state;
		const showLines = () => this.#state.change({ code: functionOf(name, kind, view.lines), layout: view.layout === "flame" ? "both" : view.layout });
		const change = (patch) => this.#state.change({ layout: view.layout === "table" ? "both" : view.layout, ...patch });

		return [
			{ label: "Callers and callees", act: () => change({ sandwich: name, zoom: "", focus: "" }) },
			...(kind === "kernel" ? [] : [{ label: "Source lines", act: showLines }]),
			{ label: "Only stacks with it", act: () => change({ focus: name, zoom: "", sandwich: "" }) },
			{ label: "Hide it", act: () => change({ hide: [...hiddenOf(view), name].join("\n"), zoom: "" }) },
			{ label: "Search for it", note: "Shift click", act: () => change({ search: exactSearch(name) }) },
		];
	}

	/** Copy the frames from @node to its thread's first, a line each. */
	async #copyStack(graph, node) {
		const { tree } = graph;
		const path = tree.pathOf(node).filter((step) => step !== 0).map((step) => tree.nameOf(step));
		// The callers' tree has its root, the function itself, at the leaf's side.
		const frames = graph === this.callers ? [this.#state.view.sandwich, ...path] : path.reverse();

		showToast(await copyText(frames.join("\n") + "\n") ? `Stack of ${frames.length} frames copied.` : "The browser blocked copying.");
	}

	#showFrame(tree, frame) {
		if (frame)
			this.#tooltip.show(frameNote(tree, frame.node, this.#span_ms), frame.x, frame.y);
		else
			this.#tooltip.hide();
	}

	#onFocus(tree, frame) {
		this.#showFrame(tree, frame);
		byId("flame-focus").textContent = frame ? frameSentence(tree, frame.node) : "";
	}
}
