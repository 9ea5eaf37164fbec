// SPDX-License-Identifier: Apache-2.0
// A pane that loads from the collector: shows progress, and messages over the pane.

import { LatestRequest } from "./api.js";
import { element } from "./element.js";

const QUIET_MS = 200;	   // faster answers show no progress
const SLOW_MS = 2500;	   // then the elapsed time and a Cancel button show
const TICK_MS = 500;

export class Panel {
	#request = new LatestRequest();
	#timers = [];

	/** @progress and @message are elements over the pane. */
	constructor(progress, message) {
		this.progress = progress;
		this.message = message;
	}

	get busy() {
		return this.#request.busy;
	}

	/**
	 * The answer of @send(signal), or undefined when a later request replaced it or it was cancelled.
	 * Throws what @send throws.
	 */
	async load(send) {
		const began = performance.now();

		this.#stopTimers();
		this.#timers = [setTimeout(() => (this.progress.hidden = false), QUIET_MS),
				setTimeout(() => this.#watch(began), SLOW_MS)];
		const timers = this.#timers;
		try {
			return await this.#request.run(send);
		} finally {
			// A later request has its own timers.
			if (timers === this.#timers)
				this.#stopTimers();
		}
	}

	/** Show @children over the pane; without any, show the pane. */
	setMessage(...children) {
		this.message.replaceChildren(...children);
		this.message.hidden = children.length === 0;
	}

	#watch(began) {
		const cancel = element("button", "link", "Cancel");
		const text = element("span", "");
		const tick = () => (text.textContent = `Loading for ${Math.round((performance.now() - began) / 1000)} s `);

		cancel.type = "button";
		cancel.addEventListener("click", () => this.#cancel());
		this.progress.replaceChildren(element("span", "progress-note", text, cancel));
		tick();
		this.#timers.push(setInterval(tick, TICK_MS));
	}

	#cancel() {
		this.#request.cancel();
		this.#stopTimers();
	}

	#stopTimers() {
		this.#timers.forEach(clearTimeout);
		this.#timers = [];
		this.progress.hidden = true;
		this.progress.replaceChildren();
	}
}
