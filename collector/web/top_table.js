// SPDX-License-Identifier: Apache-2.0
// Functions by self and total. Only the visible rows are in the document.

import { FRAME_KINDS } from "./contract.js";
import { byId, element, setOptionalText } from "./element.js";
import { formatCount, formatShare, formatShort } from "./format.js";
import { frameMatcher } from "./frame_search.js";
import { nameElement } from "./short_name.js";
import { SHARE_COLUMNS } from "./time_shares.js";

const ROW = 30;	       // px, as in style.css
const ROWS_BEYOND = 8; // rows kept above and below the visible ones

const COMPARE = {
	name: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
	self: (a, b) => b.self - a.self || b.total - a.total,
	total: (a, b) => b.total - a.total || b.self - a.self,
	...Object.fromEntries(SHARE_COLUMNS.map(([key]) => [key, (a, b) => (b.shares?.[key] ?? 0) - (a.shares?.[key] ?? 0) || b.total - a.total])),
};

export class TopTable extends EventTarget {
	#answer = null;
	#rows = [];
	#sort = "self";
	#filter = "";
	#selected = "";
	#first = -1;

	/** Events: "pick" (detail: function's name), "menu" (detail: { name, kind, x, y, row }), "sort" (detail: sort text), "filter" (detail: text). */
	constructor() {
		super();
		this.scroller = byId("table-scroller");
		this.body = byId("table-body");
		this.facts = byId("table-facts");
		this.filter = byId("table-filter");
		this.message = byId("table-message");
		this.scroller.addEventListener("scroll", () => this.#render(), { passive: true });
		this.body.addEventListener("click", (event) => this.#onClick(event));
		this.body.addEventListener("keydown", (event) => this.#onKey(event));
		this.body.addEventListener("contextmenu", (event) => this.#onMenu(event));
		this.filter.addEventListener("input", () =>
			this.dispatchEvent(new CustomEvent("filter", { detail: this.filter.value })));
		byId("table").querySelector("thead tr").append(...SHARE_COLUMNS.map(shareHead));
		for (const head of byId("table").querySelectorAll("th"))
			head.firstElementChild.addEventListener("click", () => this.#onHead(head.dataset.sort));
		new ResizeObserver(() => this.#render(true)).observe(this.scroller);
	}

	/** Show the answer of /api/v1/top, which may be withShares(); null: nothing. */
	setAnswer(answer) {
		this.#answer = answer;
		byId("table").dataset.shares = String(Boolean(answer?.rows[0]?.shares));
		this.#arrange();
	}

	setSort(sort) {
		this.#sort = sort;
		for (const head of byId("table").querySelectorAll("th")) {
			const ascending = sort.startsWith("-") !== (head.dataset.sort === "name");
			const sorted = sort.replace("-", "") === head.dataset.sort;
			head.ariaSort = !sorted ? "none" : ascending ? "ascending" : "descending";
		}
		this.#arrange();
	}

	setFilter(text) {
		if (this.filter.value !== text)
			this.filter.value = text;
		this.#filter = text;
		this.#arrange();
	}

	/** Mark the row of the function called @name; "": none. */
	setSelected(name) {
		this.#selected = name;
		this.#render(true);
	}

	#arrange() {
		const rows = this.#answer?.rows ?? [];
		const compare = COMPARE[this.#sort.replace("-", "")];
		const sign = this.#sort.startsWith("-") ? -1 : 1;
		let matches = null;

		try {
			matches = frameMatcher(this.#filter);
		} catch {
			matches = () => false;
		}
		this.#rows = matches ? rows.filter((row) => matches(row.name)) : rows.slice();
		this.#rows.sort((a, b) => sign * compare(a, b));
		this.#showFacts(rows.length);
		this.#render(true);
	}

	#showFacts(loaded) {
		const functions = this.#answer?.function_count ?? 0;
		const left = functions - loaded;
		const shown = this.#rows.length;

		this.facts.textContent = !this.#answer ? "" :
			`${formatCount(shown)}${shown < functions ? ` of ${formatCount(functions)}` : ""} functions`;
		this.facts.title = left > 0 ? `The ${formatCount(left)} smallest by self time are not listed` : "";
		setOptionalText(this.message, loaded > 0 && shown === 0 ? "No function matches the filter." : "");
	}

	#render(force = false) {
		const visible = Math.ceil(this.scroller.clientHeight / ROW) + 2 * ROWS_BEYOND;
		const first = Math.max(0, Math.min(Math.floor(this.scroller.scrollTop / ROW) - ROWS_BEYOND,
						   this.#rows.length - visible));

		if (first === this.#first && !force)
			return;
		this.#first = first;
		const rows = this.#rows.slice(first, first + visible);
		const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.name : undefined;
		const made = rows.map((row) => this.#row(row));

		const columns = rows[0]?.shares ? 3 + SHARE_COLUMNS.length : 3;
		this.body.replaceChildren(spacerRow(first * ROW, columns), ...made,
					  spacerRow((this.#rows.length - first - rows.length) * ROW, columns));
		// Tab reaches one row, arrow keys the others; new rows keep the focus.
		const reached = made.find((row) => row.dataset.name === focused) ?? made[0];
		if (reached)
			reached.tabIndex = 0;
		if (focused !== undefined)
			reached?.focus({ preventScroll: true });
	}

	#row(row) {
		const { total: whole, unit } = this.#answer;
		const swatch = element("span", `swatch kind-${safeKind(row.kind)}`);
		const name = nameElement(row.name);
		const made = element("tr", "", element("td", "function", swatch, name),
				     shareCell(row.self, whole, unit), shareCell(row.total, whole, unit), ...partCells(row));

		name.title = row.module ? `${row.name}\n${row.module}` : row.name;
		made.dataset.name = row.name;
		made.dataset.kind = safeKind(row.kind);
		made.tabIndex = -1;
		made.ariaSelected = String(row.name === this.#selected);
		return made;
	}

	#onHead(column) {
		const sort = this.#sort === column ? `-${column}` : column;

		this.dispatchEvent(new CustomEvent("sort", { detail: sort }));
	}

	#pickRow(row) {
		if (row?.dataset.name !== undefined)
			this.dispatchEvent(new CustomEvent("pick", { detail: row.dataset.name }));
	}

	#onClick(event) {
		// Selecting text is not a click.
		if (String(getSelection()) === "")
			this.#pickRow(event.target.closest("tr"));
	}

	#onMenu(event) {
		const row = event.target.closest("tr");

		if (row?.dataset.name === undefined)
			return;
		event.preventDefault();
		this.#openMenu(row, event.clientX, event.clientY);
	}

	#openMenu(row, x, y) {
		this.dispatchEvent(new CustomEvent("menu", { detail: { name: row.dataset.name, kind: row.dataset.kind, x, y, row } }));
	}

	#onKey(event) {
		const row = event.target.closest("tr");

		if (event.key === "m" || event.key === "ContextMenu") {
			const { x, bottom } = row.getBoundingClientRect();
			event.preventDefault();
			this.#openMenu(row, x + 40, bottom);
			return;
		}
		const next = event.key === "ArrowDown" ? row?.nextElementSibling :
			event.key === "ArrowUp" ? row?.previousElementSibling : null;

		if (event.key === "Enter")
			this.#pickRow(row);
		if (next?.dataset.name === undefined)
			return;
		event.preventDefault();
		next.focus();
	}
}

/** A class name that style.css has, whatever the answer holds. */
function safeKind(kind) {
	return FRAME_KINDS.includes(kind) ? kind : "unknown";
}

function shareCell(value, whole, unit) {
	const bar = element("span", "share-bar");
	const cell = element("td", "number", bar, element("span", "share", formatShare(value, whole)),
			     element("span", "value", formatShort(value, unit)));

	bar.style.width = whole > 0 ? `${Math.min(100, (100 * value) / whole)}%` : "0";
	return cell;
}

function shareHead([key, title, meaning]) {
	const button = element("button", "", title);
	const head = element("th", "number part", button);

	button.type = "button";
	head.scope = "col";
	head.dataset.sort = key;
	head.ariaSort = "none";
	head.title = `Share of the function’s time: ${meaning}`;
	return head;
}

function partCells({ shares }) {
	return !shares ? [] : SHARE_COLUMNS.map(([key, title]) => {
		const cell = element("td", "number part", shares[key] > 0 ? formatShare(shares[key], 1) : "");
		cell.title = `${title} ${formatShare(shares[key], 1)}`;
		return cell;
	});
}

function spacerRow(height, columns) {
	const cell = element("td");
	const row = element("tr", "spacer", cell);

	cell.colSpan = columns;
	cell.style.height = `${height}px`;
	row.hidden = height <= 0;
	row.ariaHidden = "true";
	return row;
}
