// SPDX-License-Identifier: Apache-2.0
// The heat map's pane: loads the lanes, shows what is selected, and selects.

import { TYPE } from "./contract.js";
import { byId, element } from "./element.js";
import { formatCount, formatDuration, formatRange, formatSpan, formatStep } from "./format.js";
import { gridOf, isCoarse, meanOf } from "./heat_cells.js";
import { HeatMap, withRegion } from "./heat_map.js";
import { fetchLanes } from "./heat_queries.js";
import { Panel } from "./panel.js";
import { showType } from "./queries.js";
import { lengthOf, regionsOf, REGIONS_MAX, SLOT_MS, writeRegions } from "./regions.js";
import { selectedValue, withValue } from "./selector.js";
import { absoluteTime } from "./time_range.js";
import { showToast } from "./toast.js";

const REGIONS_SHOWN = 3;
const REFRESH_MS = 20000;
const AROUND_MIN_MS = 1000; // beside a region in its timeline

export class HeatPane {
	#state;
	#stored;
	#range = null; // of the lanes
	#key = "";

	/** @stored: { oldest_ms, newest_ms } of the collector's samples, read at each use. */
	constructor(state, palette, tooltip, stored) {
		this.#state = state;
		this.#stored = stored;
		this.panel = new Panel(byId("heat-progress"), byId("heat-message"));
		this.map = new HeatMap(byId("heat"), palette, tooltip);
		this.map.addEventListener("select", (event) => this.#onSelect(event.detail));
		this.map.addEventListener("clear", () => this.clear());
		this.map.addEventListener("cell", (event) => (byId("heat-cell").textContent = event.detail));
		this.scroller = byId("heat-scroller");
		this.scroller.addEventListener("scroll", () => this.#showMore());
		new ResizeObserver(() => this.#showMore()).observe(this.scroller);
		byId("heat-more-button").addEventListener("click", () => this.scroller.scrollBy({ top: this.scroller.clientHeight }));
		byId("selection-clear").addEventListener("click", () => this.clear());
		byId("selection-compare").addEventListener("click", () => this.#compare());
		byId("selection-timeline").addEventListener("click", () => this.#openTimeline());
		for (const button of document.querySelectorAll("[data-heat-mode]"))
			button.addEventListener("click", () => this.#setMode(button.dataset.heatMode));
	}

	/** What of a view the lanes depend on, beside the range. */
	keyOf(view) {
		return [showType(view, TYPE.CPU).query, view.idle];
	}

	/** Load and show. Throws ApiError. */
	async load(view, range) {
		if (this.#isFresh(view, range))
			return;
		const grid = gridOf(range, this.map.columnsMax);
		const lanes = await this.panel.load((signal) => fetchLanes(view, range, grid, signal));

		if (lanes === undefined)
			return;
		this.#range = range;
		this.#key = JSON.stringify(this.keyOf(view));
		this.map.setLanes(lanes, grid, this.#stored);
		this.panel.setMessage(...(lanes.length ? [] : ["No samples in this range."]));
		this.#showNote(grid, lanes);
		this.showSelection(view);
	}

	/** Is @range, which moves with the clock, almost the one that is shown? A map is many times a chart's data. */
	#isFresh(view, range) {
		const moved_ms = this.#range ? range.to_ms - this.#range.to_ms : 0;

		return moved_ms > 0 && moved_ms < REFRESH_MS && range.from_ms - this.#range.from_ms === moved_ms &&
			this.#key === JSON.stringify(this.keyOf(view));
	}

	/** Show @message instead of data. */
	fail(message) {
		this.#range = null;
		this.map.setLanes(null, null);
		this.panel.setMessage(message);
	}

	/** Name the lanes below the visible ones. Their row stays as long as there is something to scroll. */
	#showMore() {
		const { scrollTop, scrollHeight, clientHeight } = this.scroller;
		const below = this.map.lanes.filter(({ top, height }) => top + height / 2 > scrollTop + clientHeight);
		const names = below.map(({ title }) => title.replace(/^.*: /, "")).join(", ");

		byId("heat-more").hidden = scrollHeight <= clientHeight + 1;
		byId("heat-more-button").textContent = below.length ? `${formatCount(below.length)} more below: ${names}` : "";
	}

	/** Show the regions of @view, in all lanes and in words. */
	showSelection(view) {
		const regions = regionsOf(view);

		this.map.setSelection(keyOfLane(view), regions);
		this.#showMore();
		byId("selection").hidden = regions.length === 0;
		// The compare page has one time on each side.
		byId("selection-compare").hidden = regions.length !== 1;
		if (regions.length)
			byId("selected").replaceChildren(...this.#selectionWords(view, regions));
		byId("selected").title = regions.slice(0, REGIONS_SHOWN).map(({ from_ms, to_ms }) => formatSpan(from_ms, to_ms)).join("\n");
	}

	/** Select nothing. */
	clear() {
		if (this.#state.view.sel)
			this.#state.change({ sel: "", zoom: "" });
	}

	/** What differs in the region from the rest of the range? */
	#compare() {
		const { view } = this.#state;
		const [{ from_ms, to_ms }] = regionsOf(view);

		this.#state.change({ page: "compare", against: "rest", base: "", base_from: view.from, base_to: view.to, sel: "", zoom: "",
				     from: absoluteTime(from_ms), to: absoluteTime(to_ms) });
	}

	/** What did each thread do from the first region to the last, and for as long before and after? */
	#openTimeline() {
		const regions = regionsOf(this.#state.view);
		const [from_ms, to_ms] = [regions.at(0).from_ms, regions.at(-1).to_ms];
		const around_ms = Math.max(AROUND_MIN_MS, to_ms - from_ms);

		this.#state.change({ page: "timeline", sel: "", thread: "", zoom: "", from: absoluteTime(from_ms - around_ms), to: absoluteTime(to_ms + around_ms) });
	}

	#setMode(mode) {
		this.map.setMode(mode);
		for (const button of document.querySelectorAll("[data-heat-mode]"))
			button.ariaPressed = String(button.dataset.heatMode === mode);
	}

	#showNote(grid, lanes) {
		const isSampled = !isCoarse(grid) && lanes.some(({ type }) => type === TYPE.CPU);
		const column = formatStep(grid.column_ms);
		const rolledUp_ms = Math.max(0, ...lanes.map(({ answer }) => answer.resolution_ns / 1e6));
		const even = rolledUp_ms > grid.cell_ms ? ` Profiles this old are kept in slots of ${formatStep(rolledUp_ms)}: their value is spread evenly.` : "";

		byId("heat-note").textContent = isCoarse(grid) ? `Column: ${column}, from bottom to top.${even} Cell: ${formatStep(grid.cell_ms)}, its` :
			`Column: ${column}, from bottom to top.${even} Cell: ${SLOT_MS} ms.${isSampled ? " A CPU sample counts whole in the cell of its timer tick." : ""}`;
		byId("heat-modes").hidden = !isCoarse(grid);
	}

	#selectionWords(view, regions) {
		const lane = this.map.lanes.find(({ key }) => key === keyOfLane(view));
		const shown = regions.slice(0, REGIONS_SHOWN).map(({ from_ms, to_ms }) => formatRange(from_ms, to_ms, Date.now()));
		const words = [element("b", "", formatDuration(lengthOf(regions) * 1e6)), " selected", ...(lane ? [" in ", element("b", "", lane.title)] : []), `: ${shown.join(", ")}`];

		if (regions.length > REGIONS_SHOWN)
			words.push(` and ${formatCount(regions.length - REGIONS_SHOWN)} more`);
		if (lane?.wait)
			words.push(" ", this.#allWaits(view));
		if (lane)
			words.push("; ", element("b", "", `${lane.rate.format(meanOf(lane, this.map.grid, regions))} ${lane.rate.unit}`.trim()), " on average");
		return words;
	}

	#allWaits(view) {
		const button = element("button", "link", "show all off-CPU time");

		button.type = "button";
		button.title = "Remove the wait class from the selector";
		button.addEventListener("click", () => this.#state.change({ query: withValue(view.query, "wait", null), zoom: "" }));
		return button;
	}

	/** The flame graph and the table show the selected cells of the lane, at the range that is shown now. */
	#onSelect({ lane, from_ms, to_ms, isMore }) {
		const { view } = this.#state;
		const shown = showType(view, lane.type);
		const regions = withRegion(regionsOf(view), from_ms, to_ms, isMore);
		const query = lane.wait ? withValue(shown.query, "wait", lane.wait) : shown.query;

		if (regions.length > REGIONS_MAX) {
			byId("selected").append(` (${REGIONS_MAX} regions are the most)`);
			return;
		}
		if (query !== view.query)
			showToast(`Shown from now on: ${lane.title}. The selector is ${query || "{}"}`);
		this.#state.change({ ...(keyOfLane(view) === lane.key ? {} : { ...shown, query }), zoom: "", sel: writeRegions(regions),
				     from: absoluteTime(this.#range.from_ms), to: absoluteTime(this.#range.to_ms) });
	}
}

/** The lane that @view's flame graph belongs to. */
function keyOfLane(view) {
	return `${view.type}/${selectedValue(view.query, "wait") ?? ""}`;
}
