// SPDX-License-Identifier: Apache-2.0
// The pages, and the navigation between them. The service page is app.js itself; each other one is a module.

import { byId, element } from "./element.js";
import { mountCompare } from "./compare_page.js";
import { mountFleet } from "./fleet_page.js";
import { mountServices } from "./services_page.js";
import { mountTimeline } from "./timeline_page.js";
import { writeView } from "./state.js";

/**
 * Each page: its name in the address, its title, the header's controls that it obeys, and for a page of a module
 *   fields  fields of the view; a change of one loads the page again
 *   mount   mount(root, context) builds the page in its <main> when it is first shown. context is { state, connection,
 *           tooltip, palette() }. It returns { load(view, range), fail(message), keyOf(view)?, setPalette(palette)?, settled? }: load()
 *           loads and shows the page, and throws ApiError; keyOf() is what of a view it depends on, by default its fields; fail() shows a message instead. pagePanel() has both.
 */
export const PAGES = [
	{ name: "services", title: "Services", controls: [], fields: ["from", "to"], mount: mountServices },
	{ name: "service", title: "Profiles", controls: ["service", "selector", "type", "download"] },
	{ name: "timeline", title: "Timeline", controls: ["service", "selector"], fields: ["query", "from", "to"], mount: mountTimeline },
	{ name: "compare", title: "Compare", controls: ["service", "selector", "type"], mount: mountCompare,
	  fields: ["query", "type", "from", "to", "idle", "sel", "against", "base", "base_from", "base_to", "norm", "by"] },
	{ name: "fleet", title: "Fleet", controls: [], fields: ["from", "to"], mount: mountFleet },
];

const pageOf = (name) => PAGES.find((page) => page.name === name);

export class Pages {
	#context;
	#mounted = new Map(); // by name

	constructor(context) {
		this.#context = context;
		byId("pages").append(...PAGES.map((page) => this.#link(page)));
		context.state.addEventListener("change", () => this.#showLinks());
	}

	/** Show the page of @view and the header's controls that it obeys. */
	show(view) {
		const { controls } = pageOf(view.page);

		for (const part of document.querySelectorAll("[data-page]"))
			part.hidden = part.dataset.page !== view.page;
		for (const control of document.querySelectorAll("[data-control]"))
			control.hidden = !controls.includes(control.dataset.control);
		this.#showLinks();
	}

	/** The module's page that @view shows; null: the service page. */
	of(view) {
		const { name, mount } = pageOf(view.page);

		if (!mount)
			return null;
		if (!this.#mounted.has(name))
			this.#mounted.set(name, mount(byId(`page-${name}`), this.#context));
		return this.#mounted.get(name);
	}

	/** The fields of the view of which a change loads a module's page again; undefined: the service page. */
	fieldsOf(view) {
		return pageOf(view.page).fields;
	}

	/** Does the page of @view obey @control of the header? */
	obeys(view, control) {
		return pageOf(view.page).controls.includes(control);
	}

	/** The title of @view's page for @selected, the service or selector in words. */
	titleOf(view, selected) {
		const { mount, controls, title } = pageOf(view.page);

		if (!mount)
			return selected;
		return controls.includes("service") ? `${title}: ${selected}` : title;
	}

	/** Is no page drawing? */
	get settled() {
		return [...this.#mounted.values()].every((page) => page.settled ?? true);
	}

	setPalette(palette) {
		for (const page of this.#mounted.values())
			page.setPalette?.(palette);
	}

	#link(page) {
		const link = element("a", "page-link", page.title);

		link.dataset.name = page.name;
		link.addEventListener("click", (event) => {
			// With a modifier it opens in a tab or window of its own.
			if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
				return;
			event.preventDefault();
			this.#context.state.change(patchTo(page.name, this.#context.state.view));
		});
		return link;
	}

	// A link keeps service, range and all else of the view.
	#showLinks() {
		const { view } = this.#context.state;

		for (const link of byId("pages").children) {
			link.href = writeView({ ...view, ...patchTo(link.dataset.name, view) }) || "/";
			link.ariaCurrent = link.dataset.name === view.page ? "page" : null;
		}
	}
}

/** What changes in @view for page @name. The rest of a range, which a selection asked for, is no baseline of what is shown later. */
function patchTo(name, { page, against }) {
	return { page: name, ...(name === "compare" && page !== name && against === "rest" ? { against: "before", base_from: "", base_to: "" } : {}) };
}
