// SPDX-License-Identifier: Apache-2.0
// The fleet by service: what each costs in CPU cores, the change since the day before, and where it runs.

import { TYPE } from "./contract.js";
import { element } from "./element.js";
import { formatCount, formatNumber, formatRange, formatShare } from "./format.js";
import { pagePanel } from "./page_panel.js";
import { fetchServiceCosts } from "./queries.js";
import { formatSelector } from "./selector.js";
import { writeView } from "./state.js";
import { stepsOf } from "./series_stack.js";

const DAY_MS = 86400e3;
const SHARE_MIN = 0.005; // smaller services are folded into one row
const ROWS_MIN = 8;	 // but so many have a row of their own
const ROWS_MAX = 60;
const UNFOLDED_MAX = 500;
const SPARK = { width: 120, height: 22 };
const CHANGE_MIN = 0.05; // of a core, and of the cost: less is called "same"

/** A page of pages.js. */
export function mountServices(root, context) {
	const shown = { isUnfolded: false, answer: null };

	return pagePanel(root, (view, range, signal) => fetchServiceCosts(range, signal), (answer, view, range) => {
		const box = element("div", "");
		const render = () => box.replaceChildren(panel(judge(answer, range, context.connection), { ...context, view, range, shown, render }));

		shown.answer = answer;
		render();
		return [box];
	});
}

/**
 * The services of fetchServiceCosts()'s answer, the most expensive first: { services, cores, hasBefore }. Each has `cores`, `share`,
 * `before` (cores a day before; null: not stored) and `rates`, cores over time (null: not among the largest).
 */
export function judge({ now, before, series }, range, stored) {
	const { step_ms } = stepsOf(series);
	const cover = (one) => Math.max(1, Math.min(one.to_ms, stored.newest_ms || one.to_ms) - Math.max(one.from_ms, stored.oldest_ms || 0));
	const day = { from_ms: range.from_ms - DAY_MS, to_ms: range.to_ms - DAY_MS };
	const hasBefore = Boolean(stored.oldest_ms) && stored.oldest_ms < day.to_ms;
	const coresBefore = new Map(before.services.map(({ service, total }) => [service, total / 1e6 / cover(day)]));
	const ratesOf = new Map(series.series.map(({ group, values }) => [group, values.map((value) => value / 1e6 / step_ms)]));
	const services = now.services.map(({ service, total, nodes, pods, instances }) => ({
		name: service, cores: total / 1e6 / cover(range), share: now.total ? total / now.total : 0, nodes, pods, instances,
		before: hasBefore ? coresBefore.get(service) ?? 0 : null, rates: ratesOf.get(service) ?? null }));

	return { services, cores: now.total / 1e6 / cover(range), count: now.service_count, hasBefore,
		 before: hasBefore ? before.total / 1e6 / cover(day) : null };
}

/** { text, tone } of a cost that was @before: "+12 %", "new". */
export function changeOf(cores, before) {
	if (before === null)
		return { text: "–", tone: "" };
	if (before === 0)
		return cores >= CHANGE_MIN ? { text: "new", tone: "more" } : { text: "–", tone: "" };
	const share = cores / before - 1;
	if (Math.abs(cores - before) < CHANGE_MIN || Math.abs(share) < CHANGE_MIN)
		return { text: "same", tone: "" };
	const text = share >= 9 ? `×${formatNumber(cores / before)}` : `${share > 0 ? "+" : "−"}${Math.round(Math.abs(share) * 100)}\u202f%`;
	return { text, tone: share > 0 ? "more" : "less" };
}

/** The services with rows of their own, and those that are folded. */
export function fold(services) {
	const large = services.filter(({ share }, at) => at < ROWS_MAX && (at < ROWS_MIN || share >= SHARE_MIN));
	const rest = services.slice(large.length);

	// One row is no shorter than the service itself.
	return rest.length > 1 ? { large, rest } : { large: services, rest: [] };
}

function panel({ services, cores, count, before, hasBefore }, context) {
	const head = element("div", "panel-head", element("h2", "", "Services"));
	const { large, rest } = fold(services);
	const rows = large.map((service) => serviceRow(service, context));

	head.append(element("p", "facts", element("span", "", element("b", "", formatNumber(cores)), " cores in all"),
			    element("span", "", element("b", "", formatCount(count)), count === 1 ? " service" : " services")));
	if (rest.length) {
		rows.push(foldedRow(rest, services.length < count, context));
		if (context.shown.isUnfolded)
			rows.push(...rest.slice(0, UNFOLDED_MAX).map((service) => serviceRow(service, context)));
	}
	const titles = [["Service", ""], ["CPU cores", "number"], ["Share", "number"], ["Since yesterday", "number"],
			["In this range", "spark"], ["Nodes", "number"], [placesTitle(services), "number"]];
	const made = element("section", "panel", head, services.length ? element("div", "list-scroller", element("table", `list-table services-table${hasBefore ? "" : " no-before"}`,
		element("thead", "", element("tr", "", ...titles.map(([title, kind]) => element("th", kind, title)))),
		element("tbody", "", ...rows))) : element("p", "page-message", "No service used CPU time in this range."));
	const day = made.querySelector("th:nth-child(4)");

	if (day)
		day.title = hasBefore ? `The same time a day before: ${formatNumber(before)} cores in all` : "The store does not reach back to the same time a day before";
	const places = made.querySelector("th:last-child");

	if (places)
		places.title = "Pods; of a service outside pods, its values of service.instance.id";
	made.ariaLabel = "Services";
	return made;
}

