// SPDX-License-Identifier: Apache-2.0
// The pane over time: the chart, its figures in words, its legend, and what it is grouped by.

import { byId, element } from "./element.js";
import { formatShare } from "./format.js";
import { Panel } from "./panel.js";
import { typeTitle } from "./profile_type.js";
import { askSeries, groupOf } from "./questions.js";
import { withValue } from "./selector.js";
import { groupName, SeriesChart } from "./series_chart.js";

const GROUPS_FIRST = ["service", "node", "process", "thread", "container"];

export class ChartPane {
	#state;
	#stored;

	/** @stored: { oldest_ms, newest_ms } of the collector's samples, as they are when asked. */
	constructor(state, palette, tooltip, stored) {
		this.#state = state;
		this.#stored = stored;
		this.panel = new Panel(byId("chart-progress"), byId("chart-message"));
		this.chart = new SeriesChart(byId("chart"), palette, tooltip);
		this.group = byId("group");
		this.showChoices(state.view, []);
		this.group.addEventListener("change", () => state.change({ group: this.group.value }));
	}

	/** Ask and show. Throws ApiError. */
	async load(view, range) {
		const answer = await this.panel.load((signal) => askSeries(view, range, signal));

		if (answer === undefined)
			return;
		this.panel.say();
		this.chart.setAnswer(answer, range, this.#stored);
		this.#showFacts(view);
		this.#showLegend(view);
	}

	/** Nothing can be shown; @message says why. */
	fail(message) {
		this.chart.setAnswer(null);
		byId("chart-facts").replaceChildren();
		byId("chart-legend").hidden = true;
		this.panel.say(message);
	}

	/** Fill the choice of labels to group by; @names are those in the range. */
	showChoices(view, names) {
		const now = groupOf(view);
		const rest = names.filter((name) => !GROUPS_FIRST.includes(name)).sort();
		const offered = new Set([...GROUPS_FIRST.filter((name) => names.includes(name)), ...rest]);

		if (now)
			offered.add(now);
		this.group.replaceChildren(new Option("nothing", ""), ...[...offered].map((name) => new Option(name, name)));
		this.group.value = now;
	}

	setPalette(palette) {
		this.chart.setPalette(palette);
		if (this.chart.summary())
			this.#showLegend(this.#state.view);
	}

	#showFacts(view) {
		const { mean, peak, rate } = this.chart.summary();
		const fact = (value, what) => element("span", "", element("b", "", value), ` ${what}`);

		byId("chart-title").textContent = typeTitle(view.type);
		byId("chart-facts").replaceChildren(
			fact(rate.format(mean), `${rate.unit} on average`), fact(rate.format(peak), "at peak"));
	}

	#showLegend(view) {
		const { series } = this.chart.summary();
		const total = series.reduce((sum, s) => sum + s.total, 0);
		const list = byId("chart-legend");

		list.hidden = groupOf(view) === "";
		list.replaceChildren(...series.map((s) => this.#legendRow(s, total, view)));
	}

	#legendRow(series, total, view) {
		const swatch = element("span", "swatch");
		const name = groupName(series.group);
		const selectable = !series.isOther && series.group !== "";
		const button = element(selectable ? "button" : "span", "legend-entry", swatch,
				       element("span", "legend-name", name), element("b", "", formatShare(series.total, total)));

		swatch.style.backgroundColor = series.color;
		if (selectable) {
			button.type = "button";
			button.title = `Show only ${groupOf(view)} ${name}`;
			button.addEventListener("click", () => this.#state.change({
				query: withValue(view.query, groupOf(view), series.group), zoom: "" }));
		}
		return element("li", "", button);
	}
}
