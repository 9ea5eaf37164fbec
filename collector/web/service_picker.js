// SPDX-License-Identifier: Apache-2.0
// The service picker: a list of services by their share of the range, filtered while typing.

import { byId, element } from "./element.js";
import { formatCount, formatShare } from "./format.js";
import { Popover } from "./popover.js";

const ROWS_MAX = 300; // more are found by typing, not by scrolling

export class ServicePicker extends EventTarget {
	#services = [];
	#whole = 0;
	#selected = null;
	#shown = [];
	#active = 0;

	/** Event "pick": detail is the service's name, or null for all of them. */
	constructor() {
		super();
		this.name = byId("service-name");
		this.share = byId("service-share");
		this.input = byId("service-search");
		this.list = byId("service-list");
		this.count = byId("service-count");
		this.popover = new Popover(byId("service-button"), byId("service-popover"), () => this.#onOpen());
		byId("service-button").addEventListener("click", () => this.#focusInput());
		this.input.addEventListener("input", () => this.#onType());
		this.input.addEventListener("keydown", (event) => this.#onKey(event));
		this.list.addEventListener("click", (event) => this.#onClick(event));
	}

	open() {
		this.popover.open();
		this.#focusInput();
	}

	/**
	 * @services: [{ name, value }], value null if the collector returned none; largest first.
	 * @whole: the value of all of them.
	 */
	setServices(services, whole) {
		this.#services = services;
		this.#whole = whole;
		this.#showSelected();
		if (this.popover.isOpen)
			this.#render();
	}

	/** The selector's service; null: none. */
	setSelected(name) {
		this.#selected = name;
		this.#showSelected();
	}

	#showSelected() {
		const service = this.#services.find((s) => s.name === this.#selected);

		this.name.textContent = this.#selected ?? "All services";
		this.share.textContent = service?.value != null ? formatShare(service.value, this.#whole) : "";
	}

	#focusInput() {
		if (this.popover.isOpen)
			this.input.focus();
	}

	#onOpen() {
		this.input.value = "";
		this.#active = 0;
		this.#render();
		this.#activate(Math.max(0, this.#shown.findIndex((s) => s.name === this.#selected)));
	}

	#onType() {
		this.#render();
		// Enter takes the first match, not "All services".
		this.#activate(0);
	}

	#render() {
		const typed = this.input.value.trim().toLowerCase();
		const matching = this.#services.filter((s) => s.name.toLowerCase().includes(typed));
		const all = typed === "" ? [{ name: null, value: this.#whole }] : [];

		this.#shown = [...all, ...matching.slice(0, ROWS_MAX)];
		this.count.textContent = typed === "" ? formatCount(this.#services.length) :
			`${formatCount(matching.length)} of ${formatCount(this.#services.length)}`;
		this.list.replaceChildren(...this.#shown.map((service, at) => this.#row(service, at, typed)));
		if (this.#shown.length === 0)
			this.list.append(element("li", "empty", `No service contains “${this.input.value.trim()}”`));
		else if (matching.length > ROWS_MAX)
			this.list.append(element("li", "empty", `${formatCount(matching.length - ROWS_MAX)} more; type to find them`));
		this.#activate(Math.min(this.#active, this.#shown.length - 1));
	}

	#row(service, at, typed) {
		const name = service.name === null ? "All services" : service.name || "(no service)";
		const bar = element("span", "share-bar");
		const row = element("li", "service-row", element("span", "service-row-name", ...marked(name, typed)),
				    element("span", "service-row-share",
					    service.value === null ? "" : formatShare(service.value, this.#whole)), bar);

		row.id = `service-${at}`;
		row.role = "option";
		row.dataset.at = at;
		row.title = name;
		row.ariaSelected = String(service.name === this.#selected);
		bar.style.width = service.value && this.#whole ? `${(100 * service.value) / this.#whole}%` : "0";
		return row;
	}

	#activate(at) {
		this.#active = Math.max(0, at);
		for (const row of this.list.querySelectorAll(".service-row"))
			row.classList.toggle("active", Number(row.dataset.at) === this.#active);
		const row = this.list.querySelector(".active");
		this.input.setAttribute("aria-activedescendant", row ? row.id : "");
		row?.scrollIntoView({ block: "nearest" });
	}

	#pick(at) {
		const service = this.#shown[at];

		if (!service)
			return;
		this.popover.close();
		this.dispatchEvent(new CustomEvent("pick", { detail: service.name }));
	}

	#onKey(event) {
		const last = this.#shown.length - 1;
		const moves = {
			ArrowDown: () => this.#activate(this.#active === last ? 0 : this.#active + 1),
			ArrowUp: () => this.#activate(this.#active === 0 ? last : this.#active - 1),
			PageDown: () => this.#activate(Math.min(last, this.#active + 8)),
			PageUp: () => this.#activate(Math.max(0, this.#active - 8)),
			Enter: () => this.#pick(this.#active),
		};

		if (!moves[event.key])
			return;
		event.preventDefault();
		moves[event.key]();
	}

	#onClick(event) {
		const row = event.target.closest(".service-row");

		if (row)
			this.#pick(Number(row.dataset.at));
	}
}

/** @name as text with its first occurrence of @typed (lower case) marked. */
function marked(name, typed) {
	const at = typed ? name.toLowerCase().indexOf(typed) : -1;

	if (at < 0)
		return [name];
	const end = at + typed.length;
	return [name.slice(0, at), element("mark", "", name.slice(at, end)), name.slice(end)];
}
