// SPDX-License-Identifier: Apache-2.0
// The fleet's health: the collector's store, each agent, its overhead and what it dropped or shed.

import { LABEL_VALUES } from "./contract.js";
import { element } from "./element.js";
import { formatBytes, formatCount, formatDuration, formatNumber, formatTime } from "./format.js";
import { valueMeaning, valueTitle } from "./label_value.js";
import { pagePanel } from "./page_panel.js";
import { fetchFleet } from "./queries.js";
import { coveredMs } from "./time_range.js";

const ROWS_MAX = 300; // those with problems come first; the caption counts the rest
const DROPS_MAX = 30;
const ORDINARY_LOSSES = 20; // any busy machine loses one in so many of some; the agent's log has the same limit
const OTHER_VERSION = "another version than most agents";

/** A page of pages.js. */
export function mountFleet(root, { connection }) {
	return pagePanel(root, (view, range, signal) => fetchFleet(range, signal), (answer, view, range) => {
		const fleet = judge(answer, range, connection);
		return [collectorPanel(answer.status, fleet), agentPanel(fleet), dropPanel(fleet)];
	});
}

/**
 * What the page shows of fetchFleet()'s answer: { agents, sending, versions, drops }. Each agent has `cores` (of its
 * overhead; null: unknown), `drops`, `shedding` (knobs active in the newest data) and `problems`, in words.
 */
export function judge({ agents, overhead, counters, shedding, now_ns }, range, stored) {
	const drops = lossesOf(counters.series);
	const span_ms = coveredMs(range, stored);
	const versions = countOf(agents.map((agent) => agent.version));
	const usual = versions[0]?.[0];
	const costOf = new Map(overhead.series.map((s) => [s.group, s.total]));
	const dropsOf = sumBy(drops, (labels) => labels.node);
	const shed = activeKnobs(shedding);
	const judged = agents.map((agent) => {
		const cost = costOf.get(agent.node);
		const one = { ...agent, age_ns: Math.max(0, now_ns - agent.last_ns), drops: dropsOf.get(agent.node) ?? 0,
			      cores: cost !== undefined && span_ms > 0 ? cost / 1e6 / span_ms : null,
			      shedding: shed.get(agent.node) ?? [] };
		const problems = [one.state === "silent" && `silent for ${ageText(one.age_ns)}`,
				  one.drops > 0 && "drops data", one.shedding.length > 0 && "sheds load",
				  one.version !== usual && OTHER_VERSION];
		return { ...one, problems: problems.filter((text) => text) };
	});

	judged.sort((a, b) => (b.state === "silent") - (a.state === "silent") || b.drops - a.drops ||
		b.problems.length - a.problems.length || (b.cores ?? 0) - (a.cores ?? 0) || (a.node < b.node ? -1 : 1));
	return { agents: judged, versions, sending: judged.filter((agent) => agent.state === "sending").length,
		 drops: [...sumBy(drops, (labels) => labels.counter)].sort((a, b) => b[1] - a[1])
			.map(([counter, count]) => ({ counter, count, nodes: drops.filter((s) => s.labels?.counter === counter && s.total > 0).length })) };
}

/** "7 s", "10 m". */
function ageText(age_ns) {
	return age_ns < 59.5e9 ? `${Math.round(age_ns / 1e9)} s` : formatDuration(Math.round(age_ns / 1e9) * 1e9);
}

/** [[value, how often]], the most frequent first. */
function countOf(values) {
	const counts = new Map();

	for (const value of values)
		counts.set(value, (counts.get(value) ?? 0) + 1);
	return [...counts].sort((a, b) => b[1] - a[1]);
}

/** Sums of @series by keyOf(labels). */
function sumBy(series, keyOf) {
	const sums = new Map();

	for (const { labels, total } of series) {
		const key = labels && keyOf(labels);
		if (key && total > 0)
			sums.set(key, (sums.get(key) ?? 0) + total);
	}
	return sums;
}

/** Those of @series that count a loss on their node; a twentieth of some counters may be lost. */
function lossesOf(series) {
	const countOf = new Map(series.map(({ labels, total }) => [`${labels?.node} ${labels?.counter}`, total]));

	return series.filter(({ labels, total }) => {
		const loss = LABEL_VALUES.counter[labels?.counter]?.loss;
		return loss !== undefined && (!loss || total > (countOf.get(`${labels.node} ${loss}`) ?? 0) / ORDINARY_LOSSES);
	});
}

/** By node, the knobs that are active in the newest step but one, which is complete. */
function activeKnobs(answer) {
	const knobs = new Map();

	for (const { labels, values } of answer.series) {
		if (labels?.node && values.slice(-3).some((value) => value > 0))
			knobs.set(labels.node, [...knobs.get(labels.node) ?? [], labels.knob]);
	}
	return knobs;
}

