// SPDX-License-Identifier: Apache-2.0
// The table of functions by change. What may be chance is grey and comes after what is not.

import { element } from "./element.js";
import { formatBytes, formatCount, formatNumber } from "./format.js";
import { frameMatcher } from "./frame_search.js";

const ROWS_SHOWN = 300; // those that changed most
const P_MIN = 0.001;    // less is not told apart
const NARROW_SPACE = "\u202f";

const COLUMNS = [["name", "Function", ""], ["a", "A", "number"], ["b", "B", "number"], ["change", "Change", "number"], ["p", "p", "number"]];

const ORDERS = {
	name: (x, y) => (x.row.name < y.row.name ? -1 : 1),
	a: (x, y) => y.value.a - x.value.a,
	b: (x, y) => y.value.b - x.value.b,
	change: (x, y) => y.value.significant - x.value.significant || Math.abs(y.value.change) - Math.abs(x.value.change),
	p: (x, y) => x.value.p - y.value.p,
};

/** A comparable value: a share in percent, otherwise a rate. Its unit is in unitWords(). */
export function comparedText(comparison, value) {
	if (comparison.isShare)
		return `${formatNumber(100 * value)}${NARROW_SPACE}%`;
	if (comparison.unit === "bytes")
		return formatBytes(Math.round(value * 1e9));
	return formatNumber(value * comparison.scale);
}

/** "+0.21", "-3.4 %": with its sign. */
export function changeText(comparison, value) {
	return value === 0 ? "0" : `${value < 0 ? "−" : "+"}${comparedText(comparison, Math.abs(value))}`;
}

/** "+54 %", "new". */
export function percentText({ a, b, word }) {
	if (word === "new" || word === "gone" || a === 0)
		return word === "same" ? "" : word;
	const percent = 100 * (b / a - 1);

	return percent > 999.5 ? `×${formatNumber(b / a)}` : `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(0)}${NARROW_SPACE}%`;
}

/** "p < 0.001", or why there is none. */
export function chanceText({ p, enough }) {
	return !enough ? "too few samples" : p < P_MIN ? `p < ${P_MIN}` : `p = ${p.toFixed(3)}`;
}

export class CompareTable extends EventTarget {
	#comparison = null;
	#view = null;
	#order = "change";
	#filter = "";

	/** Events: "pick" (detail: function's name), "filter" (detail: text). @choices: controls of the table's head. */
	constructor(...choices) {
		super();
		this.facts = element("p", "facts");
		this.filter = element("input");
		Object.assign(this.filter, { type: "text", placeholder: "Filter functions", ariaLabel: "Filter functions", autocomplete: "off",
					     spellcheck: false, maxLength: 400, className: "compare-filter" });
		this.filter.addEventListener("input", () => this.dispatchEvent(new CustomEvent("filter", { detail: this.filter.value })));
		this.heads = COLUMNS.map(([name, title, kind]) => this.#head(name, title, kind));
		this.body = element("tbody");
		this.body.addEventListener("click", (event) => this.#onClick(event));
		this.body.addEventListener("keydown", (event) => this.#onKey(event));
		const table = element("table", "table compare-table", element("thead", "", element("tr", "", ...this.heads)), this.body);
		this.message = element("p", "compare-none");
		this.root = element("section", "pane table-pane", element("div", "table-head compare-table-head", this.filter, ...choices, this.facts),
				    element("div", "table-scroller", table, this.message));
		this.root.ariaLabel = "Functions by change";
	}

	/** Show the functions of @comparison (null: none) that @view asks for. */
	show(comparison, view) {
		this.#comparison = comparison;
		this.#view = view;
		this.#filter = view.filter;
		if (this.filter.value !== view.filter)
			this.filter.value = view.filter;
		this.#render();
	}

	#head(name, title, kind) {
		const button = element("button", "", title);
		const head = element("th", kind, button);

		button.type = "button";
		head.scope = "col";
		head.dataset.sort = name;
		head.title = { change: "Significant changes first, then by size", p: "p-value: how probable such a change is by chance", a: "The baseline", b: "What is compared with it" }[name] ?? "";
		button.addEventListener("click", () => {
			this.#order = name;
			this.#render();
		});
		return head;
	}

	#matcher() {
		try {
			return frameMatcher(this.#filter) ?? (() => true);
		} catch {
			return () => false;
		}
	}

	#render() {
		const comparison = this.#comparison;
		const matches = this.#matcher();
		const all = (comparison?.functions ?? []).map((row) => ({ row, value: row[this.#view?.by ?? "self"] }));
		const chosen = all.filter(({ row, value }) => value.word !== "same" && (this.#view.show === "all" || value.word === this.#view.show) && matches(row.name));
		const significant = all.filter(({ value }) => value.significant).length;

		chosen.sort(ORDERS[this.#order]);
		const widest = Math.max(...chosen.slice(0, ROWS_SHOWN).map(({ value }) => Math.abs(value.change)), 1e-30);
		for (const head of this.heads)
			head.ariaSort = head.dataset.sort !== this.#order ? "none" : this.#order === "name" || this.#order === "p" ? "ascending" : "descending";
		this.body.replaceChildren(...chosen.slice(0, ROWS_SHOWN).map((entry) => this.#row(entry, widest)));
		this.facts.textContent = comparison ? `${formatCount(significant)} of ${formatCount(comparison.functionCount)} changed significantly` +
			(this.#order === "change" && significant > 0 ? ": listed first" : "") : "";
		this.facts.title = chosen.length > ROWS_SHOWN ? `The ${formatCount(ROWS_SHOWN)} that changed most are listed` : "";
		this.message.textContent = comparison && chosen.length === 0 ? "No such function." : "";
		this.message.hidden = this.message.textContent === "";
		if (this.body.firstElementChild)
			this.body.firstElementChild.tabIndex = 0;
	}

	#row({ row, value }, widest) {
		const comparison = this.#comparison;
		const name = element("td", "function", element("span", "function-name", row.name));
		const bar = element("span", `diff-bar ${value.change < 0 ? "less" : "more"}`);
		const change = element("td", "number change", bar, element("span", "share", changeText(comparison, value.change)), element("span", "value", percentText(value)));
		const made = element("tr", value.significant ? "" : "unsure", name, element("td", "number", comparedText(comparison, value.a)),
				     element("td", "number", comparedText(comparison, value.b)), change,
				     element("td", "number", !value.enough ? "few" : value.p < P_MIN ? `<${P_MIN}` : value.p.toFixed(3)));

		bar.style.width = `${(100 * Math.abs(value.change)) / widest}%`;
		name.title = row.module ? `${row.name}\n${row.module}` : row.name;
		made.title = value.significant ? "" : value.enough ? "Not significant" : "Too few samples to tell";
		made.dataset.name = row.name;
		made.tabIndex = -1;
		return made;
	}

	#pick(row) {
		if (row?.dataset.name !== undefined)
			this.dispatchEvent(new CustomEvent("pick", { detail: row.dataset.name }));
	}

	#onClick(event) {
		if (String(getSelection()) === "") // selecting text is not a click
			this.#pick(event.target.closest("tr"));
	}

	#onKey(event) {
		const row = event.target.closest("tr");
		const next = event.key === "ArrowDown" ? row?.nextElementSibling : event.key === "ArrowUp" ? row?.previousElementSibling : null;

		if (event.key === "Enter")
			this.#pick(row);
		if (!next)
			return;
		event.preventDefault();
		next.focus();
	}
}
