// SPDX-License-Identifier: Apache-2.0
// Heat maps on a canvas, one lane below the other on one time axis. Dragging selects from cell to cell in the order of time.

import { reducedAt, reducedIn } from "./chart_marks.js";
import { element } from "./element.js";
import { formatDuration, formatNumber, formatSpan, formatStep, formatTime } from "./format.js";
import { isCoarse, laneOf, ROWS, scaleShare } from "./heat_cells.js";
import { HEAT_SHADES } from "./palette.js";
import { joined, SLOT_MS } from "./regions.js";
import { drawTimes, SIDES as PLOT } from "./time_axis.js";

const TITLE_HEIGHT = 19; // px, above each lane
const LANE_HEIGHT = ROWS; // px; the active lane's is twice that
const AXIS_HEIGHT = 20; // px
const STRIP_HEIGHT = 2; // px, of load shedding
const SHEDDING_TOLD = 2; // in a tooltip
const LEGEND_WIDTH = 72; // px, of the colours in a lane's title
const MOVES = { ArrowUp: 1, ArrowDown: -1, ArrowRight: ROWS, ArrowLeft: -ROWS };

export class HeatMap extends EventTarget {
	#grid = null;
	#lanes = [];
	#stored = { oldest_ms: 0, newest_ms: 0 };
	#marks = { gaps: [], shedding: [] };
	#mode = "max";
	#active = "";
	#regions = [];
	#hover = null; // { lane, cell }
	#cursor = null; // the keyboard's
	#drag = null; // { lane, from, to, isMore }
	#frame = 0;

	/**
	 * Events: "select" (detail: { lane, from_ms, to_ms, isMore }; isMore: beside what is selected), "clear",
	 * "cell" (detail: what the keyboard's cursor is at, as text).
	 */
	constructor(canvas, palette, tooltip) {
		super();
		this.canvas = canvas;
		this.ctx = canvas.getContext("2d");
		this.palette = palette;
		this.tooltip = tooltip;
		this.#listen();
	}

	/** How many columns fit. */
	get columnsMax() {
		return Math.max(50, Math.floor(this.#plotWidth()));
	}

	get dragging() {
		return this.#drag !== null;
	}

	get lanes() {
		return this.#lanes;
	}

	get grid() {
		return this.#grid;
	}

	/** Show the lanes of fetchLanes() on @grid; @stored: { oldest_ms, newest_ms } of all samples. null: nothing. */
	setLanes(lanes, grid, stored) {
		this.#lanes = (lanes ?? []).map((lane) => ({ ...lane, ...laneOf(lane.answer), bitmap: null }));
		this.#grid = grid;
		this.#stored = { oldest_ms: stored?.oldest_ms ?? 0, newest_ms: stored?.newest_ms ?? 0 };
		this.#hover = this.#cursor = this.#drag = null;
		this.#place();
	}

	/** @mode: "max", the largest slot in a cell, or "mean". */
	setMode(mode) {
		this.#mode = mode;
		this.#dropBitmaps();
	}

	/** Show no cells in the gaps of marksOf(), and below each lane when load shedding reduced it. */
	setMarks({ gaps, shedding }) {
		this.#marks = { gaps, shedding };
		this.#dropBitmaps();
	}

	/** When nothing is known of @type: no agent sent data, or load shedding turned the type off. */
	#unknownOf(type) {
		return [...this.#marks.gaps.map((span) => ({ ...span, why: "No data: no agent sent any" })),
			...reducedIn(this.#marks.shedding, type).filter(({ isOff }) => isOff)
				.flatMap(({ spans, text }) => spans.map((span) => ({ ...span, why: `No data: ${text}` })))];
	}

	/** The lane with key @active is drawn larger, and @regions as selected. */
	setSelection(active, regions) {
		const moved = active !== this.#active;

		this.#active = active;
		this.#regions = regions;
		if (moved)
			this.#place();
		else
			this.#redraw();
	}

	setPalette(palette) {
		this.palette = palette;
		this.#dropBitmaps();
	}

	/** The lanes' places in the window, and the values drawn: for tests. */
	plot() {
		const corner = this.canvas.getBoundingClientRect();

		return { grid: this.#grid, lanes: this.#lanes.map((lane) => ({ key: lane.key, title: lane.title, x: corner.x + PLOT.left, y: corner.y + lane.top,
			width: this.#plotWidth(), height: lane.height, top: lane[this.#mode].top, rates: [...lane[this.#mode].rates] })) };
	}

	#dropBitmaps() {
		for (const lane of this.#lanes)
			lane.bitmap = null;
		this.#redraw();
	}

	#plotWidth() {
		return Math.max(1, this.canvas.clientWidth - PLOT.left - PLOT.right);
	}

	/** Lay the lanes out, and give the canvas their height. */
	#place() {
		let top = 0;

		for (const lane of this.#lanes) {
			lane.top = top + TITLE_HEIGHT;
			lane.height = lane.key === this.#active || this.#lanes.length === 1 ? 2 * LANE_HEIGHT : LANE_HEIGHT;
			top = lane.top + lane.height + 4;
		}
		this.canvas.style.height = `${top + AXIS_HEIGHT}px`;
		this.#resize();
	}

	#resize() {
		const ratio = window.devicePixelRatio || 1;
		const { clientWidth, clientHeight } = this.canvas;

		this.canvas.width = Math.round(clientWidth * ratio);
		this.canvas.height = Math.round(clientHeight * ratio);
		this.ratio = ratio;
		this.#draw();
	}