function panel(title, ...children) {
	const head = element("div", "panel-head", element("h2", "", title));
	const made = element("section", "panel", head, ...children);

	made.ariaLabel = title;
	return { made, head };
}

function card(value, what, tone = "") {
	return element("div", `card ${tone}`.trim(), element("b", "", value), element("span", "", what));
}

function collectorPanel(status, { agents, sending, versions }) {
	const silent = agents.length - sending;
	const cards = [card(formatCount(sending), sending === 1 ? "agent sends" : "agents send"),
		       card(formatCount(silent), silent === 1 ? "agent is silent" : "agents are silent", silent ? "bad" : ""),
		       card(formatCount(status.series), "series"), card(formatBytes(status.stored_bytes), "stored")];

	if (status.disk_free_bytes > 0)
		cards.push(card(formatBytes(status.disk_free_bytes), "free on the store's disk"));
	if (status.oldest_ns > 0)
		cards.push(card(formatTime(Math.floor(status.oldest_ns / 1e9) * 1000), "oldest profile"));
	if (status.damaged_partitions > 0)
		cards.push(card(formatCount(status.damaged_partitions), "damaged hours, missing in answers", "bad"));
	if (status.batches_refused > 0)
		cards.push(card(formatCount(status.batches_refused), "batches refused: the disk was full or failed", "bad"));
	const { made, head } = panel("Collector", element("div", "cards", ...cards));
	head.append(element("p", "facts", `cairn ${status.version}`,
			    ...(versions.length > 1 ? [element("span", "", "Agents: ", versions.map(([version, count]) => `${version} (${formatCount(count)})`).join(", "))] : [])));
	return made;
}

function agentPanel({ agents }) {
	const titles = [["Node", ""], ["State", ""], ["Last batch", "number"], ["Overhead", "number"], ["Dropped", "number"], ["Active load shedding", ""], ["Version", ""]];
	const table = element("table", "list-table",
			      element("thead", "", element("tr", "", ...titles.map(([title, kind]) => element("th", kind, title)))),
			      element("tbody", "", ...agents.slice(0, ROWS_MAX).map(agentRow)));
	const troubled = agents.filter(({ problems }) => problems.length > 0).length;
	const { made, head } = panel("Agents", ...(agents.length ? [element("div", "list-scroller", table)] :
		[element("p", "page-message", "No agent has sent a batch since the collector started.")]));

	head.append(element("p", "facts", troubled ? `${formatCount(troubled)} of ${formatCount(agents.length)} need a look` :
		`${formatCount(agents.length)}, nothing to report`));
	if (agents.length > ROWS_MAX)
		table.append(element("caption", "", `${formatCount(agents.length - ROWS_MAX)} more`));
	return made;
}

function agentRow(agent) {
	const state = element("td", "", element("span", `state-chip ${agent.state === "sending" ? "good" : "bad"}`, agent.state));
	state.title = agent.state === "silent" ? "No batch for a minute" : "";
	const cell = (text, kind = "number") => element("td", kind, text);
	const sheds = cell(agent.shedding.map((knob) => valueTitle("knob", knob)).join(", ") || "–", "wide");
	const row = element("tr", "", cell(agent.node || "(no node)", "name"), state, cell(`${ageText(agent.age_ns)} ago`),
			    cell(agent.cores === null ? "–" : `${formatNumber(agent.cores)} cores`),
			    cell(agent.drops ? formatCount(agent.drops) : "0", agent.drops ? "number warn" : "number"), sheds, cell(agent.version, ""));

	sheds.title = agent.shedding.map((knob) => valueMeaning("knob", knob)).join("\n");
	row.title = [`${formatCount(agent.batches)} batches, ${formatCount(agent.samples)} samples since ${formatTime(Math.floor(agent.first_ns / 1e9) * 1000)}`,
		     ...agent.problems].join("\n");
	return row;
}

function dropPanel({ drops }) {
	const rows = drops.slice(0, DROPS_MAX).map(({ counter, count, nodes }) => element("tr", "",
		element("td", "number", formatCount(count)), element("td", "wide", valueMeaning("counter", counter)),
		element("td", "number", formatCount(nodes)), element("td", "", element("code", "", counter))));
	const head = element("tr", "", ...[["Times", "number"], ["What, and what to do", "wide"], ["Nodes", "number"], ["Counter", ""]]
		.map(([title, kind]) => element("th", kind, title)));

	return panel("Dropped in this range", rows.length ? element("div", "list-scroller", element("table", "list-table",
		element("thead", "", head), element("tbody", "", ...rows))) : element("p", "page-message", "Nothing.")).made;
}
