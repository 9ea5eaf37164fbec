// SPDX-License-Identifier: Apache-2.0
// The time range's button: presets, and a form for any other range.

import { byId, element, setOptionalText } from "./element.js";
import { formatDuration, formatRange, formatTime } from "./format.js";
import { Popover } from "./popover.js";
import { isRelative, PRESETS, resolveRange, zoneText } from "./time_range.js";

export class RangePicker extends EventTarget {
	#view = { from: "", to: "" };
	#range = null;
	#now_ms;

	/** Event "pick": detail is { from, to }, time texts. @now_ms() is the collector's time. */
	constructor(now_ms) {
		super();
		this.#now_ms = now_ms;
		this.text = byId("range-text");
		this.from = byId("range-from");
		this.to = byId("range-to");
		this.error = byId("range-error");
		this.popover = new Popover(byId("range-button"), byId("range-popover"), () => this.#onOpen());
		byId("range-presets").append(...PRESETS.map((preset) => this.#presetButton(preset)));
		byId("range-form").addEventListener("submit", (event) => this.#onSubmit(event));
	}

	open() {
		this.popover.open();
		byId("range-presets").querySelector("button").focus();
	}

	/** Show the range of @view, which resolves to @range; null: to none. */
	setRange(view, range) {
		const preset = PRESETS.find((p) => p.from === view.from && view.to === "now");

		this.#view = view;
		this.#range = range;
		this.text.replaceChildren(preset ? preset.label : !range ? `${view.from} – ${view.to}` :
			formatRange(range.from_ms, range.to_ms, this.#now_ms()));
		if (!preset && range)
			this.text.append(element("span", "control-note", ` ${formatDuration((range.to_ms - range.from_ms) * 1e6)}`));
		byId("range-button").title = `${this.text.textContent}. Time range (t)`;
		for (const button of byId("range-presets").children)
			button.ariaPressed = String(button.dataset.from === preset?.from);
	}

	#presetButton(preset) {
		const button = element("button", "preset", preset.label);

		button.type = "button";
		button.dataset.from = preset.from;
		button.addEventListener("click", () => this.#pick(preset.from, "now"));
		return button;
	}

	#pick(from, to) {
		this.popover.close();
		this.dispatchEvent(new CustomEvent("pick", { detail: { from, to } }));
	}

	#onOpen() {
		const shown = (text, time_ms) => (isRelative(text) || !time_ms ? text : formatTime(time_ms));

		this.from.value = shown(this.#view.from, this.#range?.from_ms);
		this.to.value = shown(this.#view.to, this.#range?.to_ms);
		byId("range-zone").textContent = `local, ${zoneText(this.#range?.from_ms ?? this.#now_ms())}`;
		setOptionalText(this.error, "");
	}

	#onSubmit(event) {
		event.preventDefault();
		const range = resolveRange(this.from.value, this.to.value, this.#now_ms());

		setOptionalText(this.error, range.error ?? "");
		this.from.ariaInvalid = String(range.field === "from");
		this.to.ariaInvalid = String(range.field === "to");
		if (range.error)
			return;
		const keep = (text, time_ms) => (isRelative(text) ? text.trim() : new Date(time_ms).toISOString());
		this.#pick(keep(this.from.value, range.from_ms), keep(this.to.value, range.to_ms));
	}
}
