// SPDX-License-Identifier: Apache-2.0
// The pane over time: the chart, its figures, its legend and its grouping.

import { LatestRequest } from "./api.js";
import { marksOf, reducedIn } from "./chart_marks.js";
import { ChartNotices } from "./chart_notices.js";
import { byId, element } from "./element.js";
import { formatShare, formatValue } from "./format.js";
import { valueMeaning, valueTitle } from "./label_value.js";
import { Panel } from "./panel.js";
import { isGauge, specOf } from "./profile_type.js";
import { fetchMarks, fetchSeries, groupOf, labelsOfType } from "./queries.js";
import { selectedValue, withValue } from "./selector.js";
import { SeriesChart } from "./series_chart.js";
import { stackSeries } from "./series_stack.js";
import { SpikeMarks } from "./spike_marks.js";

const GROUPS_FIRST = ["wait", "state", "service", "node", "process", "thread", "container"];

const sumOf = (series) => series.reduce((sum, s) => sum + s.total, 0);

export class ChartPane extends EventTarget {
	#state;
	#stored;
	#marksRequest = new LatestRequest();
	#names = [];

	/** @stored: { oldest_ms, newest_ms } of the collector's samples, read at each use. Events: "shown", the chart shows new data; "marks" (detail: marksOf()). */
	constructor(state, palette, tooltip, stored) {
		super();
		this.#state = state;
		this.#stored = stored;
		this.panel = new Panel(byId("chart-progress"), byId("chart-message"));
		this.chart = new SeriesChart(byId("chart"), palette, tooltip);
		this.notices = new ChartNotices(state);
		this.spikes = new SpikeMarks(state, tooltip);
		this.group = byId("group");
		this.showChoices(state.view);
		this.group.addEventListener("change", () => state.change({ group: this.group.value }));
	}

	/** What of a view the series depend on, beside the range. */
	keyOf({ query, type, group, idle }) {
		return [query, type, group, idle];
	}

	/** Load and show. Throws ApiError. */
	async load(view, range) {
		const answer = await this.panel.load((signal) => fetchSeries(view, range, signal));

		if (answer === undefined)
			return;
		this.panel.setMessage();
		this.chart.setAnswer(answer, range, this.#stored, groupOf(view));
		this.notices.setIdle(answer.idle, sumOf(answer.series));
		this.#showFacts(view);
		this.#showLegend(view);
		this.dispatchEvent(new Event("shown"));
	}

	/** Load and show the marks, which are the same for all types. Throws ApiError. */
	async loadMarks(view, range) {
		await Promise.all([this.#loadNotices(view, range), this.spikes.load(view, range)]);
	}

	async #loadNotices(view, range) {
		const answers = await this.#marksRequest.run((signal) => fetchMarks(view, range, signal));

		if (answers === undefined)
			return;
		const marks = marksOf(answers, range, this.#stored);
		this.dispatchEvent(new CustomEvent("marks", { detail: marks }));
		this.chart.setMarks({ ...marks, reduced: reducedIn(marks.shedding, view.type) });
		this.notices.setMarks(marks, answers.overhead ? stackSeries(answers.overhead, range, this.#stored).facts.mean : null);
	}

	/** Show @message instead of data. */
	fail(message) {
		this.chart.setAnswer(null);
		this.chart.setMarks(null);
		this.notices.setIdle(null, 0);
		this.notices.setMarks(null, null);
		this.spikes.fail();
		byId("chart-facts").replaceChildren();
		byId("chart-legend").hidden = true;
		this.panel.setMessage(message);
		this.dispatchEvent(new Event("shown"));
	}

	/** Fill the choice of labels to group by; @names are the labels in the range, if they changed. */
	showChoices(view, names = this.#names) {
		const now = groupOf(view);
		const fit = labelsOfType(names, view.type);
		const rest = fit.filter((name) => !GROUPS_FIRST.includes(name)).sort();
		const offered = new Set([...GROUPS_FIRST.filter((name) => fit.includes(name)), ...rest]);

		this.#names = names;
		if (now)
			offered.add(now);
		this.group.replaceChildren(new Option("none", ""), ...[...offered].map((name) => new Option(name, name)));
		this.group.value = now;
		this.notices.setLabels(names);
	}

	setPalette(palette) {
		this.chart.setPalette(palette);
		if (this.chart.summary())
			this.#showLegend(this.#state.view);
	}

	#showFacts(view) {
		const { mean, peak, total, rate } = this.chart.summary();
		const { title, meaning } = specOf(view.type);
		const unit = view.type.split(":")[2];
		const fact = (value, what) => element("span", "", element("b", "", value), ` ${what}`);
		const facts = [fact(rate.format(mean), `${rate.unit} on average`.trim()), fact(rate.format(peak), "at peak")];

		// For rare events a count says more than a rate.
		if (unit === "count" && !isGauge(view.type))
			facts.unshift(fact(formatValue(total, unit), "in this range"));
		byId("chart-title").textContent = title;
		byId("chart-title").title = meaning;
		byId("chart-facts").replaceChildren(...facts);
		byId("chart").ariaLabel = `${title} over time: ${facts.map((f) => f.textContent).join(", ")}; drag to zoom into a range`;
	}

	#showLegend(view) {
		const { series, rate } = this.chart.summary();
		const total = sumOf(series);
		const list = byId("chart-legend");
		const figure = isGauge(view.type) ? (s) => `${rate.format(s.mean)} ${rate.unit}`.trim() : (s) => formatShare(s.total, total);

		list.hidden = groupOf(view) === "";
		list.replaceChildren(...series.map((s) => this.#legendRow(s, figure(s), view)));
	}

	#legendRow(series, figure, view) {
		const label = groupOf(view);
		const swatch = element("span", "swatch");
		const name = valueTitle(label, series.group);
		const meaning = valueMeaning(label, series.group);
		const selectable = !series.isOther && series.group !== "" && selectedValue(view.query, label) !== series.group;
		const button = element(selectable ? "button" : "span", "legend-entry", swatch,
				       element("span", "legend-name", name), element("b", "", figure));

		swatch.style.backgroundColor = series.color;
		button.title = [meaning, selectable && `Show only ${label} ${name}`]
			.filter((text) => text).join(". ");
		if (selectable) {
			button.type = "button";
			button.addEventListener("click", () => this.#state.change({
				query: withValue(view.query, label, series.group), zoom: "" }));
		}
		return element("li", "", button);
	}
}
