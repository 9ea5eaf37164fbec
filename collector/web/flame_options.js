// SPDX-License-Identifier: Apache-2.0
// How the flame graph is shown: a popover of switches, and a chip for each frame that is hidden, in focus or between
// its callers and callees.

import { byId, element } from "./element.js";
import { Popover } from "./popover.js";

// Field of the view, what the switch says, and what it does.
const SWITCHES = [
	{ field: "fold", shows: "off", label: "Interpreter frames", note: "CPython’s own calls between Python functions" },
	{ field: "lines", shows: "on", label: "Source lines", note: "a frame for each line; otherwise for each function" },
	{ field: "recursion", shows: "on", label: "Collapse recursion", note: "a function that calls itself is one frame" },
	{ field: "libraries", shows: "on", label: "Collapse libraries", note: "calls within a library are one frame" },
];
const COLORS = [["kind", "kind of code"], ["module", "file or module"]];

export class FlameOptions {
	#state;

	constructor(state) {
		this.#state = state;
		this.chips = byId("flame-chips");
		this.popover = new Popover(byId("options-button"), byId("options-popover"), () => this.#fill());
	}

	open() {
		this.popover.open();
		byId("options-popover").querySelector("input")?.focus();
	}

	#fill() {
		const { view } = this.#state;
		const change = (patch) => this.#state.change(patch, { replace: true });
		const rows = SWITCHES.map(({ field, shows, label, note }) => optionRow("checkbox", field, view[field] === shows, label, note,
			(on) => change({ [field]: on === (shows === "on") ? "on" : "off" })));
		const colors = COLORS.map(([color, label]) => optionRow("radio", "color", view.color === color, label, "", () => change({ color })));

		byId("options-popover").replaceChildren(...rows, element("h3", "", "Colour shows"), ...colors);
	}

	/** Show what @view hides, focuses on, or looks at from both sides. */
	show(view) {
		const hidden = hiddenOf(view);
		const chips = [];

		if (view.sandwich)
			chips.push(this.#chip("Callers and callees of", view.sandwich, { sandwich: "" }));
		if (view.focus)
			chips.push(this.#chip("Only stacks with", view.focus, { focus: "" }));
		for (const name of hidden)
			chips.push(this.#chip("Hidden:", name, { hide: hidden.filter((other) => other !== name).join("\n") }));
		this.chips.replaceChildren(...chips);
		this.chips.hidden = chips.length === 0;
	}

	#chip(what, name, patch) {
		const remove = element("button", "chip-remove", "×");
		const chip = element("li", "chip", element("span", "muted", `${what} `), element("b", "", name), remove);

		chip.title = name;
		remove.type = "button";
		remove.ariaLabel = `Remove: ${what} ${name}`;
		remove.addEventListener("click", () => this.#state.change(patch));
		return chip;
	}
}

/** The names that @view hides. */
export function hiddenOf(view) {
	return view.hide === "" ? [] : view.hide.split("\n");
}

function optionRow(type, name, checked, label, note, onChange) {
	const input = element("input");
	const row = element("label", "option-row", input, element("span", "", label), element("span", "muted", note));

	input.type = type;
	input.name = name;
	input.checked = checked;
	input.addEventListener("change", () => onChange(input.checked));
	return row;
}
