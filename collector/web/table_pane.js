// SPDX-License-Identifier: Apache-2.0
// The table's pane: loads the functions; a click on one searches for it in the flame graph.

import { TYPE } from "./contract.js";
import { byId } from "./element.js";
import { exactSearch } from "./frame_search.js";
import { Panel } from "./panel.js";
import { fetchTop } from "./queries.js";
import { TopTable } from "./top_table.js";

export class TablePane {
	#state;

	constructor(state) {
		this.#state = state;
		this.panel = new Panel(byId("table-progress"), byId("table-error"));
		this.table = new TopTable();
		byId("columns").addEventListener("click", () =>
			state.change({ columns: state.view.columns === "on" ? "off" : "on" }, { replace: true }));
		this.table.addEventListener("sort", (event) => state.change({ sort: event.detail }, { replace: true }));
		this.table.addEventListener("filter", (event) => state.change({ filter: event.detail }, { replace: true }));
		this.table.addEventListener("pick", (event) => this.#onPick(event.detail));
	}

	/** Load and show. Throws ApiError. */
	async load(view, range) {
		const answer = await this.panel.load((signal) => fetchTop(view, range, signal));

		if (answer === undefined)
			return;
		this.table.setAnswer(answer);
		this.panel.setMessage(...(answer.rows.length ? [] : ["No samples in this range."]));
	}

	/** Show @message instead of data. */
	fail(message) {
		this.table.setAnswer(null);
		this.panel.setMessage(message);
	}

	show(view) {
		this.table.setSort(view.sort);
		this.table.setFilter(view.filter);
		byId("columns").ariaPressed = String(view.columns === "on");
		byId("columns").hidden = view.type !== TYPE.CPU;
		this.showSearch(view);
	}

	showSearch(view) {
		const exact = view.search.length > 2 && view.search.startsWith('"') && view.search.endsWith('"');

		this.table.setSelected(exact ? view.search.slice(1, -1) : "");
	}

	// A second click on the same function clears the search.
	#onPick(name) {
		const { search, layout } = this.#state.view;
		const wanted = exactSearch(name);

		this.#state.change({ search: search === wanted ? "" : wanted,
				     layout: layout === "table" ? "both" : layout });
	}
}
