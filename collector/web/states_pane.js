// SPDX-License-Identifier: Apache-2.0
// Below the wall clock's chart: the share of time that each service, or each thread of one, was running,
// runnable, blocked or idle.

import { LatestRequest } from "./api.js";
import { LABEL_VALUES } from "./contract.js";
import { byId, element } from "./element.js";
import { formatCount, formatDuration, formatShare } from "./format.js";
import { valueTitle } from "./label_value.js";
import { fetchStates, statesLabel } from "./queries.js";
import { withValue } from "./selector.js";

const ROWS_MAX = 60; // the caption counts the rest
const PARTS = [
	...Object.keys(LABEL_VALUES.state).map((name) => ({ name, title: valueTitle("state", name), color: `--state-${name}` })),
	{ name: "idle", title: valueTitle("wait", "idle"), color: "--wait-idle" },
];

export class StatesPane {
	#state;
	#request = new LatestRequest();

	constructor(state) {
		this.#state = state;
		this.root = byId("states");
	}

	/** Load and show. Throws ApiError. */
	async load(view, range) {
		const rows = await this.#request.run((signal) => fetchStates(view, range, signal));

		if (rows !== undefined)
			this.root.replaceChildren(...(rows.length ? [this.#table(view, rows)] : []));
	}

	fail() {
		this.root.replaceChildren();
	}

	#table(view, rows) {
		const label = statesLabel(view);
		// Only off-CPU profiles identify idle time.
		const parts = rows.some((row) => row.idle > 0) ? PARTS : PARTS.filter(({ name }) => name !== "idle");
		const head = element("tr", "", element("th", "", `By ${label}`), element("th", "bar", ""),
				     ...parts.map(({ title, color }) => {
					     const swatch = element("span", "swatch");
					     swatch.style.backgroundColor = `var(${color})`;
					     return element("th", "number", swatch, title);
				     }), element("th", "number", "Total"));
		const table = element("table", "states-table", element("thead", "", head),
				      element("tbody", "", ...rows.slice(0, ROWS_MAX).map((row) => this.#row(view, label, row, parts))));

		if (rows.length > ROWS_MAX)
			table.append(element("caption", "", `${formatCount(rows.length - ROWS_MAX)} more with less time`));
		return table;
	}

	#row(view, label, row, parts) {
		const name = valueTitle(label, row.group);
		const isOne = row.group !== "" && !row.isOther;
		const shown = element(isOne ? "button" : "span", isOne ? "link" : "", name);
		const bar = element("span", "states-bar");

		if (isOne) {
			shown.type = "button";
			shown.title = `Show only ${label} ${name}`;
			shown.addEventListener("click", () => this.#state.change({ query: withValue(view.query, label, row.group), zoom: "" }));
		}
		bar.append(...parts.map((part) => {
			const piece = element("span", "");
			piece.style.backgroundColor = `var(${part.color})`;
			piece.style.width = `${row.total > 0 ? (100 * row[part.name]) / row.total : 0}%`;
			return piece;
		}));
		return element("tr", "", element("td", "name", shown), element("td", "bar", bar),
			       ...parts.map((part) => {
				       const cell = element("td", "number", formatShare(row[part.name], row.total));
				       cell.title = formatDuration(row[part.name]);
				       return cell;
			       }), element("td", "number", formatDuration(row.total)));
	}
}
