// SPDX-License-Identifier: Apache-2.0
// Usage over time: stacked steps on a canvas. Dragging selects a range, a double click goes back.

import { valueTicks } from "./axis_ticks.js";
import { changesNear, drawMarks, isInGap, reducedAt, throttledAt } from "./chart_marks.js";
import { element } from "./element.js";
import { formatDuration, formatNumber, formatRange, formatTime } from "./format.js";
import { valueTitle } from "./label_value.js";
import { SERIES_COLORS } from "./palette.js";
import { stackSeries } from "./series_stack.js";
import { drawTimes, SIDES } from "./time_axis.js";

const PLOT = { ...SIDES, top: 10, bottom: 22 }; // px around the plot
const DRAG_MIN = 4;	    // px; less is a click
const RANGE_MIN_MS = 20;    // one slot
const TOOLTIP_SERIES_MAX = 8;
const TOOLTIP_CHANGES_MAX = 4;
const NO_MARKS = { throttled: null, changes: [], reduced: [], gaps: [] };

export class SeriesChart extends EventTarget {
	#chart = null;
	#marks = NO_MARKS;
	#regions = [];
	#colors = new Map();
	#hover = null;
	#drag = null;
	#frame = 0;

	/** Events: "range" (detail: { from_ms, to_ms }), "back". */
	constructor(canvas, palette, tooltip) {
		super();
		this.canvas = canvas;
		this.ctx = canvas.getContext("2d");
		this.palette = palette;
		this.tooltip = tooltip;
		this.#listen();
	}

	get dragging() {
		return this.#drag !== null;
	}

