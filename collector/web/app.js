// SPDX-License-Identifier: Apache-2.0
// The page: the view (state.js) decides which queries run (queries.js) and what the panes show.
// User actions change the view. Nothing else connects the parts.

import { LatestRequest } from "./api.js";
import { ChartPane } from "./chart_pane.js";
import { Connection } from "./connection.js";
import { TYPE } from "./contract.js";
import { DiagnosisCard } from "./diagnosis.js";
import { byId, element } from "./element.js";
import { FlamePane } from "./flame_pane.js";
import { formatTime } from "./format.js";
import { HeatPane } from "./heat_pane.js";
import { listenForLogin } from "./login.js";
import { Pages } from "./pages.js";
import { readPalette } from "./palette.js";
import { Popover } from "./popover.js";
import { hasIdle, sectionsOf, specOf } from "./profile_type.js";
import { fetchLabels, fetchServices, fetchTypes, downloads, showType } from "./queries.js";
import { RangePicker } from "./range_picker.js";
import { regionsOf } from "./regions.js";
import { SelectorInput } from "./selector_input.js";
import { selectedValue, withValue } from "./selector.js";
import { ServicePicker } from "./service_picker.js";
import { copyLink } from "./share_link.js";
import { listenForShortcuts } from "./shortcuts.js";
import { SourcePane } from "./source_pane.js";
import { StacklessPane } from "./stackless_pane.js";
import { ViewState } from "./state.js";
import { StatesPane } from "./states_pane.js";
import { TablePane } from "./table_pane.js";
import { absoluteTime, isRelative, presetForAge, resolveRange } from "./time_range.js";
import { showToast } from "./toast.js";
import { Tooltip } from "./tooltip.js";

const LIVE_MS = 5000;
const YOUNG_MS = 12 * 60000; // older data fill the default range well enough
const GRPC_PORT = 7171; // cairn-collector's default
const SHAPE_FIELDS = ["fold", "recursion", "libraries", "hide", "focus", "color"]; // the flame graph reshapes what it has
const QUERY_FIELDS = ["query", "type", "from", "to", "group", "idle", "nodes", "sel", "lines", "sandwich", "columns"]; // of a view; a change reloads the panes

class Page {
	#range = { from_ms: 0, to_ms: 1 };
	#previousRanges = [];
	#pending = 0;
	#liveTimer = 0;
	#types = []; // with data in the range
	#loadedFor = new Map(); // pane to the view and range it shows

