// SPDX-License-Identifier: Apache-2.0
// The flame graph's pane: loads the merged tree, follows the view's zoom and search, and shows the
// notes on the graph.

import { byId, element } from "./element.js";
import { FlameGraph } from "./flame_graph.js";
import { frameNote, frameSentence, searchSentence, showBreadcrumb, showCoverage, showLegend } from "./flame_notes.js";
import { FlameTree } from "./flame_tree.js";
import { findFrame, frameKey } from "./frame_key.js";
import { exactSearch, frameMatcher } from "./frame_search.js";
import { valueTitle } from "./label_value.js";
import { Panel } from "./panel.js";
import { fetchMerge, groupOf } from "./queries.js";
import { lengthOf, regionsOf } from "./regions.js";
import { NODES_MAX } from "./state.js";

export class FlamePane {
	#state;
	#tooltip;
	#explainEmpty;
	#tree = null;
	#span_ms = 0;

	/** @explainEmpty(): elements to show without samples. */
	constructor(state, palette, tooltip, explainEmpty) {
		this.#state = state;
		this.#tooltip = tooltip;
		this.#explainEmpty = explainEmpty;
		this.panel = new Panel(byId("flame-progress"), byId("flame-message"));
		this.graph = new FlameGraph(byId("flame-scroller"), byId("flame-spacer"), byId("flame"), palette);
		this.search = byId("search");
		this.#listen();
	}

	/** Load and show. Throws ApiError, or Error on a malformed answer. */
	async load(view, range) {
		const answer = await this.panel.load((signal) => fetchMerge(view, range, signal));

		if (answer === undefined)
			return;
		this.#span_ms = lengthOf(regionsOf(view)) || range.to_ms - range.from_ms;
		const label = groupOf(view);
		const whole = new FlameTree(answer, label !== "", (value) => valueTitle(label, value));
		const tree = whole.value > 0 ? whole : null;
		this.panel.setMessage(...(tree ? [] : this.#explainEmpty()));
		const focused = this.#focusedKey();
		this.#tree = tree;
		this.graph.setTree(tree, this.#zoomOf(view));
		this.graph.setFocus(tree && focused ? findFrame(tree, focused) : -1);
		this.#showNotes();
		this.showSearch(view);
	}

	#focusedKey() {
		return this.#tree && this.graph.focused >= 0 ? frameKey(this.#tree, this.graph.focused) : "";
	}

	/** Show @message instead of data. */
	fail(message) {
		this.#tree = null;
		this.graph.setTree(null);
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
		const share = byId("search-share");

		if (this.search.value !== view.search)
			this.search.value = view.search;
		byId("search-clear").hidden = view.search === "";
		byId("reset").disabled = view.search === "" && view.zoom === "";
		share.textContent = "";
		share.classList.remove("wrong");
		this.graph.setSearch(null);
		try {
			const matches = frameMatcher(view.search);
			if (!matches || !this.#tree)
				return;
			const found = this.#tree.find(matches);
			this.graph.setSearch(found);
			share.textContent = searchSentence(this.#tree, found);
		} catch (error) {
			share.textContent = error.message;
			share.classList.add("wrong");
		}
	}

	/** The node that @view zooms to; the root where it is not in this tree. */
	#zoomOf(view) {
		return this.#tree && view.zoom ? Math.max(0, findFrame(this.#tree, view.zoom)) : 0;
	}

	#zoomTo(node) {
		if (node === this.graph.zoomed && !this.#state.view.zoom)
			return;
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
		showLegend(byId("legend"), tree);
		showCoverage(byId("coverage"), tree, more);
	}

	#showPath() {
		const nav = byId("breadcrumb");

		nav.replaceChildren();
		byId("reset").disabled = this.#state.view.search === "" && this.#state.view.zoom === "";
		if (!this.#tree)
			return;
		showBreadcrumb(nav, this.#tree, this.graph.zoomed, (node) => this.#zoomTo(node));
		if (this.#state.view.zoom && this.graph.zoomed === 0)
			nav.append(element("span", "crumb-note", "The zoomed frame has no samples here."));
	}

	#listen() {
		const change = (patch, options) => this.#state.change(patch, options);

		this.graph.addEventListener("zoom", (event) => this.#zoomTo(event.detail));
		this.graph.addEventListener("search", (event) => change({ search: exactSearch(event.detail) }));
		this.graph.addEventListener("hover", (event) => this.#showFrame(event.detail));
		this.graph.addEventListener("focus", (event) => this.#onFocus(event.detail));
		// Typing changes the link but not the history: Back undoes the whole search.
		this.search.addEventListener("input", () => change({ search: this.search.value }, { replace: true }));
		this.search.addEventListener("keydown", (event) => this.#onSearchKey(event));
		byId("search-clear").addEventListener("click", () => change({ search: "" }));
		byId("reset").addEventListener("click", () => this.reset());
		byId("orientation").addEventListener("click", () =>
			change({ root: this.#state.view.root === "top" ? "bottom" : "top" }, { replace: true }));
	}

	/** Reset zoom and search. */
	reset() {
		this.#state.change({ zoom: "", search: "" });
	}

	#onSearchKey(event) {
		if (event.key === "Escape") {
			event.stopPropagation();
			if (this.search.value)
				this.#state.change({ search: "" });
			else
				this.search.blur();
		} else if (event.key === "Enter") {
			this.graph.scroller.focus();
		}
	}

	#showFrame(frame) {
		if (frame)
			this.#tooltip.show(frameNote(this.#tree, frame.node, this.#span_ms), frame.x, frame.y);
		else
			this.#tooltip.hide();
	}

	#onFocus(frame) {
		this.#showFrame(frame);
		byId("flame-focus").textContent = frame ? frameSentence(this.#tree, frame.node) : "";
	}
}
