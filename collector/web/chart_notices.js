// SPDX-License-Identifier: Apache-2.0
// Notices above the chart: excluded idle time, active filters on waits and states, throttling, load
// shedding.

import { reducedIn, throttledCpus } from "./chart_marks.js";
import { TYPE } from "./contract.js";
import { byId, element } from "./element.js";
import { formatDuration, formatMoment, formatNumber, formatRange, formatShare } from "./format.js";
import { keptSentence, knobMeaning } from "./knob.js";
import { hasColors, valueTitle } from "./label_value.js";
import { Popover } from "./popover.js";
import { specOf } from "./profile_type.js";
import { excludesIdle, showType, throttledLabel } from "./queries.js";
import { formatSelector, parseSelector, withValue } from "./selector.js";

const GROUPS_NAMED = 2;	   // throttled groups; the rest are a number
const CHANGES_LISTED = 200; // the latest
const AGENT = "cairn-agent"; // whose load shedding it is

export class ChartNotices {
	#state;
	#idle = null;
	#whole = 0;
	#marks = null;
	#overhead = null;
	#hasExcess = false;

	constructor(state) {
		this.#state = state;
		this.list = byId("chart-notices");
		this.changes = byId("changes-box");
		new Popover(byId("changes-button"), byId("changes-popover"), () => this.#fillChanges());
	}

	/** @idle: nanoseconds of idle time that the chart excludes, or that wall-clock time includes; null without any. @whole: of the shown series. */
	setIdle(idle, whole) {
		this.#idle = idle;
		this.#whole = whole;
		this.#show();
	}

	/** @marks: marksOf(), or null; @overhead: of the agents, in cores, or null. */
	setMarks(marks, overhead) {
		this.#marks = marks;
		this.#overhead = overhead;
		this.#show();
	}

	/** @names: of the labels in the range. Label `other` says that a quota of series was reached. */
	setLabels(names) {
		this.#hasExcess = names.includes("other");
		this.#show();
	}

	#show() {
		const { view } = this.#state;
		const { changes = [], shedding = [] } = this.#marks ?? {};

		this.list.replaceChildren(...[this.#idleNotice(view), ...this.#filters(view), this.#throttled(view), this.#excess(view)].filter((notice) => notice));
		this.changes.hidden = changes.length + shedding.length === 0;
		const shed = `${AGENT}: ${[this.#reduced(view), changedWords(changes, view)].filter((text) => text).join("; ") || "load shedding"}`;
		byId("changes-text").textContent = shed;
		byId("changes-button").title = `${shed}.\ncairn-agent (the profiler) captured less to stay within its overhead budget`;
	}

	#button(text, title, patch) {
		const button = element("button", "link", text);

		button.type = "button";
		button.title = title;
		button.addEventListener("click", () => this.#state.change(patch));
		return button;
	}

	/** How much idle time is excluded, or that idle time is included. */
	#idleNotice(view) {
		if (view.type === TYPE.WALL)
			return this.#idle > 0 ? this.#idleOfAll() : null;
		if (excludesIdle(view)) {
			if (!this.#idle)
				return null;
			return element("li", "", element("b", "", formatDuration(this.#idle)), " idle excluded ",
				       this.#button("include", "Include idle off-CPU time (idle workers, event loops)", { idle: "in" }));
		}
		return view.idle === "in" && excludesIdle({ ...view, idle: "out" }) ? element("li", "", "idle time included ",
			this.#button("exclude", "Exclude idle off-CPU time (idle workers, event loops)", { idle: "out" })) : null;
	}

	#idleOfAll() {
		const notice = element("li", "", element("b", "", formatShare(this.#idle, Math.max(this.#idle, this.#whole))), " idle");

		notice.title = `${formatDuration(this.#idle)} of the blocked time is idle: threads that wait for new work. The chart includes it`;
		return notice;
	}

	/** Each matcher on a wait class or a thread state; one click removes it. */
	#filters(view) {
		return (parseSelector(view.query) ?? []).filter((m) => hasColors(m.name)).map((m) =>
			element("li", "", m.op === "=" ? "only " : `${m.name} ${m.op} `, element("b", "", valueTitle(m.name, m.value)), " ",
				this.#button("show all", `Remove ${m.name}${m.op}"${m.value}" from the selector`,
					     { query: withValue(view.query, m.name, null), zoom: "" })));
	}

	#throttled(view) {
		const throttled = this.#marks?.throttled;

		if (!throttled || view.type === TYPE.THROTTLED)
			return null;
		const notice = element("li", "notice-throttled", this.#button("Throttled", "Show the profile type Throttled",
									     showType(view, TYPE.THROTTLED)));
		notice.append(" ", ...throttledWords(throttled, throttledLabel(view)),
			      throttledLabel(view) === "service" ? ": CPU quota" : ": the container’s CPU quota");
		notice.title = `${notice.textContent}.\nThe CPU quota (cgroup cpu.max) throttled the container: CPUs throttled, averaged over this range.`;
		return notice;
	}

	/** The collector has put samples into series that lack labels. */
	#excess(view) {
		const matchers = parseSelector(view.query) ?? [];

		if (!this.#hasExcess || matchers.some((m) => m.name === "other"))
			return null;
		const notice = element("li", "notice-excess", this.#button("Labels missing", "Show only the samples that lost labels",
									   { query: formatSelector([...matchers, { name: "other", op: "!=", value: "" }]), zoom: "" }),
				       ": too many series");

		notice.title = "A process, service, node or tenant has too many series. Its further samples are under the label “other”, without some labels. " +
			"Sums are right. Remove labels with many values, such as thread names.";
		return notice;
	}

	/** What of this type is less in the range, "" for nothing. */
	#reduced(view) {
		const steps = reducedIn(this.#marks?.shedding ?? [], view.type);
		const until = steps.length === 0 || steps.some(({ to_end }) => to_end) ? "" :
			` (until ${formatMoment(Math.max(...steps.map(({ spans }) => spans.at(-1).to_ms)), Date.now())})`;

		return keptSentence(steps) + until;
	}

	#fillChanges() {
		const { changes = [], shedding = [] } = this.#marks ?? {};
		const overhead = this.#overhead === null ? [] :
			[element("p", "", `Profiler overhead: ${formatNumber(this.#overhead)} cores on average.`)];
		const knobs = [...new Set(shedding.map(({ knob }) => knob))].filter((knob) => knobMeaning(knob));
		const rows = changes.slice(-CHANGES_LISTED).map(({ time_ms, text }) => changeRow(formatMoment(time_ms, Date.now()), text));

		byId("changes-popover").replaceChildren(
			element("p", "", "Load shedding of the profiler, not of your services: to stay within its overhead budget cairn-agent captures less, a step at a time."), ...overhead,
			...changeList("Active load shedding", shedding.map((one) =>
				changeRow(spanWords(one), one.agents > 1 ? `${one.text}, on ${one.agents} agents` : one.text))),
			...knobs.map((knob) => element("p", "", element("b", "", `${valueTitle("knob", knob)}: `), knobMeaning(knob))),
			...changeList("Load-shedding changes", rows));
	}
}

/** "2 load-shedding changes, not of CPU time": the shown figures are whole. */
function changedWords(changes, { type }) {
	const { reducedBy, title } = specOf(type);

	if (changes.length === 0)
		return "";
	return `${changes.length} load-shedding ${changes.length === 1 ? "change" : "changes"}` +
		(changes.some(({ knob }) => reducedBy.includes(knob)) ? "" : `, not of ${title}`);
}

function changeRow(when, text) {
	return element("li", "", element("span", "muted", when), element("span", "", text));
}

function changeList(heading, rows) {
	const list = element("ul", "changes", ...rows);

	list.tabIndex = 0; // so that keys can scroll it
	return rows.length ? [element("h4", "", heading), list] : [];
}

/** When a shedding step was active. */
function spanWords({ spans, is_whole, to_end }) {
	const words = is_whole ? "all the time" : to_end ? `since ${formatMoment(spans[0].from_ms, Date.now())}` :
		formatRange(spans[0].from_ms, spans.at(-1).to_ms, Date.now());

	return spans.length > 1 ? `${words}, ${spans.length} times` : words;
}

/** "0.48 CPUs", or those of each group. */
function throttledWords({ groups, total, span_ms }, label) {
	if (groups.length === 1 && label !== "service")
		return [element("b", "", throttledCpus(total, span_ms))];
	const named = groups.slice(0, GROUPS_NAMED).map(({ group, total: of }) => `${group || "no " + label} ${throttledCpus(of, span_ms)}`);

	if (groups.length > GROUPS_NAMED)
		named.push(`${groups.length - GROUPS_NAMED} more`);
	return [element("b", "", named.join(", "))];
}
