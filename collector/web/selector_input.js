// SPDX-License-Identifier: Apache-2.0
// The selector as text. The collector checks it while it is typed; Enter applies it.

import { LatestRequest } from "./api.js";
import { byId, setOptionalText } from "./element.js";
import { checkSelector } from "./queries.js";

const CHECK_AFTER_MS = 300;

export class SelectorInput extends EventTarget {
	#request = new LatestRequest();
	#timer = 0;
	#applied = "";

	/** Event "apply": detail is the text. @range() is the range to check against. */
	constructor(range) {
		super();
		this.range = range;
		this.input = byId("selector");
		this.error = byId("selector-error");
		this.input.addEventListener("input", () => this.#onInput());
		this.input.addEventListener("keydown", (event) => this.#onKey(event));
		this.input.addEventListener("blur", () => this.#onBlur());
	}

	/** Show the active selector, unless the user is typing another. */
	setText(text) {
		const typing = document.activeElement === this.input && this.input.value !== this.#applied;

		if (!typing || text !== this.#applied)
			this.input.value = text;
		this.#applied = text;
		this.showError("");
	}

	showError(message) {
		setOptionalText(this.error, message);
		this.input.ariaInvalid = String(message !== "");
	}

	#onInput() {
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => this.#check(), CHECK_AFTER_MS);
	}

	async #check() {
		const text = this.input.value;

		try {
			const answer = await this.#request.run((signal) => checkSelector(text, this.range(), signal));
			if (answer !== undefined)
				this.showError("");
		} catch (error) {
			// The banner shows an unreachable collector.
			if (error.field === "query")
				this.showError(error.message);
		}
	}

	#onKey(event) {
		if (event.key === "Enter") {
			clearTimeout(this.#timer);
			this.#request.cancel();
			this.dispatchEvent(new CustomEvent("apply", { detail: this.input.value.trim() }));
		} else if (event.key === "Escape") {
			this.input.value = this.#applied;
			this.#onInput();
			this.input.blur();
		}
	}

	// Unapplied text stays visible, in its own colour.
	#onBlur() {
		this.input.classList.toggle("unapplied", this.input.value.trim() !== this.#applied);
	}
}
