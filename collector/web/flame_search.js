// SPDX-License-Identifier: Apache-2.0
// The search of the flame graph: paints the matches, scrolls to the largest, and walks from one to the next.

import { byId } from "./element.js";
import { searchSentence, stepSentence } from "./flame_notes.js";
import { findFrame, frameKey } from "./frame_key.js";
import { frameMatcher } from "./frame_search.js";

const WIDE = 3;	       // px; a narrower match is zoomed to
const ZOOM_SHARE = 0.02; // of the frame zoomed to that such a match then has

export class FlameSearch {
	#state;
	#graph;
	#tree = null;
	#found = null;
	#at = -1;      // of the current match in found.nodes
	#shownFor = ""; // the text whose largest match was scrolled to

	constructor(state, graph) {
		this.#state = state;
		this.#graph = graph;
		this.input = byId("search");
		this.share = byId("search-share");
		this.steps = byId("search-steps");
		// Typing changes the link but not the history: Back undoes the whole search.
		this.input.addEventListener("input", () => state.change({ search: this.input.value }, { replace: true }));
		this.input.addEventListener("keydown", (event) => this.#onKey(event));
		byId("search-clear").addEventListener("click", () => state.change({ search: "" }));
		byId("search-next").addEventListener("click", () => this.step(1));
		byId("search-previous").addEventListener("click", () => this.step(-1));
	}

	/** Search in @tree (null: none) from now on. show() follows. */
	setTree(tree) {
		const key = this.#current >= 0 ? frameKey(this.#tree, this.#current) : "";

		this.#tree = tree;
		this.keptKey = key;
	}

	get #current() {
		return this.#found && this.#at >= 0 ? this.#found.nodes[this.#at] : -1;
	}

	/** What @view searches for in another tree; null: nothing. */
	findIn(tree, view) {
		try {
			const matches = frameMatcher(view.search);
			return matches && tree.find(matches);
		} catch {
			return null; // show() says so
		}
	}

	/** Show what @view searches for. */
	show(view) {
		if (this.input.value !== view.search)
			this.input.value = view.search;
		byId("search-clear").hidden = view.search === "";
		this.#found = null;
		let wrong = "";
		try {
			const matches = frameMatcher(view.search);
			this.#found = matches && this.#tree ? this.#tree.find(matches) : null;
		} catch (error) {
			wrong = error.message;
		}
		this.#graph.setSearch(this.#found);
		this.input.ariaInvalid = String(wrong !== "");
		this.share.classList.toggle("wrong", wrong !== "");
		this.#place(view.search);
		this.#showShare(wrong);
	}

	// A new text goes to its largest match. A refresh keeps the match, and moves nothing.
	#place(text) {
		const count = this.#found?.count ?? 0;
		const kept = this.keptKey && text === this.#shownFor && count > 0 ?
			this.#found.nodes.indexOf(findFrame(this.#tree, this.keptKey)) : -1;

		this.keptKey = "";
		this.#at = count === 0 ? -1 : Math.max(kept, 0);
		if (count > 0 && text !== this.#shownFor)
			this.#graph.setCurrent(this.#current);
		else
			this.#graph.markCurrent(this.#current);
		this.#shownFor = count > 0 ? text : "";
	}

	/** Go to the next match, the next smaller one; @by -1: back. */
	step(by) {
		const count = this.#found?.count ?? 0;

		if (count === 0)
			return;
		this.#at = (this.#at + by + count) % count;
		const node = this.#current;
		if (!this.#graph.isWide(node, WIDE))
			this.#zoomTo(node);
		this.#graph.setCurrent(node);
		if (document.activeElement === this.#graph.scroller)
			this.#graph.setFocus(node);
		this.#showShare("");
	}

	/** Zoom so far out, or in, that @node can be seen. */
	#zoomTo(node) {
		let to = node;

		while (to !== 0 && this.#tree.total[node] >= ZOOM_SHARE * this.#tree.total[this.#tree.parent[to]])
			to = this.#tree.parent[to];
		this.#state.change({ zoom: to === 0 ? "" : frameKey(this.#tree, to) }, { replace: true });
	}

	#showShare(wrong) {
		const found = this.#found;

		this.share.textContent = wrong || (found ? searchSentence(this.#tree, found) : "");
		this.steps.hidden = !found || found.count === 0;
		byId("search-place").textContent = this.#current >= 0 ? stepSentence(this.#tree, found, this.#at) : "";
	}

	#onKey(event) {
		if (event.key === "Escape") {
			event.stopPropagation();
			if (this.input.value)
				this.#state.change({ search: "" });
			else
				this.input.blur();
		} else if (event.key === "Enter") {
			event.preventDefault();
			this.step(event.shiftKey ? -1 : 1);
		} else if (event.key === "ArrowDown") {
			event.preventDefault();
			this.#graph.scroller.focus();
			if (this.#current >= 0)
				this.#graph.setFocus(this.#current);
		}
	}
}
