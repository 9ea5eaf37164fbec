// SPDX-License-Identifier: Apache-2.0
// The diagnosis card: the bottleneck of the selected threads, with evidence and advice.

import { LatestRequest } from "./api.js";
import { TYPE } from "./contract.js";
import { byId, element, quoted } from "./element.js";
import { formatBytes, formatNumber, formatRange, formatShare } from "./format.js";
import { Popover } from "./popover.js";
import { specOf } from "./profile_type.js";
import { diagnosedRange, fetchDiagnosis, showEvidence, showType } from "./queries.js";
import { regionsOf } from "./regions.js";

const SHARES_MIN = 0.0005; // smaller ones are not listed
const HEIGHT_MIN = 420; // px of the card
const EDGE = 6; // px
const FRAMES_SHOWN = 12; // of a stack, innermost first

export class DiagnosisCard {
	#state;
	#range;
	#request = new LatestRequest();

	/** @range() returns the shown range. */
	constructor(state, range) {
		this.#state = state;
		this.#range = range;
		this.box = byId("diagnosis-popover");
		this.popover = new Popover(byId("diagnosis-button"), this.box, () => this.#load());
	}

	/** Below the chart; where that is low, over its foot. */
	#place() {
		const { bottom } = byId("chart-panel").getBoundingClientRect();

		this.box.style.setProperty("--top", `${Math.max(EDGE, Math.min(bottom + EDGE, window.innerHeight - HEIGHT_MIN))}px`);
	}

	async #load() {
		const { view } = this.#state, range = this.#range();

		this.#place();
		this.box.replaceChildren(element("p", "muted", "Loading …"));
		try {
			const answer = await this.#request.run((signal) => fetchDiagnosis(view, range, signal));
			if (answer)
				this.box.replaceChildren(...this.#card(answer, scopeOf(view, range)));
		} catch (error) {
			this.box.replaceChildren(element("p", "form-error", error.away ? "Collector unreachable." : `Query failed: ${error.message}`));
		}
	}

	/** @scope: of what it is, in words. */
	#card(answer, scope) {
		const { figures = {} } = answer;
		const evidence = [answer.evidence, ...(answer.more_evidence ?? [])].filter((shown) => shown?.stacks?.length);
		const cpuOnly = figures.has_wall_clock || answer.class === "no_data" ? [] :
			[element("p", "muted", "Only CPU time was recorded: off-CPU time is not analyzed.")];

		return [element("h3", "", String(answer.title)), element("p", "muted scope", scope),
			...(answer.evidence?.finding && !answer.evidence.what ? [element("p", "finding", ...quoted(answer.evidence.finding))] : []),
			element("p", "muted", `Confidence: ${answer.confidence}. ${spanOf(figures)}`), ...cpuOnly,
			...changedOf(answer),
			...gpuOf(answer),
			...sharesOf(answer.class === "no_demand" ? [] : answer.shares ?? [], "Share of active thread time"),
			element("h4", "", "What to try next"),
			element("ul", "advice", ...(answer.advice ?? []).map((sentence) => element("li", "", ...quoted(String(sentence))))),
			...evidence.flatMap((shown) => this.#evidence(shown))];
	}

	#evidence(evidence) {
		const show = element("button", "link", `show in ${specOf(evidence.type).title}`);

		show.type = "button";
		show.addEventListener("click", () => {
			this.popover.close();
			this.#state.change(showEvidence(this.#state.view, evidence));
		});
		return [element("h4", "", `${evidence.what ?? "Where"} `, show),
			...(evidence.what && evidence.finding ? [element("p", "finding", ...quoted(evidence.finding))] : []),
			element("ol", "evidence", ...evidence.stacks.map((stack) => {
				const hidden = stack.frames.length - FRAMES_SHOWN;
				const frames = stack.frames.slice(0, FRAMES_SHOWN).map((name) => element("span", "frame", String(name)));

				if (hidden > 0 || stack.cut)
					frames.push(element("span", "muted", "…"));
				return element("li", "", element("b", "", formatShare(stack.share, 1)), element("div", "frames", ...frames));
			}))];
	}
}

