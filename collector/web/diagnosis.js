// SPDX-License-Identifier: Apache-2.0
// The card that says what holds the selected threads up: the verdict, what it is based on, and where.

import { Topic } from "./api.js";
import { byId, element } from "./element.js";
import { formatBytes, formatNumber, formatShare } from "./format.js";
import { Popover } from "./popover.js";
import { specOf } from "./profile_type.js";
import { askDiagnosis, showEvidence } from "./questions.js";

const SHARES_MIN = 0.0005; // less is not worth a line
const FRAMES_SHOWN = 12; // of a stack, innermost first

export class DiagnosisCard {
	#state;
	#range;
	#topic = new Topic();

	/** @range() is the range in sight. */
	constructor(state, range) {
		this.#state = state;
		this.#range = range;
		this.box = byId("diagnosis-popover");
		this.popover = new Popover(byId("diagnosis-button"), this.box, () => this.#load());
	}

	async #load() {
		this.box.replaceChildren(element("p", "muted", "Asking …"));
		try {
			const answer = await this.#topic.ask((signal) => askDiagnosis(this.#state.view, this.#range(), signal));
			if (answer)
				this.box.replaceChildren(...this.#card(answer));
		} catch (error) {
			this.box.replaceChildren(element("p", "form-error", error.away ? "The collector does not answer." : `The collector refused: ${error.message}`));
		}
	}

	#card(answer) {
		const { figures = {} } = answer;
		const evidence = [answer.evidence, ...(answer.more_evidence ?? [])].filter((shown) => shown?.stacks?.length);
		const waits = figures.has_wall_clock || answer.class === "no_data" ? [] :
			[element("p", "muted", "The agents recorded CPU time only: waits are not judged.")];

		return [element("h3", "", String(answer.title)),
			element("p", "muted", `Confidence: ${answer.confidence}. ${spanOf(figures)}`), ...waits,
			...gpuOf(answer),
			...sharesOf(answer.class === "no_demand" ? [] : answer.shares ?? [], "Of the time that threads had something to do"),
			...evidence.flatMap((shown) => this.#evidence(shown)),
			element("h4", "", "What to try next"),
			element("ul", "advice", ...(answer.advice ?? []).map((sentence) => element("li", "", String(sentence))))];
	}

	#evidence(evidence) {
		const show = element("button", "link", `show in ${specOf(evidence.type).title}`);

		show.type = "button";
		show.addEventListener("click", () => {
			this.popover.close();
			this.#state.change(showEvidence(this.#state.view, evidence));
		});
		return [element("h4", "", `${evidence.what ?? "Where"} `, show),
			element("ol", "evidence", ...evidence.stacks.map((stack) => {
				const hidden = stack.frames.length - FRAMES_SHOWN;
				const frames = stack.frames.slice(0, FRAMES_SHOWN).map((name) => element("span", "frame", String(name)));

				if (hidden > 0 || stack.cut)
					frames.push(element("span", "muted", "…"));
				return element("li", "", element("b", "", formatShare(stack.share, 1)), element("div", "frames", ...frames));
			}))];
	}
}

function spanOf({ range_ns = 0 }) {
	return range_ns < 30e9 ? "Half a minute or more would make it surer." : "";
}

/** What is known of the GPU: its own verdict where another one is told, its causes, figures, and what is missing. */
function gpuOf({ gpu, class: told }) {
	if (!gpu)
		return [];
	const verdict = gpu.class === told ? [] :
		[element("p", "", element("b", "", "The GPU: "), `${gpu.title} `, element("span", "muted", `(confidence: ${gpu.confidence})`))];

	const passing = gpu.passing ? [element("p", "", "So it was in one half of the range only: it comes and goes.")] : [];

	return [...verdict, ...passing, ...lateOf(gpu.late), ...sharesOf((gpu.shares ?? []).filter(({ judged }) => judged), "What could hold the GPU up"),
		...figuresOf(gpu.figures ?? []), ...unknownOf(gpu.unknown ?? [])];
}

/** The rank that others of its node wait for. */
function lateOf(late) {
	if (!late)
		return [];
	return [element("p", "", `Others of its node wait for rank ${late.rank || "?"} of communicator ${late.communicator}${late.node ? `, on ${late.node}` : ""}.`)];
}

function figuresOf(figures) {
	if (figures.length === 0)
		return [];
	return [element("h4", "", "Of the GPU, and of the threads that launch its work"),
		element("ul", "figures", ...figures.map(({ title, unit, value }) =>
			element("li", "", element("span", "share", figureText(unit, value)), element("span", "", String(title)))))];
}

/** @value as its unit says: 0.62 of a share is 62.0 %. */
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

	return [element("h4", "", "Not known, and so not judged by"),
		element("ul", "advice muted", ...[...bySource.values()].map((figures) =>
			element("li", "", `${figures.map(({ title }) => title).join("; ")} (told by ${figures[0].source})`)))];
}

/** A bar for each class, with the mark from which it counts. */
function sharesOf(shares, heading) {
	const told = shares.filter(({ share }) => share >= SHARES_MIN);

	if (told.length === 0)
		return [];
	return [element("h4", "", heading),
		element("ul", "shares", ...told.map(({ title, share, threshold, reached }) => {
			const bar = element("span", reached ? "bar reached" : "bar");
			const row = element("li", "", element("span", "share", formatShare(share, 1)), bar, element("span", "", String(title)));

			bar.style.setProperty("--share", `${100 * Math.min(share, 1)}%`);
			bar.style.setProperty("--threshold", `${100 * threshold}%`);
			row.title = `counts from ${formatShare(threshold, 1)}`;
			return row;
		}))];
}