	constructor() {
		const palette = readPalette();

		this.state = new ViewState();
		this.connection = new Connection();
		this.tooltip = new Tooltip(byId("tooltip"));
		this.services = new ServicePicker();
		this.selector = new SelectorInput(() => this.#range);
		this.ranges = new RangePicker(() => this.connection.now_ms());
		this.chart = new ChartPane(this.state, palette, this.tooltip, this.connection);
		this.heat = new HeatPane(this.state, palette, this.tooltip, this.connection);
		this.flame = new FlamePane(this.state, palette, this.tooltip, () => this.#explainEmpty(), this.connection);
		this.table = new TablePane(this.state);
		this.source = new SourcePane(this.state);
		this.stackless = new StacklessPane(this.state);
		this.states = new StatesPane(this.state);
		this.diagnosis = new DiagnosisCard(this.state, () => this.#range);
		this.pages = new Pages({ state: this.state, connection: this.connection, tooltip: this.tooltip, palette: readPalette });
		this.serviceRequest = new LatestRequest();
		this.typeRequest = new LatestRequest();
		this.labelRequest = new LatestRequest();
		listenForLogin();
		this.#listen();
	}

	get view() {
		return this.state.view;
	}

	/** Are all requests answered and all animations done? */
	get settled() {
		return this.#pending === 0 && this.flame.graph.settled && this.pages.settled;
	}

	async start() {
		this.pages.show(this.view);
		this.#showTypes();
		this.#showLayout();
		this.#showOver();
		this.#showSelection();
		this.stackless.show(this.view, null);
		this.flame.showRoot(this.view);
		this.flame.showShape(this.view);
		this.flame.showSearch(this.view);
		this.table.show(this.view);
		this.source.show(this.view);
		this.#pending++; // the page is not settled before its first request
		await this.connection.poll();
		if (!this.#fitYoungData())
			await this.refresh({ choices: true });
		this.#pending--;
	}

	/**
	 * Default to a shorter range on a new collector, whose data would fill a sliver of 15 minutes.
	 * A range in the link stays. Returns whether the range changed, which starts a refresh.
	 */
	#fitYoungData() {
		const { oldest_ms } = this.connection;
		const age_ms = this.connection.now_ms() - oldest_ms;

		if (!oldest_ms || new URLSearchParams(location.search).has("from") || age_ms >= YOUNG_MS)
			return false;
		const { from } = presetForAge(age_ms);
		const isAnother = from !== this.view.from;
		this.state.change({ from }, { replace: true });
		return isAnother;
	}

	/** Reload all visible panes; @choices: also the profile types and labels to choose from. */
	async refresh({ choices = false } = {}) {
		const { view } = this;
		const range = resolveRange(view.from, view.to, this.connection.now_ms());

		clearTimeout(this.#liveTimer);
		if (range.error) {
			this.#showControls(null);
			this.#failAll(`${range.error}.`);
			return;
		}
		this.#range = range;
		this.#showControls(range);
		const requests = [this.#loadPanes()];
		if (this.#isService)
			requests.push(this.#try(() => this.chart.loadMarks(view, range)));
		if (this.pages.obeys(view, "service"))
			requests.push(this.#loadServices());
		if (choices && this.pages.obeys(view, "type"))
			requests.push(this.#loadChoices());
		await Promise.all(requests);
		this.#scheduleLive();
	}

	get #isService() {
		return this.view.page === "service";
	}

	get #panes() {
		const { layout, type, code } = this.view;

		if (!this.#isService)
			return [this.pages.of(this.view)];
		const over = this.view.over === "heat" ? [this.chart, this.heat] : [this.chart];
		if (specOf(type).noStacks)
			return type === TYPE.WALL ? [...over, this.states] : over;
		return [...over, ...(layout !== "table" ? [this.flame] : []), ...(layout !== "flame" ? [code ? this.source : this.table] : [])];
	}

	/** The fields of the view of which a change reloads what is shown. */
	get #queryFields() {
		return this.pages.fieldsOf(this.view) ?? QUERY_FIELDS;
	}

	/** Load the visible panes that do not show this view and range yet. */
	async #loadPanes() {
		const { view } = this;
		const range = this.#range;
		const keyOf = (pane) => JSON.stringify([range, pane.keyOf?.(view) ?? this.#queryFields.map((name) => view[name])]);
		const stale = this.#panes.filter((pane) => this.#loadedFor.get(pane) !== keyOf(pane));

		await Promise.all(stale.map((pane) => this.#try(async () => {
			this.#loadedFor.set(pane, keyOf(pane));
			await pane.load(view, range);
		}, pane)));
	}

	/** Await @load(); an error is shown where it belongs: banner, selector, @pane. */
	async #try(load, pane = null) {
		this.#pending++;
		try {
			await load();
		} catch (error) {
			this.#loadedFor.delete(pane);
			if (error.away)
				this.connection.lost(error.message);
			else if (error.field === "query")
				this.selector.showError(error.message);
			// While the collector is unreachable the last data stays, and the banner marks it stale.
			if (pane && !error.away)
				pane.fail(error.field === "query" ? "Invalid selector." : `Query failed: ${error.message}`);
		} finally {
			this.#pending--;
		}
	}

	#failAll(message) {
		this.#loadedFor.clear();
		for (const pane of this.#isService ? [this.chart, this.heat, this.flame, this.table, this.source, this.states] : this.#panes)
			pane.fail(message);
	}

	#loadServices() {
		return this.#try(async () => {
			const answer = await this.serviceRequest.run((signal) => fetchServices(this.view, this.#range, signal));
			if (answer)
				this.services.setServices(answer.services, answer.whole);
		});
	}

	#loadChoices() {
		const { view } = this;
		const range = this.#range;

		return Promise.all([
			this.#try(async () => {
				const answer = await this.typeRequest.run((signal) => fetchTypes(view, range, signal));
				if (answer) {
					this.#types = answer.types.map((t) => String(t.type));
					this.#showTypes();
				}
			}),
			this.#try(async () => {
				const answer = await this.labelRequest.run((signal) => fetchLabels(view, range, signal));
				if (answer)
					this.chart.showChoices(view, answer.names.map(String));
			}),
		]);
	}

	#showTypes() {
		const offered = new Set([...this.#types, this.view.type]);

		byId("type").replaceChildren(...sectionsOf([...offered]).map(({ section, specs }) => {
			const group = element("optgroup", "", ...specs.map(({ type, title, meaning }) => {
				const option = new Option(title, type);
				option.title = meaning || type;
				return option;
			}));
			group.label = section;
			return group;
		}));
		const { type } = this.view;
		byId("type").value = type;
		byId("type").title = [specOf(type).meaning, `Profile type ${type}`].filter((text) => text).join(".\n");
	}

	#showControls(range) {
		const { view } = this;
		const service = selectedValue(view.query, "service");

		document.title = `${this.pages.titleOf(view, service ?? (view.query || "All services"))} · cairn`;
		this.services.setSelected(service);
		this.selector.setText(view.query);
		this.ranges.setRange(view, range);
		if (byId("type").value !== view.type)
			this.#showTypes();
		byId("zoom-out").hidden = isRelative(view.from) && this.#previousRanges.length === 0;
		this.#showLive();
	}

	#showLayout() {
		byId("panes").dataset.layout = this.view.layout;
		for (const button of document.querySelectorAll("[data-layout][aria-pressed]"))
			button.ariaPressed = String(button.dataset.layout === this.view.layout);
	}

	#showOver() {
		const { over } = this.view;

		byId("chart-panel").dataset.over = over;
		for (const button of document.querySelectorAll("[data-over][aria-pressed]"))
			button.ariaPressed = String(button.dataset.over === over);
	}

	#showSelection() {
		this.heat.showSelection(this.view);
		this.chart.chart.setRegions(regionsOf(this.view));
	}

	#setOver(over) {
		this.state.change({ over }, { replace: true });
	}

	get #isLive() {
		return this.view.live === "on" && isRelative(this.view.to);
	}

	#showLive() {
		const past = !isRelative(this.view.to);

		byId("live").ariaPressed = String(this.#isLive);
		byId("live").title = past ? "Paused: the range ends in the past. Click to return to now (l)" :
			this.#isLive ? "Refreshes every 5 seconds. Click to pause (l)" : "Click to refresh every 5 seconds (l)";
		byId("live-text").textContent = this.#isLive ? "Live" : "Paused";
	}

	#scheduleLive() {
		clearTimeout(this.#liveTimer);
		if (this.#isLive)
			this.#liveTimer = setTimeout(() => this.#onLiveTick(), LIVE_MS);
	}

	async #onLiveTick() {
		// The tab is hidden, or a drag is in progress.
		if (document.hidden || this.chart.chart.dragging || this.heat.map.dragging) {
			this.#scheduleLive();
			return;
		}
		// Get the newest data's time first. When the collector is unreachable, "back" refreshes.
		if (await this.connection.poll())
			this.refresh();
	}

	#toggleLive() {
		if (isRelative(this.view.to))
			this.state.change({ live: this.view.live === "on" ? "off" : "on" }, { replace: true });
		else
			this.state.change({ from: "now-15m", to: "now", sel: "", live: "on" });
	}

	#toggleIdle() {
		if (hasIdle(this.view.type))
			this.state.change({ idle: this.view.idle === "out" ? "in" : "out" });
	}

	/** Zoom to a range of the chart; zooming out returns to the previous one. */
	#zoomRange({ from_ms, to_ms }) {
		this.#previousRanges.push({ from: this.view.from, to: this.view.to });
		this.state.change({ from: absoluteTime(from_ms), to: absoluteTime(to_ms), sel: "" });
	}

	/** Back to the previous range; without one, widen the range. */
	#zoomRangeOut() {
		const before = this.#previousRanges.pop();

		if (before) {
			this.state.change(before);
			return;
		}
		const { from_ms, to_ms } = this.#range;
		const span_ms = to_ms - from_ms;
		this.state.change({ from: absoluteTime(from_ms - span_ms),
				    to: absoluteTime(Math.min(to_ms + span_ms, this.connection.now_ms())) });
	}

	#explainEmpty() {
		const { newest_ms } = this.connection;
		const parts = [element("h3", "", this.view.sel ? "No samples in the selection." : "No samples in this range.")];
		const action = (text, patch) => {
			const button = element("button", "button", text);
			button.type = "button";
			button.addEventListener("click", () => this.state.change({ ...patch, zoom: "" }));
			return button;
		};

		if (!newest_ms) {
			parts.push(element("p", "", "No agent has sent data. Run on each machine, as root, with the address of the collector's --grpc (a login needs --token-file, TLS --tls-ca):"),
				  element("code", "", `cairn-agent --collector ${location.hostname}:${GRPC_PORT}`));
			return parts;
		}
		parts.push(element("p", "", `Newest sample of any service: ${formatTime(Math.floor(newest_ms / 1000) * 1000)}.`));
		const actions = element("p", "actions");
		if (this.view.sel)
			actions.append(action("Clear the selection", { sel: "" }));
		if (this.view.query)
			actions.append(action("Show all services", { query: "" }));
		if (newest_ms < this.#range.from_ms || newest_ms > this.#range.to_ms)
			actions.append(action("Go to the newest samples", {
				from: absoluteTime(newest_ms - 60000), to: absoluteTime(newest_ms + 1000) }));
		parts.push(actions);
		return parts;
	}

	#listen() {
		this.state.addEventListener("change", (event) => this.#onChange(event.detail));
		this.connection.addEventListener("back", () => this.refresh({ choices: true }));
		this.services.addEventListener("pick", (event) =>
			this.state.change({ query: withValue(this.view.query, "service", event.detail), zoom: "" }));
		this.selector.addEventListener("apply", (event) => this.#applySelector(event.detail));
		this.ranges.addEventListener("pick", (event) => {
			this.#previousRanges = [];
			this.state.change({ ...event.detail, sel: "" });
		});
		this.chart.chart.addEventListener("range", (event) => this.#zoomRange(event.detail));
		this.chart.chart.addEventListener("back", () => this.#zoomRangeOut());
		byId("zoom-out").addEventListener("click", () => this.#zoomRangeOut());
		byId("type").addEventListener("change", () => this.state.change(showType(this.view, byId("type").value)));
		this.chart.addEventListener("shown", () => this.stackless.show(this.view, this.chart.chart.summary()));
		this.chart.addEventListener("marks", (event) => this.heat.map.setMarks(event.detail));
		byId("live").addEventListener("click", () => this.#toggleLive());
		this.table.table.addEventListener("menu", (event) => this.flame.openFunctionMenu(event.detail));
		byId("share").addEventListener("click", () => this.#share());
		for (const button of document.querySelectorAll("[data-layout][aria-pressed]"))
			button.addEventListener("click", () => this.#setLayout(button.dataset.layout));
		for (const button of document.querySelectorAll("[data-over][aria-pressed]"))
			button.addEventListener("click", () => this.#setOver(button.dataset.over));
		window.addEventListener("themechange", () => this.#onTheme());
		new Popover(byId("download-button"), byId("download-popover"), () => this.#fillDownloads());
		this.help = new Popover(byId("help-button"), byId("help-popover"));
		this.#listenForKeys();
	}

	#listenForKeys() {
		// Keys of what the shown page lacks do nothing.
		const onService = (act) => () => this.#isService && act();
		const withControl = (control, act) => () => this.pages.obeys(this.view, control) && act();

		listenForShortcuts({
			"/": onService(() => byId("search").select()),
			"?": () => byId("help-button").click(),
			s: withControl("service", () => this.services.open()),
			t: () => this.ranges.open(),
			l: () => this.#toggleLive(),
			d: onService(() => byId("diagnosis-button").click()),
			w: withControl("type", () => byId("type").focus()),
			i: withControl("type", () => this.#toggleIdle()),
			f: onService(() => byId("flame-scroller").focus()),
			1: onService(() => this.#setLayout("flame")),
			2: onService(() => this.#setLayout("both")),
			3: onService(() => this.#setLayout("table")),
			h: onService(() => this.#setOver(this.view.over === "heat" ? "chart" : "heat")),
			n: onService(() => this.flame.step(1)),
			N: onService(() => this.flame.step(-1)),
			v: onService(() => this.flame.options.open()),
			Escape: onService(() => (this.flame.isReset ? this.heat.clear() : this.flame.reset())),
		});
	}

	#onChange(changed) {
		if (changed.has("page"))
			this.pages.show(this.view);
		if (changed.has("layout"))
			this.#showLayout();
		if (changed.has("over"))
			this.#showOver();
		if (["sel", "type", "query", "over"].some((name) => changed.has(name)))
			this.#showSelection();
		if (changed.has("type")) {
			this.states.fail(); // it shows another type's data
			this.stackless.show(this.view, null);
			this.#showTypes();
			this.chart.showChoices(this.view);
		}
		if (changed.has("root"))
			this.flame.showRoot(this.view);
		if (SHAPE_FIELDS.some((name) => changed.has(name)))
			this.flame.showShape(this.view);
		if (["sort", "filter", "columns", "type"].some((name) => changed.has(name)))
			this.table.show(this.view);
		if (changed.has("code"))
			this.source.show(this.view);
		if (["page", ...this.#queryFields].some((name) => name !== "sel" && changed.has(name))) {
			this.refresh({ choices: ["page", "query", "from", "to", "group"].some((name) => changed.has(name)) });
		} else if (["layout", "over", "sel", "code"].some((name) => changed.has(name))) {
			this.#loadPanes();
		}
		if (changed.has("zoom"))
			this.flame.showZoom(this.view);
		if (changed.has("search")) {
			this.flame.showSearch(this.view);
			this.table.showSearch(this.view);
		}
		if (changed.has("live")) {
			this.#showLive();
			if (this.#isLive)
				this.refresh();
			else
				clearTimeout(this.#liveTimer);
		}
	}

	#applySelector(text) {
		if (text === this.view.query)
			this.refresh({ choices: true });
		else
			this.state.change({ query: text, zoom: "" });
	}

	#setLayout(layout) {
		this.state.change({ layout }, { replace: true });
	}

	#onTheme() {
		const palette = readPalette();

		this.chart.setPalette(palette);
		this.heat.map.setPalette(palette);
		this.pages.setPalette(palette);
		this.flame.setPalette(palette);
	}

	#fillDownloads() {
		byId("download-popover").replaceChildren(...downloads(this.view, this.#range).map(({ label, note, href }) => {
			const link = element("a", "menu-row", label, element("span", "muted", note));
			link.href = href;
			link.role = "menuitem";
			link.download = "";
			return link;
		}));
	}

	async #share() {
		showToast(await copyLink(this.view, this.#range, this.connection.now_ms()));
	}
}

const page = new Page();

/**
 * Read-only, for tests and the console.
 *   settled()            are all requests answered and all animations done?
 *   view()               the view, as in the address
 *   flameGraph.boxes()   visible boxes: { name, kind, self, total, depth, matched, x, y, width, height }, in
 *                        window coordinates; flameGraph.zoomed() is the zoomed frame's name
 *   flameGraph.drawNow() draws once more and returns the milliseconds; drawTimes_ms(): of the last draws
 *   heatMap.plot()       the lanes' places in the window, their cells' values and the grid
 *   timeline.shown()     the timeline page's rows and their largest parts, and the boxes of its flame graph
 *   compare.boxes()      those of the compare page, with their colours
 *   seriesChart.plot()   the plot's place in the window and the times at its sides
 */
window.cairn = Object.freeze({
	settled: () => page.settled,
	view: () => ({ ...page.view }),
	flameGraph: Object.freeze({
		boxes: () => page.flame.graph.boxes(),
		zoomed: () => page.flame.graph.tree?.nameOf(page.flame.graph.zoomed) ?? null,
		count: () => page.flame.graph.tree?.count ?? 0,
		drawNow: () => page.flame.graph.drawNow(),
		drawTimes_ms: () => [...page.flame.graph.drawTimes_ms],
		tree: () => page.flame.graph.tree,
		openMenu: (node) => page.flame.openMenu(node),
	}),
	heatMap: Object.freeze({ plot: () => page.heat.map.plot() }),
	callers: Object.freeze({ boxes: () => page.flame.callers.boxes() }),
	timeline: Object.freeze({ shown: () => page.pages.of(page.view)?.shown }),
	compare: Object.freeze({ boxes: () => page.pages.of(page.view)?.shown?.boxes ?? [] }),
	seriesChart: Object.freeze({ plot: () => page.chart.chart.plot() }),
});

page.start();