/** "{service="llm"}, 14:05:00 – 14:06:12 (selected)" */
function scopeOf(view, range) {
	const regions = regionsOf(view);
	const { from_ms, to_ms } = diagnosedRange(view, range);

	return `${showType(view, TYPE.CPU).query || "All services"}, ${formatRange(from_ms, to_ms, Date.now())}${regions.length ? " (selected)" : ""}`;
}

/** What left its usual range meanwhile, each with the way to it. */
function changedOf({ changed: spikes = [], changed_unknown: reason }) {
	if (reason)
		return [element("p", "muted", `What left the usual range is not known: ${reason}`)];
	if (spikes.length === 0)
		return [];
	return [element("h4", "", "Out of the usual range meanwhile"),
		element("ul", "changed", ...spikes.map(({ title, sentence, path }) => {
			const link = element("a", "link", String(title));

			if (String(path).startsWith("/?"))
				link.href = path;
			return element("li", "", link, element("p", "", ...quoted(String(sentence))));
		}))];
}

function spanOf({ range_ns = 0 }) {
	return range_ns < 30e9 ? "A range below 30 s has few samples: enough for a spike, not for steady load." : "";
}

/** The GPU's verdict where it differs from the card's @shown class, its candidates, figures and missing data. */
function gpuOf({ gpu, class: shown }) {
	if (!gpu)
		return [];
	const verdict = gpu.class === shown ? [] :
		[element("p", "", element("b", "", "GPU: "), `${gpu.title} `, element("span", "muted", `(confidence: ${gpu.confidence})`))];

	const intermittent = gpu.intermittent ? [element("p", "", "Intermittent: seen in only one half of the range.")] : [];

	return [...verdict, ...intermittent, ...stragglerOf(gpu.late), ...sharesOf((gpu.shares ?? []).filter(({ judged }) => judged), "GPU bottleneck candidates"),
		...figuresOf(gpu.figures ?? []), ...unknownOf(gpu.unknown ?? [])];
}

/** The rank that the node's other ranks wait for. */
function stragglerOf(late) {
	if (!late)
		return [];
	return [element("p", "", `Other ranks wait for rank ${late.rank || "?"} of communicator ${late.communicator}${late.node ? `, on ${late.node}` : ""}.`)];
}

function figuresOf(figures) {
	if (figures.length === 0)
		return [];
	return [element("h4", "", "GPU and launching threads"),
		element("ul", "figures", ...figures.map(({ title, unit, value }) =>
			element("li", "", element("span", "share", figureText(unit, value)), element("span", "", String(title)))))];
}

/** @value in its unit: a share of 0.62 is 62.0 %. */
function figureText(unit, value) {
	switch (unit) {
	case "share": return formatShare(value, 1);
	case "per_second": return `${formatNumber(value)}/s`;
	case "bytes_per_second": return `${formatBytes(value)}/s`;
	case "microseconds": return `${formatNumber(value)} µs`;
	case "bytes": return formatBytes(value);
	default: return formatNumber(value);
	}
}

function unknownOf(unknown) {
	if (unknown.length === 0)
		return [];
	const bySource = Map.groupBy?.(unknown, ({ source }) => source) ?? new Map(unknown.map((figure) => [figure.title, [figure]]));

	return [element("h4", "", "Not checked: no data"),
		element("ul", "advice muted", ...[...bySource.values()].map((figures) =>
			element("li", "", `${figures.map(({ title }) => title).join("; ")} (needs ${figures[0].source})`)))];
}

/** A bar for each class, with its threshold. */
function sharesOf(shares, heading) {
	const listed = shares.filter(({ share }) => share >= SHARES_MIN);

	if (listed.length === 0)
		return [];
	return [element("h4", "", heading, element("span", "tick"), "threshold"),
		element("ul", "shares", ...listed.map(({ title, share, threshold, reached }) => {
			const bar = element("span", reached ? "bar reached" : "bar");
			const row = element("li", "", element("span", "share", formatShare(share, 1)), bar, element("span", "", String(title)));

			bar.style.setProperty("--share", `${100 * Math.min(share, 1)}%`);
			bar.style.setProperty("--threshold", `${100 * threshold}%`);
			row.title = `Reported as a cause at ${formatShare(threshold, 1)} or more`;
			return row;
		}))];
}
