// SPDX-License-Identifier: Apache-2.0
// One pane that asks the collector: shows that it waits, what went wrong, or nothing of either.

import { Topic } from "./api.js";
import { element } from "./element.js";

const QUIET_MS = 200;	   // answers quicker than this show no progress
const SLOW_MS = 2500;	   // after this a person is told how long it has taken, and may cancel
const TICK_MS = 500;

export class Panel {
	#topic = new Topic();
	#timers = [];

	/** @progress and @message are elements over the pane. */
	constructor(progress, message) {
		this.progress = progress;
		this.message = message;
	}

	get busy() {
		return this.#topic.busy;
	}

	/**
	 * Ask through @question(signal); the answer, or undefined when it was overtaken or cancelled.
	 * Throws what the question throws; then showError() says it.
	 */
	async load(question) {
		const began = performance.now();

		this.#stopTimers();
		this.#timers = [setTimeout(() => (this.progress.hidden = false), QUIET_MS),
				setTimeout(() => this.#watch(began), SLOW_MS)];
		const timers = this.#timers;
		try {
			return await this.#topic.ask(question);
		} finally {
			// A later question has its own timers.
			if (timers === this.#timers)
				this.#stopTimers();
		}
	}

	/** Say @children over the pane; none: show the pane. */
	say(...children) {
		this.message.replaceChildren(...children);
		this.message.hidden = children.length === 0;
	}

	#watch(began) {
		const cancel = element("button", "link", "Cancel");
		const text = element("span", "");
		const tick = () => (text.textContent = `Asking for ${Math.round((performance.now() - began) / 1000)} s `);

		cancel.type = "button";
		cancel.addEventListener("click", () => this.#cancel());
		this.progress.replaceChildren(element("span", "progress-note", text, cancel));
		tick();
		this.#timers.push(setInterval(tick, TICK_MS));
	}

	#cancel() {
		this.#topic.cancel();
		this.#stopTimers();
	}

	#stopTimers() {
		this.#timers.forEach(clearTimeout);
		this.#timers = [];
		this.progress.hidden = true;
		this.progress.replaceChildren();
	}
}
