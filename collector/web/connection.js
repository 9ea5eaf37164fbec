// SPDX-License-Identifier: Apache-2.0
// The collector's status and clock. Shows the banner while the collector is unreachable, and retries.

import { request } from "./api.js";
import { byId, element } from "./element.js";
import { formatBytes, formatCount, formatTime } from "./format.js";
import { showUser } from "./login.js";

const POLL_MS = 10000;
const RETRY_MS = [1000, 2000, 4000, 8000, 15000];
const SKEW_MIN_MS = 250; // less is network delay

export class Connection extends EventTarget {
	#failures = 0;
	#timer = 0;
	#skew_ms = 0;
	#status = null;

	/** Event "back": the collector is reachable again. */
	constructor() {
		super();
		byId("banner-retry").addEventListener("click", () => this.poll());
		document.addEventListener("visibilitychange", () => document.hidden || this.poll());
	}

	/** The collector's clock, so that "now" means the same on both sides. */
	now_ms() {
		return Math.round(Date.now() + this.#skew_ms);
	}

	/** Unix milliseconds of the newest sample, or 0. */
	get newest_ms() {
		return (this.#status?.newest_ns ?? 0) / 1e6;
	}

	/** Unix milliseconds of the oldest sample, or 0. */
	get oldest_ms() {
		return (this.#status?.oldest_ns ?? 0) / 1e6;
	}

	/** Request the status now, and again every POLL_MS. Returns whether the collector answered. */
	async poll() {
		const began = Date.now();

		clearTimeout(this.#timer);
		try {
			const status = await request("status", {});
			const skew_ms = status.now_ns / 1e6 - (began + Date.now()) / 2;
			this.#skew_ms = Math.abs(skew_ms) >= SKEW_MIN_MS ? skew_ms : 0;
			this.#found(status);
			this.#timer = setTimeout(() => this.poll(), POLL_MS);
			return true;
		} catch (error) {
			if (error.status !== 401)
				this.lost(error.message);
			return false;
		}
	}

	/** A request failed for @reason: show the banner and retry. */
	lost(reason) {
		const wait_ms = RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)];

		this.#failures++;
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => this.poll(), wait_ms);
		byId("banner").hidden = false;
		byId("banner-text").textContent =
			`Collector unreachable (${reason}). Data may be stale; retrying every few seconds.`;
	}

	#found(status) {
		const wasAway = this.#failures > 0;

		this.#status = status;
		this.#failures = 0;
		byId("banner").hidden = true;
		this.#showStatus();
		showUser(String(status.who ?? ""));
		if (wasAway)
			this.dispatchEvent(new Event("back"));
	}

	#showStatus() {
		const { agents, series, stored_bytes, oldest_ns, version } = this.#status;
		const fact = (value, what) => element("span", "", element("b", "", value), ` ${what}`);
		const facts = [agents === 0 ? element("span", "", "no agent connected") : fact(formatCount(agents), agents === 1 ? "agent" : "agents"),
			       fact(formatCount(series), "series"), fact(formatBytes(stored_bytes), "stored")];

		if (oldest_ns > 0)
			facts.push(element("span", "", "since ", element("b", "", formatTime(Math.floor(oldest_ns / 1e9) * 1000))));
		byId("status-bar").replaceChildren(...facts, element("span", "grow"),
						   element("span", "", `cairn ${version}`));
	}
}