	#redraw() {
		this.#frame ||= requestAnimationFrame(() => {
			this.#frame = 0;
			this.#draw();
		});
	}

	#draw() {
		const { ctx } = this;

		if (!this.canvas.width || !this.canvas.height)
			return;
		ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
		ctx.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
		if (!this.#grid)
			return;
		ctx.font = getComputedStyle(this.canvas).font;
		for (const lane of this.#lanes) {
			this.#drawTitle(lane);
			this.#drawCells(lane);
			this.#drawShedding(lane);
			for (const region of this.#regions)
				this.#drawRegion(lane, region.from_ms, region.to_ms);
			this.#drawCursor(lane);
		}
		if (this.#drag)
			this.#drawDrag();
		this.#drawTimes();
	}

	#drawTitle(lane) {
		const { ctx } = this;
		const { top, isClipped, usual } = lane[this.#mode];
		const y = lane.top - TITLE_HEIGHT / 2;
		const right = PLOT.left + this.#plotWidth();
		const label = `${isClipped ? "≥ " : ""}${lane.rate.format(top)} ${lane.rate.unit}${usual === null ? "" : ` away from ${lane.rate.format(usual)}`}`.trim();
		const least = usual === null ? "0" : "usual";

		ctx.textBaseline = "middle";
		ctx.textAlign = "right";
		ctx.fillStyle = this.palette["ink-muted"];
		ctx.fillText(label, right, y);
		const legendRight = right - ctx.measureText(label).width - 6;
		const title = ctx.measureText(lane.title).width;
		const hasRoom = PLOT.left + title + 22 + ctx.measureText(least).width < legendRight - LEGEND_WIDTH;
		for (let x = 0; hasRoom && x < LEGEND_WIDTH; x++) {
			ctx.fillStyle = this.palette.heat[Math.round((x / (LEGEND_WIDTH - 1)) * (HEAT_SHADES - 1))];
			ctx.fillRect(legendRight - LEGEND_WIDTH + x, y - 5, 1.5, 10);
		}
		ctx.fillStyle = this.palette["ink-muted"];
		if (hasRoom)
			ctx.fillText(least, legendRight - LEGEND_WIDTH - 5, y);
		ctx.textAlign = "left";
		ctx.fillStyle = this.palette[lane.key === this.#active ? "ink" : "ink-muted"];
		ctx.fillText(lane.title, PLOT.left, y);
		// The rows' times: a column from its beginning, at the bottom, to its end.
		ctx.textAlign = "right";
		ctx.fillStyle = this.palette["ink-muted"];
		ctx.fillText(formatStep(this.#grid.column_ms), PLOT.left - 6, lane.top + 5);
		ctx.fillText("0", PLOT.left - 6, lane.top + lane.height - 5);
	}

	#drawCells(lane) {
		const { ctx } = this;

		lane.bitmap ??= this.#paint(lane);
		ctx.imageSmoothingEnabled = false;
		ctx.drawImage(lane.bitmap, PLOT.left, lane.top, this.#plotWidth(), lane.height);
		ctx.strokeStyle = this.palette.line;
		ctx.lineWidth = 1;
		ctx.strokeRect(PLOT.left - 0.5, lane.top - 0.5, this.#plotWidth() + 1, lane.height + 1);
	}

	// A strip while load shedding reduces the lane's type, as below the chart.
	#drawShedding(lane) {
		const { from_ms, column_ms, columns } = this.#grid;
		const xOf = (time_ms) => Math.min(this.#xOfColumn(columns), Math.max(PLOT.left, this.#xOfColumn((time_ms - from_ms) / column_ms)));

		this.ctx.fillStyle = this.palette["ink-muted"];
		for (const span of reducedIn(this.#marks.shedding, lane.type).flatMap(({ spans }) => spans))
			this.ctx.fillRect(xOf(span.from_ms), lane.top + lane.height + 1, Math.max(1, xOf(span.to_ms) - xOf(span.from_ms)), STRIP_HEIGHT);
	}

	/** One pixel a cell. Cells before the first sample, in gaps, or of which data may still arrive, stay clear. */
	#paint(lane) {
		const { columns, from_ms, cell_ms } = this.#grid;
		const { rates, usual } = lane[this.#mode];
		const bitmap = new OffscreenCanvas(columns, ROWS);
		const ctx = bitmap.getContext("2d");
		const pixels = ctx.createImageData(columns, ROWS);
		const words = new Uint32Array(pixels.data.buffer);
		const first = Math.max(0, Math.floor((this.#stored.oldest_ms - from_ms) / cell_ms));
		const end = this.#stored.newest_ms ? Math.min(rates.length, Math.ceil((this.#stored.newest_ms - from_ms) / cell_ms)) : rates.length;

		for (let cell = first; cell < end; cell++) {
			const row = ROWS - 1 - (cell % ROWS);
			const share = scaleShare(rates[cell], lane[this.#mode]);
			const least = rates[cell] > 0 && usual === null ? 1 : 0; // little is not nothing
			const shade = share > 0 ? Math.max(least, Math.min(HEAT_SHADES - 1, Math.round(share * (HEAT_SHADES - 1)))) : 0;
			words[row * columns + Math.floor(cell / ROWS)] = this.palette.heatWords[shade];
		}
		for (const gap of this.#unknownOf(lane.type)) {
			const last = Math.min(rates.length, Math.ceil((gap.to_ms - from_ms) / cell_ms));
			for (let cell = Math.max(0, Math.floor((gap.from_ms - from_ms) / cell_ms)); cell < last; cell++)
				if (rates[cell] === 0)
					words[(ROWS - 1 - (cell % ROWS)) * columns + Math.floor(cell / ROWS)] = 0;
		}
		ctx.putImageData(pixels, 0, 0);
		return bitmap;
	}

	#xOfColumn(column) {
		return PLOT.left + (column / this.#grid.columns) * this.#plotWidth();
	}

	/** The outline of the cells from @from_ms to @to_ms: they fill columns from the bottom to the top. */
	#trace(lane, from_ms, to_ms) {
		const { ctx } = this;
		const { from_ms: begin_ms, cell_ms, columns } = this.#grid;
		const cells = columns * ROWS;
		const first = Math.max(0, Math.round((from_ms - begin_ms) / cell_ms));
		const end = Math.min(cells, Math.round((to_ms - begin_ms) / cell_ms));
		const yOf = (row) => lane.top + lane.height * (1 - row / ROWS);
		const [left, right] = [Math.floor(first / ROWS), Math.floor((end - 1) / ROWS)];
		const [low, high] = [first % ROWS, ((end - 1) % ROWS) + 1];
		const x = (column) => this.#xOfColumn(column);

		if (first >= end)
			return false;
		ctx.beginPath();
		const corners = left === right ? [[left, low], [left + 1, low], [left + 1, high], [left, high]] :
			[[left, low], [left + 1, low], [left + 1, 0], [right + 1, 0], [right + 1, high], [right, high], [right, ROWS], [left, ROWS]];
		corners.forEach(([column, row], at) => ctx[at ? "lineTo" : "moveTo"](x(column), yOf(row)));
		ctx.closePath();
		return true;
	}

	#drawRegion(lane, from_ms, to_ms) {
		const { ctx } = this;
		const isActive = lane.key === this.#active;

		if (!this.#trace(lane, from_ms, to_ms))
			return;
		ctx.fillStyle = this.palette.accent;
		ctx.globalAlpha = isActive ? 0.28 : 0.12;
		ctx.fill();
		ctx.globalAlpha = 1;
		ctx.lineJoin = "miter";
		// Seen on dark and on light cells.
		for (const [color, width] of [[this.palette.surface, isActive ? 4 : 2.5], [this.palette.accent, isActive ? 2 : 1]]) {
			ctx.strokeStyle = color;
			ctx.lineWidth = width;
			ctx.stroke();
		}
	}

	#drawDrag() {
		const { lane, from, to } = this.#drag;
		const { from_ms, cell_ms } = this.#grid;

		this.#drawRegion(this.#lanes[lane], from_ms + Math.min(from, to) * cell_ms, from_ms + (Math.max(from, to) + 1) * cell_ms);
	}

	#drawCursor(lane) {
		const at = this.#cursor ?? this.#hover;
		const { ctx } = this;

		if (!at || this.#lanes[at.lane] !== lane)
			return;
		const column = Math.floor(at.cell / ROWS), row = at.cell % ROWS;
		const [x, y] = [this.#xOfColumn(column), lane.top + lane.height * (1 - (row + 1) / ROWS)];
		const [width, height] = [this.#xOfColumn(column + 1) - x, lane.height / ROWS];
		ctx.strokeStyle = this.palette.surface;
		ctx.lineWidth = 4;
		ctx.strokeRect(x - 1.5, y - 1.5, width + 3, height + 3);
		ctx.strokeStyle = this.palette.ink;
		ctx.lineWidth = 1.5;
		ctx.strokeRect(x - 1.5, y - 1.5, width + 3, height + 3);
	}

	#drawTimes() {
		const { from_ms, columns, column_ms } = this.#grid;

		drawTimes({ ctx: this.ctx, palette: this.palette, left: PLOT.left, width: this.#plotWidth(), right: this.canvas.clientWidth,
			    baseline: this.canvas.clientHeight - 6 }, from_ms, from_ms + columns * column_ms);
	}

	#listen() {
		const { canvas } = this;

		canvas.addEventListener("pointerdown", (event) => this.#onDown(event));
		canvas.addEventListener("pointermove", (event) => this.#onMove(event));
		canvas.addEventListener("pointerup", (event) => this.#onUp(event));
		canvas.addEventListener("pointercancel", () => this.#endDrag());
		canvas.addEventListener("pointerleave", () => this.#onLeave());
		canvas.addEventListener("keydown", (event) => this.#onKey(event));
		canvas.addEventListener("blur", () => this.#onBlur());
		new ResizeObserver(() => this.#resize()).observe(canvas);
	}

	/** The lane and cell at the pointer; null beside them. In a drag the nearest cell of its lane. */
	#cellAt(event, within = null) {
		const corner = this.canvas.getBoundingClientRect();
		const [x, y] = [event.clientX - corner.x - PLOT.left, event.clientY - corner.y];
		const number = within ?? this.#lanes.findIndex((lane) => y >= lane.top && y < lane.top + lane.height);
		const lane = this.#lanes[number];

		if (!lane || (within === null && (x < 0 || x >= this.#plotWidth())))
			return null;
		const column = Math.min(this.#grid.columns - 1, Math.max(0, Math.floor((x / this.#plotWidth()) * this.#grid.columns)));
		const row = Math.min(ROWS - 1, Math.max(0, Math.floor((1 - (y - lane.top) / lane.height) * ROWS - 1e-9)));
		return { lane: number, cell: column * ROWS + row };
	}

	#onDown(event) {
		const at = event.button === 0 && this.#grid ? this.#cellAt(event) : null;

		if (!at)
			return;
		this.canvas.setPointerCapture(event.pointerId);
		this.#cursor = null;
		this.#drag = { lane: at.lane, from: at.cell, to: at.cell, isMore: event.shiftKey };
		this.#redraw();
	}

	#onMove(event) {
		if (!this.#grid)
			return;
		const at = this.#cellAt(event, this.#drag && !this.#drag.byKey ? this.#drag.lane : null);

		this.#hover = at;
		if (!at) {
			this.tooltip.hide();
		} else {
			if (this.#drag && !this.#drag.byKey)
				this.#drag.to = at.cell;
			this.tooltip.show(this.#note(at), event.clientX, event.clientY);
		}
		this.#redraw();
	}

	#onUp() {
		if (this.#drag && !this.#drag.byKey)
			this.#select();
	}

	#onLeave() {
		this.#hover = null;
		this.tooltip.hide();
		this.#redraw();
	}

	#onBlur() {
		this.#cursor = null;
		this.#endDrag();
	}

	#endDrag() {
		this.#drag = null;
		this.#redraw();
	}

	/** What was dragged over is selected. */
	#select() {
		const { lane, from, to, isMore } = this.#drag;
		const { from_ms, cell_ms } = this.#grid;

		this.#drag = null;
		this.#redraw();
		this.dispatchEvent(new CustomEvent("select", { detail: {
			lane: this.#lanes[lane], isMore,
			from_ms: from_ms + Math.min(from, to) * cell_ms, to_ms: from_ms + (Math.max(from, to) + 1) * cell_ms } }));
	}

	#onKey(event) {
		if (!this.#grid || this.#lanes.length === 0 || event.ctrlKey || event.metaKey || event.altKey)
			return;
		const acts = { ...Object.fromEntries(Object.keys(MOVES).map((key) => [key, () => this.#moveCursor(MOVES[key] * (event.shiftKey ? 10 : 1))])),
			       PageUp: () => this.#moveLane(-1), PageDown: () => this.#moveLane(1), Enter: () => this.#onEnter(event.shiftKey),
			       " ": () => this.#onEnter(event.shiftKey), Escape: () => this.#onEscape() };

		if (!acts[event.key])
			return;
		event.preventDefault();
		event.stopPropagation();
		acts[event.key]();
	}

	#startCursor() {
		if (this.#cursor)
			return;
		const lane = Math.max(0, this.#lanes.findIndex(({ key }) => key === this.#active));
		const rates = this.#lanes[lane][this.#mode].rates;
		// The hottest cell is where one wants to look.
		this.#cursor = { lane, cell: rates.reduce((best, value, cell) => (value > rates[best] ? cell : best), 0) };
	}

	#moveCursor(cells) {
		const isNew = this.#cursor === null;

		this.#startCursor();
		if (!isNew)
			this.#cursor.cell = Math.min(this.#grid.columns * ROWS - 1, Math.max(0, this.#cursor.cell + cells));
		this.#tellCursor();
	}

	#moveLane(by) {
		this.#startCursor();
		this.#cursor.lane = Math.min(this.#lanes.length - 1, Math.max(0, this.#cursor.lane + by));
		if (this.#drag)
			this.#drag = null; // a region lies in one lane
		this.#tellCursor();
	}

	#tellCursor() {
		const { lane, cell } = this.#cursor;
		const corner = this.canvas.getBoundingClientRect();

		if (this.#drag?.byKey)
			this.#drag.to = cell;
		this.tooltip.show(this.#note(this.#cursor), corner.x + this.#xOfColumn(Math.floor(cell / ROWS) + 1), corner.y + this.#lanes[lane].top);
		this.dispatchEvent(new CustomEvent("cell", { detail: this.#sentence(this.#cursor) }));
		this.#redraw();
	}

	#onEnter(isMore) {
		if (this.#drag?.byKey) {
			this.#drag.isMore = isMore;
			this.#select();
			this.tooltip.hide();
			return;
		}
		this.#startCursor();
		this.#drag = { lane: this.#cursor.lane, from: this.#cursor.cell, to: this.#cursor.cell, isMore, byKey: true };
		this.#tellCursor();
	}

	#onEscape() {
		this.tooltip.hide();
		if (this.#drag)
			this.#endDrag();
		else
			this.dispatchEvent(new Event("clear"));
	}

	#timesOf(from, to) {
		const { from_ms, cell_ms } = this.#grid;

		return { from_ms: from_ms + Math.min(from, to) * cell_ms, to_ms: from_ms + (Math.max(from, to) + 1) * cell_ms };
	}

	#valueText(lane, cell) {
		const { rate } = lane;
		const text = (value) => `${rate.format(value)} ${rate.unit}`.trim();

		if (!isCoarse(this.#grid))
			return text(lane.mean.rates[cell]);
		return `${text(lane.mean.rates[cell])} on average, ${text(lane.max.rates[cell])} in its largest ${SLOT_MS} ms`;
	}

	#sentence({ lane, cell }) {
		const { from_ms } = this.#timesOf(cell, cell);

		return `${this.#lanes[lane].title}, ${formatTime(from_ms)}: ${this.#valueText(this.#lanes[lane], cell)}`;
	}

	#note({ lane: number, cell }) {
		const lane = this.#lanes[number];

		if (this.#drag && this.#drag.to !== this.#drag.from) {
			const { from_ms, to_ms } = this.#timesOf(this.#drag.from, this.#drag.to);
			return [element("span", "muted", formatSpan(from_ms, to_ms)),
				element("strong", "", formatDuration((to_ms - from_ms) * 1e6)),
				element("span", "muted", this.#drag.byKey ? "Enter selects, Esc cancels" : "Release to select")];
		}
		const { from_ms, to_ms } = this.#timesOf(cell, cell);
		const unknown = this.#unknownOf(lane.type).find((span) => span.from_ms <= from_ms && from_ms < span.to_ms);
		if (unknown && lane.mean.rates[cell] === 0)
			return [element("span", "muted", formatTime(from_ms)), element("strong", "", unknown.why)];
		if (this.#stored.newest_ms && from_ms > this.#stored.newest_ms)
			return [element("span", "muted", formatTime(from_ms)), element("span", "muted", "Data may still arrive")];
		const { usual } = lane[this.#mode];
		const scale = usual === null ? [] : [element("span", "muted", `Usual: ${lane.rate.format(usual)} ${lane.rate.unit}. The colour is the distance from it`)];
		return [element("span", "muted", `${formatTime(from_ms)}, ${formatNumber(to_ms - from_ms)} ms`),
			element("strong", "", this.#valueText(lane, cell)), element("span", "muted", lane.title), ...scale,
			...reducedAt({ reduced: reducedIn(this.#marks.shedding, lane.type) }, from_ms).slice(0, SHEDDING_TOLD)
				.map((text) => element("span", "tooltip-change", `Active: ${text}`)),
			element("span", "muted", "Drag to select, Shift adds")];
	}
}

/** @regions with the one from @from_ms to @to_ms. */
export function withRegion(regions, from_ms, to_ms, isMore) {
	return joined(isMore ? [...regions, { from_ms, to_ms }] : [{ from_ms, to_ms }]);
}
