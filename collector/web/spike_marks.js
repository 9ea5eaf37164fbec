// SPDX-License-Identifier: Apache-2.0
// Marks above the chart where the shown service left its usual range. A mark says why; a click selects its interval.

import { LatestRequest, request } from "./api.js";
import { byId, element, quoted } from "./element.js";
import { formatDuration, formatRange } from "./format.js";
import { showType } from "./queries.js";
import { regionsOf, wholeSlots, writeRegions } from "./regions.js";
import { selectedValue, withValue } from "./selector.js";

const LIMIT = 30;
const AGE_MAX_MS = 30000; // spikes of a live view are asked for again after so long: they cost more than a series
const WIDTH_MIN = 0.6;	  // percent of the plot: narrow ones can be clicked, too

export class SpikeMarks {
	#state;
	#tooltip;
	#request = new LatestRequest();
	#asked = null;
	#spikes = [];

	constructor(state, tooltip) {
		this.#state = state;
		this.#tooltip = tooltip;
		this.list = byId("chart-spikes");
	}

	/** Load what there is for the service of @view in @range, and show it. Of all services at once there would be too many. */
	async load(view, range) {
		const service = selectedValue(view.query, "service");
		const asked = { query: service === null ? "" : withValue("", "service", service), ...range };

		if (service === null) {
			this.fail();
			return;
		}
		if (!this.#isAnswered(asked)) {
			this.#asked = asked;
			const answer = await this.#request.run((signal) =>
				request("spikes", { query: asked.query, from: range.from_ms, to: range.to_ms, limit: LIMIT }, signal));
			if (answer === undefined)
				return;
			this.#spikes = answer.spikes;
		}
		this.#show(range);
	}

	fail() {
		this.#asked = null;
		this.#spikes = [];
		this.list.dataset.label = "";
		this.list.replaceChildren();
	}

	#isAnswered(asked) {
		const last = this.#asked;

		return last !== null && last.query === asked.query && Math.abs(asked.from_ms - last.from_ms) < AGE_MAX_MS &&
			Math.abs(asked.to_ms - last.to_ms) < AGE_MAX_MS;
	}

	/** One mark for each incident: its first spike is the largest. */
	#show({ from_ms, to_ms }) {
		const first = this.#spikes.filter(({ incident }, at) => incident === at);

		const marks = first.map((spike) => this.#mark(spike, from_ms, to_ms)).filter((mark) => mark);

		this.list.dataset.label = marks.length ? "spikes" : "";
		this.list.replaceChildren(...marks);
	}

	#mark(spike, from_ms, to_ms) {
		const begin = Math.max(from_ms, spike.from_ns / 1e6);
		const end = Math.min(to_ms, spike.to_ns / 1e6);

		if (begin >= end)
			return null;
		const button = element("button", "spike-mark");
		const percent = (time_ms) => (100 * time_ms) / (to_ms - from_ms);
		button.type = "button";
		button.dataset.from = begin;
		button.style.left = `${Math.min(100 - WIDTH_MIN, percent(begin - from_ms))}%`;
		button.style.width = `${Math.max(WIDTH_MIN, percent(end - begin))}%`;
		const time = `${formatRange(begin, end, Date.now())}, ${formatDuration((end - begin) * 1e6)}`;
		button.ariaLabel = `Spike at ${time}: ${spike.title}. ${spike.sentence}`;
		const show = ({ clientX }) => this.#tooltip.show([element("span", "muted", time), element("strong", "", spike.title),
			element("span", "", ...quoted(spike.sentence)), element("span", "muted", "Click to select the interval")],
			clientX ?? button.getBoundingClientRect().x, button.getBoundingClientRect().bottom);
		button.addEventListener("pointermove", show);
		button.addEventListener("focus", show);
		for (const left of ["pointerleave", "blur", "click"])
			button.addEventListener(left, () => this.#tooltip.hide());
		button.addEventListener("click", () => this.#select(spike));
		return element("li", "", button);
	}

	#select(spike) {
		const { view } = this.#state;
		const region = writeRegions([wholeSlots(spike.from_ns / 1e6, spike.to_ns / 1e6)]);
		const isSelected = view.type === spike.type && writeRegions(regionsOf(view)) === region;

		const patch = { ...showType(view, spike.type), sel: isSelected ? "" : region, zoom: "" };

		if (spike.wait)
			patch.query = withValue(patch.query ?? view.query, "wait", spike.wait);
		this.#state.change(patch);
	}
}