/** The title of the column of pods, or of instances outside pods. */
function placesTitle(services) {
	const hasPods = services.some(({ pods }) => pods), hasOthers = services.some(({ pods, instances }) => !pods && instances);

	return hasOthers ? (hasPods ? "Pods, instances" : "Instances") : "Pods";
}

/** The address of @service's page at the view's range. */
function linkTo(service, { view }) {
	return writeView({ ...view, page: "service", type: TYPE.CPU, query: formatSelector([{ name: "service", op: "=", value: service }]), zoom: "", search: "", sel: "" });
}

function serviceRow(service, context) {
	const link = element("a", "", service.name || "(no service)");
	const change = changeOf(service.cores, service.before);
	const number = (text, kind = "") => element("td", `number ${kind}`.trim(), text);
	const changed = number(change.text, change.tone);
	const bar = element("span", "cost-bar");

	link.href = linkTo(service.name, context) || "/";
	link.addEventListener("click", (event) => {
		if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
			return;
		event.preventDefault();
		context.state.change({ page: "service", type: TYPE.CPU, zoom: "", search: "", sel: "",
				       query: formatSelector([{ name: "service", op: "=", value: service.name }]) });
	});
	bar.style.width = `${100 * service.share}%`;
	if (service.before !== null)
		changed.title = `${formatNumber(service.before)} cores a day before`;
	return element("tr", "", element("td", "name", link, bar), number(formatNumber(service.cores)), number(formatShare(service.share, 1)), changed,
		       element("td", "spark", ...(service.rates ? [spark(service, context)] : [])),
		       number(formatCount(service.nodes)), number(service.pods || service.instances ? formatCount(service.pods || service.instances) : "–"));
}

/** One row for all small services; a click lists them. */
function foldedRow(rest, isCut, { shown, render }) {
	const cores = rest.reduce((sum, service) => sum + service.cores, 0);
	const share = rest.reduce((sum, service) => sum + service.share, 0);
	const before = rest.some((service) => service.before !== null) ? rest.reduce((sum, service) => sum + service.before, 0) : null;
	const change = changeOf(cores, before);
	const button = element("button", "link", `${formatCount(rest.length)}${isCut ? " or more" : ""} small services`);
	const number = (text, kind = "") => element("td", `number ${kind}`.trim(), text);

	button.type = "button";
	button.ariaExpanded = String(shown.isUnfolded);
	button.addEventListener("click", () => {
		shown.isUnfolded = !shown.isUnfolded;
		render();
	});
	return element("tr", "folded", element("td", "name", button, element("span", "muted", `, each below ${formatShare(Math.max(SHARE_MIN, rest[0].share), 1)}`)),
		       number(formatNumber(cores)), number(formatShare(share, 1)), number(change.text, change.tone), element("td", ""), element("td", ""), element("td", ""));
}

/** Cores over time, from 0 to their peak, without the seconds that may still arrive. */
function spark({ name, rates }, { shown, connection, range }) {
	const { first_ms, step_ms } = stepsOf(shown.answer.series);
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
	const until = Math.max(1, Math.min(rates.length, Math.floor(((connection.newest_ms || range.to_ms) - first_ms) / step_ms)));
	const begun = Math.max(0, Math.ceil(((connection.oldest_ms || 0) - first_ms) / step_ms));
	const peak = rates.reduce((a, b) => Math.max(a, b), 0) || 1;
	const x = (at) => ((at / rates.length) * SPARK.width).toFixed(1);
	const y = (value) => (SPARK.height - 1 - (value / peak) * (SPARK.height - 2)).toFixed(1);

	// The whole range: without it a line that begins late floats.
	const ground = document.createElementNS("http://www.w3.org/2000/svg", "path");

	ground.setAttribute("class", "spark-ground");
	ground.setAttribute("d", `M0 ${SPARK.height - 0.5}H${SPARK.width}`);
	svg.append(ground);
	line.setAttribute("d", rates.slice(begun, until).map((value, at) => `${at ? "L" : "M"}${x(begun + at)} ${y(value)}H${x(begun + at + 1)}`).join(""));
	svg.append(line);
	svg.setAttribute("viewBox", `0 0 ${SPARK.width} ${SPARK.height}`);
	svg.setAttribute("role", "img");
	svg.setAttribute("aria-label", `${name} over ${formatRange(range.from_ms, range.to_ms, connection.now_ms())}, at most ${formatNumber(peak)} cores`);
	return svg;
}