	/** Show the answer of /api/v1/series for @range, grouped by @label; @stored: { oldest_ms, newest_ms } of all samples. */
	setAnswer(answer, range, stored, label) {
		this.#chart = answer ? stackSeries(answer, range, stored, label) : null;
		if (this.#chart)
			this.#keepColors(this.#chart.series);
		this.#redraw();
	}

	/** Show marksOf(), with `reduced` from reducedIn() for the shown type; null: none. */
	setMarks(marks) {
		this.#marks = marks ?? NO_MARKS;
		this.#redraw();
	}

	/** Show the regions of time that are selected: [{ from_ms, to_ms }]. */
	setRegions(regions) {
		this.#regions = regions;
		this.#redraw();
	}

	/** { series: [{ group, total, mean, isOther, color }], mean, peak, total, rate } of what is shown, or null. */
	summary() {
		const chart = this.#chart;

		if (!chart)
			return null;
		return { ...chart.facts, rate: chart.rate, series: chart.series.map((s) => ({
			group: s.group, total: s.total, mean: s.mean, isOther: s.isOther, color: this.#colorOf(s) })) };
	}

	setPalette(palette) {
		this.palette = palette;
		this.#redraw();
	}

	/** The plot in window coordinates, with the times at its edges. */
	plot() {
		const corner = this.canvas.getBoundingClientRect();

		return { x: corner.x + PLOT.left, y: corner.y + PLOT.top, width: this.#plotWidth(),
			 height: corner.height - PLOT.top - PLOT.bottom,
			 from_ms: this.#chart?.from_ms ?? 0, to_ms: this.#chart?.to_ms ?? 0 };
	}

	// A group keeps its colour while it is shown, although its rank changes.
	#keepColors(series) {
		const shown = new Set(series.map((s) => s.group));

		for (const group of this.#colors.keys()) {
			if (!shown.has(group))
				this.#colors.delete(group);
		}
		for (const { group } of series) {
			const used = new Set(this.#colors.values());
			if (!this.#colors.has(group))
				this.#colors.set(group, [...Array(SERIES_COLORS).keys()].find((c) => !used.has(c)) ?? 0);
		}
	}

	#colorOf(series) {
		const own = this.palette.values.get(`${this.#chart.label}/${series.group}`);

		if (own)
			return own;
		if (this.#chart.series.length === 1 && series.group === "")
			return this.palette.accent;
		return series.isOther ? this.palette.other : this.palette.series[this.#colors.get(series.group)];
	}

	#plotWidth() {
		return Math.max(1, this.canvas.clientWidth - PLOT.left - PLOT.right);
	}

	#xOf(time_ms) {
		const { from_ms, to_ms } = this.#chart;

		return PLOT.left + ((time_ms - from_ms) / (to_ms - from_ms)) * this.#plotWidth();
	}

	#timeAt(x) {
		const { from_ms, to_ms } = this.#chart;
		const part = Math.min(1, Math.max(0, (x - PLOT.left) / this.#plotWidth()));

		return from_ms + part * (to_ms - from_ms);
	}

	#redraw() {
		this.#frame ||= requestAnimationFrame(() => {
			this.#frame = 0;
			this.#draw();
		});
	}

	#resize() {
		const ratio = window.devicePixelRatio || 1;
		const { clientWidth, clientHeight } = this.canvas;

		this.canvas.width = Math.round(clientWidth * ratio);
		this.canvas.height = Math.round(clientHeight * ratio);
		this.width = clientWidth;
		this.height = clientHeight;
		this.ratio = ratio;
		this.#draw();
	}

	#draw() {
		const { ctx } = this;

		if (!this.width || !this.height)
			return;
		ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
		ctx.clearRect(0, 0, this.width, this.height);
		if (!this.#chart)
			return;
		ctx.font = getComputedStyle(this.canvas).font;
		const ticks = valueTicks(this.#chart.facts.peak, this.#chart.rate.base);
		this.scaleY = (this.height - PLOT.top - PLOT.bottom) / ticks.max;
		this.#drawGrid(ticks);
		this.#drawSeries();
		this.#drawUnit(ticks);
		this.#drawTimes();
		this.#drawUnarrived();
		drawMarks({ ...this.#marks, gaps: this.#emptyGaps() }, { ctx, palette: this.palette, xOf: (time_ms) => this.#xOf(time_ms), top: PLOT.top,
					 bottom: this.height - PLOT.bottom });
		this.#drawRegions();
		this.#drawCursor();
	}

	#drawRegions() {
		const { ctx } = this;
		const bottom = this.height - PLOT.bottom;
		const [first, last] = [PLOT.left, PLOT.left + this.#plotWidth()];

		ctx.fillStyle = this.palette.accent;
		for (const { from_ms, to_ms } of this.#regions) {
			const [left, right] = [from_ms, to_ms].map((time_ms) => Math.min(last, Math.max(first, this.#xOf(time_ms))));
			if (right <= first || left >= last)
				continue;
			ctx.globalAlpha = 0.18;
			ctx.fillRect(left, PLOT.top, Math.max(2, right - left), bottom - PLOT.top);
			ctx.globalAlpha = 1;
			ctx.fillRect(left, PLOT.top, 1, bottom - PLOT.top);
			ctx.fillRect(Math.max(left + 1, right - 1), PLOT.top, 1, bottom - PLOT.top);
		}
	}

	/** The gaps without a value: profiles that others pushed may lie in a gap of the agents. */
	#emptyGaps() {
		const { edges, whole } = this.#chart;
		const isEmpty = ({ from_ms, to_ms }) => !whole.some((value, at) => value > 0 && edges[at] >= from_ms && edges[at + 1] <= to_ms);

		return this.#marks.gaps.filter(isEmpty);
	}

	#yOf(value) {
		return this.height - PLOT.bottom - value * this.scaleY;
	}

	#drawGrid(ticks) {
		const { ctx } = this;

		ctx.textAlign = "right";
		ctx.textBaseline = "middle";
		for (const value of ticks.values) {
			const y = Math.round(this.#yOf(value)) + 0.5;
			ctx.fillStyle = this.palette.line;
			ctx.fillRect(PLOT.left, y - 0.5, this.#plotWidth(), 1);
			ctx.fillStyle = this.palette["ink-muted"];
			ctx.fillText(this.#chart.rate.tick(value), PLOT.left - 8, y);
		}
	}

	#drawUnit(ticks) {
		const { ctx } = this;

		ctx.textAlign = "left";
		ctx.textBaseline = "top";
		ctx.fillStyle = this.palette["ink-muted"];
		ctx.strokeStyle = this.palette.surface; // readable over the series
		ctx.lineWidth = 3;
		ctx.lineJoin = "round";
		ctx.strokeText(this.#chart.rate.axis, PLOT.left + 4, this.#yOf(ticks.max) + 4);
		ctx.fillText(this.#chart.rate.axis, PLOT.left + 4, this.#yOf(ticks.max) + 4);
	}

	#drawTimes() {
		const { from_ms, to_ms } = this.#chart;

		drawTimes({ ctx: this.ctx, palette: this.palette, left: PLOT.left, width: this.#plotWidth(), right: this.width,
			    baseline: this.height - 5, ticksAt: this.height - PLOT.bottom }, from_ms, to_ms);
	}

	// Tops are sums from the bottom, so the highest is painted first and the others over it. Series that do not sum are lines.
	#drawSeries() {
		const { ctx } = this;
		const { series, isStacked } = this.#chart;
		const single = series.length === 1;

		for (let at = series.length - 1; at >= 0; at--) {
			ctx.fillStyle = this.#colorOf(series[at]);
			if (single || isStacked) {
				ctx.globalAlpha = single ? 0.28 : 1;
				this.#trace(series[at].tops, true);
				ctx.fill();
				ctx.globalAlpha = 1;
			}
			if (single || !isStacked) {
				ctx.strokeStyle = ctx.fillStyle;
				ctx.lineWidth = 1.5;
				ctx.lineJoin = "round";
				this.#trace(series[at].tops, false);
				ctx.stroke();
			}
		}
	}

	/** A path along the tops of the steps; @closed: of all of them, down to the axis. */
	#trace(tops, closed) {
		const { ctx } = this;
		const { edges, arrived_ms } = this.#chart;

		ctx.beginPath();
		if (closed)
			ctx.moveTo(this.#xOf(edges[0]), this.#yOf(0));
		for (let at = 0; at < tops.length; at++) {
			const y = this.#yOf(tops[at]);
			if (!closed && edges[at] >= arrived_ms)
				break;
			ctx.lineTo(this.#xOf(edges[at]), y);
			ctx.lineTo(this.#xOf(edges[at + 1]), y);
		}
		if (closed)
			ctx.lineTo(this.#xOf(edges[edges.length - 1]), this.#yOf(0));
	}

	// Data of the last seconds is still arriving: mark it instead of drawing a drop.
	#drawUnarrived() {
		const { ctx } = this;
		const { arrived_ms, to_ms } = this.#chart;

		if (arrived_ms >= to_ms)
			return;
		const left = this.#xOf(arrived_ms);
		const bottom = this.height - PLOT.bottom;
		ctx.save();
		ctx.beginPath();
		ctx.rect(left, PLOT.top, this.#xOf(to_ms) - left, bottom - PLOT.top);
		ctx.clip();
		ctx.strokeStyle = this.palette.surface;
		ctx.lineWidth = 3;
		ctx.beginPath();
		for (let x = left - this.height; x < this.width; x += 5) {
			ctx.moveTo(x, bottom);
			ctx.lineTo(x + this.height, bottom - this.height);
		}
		ctx.stroke();
		ctx.restore();
	}

	#drawCursor() {
		const { ctx } = this;
		const bottom = this.height - PLOT.bottom;

		if (this.#drag) {
			const [left, right] = [this.#drag.from, this.#drag.to].sort((a, b) => a - b);
			ctx.fillStyle = this.palette.accent;
			ctx.globalAlpha = 0.18;
			ctx.fillRect(left, PLOT.top, right - left, bottom - PLOT.top);
			ctx.globalAlpha = 1;
			ctx.fillRect(left, PLOT.top, 1, bottom - PLOT.top);
			ctx.fillRect(right - 1, PLOT.top, 1, bottom - PLOT.top);
		} else if (this.#hover !== null) {
			ctx.fillStyle = this.palette["ink-muted"];
			ctx.fillRect(Math.round(this.#hover), PLOT.top, 1, bottom - PLOT.top);
		}
	}

	#listen() {
		const { canvas } = this;

		canvas.addEventListener("pointerdown", (event) => this.#onDown(event));
		canvas.addEventListener("pointermove", (event) => this.#onMove(event));
		canvas.addEventListener("pointerup", (event) => this.#onUp(event));
		canvas.addEventListener("pointercancel", () => this.#endDrag());
		canvas.addEventListener("pointerleave", () => this.#onLeave());
		canvas.addEventListener("dblclick", () => this.dispatchEvent(new Event("back")));
		document.addEventListener("keydown", (event) => this.#onKey(event));
		new ResizeObserver(() => this.#resize()).observe(canvas);
	}

	#clampedX(event) {
		const x = event.clientX - this.canvas.getBoundingClientRect().x;

		return Math.min(PLOT.left + this.#plotWidth(), Math.max(PLOT.left, x));
	}

	#onDown(event) {
		if (!this.#chart || event.button !== 0)
			return;
		const x = this.#clampedX(event);
		this.canvas.setPointerCapture(event.pointerId);
		this.#drag = { from: x, to: x };
	}

	#onMove(event) {
		if (!this.#chart)
			return;
		const x = this.#clampedX(event);
		this.#hover = x;
		if (this.#drag)
			this.#drag.to = x;
		this.tooltip.show(this.#drag && Math.abs(this.#drag.to - this.#drag.from) >= DRAG_MIN ?
			this.#dragNote() : this.#stepNote(x), event.clientX, event.clientY);
		this.#redraw();
	}

	#onUp() {
		const drag = this.#drag;

		this.#endDrag();
		if (!drag || !this.#chart || Math.abs(drag.to - drag.from) < DRAG_MIN)
			return;
		const [from_ms, to_ms] = [drag.from, drag.to].map((x) => this.#timeAt(x)).sort((a, b) => a - b);
		this.dispatchEvent(new CustomEvent("range", {
			detail: { from_ms: Math.floor(from_ms), to_ms: Math.ceil(Math.max(to_ms, from_ms + RANGE_MIN_MS)) },
		}));
	}

	#onKey(event) {
		if (event.key !== "Escape" || !this.#drag)
			return;
		event.stopImmediatePropagation(); // Escape cancels the drag only
		this.#endDrag();
	}

	#endDrag() {
		this.#drag = null;
		this.#redraw();
	}

	#onLeave() {
		this.#hover = null;
		this.tooltip.hide();
		this.#redraw();
	}

	#dragNote() {
		const [from_ms, to_ms] = [this.#drag.from, this.#drag.to].map((x) => this.#timeAt(x)).sort((a, b) => a - b);

		return [element("strong", "", formatRange(from_ms, to_ms, Date.now())),
			element("span", "muted", `${formatDuration((to_ms - from_ms) * 1e6)}, release to zoom`)];
	}

	#stepNote(x) {
		const { edges, series, rate, isStacked } = this.#chart;
		const time_ms = this.#timeAt(x);
		const at = Math.min(edges.length - 2, Math.max(0, edges.findIndex((edge) => edge > time_ms) - 1));
		const whole = this.#chart.whole[at] ?? 0;

		if (whole === 0 && isInGap(this.#marks, time_ms))
			return [element("span", "muted", formatTime(Math.round(time_ms))), element("strong", "", "No data: no agent sent any")];
		const step_ms = edges[at + 1] - edges[at];
		const head = [element("span", "muted", `${formatTime(Math.round(edges[at]))}, ${formatDuration(step_ms * 1e6)}`),
			      element("strong", "", `${rate.format(whole)} ${rate.unit}${isStacked || series.length === 1 ? "" : " on average"}`)];

		if (series.length > 1)
			head.push(this.#groupNote(at));
		head.push(...this.#markNotes(x, time_ms));
		head.push(element("span", "muted", time_ms > this.#chart.arrived_ms ? "Data may still arrive" : "Drag to zoom"));
		return head;
	}

	#groupNote(at) {
		const rows = element("dl", "tooltip-rows");
		const here = this.#chart.series.map((s) => ({ s, value: s.rates[at] })).filter((row) => row.value > 0)
			.sort((a, b) => b.value - a.value).slice(0, TOOLTIP_SERIES_MAX);

		for (const { s, value } of here) {
			const swatch = element("span", "swatch");
			swatch.style.backgroundColor = this.#colorOf(s);
			rows.append(element("dt", "", swatch, valueTitle(this.#chart.label, s.group)),
				    element("dd", "", element("b", "", this.#chart.rate.format(value))));
		}
		return rows;
	}

	#markNotes(x, time_ms) {
		const cpus = throttledAt(this.#marks, time_ms);
		const changes = changesNear(this.#marks, x, (time) => this.#xOf(time));
		const reduced = reducedAt(this.#marks, time_ms);
		const notes = changes.slice(0, TOOLTIP_CHANGES_MAX).map(({ text }) => element("span", "tooltip-change", `▲ cairn-agent, load shedding: ${text}`));

		if (changes.length > TOOLTIP_CHANGES_MAX)
			notes.push(element("span", "muted", `and ${changes.length - TOOLTIP_CHANGES_MAX} more changes`));
		if (reduced.length > 0)
			notes.push(element("span", "tooltip-change", `Active: ${reduced.slice(0, TOOLTIP_CHANGES_MAX).join(", ")}` +
				(reduced.length > TOOLTIP_CHANGES_MAX ? ` and ${reduced.length - TOOLTIP_CHANGES_MAX} more` : "")));
		if (cpus > 0)
			notes.unshift(element("span", "tooltip-throttled", `Throttled by the CPU quota: ${formatNumber(cpus)} CPUs`));
		return notes;
	}
}
