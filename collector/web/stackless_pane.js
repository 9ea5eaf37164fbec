// SPDX-License-Identifier: Apache-2.0
// Replaces the flame graph and the table for a type without stacks: why it has none, related types with
// stacks, and the chart's figures as a table.

import { byId, element } from "./element.js";
import { formatShare, formatValue } from "./format.js";
import { valueMeaning, valueTitle } from "./label_value.js";
import { isGauge, specOf, typeTitle } from "./profile_type.js";
import { groupOf, showType } from "./queries.js";

const LABELS = { gpu: "GPU", gpu_uuid: "GPU", gpu_model: "Model", gpu_instance: "Instance" };
const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export class StacklessPane {
	#state;

	constructor(state) {
		this.#state = state;
		this.root = byId("stackless");
	}

	/** Show @summary, SeriesChart.summary() of @view, null for none; or nothing where the type has stacks. */
	show(view, summary) {
		const { noStacks } = specOf(view.type);

		byId("main-panel").dataset.stackless = String(Boolean(noStacks));
		if (noStacks)
			this.root.replaceChildren(this.#reason(view), ...(summary?.series.length ? [this.#table(view, summary)] : []));
	}

	#reason(view) {
		const { meaning, noStacks, see } = specOf(view.type);
		const links = see.map((type) => {
			const button = element("button", "button", typeTitle(type));
			button.type = "button";
			button.title = specOf(type).meaning;
			button.addEventListener("click", () => this.#state.change(showType(this.#state.view, type)));
			return button;
		});

		return element("div", "stackless-reason", element("h3", "", `${meaning}.`), element("p", "", noStacks),
			       element("p", "actions", ...links));
	}

	#table(view, { series, rate }) {
		const label = groupOf(view);
		const unit = view.type.split(":")[2];
		const whole = series.reduce((sum, s) => sum + s.total, 0);
		const gauge = isGauge(view.type);
		const head = (text, name = "number") => element("th", name, text);
		const row = (s) => {
			const swatch = element("span", "swatch");
			const name = element("td", "name", swatch, valueTitle(label, s.group));
			swatch.style.backgroundColor = s.color;
			name.title = valueMeaning(label, s.group);
			const cells = gauge ? [] : [formatValue(s.total, unit), formatShare(s.total, whole)];
			return element("tr", "", name, ...[...cells, rate.format(s.mean)].map((text) => element("td", "number", text)));
		};
		const titles = [...(gauge ? [] : ["Total", "Share"]), capitalized(`${rate.unit} on average`.trim())];

		return element("table", "stackless-table", element("thead", "", element("tr", "", head(LABELS[label] ?? capitalized(label || "all"), ""), ...titles.map((t) => head(t)))),
			       element("tbody", "", ...series.map(row)));
	}
}
