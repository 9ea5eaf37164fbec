// SPDX-License-Identifier: Apache-2.0
// A timeline on a canvas: a row for each thread, in each slot the parts of its time stacked. The canvas is as large as the visible part of
// its scroller. A click selects a bar, dragging a time of one thread.

import { drawGap } from "./chart_marks.js";
import { element } from "./element.js";
import { formatDuration, formatShare, formatSpan, formatTime } from "./format.js";
import { FrameText } from "./frame_text.js";
import { wordsOf } from "./palette.js";
import { drawTimes } from "./time_axis.js";
import { barAt, partsIn } from "./timeline_rows.js";

const NAMES_WIDTH = 190; // px left of the plot
const NAMES_SHARE = 0.28; // of the width, at most
const RIGHT = 12; // px
const ROW_HEIGHT = 20; // at least; where there is room up to
const ROW_HEIGHT_MAX = 64;
const BAR_GAP = 5; // between the bars of two rows
const HATCH = 4; // slots and pixels between hatches
const GROUP_HEIGHT = 24;
const AXIS_HEIGHT = 22;
const DRAG_MIN = 4; // px; less is a click
const PARTS_TOLD = 6; // in a tooltip
const LEAP = 10; // slots, with Shift
const BITMAPS_MAX = 120; // rows painted and kept

export class TimelineChart extends EventTarget {
	#timeline = null;
	#items = []; // { top, height, group } or { top, height, row }
	#height = 0; // of all items
	#rowHeight = ROW_HEIGHT;
	#gaps = [];
	#known = { oldest_ms: 0, newest_ms: 0 };
	#bitmaps = new Map(); // by row
	#words = new Map(); // colours of parts, as a bitmap has them
	#selection = null; // { key, from_ms, to_ms }
	#cursor = null; // the keyboard's: { row, slot }
	#hover = null; // { row, slot, x, y }
	#drag = null; // { row, from, to, x }
	#frame = 0;
	#text = new FrameText();

	/**
	 * Events: "select" (detail: { row, part, from_ms, to_ms }), "clear", "zoom" (detail: { from_ms, to_ms }), "cell" (detail: what the
	 * keyboard's cursor is at, as text).
	 */
	constructor(scroller, spacer, canvas, palette, tooltip) {
		super();
		this.scroller = scroller;
		this.spacer = spacer;
		this.canvas = canvas;
		this.ctx = canvas.getContext("2d");
		this.tooltip = tooltip;
		this.setPalette(palette);
		this.#listen();
	}

	/** How many slots fit. */
	get slotsMax() {
		return Math.max(100, Math.floor(this.#plotWidth()));
	}

	get dragging() {
		return this.#drag !== null;
	}

	/** Show timelineOf()'s @timeline, idle threads only @withIdle, nothing in @gaps ([{ from_ms, to_ms }]); @known: the samples' ends. */
	setTimeline(timeline, withIdle, gaps, known) {
		const shownOf = ({ rows }) => rows.filter((row) => withIdle || !row.isIdle);

		this.#timeline = timeline;
		this.#gaps = gaps;
		this.#known = { oldest_ms: known.oldest_ms, newest_ms: known.newest_ms };
		this.#bitmaps.clear();
		this.#drag = this.#hover = null;
		this.#items = (timeline?.groups ?? []).map((group) => ({ ...group, rows: shownOf(group) })).filter(({ rows }) => rows.length > 0)
			.flatMap(({ title, where, rows }) => [{ title, where }, ...rows.map((row) => ({ row }))]);
		this.#place();
		this.#cursor = this.#itemOf(this.#cursor?.row.key) ? { ...this.#cursor, row: this.#itemOf(this.#cursor.row.key).row } : null;
		this.#resize();
	}

	/** Lay the items out: rows are higher where there are few. */
	#place() {
		const rows = this.#items.filter(({ row }) => row).length;
		const room = this.scroller.clientHeight - AXIS_HEIGHT - (this.#items.length - rows) * GROUP_HEIGHT;
		const rowHeight = Math.min(ROW_HEIGHT_MAX, Math.max(ROW_HEIGHT, Math.floor(room / Math.max(1, rows))));

		if (rowHeight !== this.#rowHeight)
			this.#bitmaps.clear();
		this.#rowHeight = rowHeight;
		this.#height = 0;
		for (const item of this.#items) {
			item.top = this.#height;
			item.height = item.row ? rowHeight : GROUP_HEIGHT;
			this.#height += item.height;
		}
		this.spacer.style.height = `${this.#height + AXIS_HEIGHT}px`;
		// As high as the highest rows need, where there is room.
		this.scroller.parentElement.style.setProperty("--content", `${AXIS_HEIGHT + (this.#items.length - rows) * GROUP_HEIGHT + rows * ROW_HEIGHT_MAX}px`);
	}

	get #barHeight() {
		return this.#rowHeight - BAR_GAP;
	}

	/** Mark the time from @from_ms to @to_ms of the row with @key as selected; null: none. */
	setSelection(selection) {
		this.#selection = selection;
		this.#redraw();
	}

	setPalette(palette) {
		this.palette = palette;
		this.#words.clear();
		this.#bitmaps.clear();
		this.#redraw();
	}

	/** The visible rows' places in the window: for tests. */
	plot() {
		const corner = this.canvas.getBoundingClientRect();
		const { grid } = this.#timeline ?? { grid: null };

		return { grid, gaps: this.#gaps, x: corner.x + this.#left(), width: this.#plotWidth(), rows: this.#items.filter(({ row }) => row).map(({ top, row }) => ({
			name: row.name, key: row.key, threads: row.threads, y: corner.y + top - this.scroller.scrollTop + this.#rowHeight / 2,
			largest: [...row.largest].map((at) => (at < 0 ? "" : row.parts[at].title)) })) };
	}

	#left() {
		return Math.round(Math.min(NAMES_WIDTH, this.canvas.clientWidth * NAMES_SHARE));
	}

	#plotWidth() {
		return Math.max(1, this.canvas.clientWidth - this.#left() - RIGHT);
	}

	#xOf(slot) {
		return this.#left() + (slot / this.#timeline.grid.count) * this.#plotWidth();
	}

	#xOfTime(time_ms) {
		const { from_ms, slot_ms, count } = this.#timeline.grid;

		return this.#xOf(Math.min(count, Math.max(0, (time_ms - from_ms) / slot_ms)));
	}

	#timeOf(slot) {
		const { from_ms, slot_ms } = this.#timeline.grid;

		return from_ms + slot * slot_ms;
	}

	#itemOf(key) {
		return this.#items.find(({ row }) => row && row.key === key);
	}

	#resize() {
		const ratio = window.devicePixelRatio || 1;
		const { clientWidth } = this.canvas;
		const { clientHeight } = this.scroller;

		this.#place();
		this.canvas.style.height = `${clientHeight}px`;
		this.canvas.width = Math.round(clientWidth * ratio);
		this.canvas.height = Math.round(clientHeight * ratio);
		this.ratio = ratio;
		this.height = clientHeight;
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
		const bottom = this.height - AXIS_HEIGHT;

		if (!this.canvas.width || !this.canvas.height)
			return;
		ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
		ctx.clearRect(0, 0, this.canvas.clientWidth, this.height);
		if (!this.#timeline)
			return;
		ctx.font = getComputedStyle(this.canvas).font;
		this.#text.measure(ctx);
		const { count } = this.#timeline.grid;
		const places = drawTimes({ ctx, palette: this.palette, left: this.#left(), width: this.#plotWidth(), right: this.canvas.clientWidth,
					   baseline: this.height - 7, ticksAt: bottom + 1 }, this.#timeOf(0), this.#timeOf(count));
		ctx.save();
		ctx.beginPath();
		ctx.rect(0, 0, this.canvas.clientWidth, bottom);
		ctx.clip();
		ctx.fillStyle = this.palette.line;
		for (const x of places)
			ctx.fillRect(x, 0, 1, bottom);
		ctx.translate(0, -this.scroller.scrollTop);
		for (const item of this.#visibleItems())
			(item.row ? this.#drawRow(item) : this.#drawGroup(item));
		for (const { from_ms, to_ms } of this.#gaps)
			drawGap({ ctx, palette: this.palette, top: this.scroller.scrollTop, bottom: this.scroller.scrollTop + bottom }, this.#xOfTime(from_ms), this.#xOfTime(to_ms));
		this.#drawMarks();
		ctx.restore();
	}

	#visibleItems() {
		const { scrollTop } = this.scroller;

		return this.#items.filter(({ top, height }) => top + height > scrollTop && top < scrollTop + this.height - AXIS_HEIGHT);
	}

	#drawGroup({ top, title, where }) {
		const { ctx } = this;
		const right = this.canvas.clientWidth - RIGHT;

		ctx.fillStyle = this.palette.surface;
		ctx.fillRect(0, top + 1, this.canvas.clientWidth, GROUP_HEIGHT - 1);
		ctx.textAlign = "left";
		ctx.textBaseline = "middle";
		ctx.fillStyle = this.palette.ink;
		const shown = this.#text.fit(title, right - 12);
		ctx.fillText(shown, 12, top + GROUP_HEIGHT / 2 + 1);
		const used = 12 + ctx.measureText(shown).width + 10;
		ctx.fillStyle = this.palette["ink-muted"];
		ctx.fillText(this.#text.fit(where, right - used), used, top + GROUP_HEIGHT / 2 + 1);
	}

	#drawRow({ top, row }) {
		const { ctx } = this;
		const [left, width] = [this.#left(), this.#plotWidth()];
		const many = row.threads > 1 ? ` ×${row.threads}` : "";
		const room = left - 22 - 8 - (many ? ctx.measureText(many).width : 0);
		const name = this.#text.fit(row.name, room);
		const isSelected = this.#selection?.key === row.key;

		ctx.textAlign = "left";
		ctx.textBaseline = "middle";
		ctx.fillStyle = this.palette[isSelected || this.#hover?.row === row ? "ink" : "ink-muted"];
		ctx.fillText(name, 22, top + this.#rowHeight / 2);
		ctx.fillStyle = this.palette["ink-muted"];
		ctx.fillText(many, 22 + ctx.measureText(name).width, top + this.#rowHeight / 2);
		ctx.imageSmoothingEnabled = false;
		ctx.drawImage(this.#bitmapOf(row), left, top + BAR_GAP / 2, width, this.#barHeight);
	}

	#bitmapOf(row) {
		const painted = this.#bitmaps.get(row) ?? this.#paint(row);

		// The rows seen last stay.
		this.#bitmaps.delete(row);
		this.#bitmaps.set(row, painted);
		if (this.#bitmaps.size > BITMAPS_MAX)
			this.#bitmaps.delete(this.#bitmaps.keys().next().value);
		return painted;
	}

	#wordOf(color) {
		if (!this.#words.has(color))
			this.#words.set(color, wordsOf([this.palette.values.get(color) ?? this.palette[color]])[0]);
		return this.#words.get(color);
	}

	/** One pixel a slot: its parts from the bottom; what is not known of the thread's time is hatched. Where there is no thread it is clear. */
	#paint(row) {
		const { count } = this.#timeline.grid;
		const height = this.#barHeight;
		const bitmap = new OffscreenCanvas(count, height);
		const ctx = bitmap.getContext("2d");
		const pixels = ctx.createImageData(count, height);
		const words = new Uint32Array(pixels.data.buffer);
		const colors = row.parts.map(({ color }) => this.#wordOf(color));
		const unknown = this.#wordOf("other");

		for (let slot = 0; slot < count; slot++) {
			const whole = row.whole[slot];
			let sum = 0, from = 0;

			if (whole === 0)
				continue;
			for (let at = 0; at < colors.length; at++) {
				sum += row.parts[at].values[slot];
				const to = Math.round((sum / whole) * height);
				for (let y = from; y < to; y++)
					words[(height - 1 - y) * count + slot] = colors[at];
				from = to;
			}
			for (let y = from; y < height; y++)
				if ((slot + y) % HATCH === 0)
					words[(height - 1 - y) * count + slot] = unknown;
		}
		ctx.putImageData(pixels, 0, 0);
		return bitmap;
	}

	/** What is selected, dragged over, and at the cursor. */
	#drawMarks() {
		const { from_ms, to_ms } = this.#selection ?? { from_ms: 0, to_ms: 0 };
		const selected = this.#itemOf(this.#selection?.key);
		const at = this.#cursor ?? this.#hover;

		if (selected)
			this.#outline(selected, this.#xOfTime(from_ms), this.#xOfTime(to_ms), this.palette.accent, 2);
		if (this.#drag) {
			const [first, last] = [this.#drag.from, this.#drag.to].sort((a, b) => a - b);
			this.#outline(this.#itemOf(this.#drag.row.key), this.#xOf(first), this.#xOf(last + 1), this.palette.accent, 2);
		} else if (at) {
			const bar = barAt(at.row, at.slot) ?? { first: at.slot, end: at.slot + 1 };
			const item = this.#itemOf(at.row.key);
			if (item && this.#cursor)
				this.#outline(item, this.#xOf(at.slot), this.#xOf(at.slot + 1), this.palette.ink, 1.5);
			else if (item)
				this.#outline(item, this.#xOf(bar.first), this.#xOf(bar.end), this.palette.ink, 1);
		}
	}

	// Seen on dark and on light bars.
	#outline({ top }, left, right, color, width) {
		const { ctx } = this;

		for (const [stroke, line] of [[this.palette.surface, width + 2], [color, width]]) {
			ctx.strokeStyle = stroke;
			ctx.lineWidth = line;
			ctx.strokeRect(left - 0.5, top + 1.5, Math.max(2, right - left) + 1, this.#rowHeight - 3);
		}
	}

	#listen() {
		const { canvas, scroller } = this;

		canvas.addEventListener("pointerdown", (event) => this.#onDown(event));
		canvas.addEventListener("pointermove", (event) => this.#onMove(event));
		canvas.addEventListener("pointerup", (event) => this.#onUp(event));
		canvas.addEventListener("pointercancel", () => this.#endDrag());
		canvas.addEventListener("pointerleave", () => this.#onLeave());
		scroller.addEventListener("keydown", (event) => this.#onKey(event));
		scroller.addEventListener("blur", () => this.#onBlur());
		scroller.addEventListener("scroll", () => this.#redraw());
		new ResizeObserver(() => this.#resize()).observe(scroller);
	}

	/** The row and slot at the pointer; null beside rows. In a drag the nearest slot of its row. */
	#at(event) {
		const corner = this.canvas.getBoundingClientRect();
		const [x, y] = [event.clientX - corner.x - this.#left(), event.clientY - corner.y];
		const { count } = this.#timeline?.grid ?? { count: 0 };
		const slot = Math.min(count - 1, Math.max(0, Math.floor((x / this.#plotWidth()) * count)));
		const place = y + this.scroller.scrollTop;
		const item = this.#drag ? null : this.#items.find(({ top, height }) => place >= top && place < top + height);
		const row = this.#drag?.row ?? item?.row;

		return !row || count === 0 || (!this.#drag && (x < 0 || y > this.height - AXIS_HEIGHT)) ? null : { row, slot, x: event.clientX, y: event.clientY };
	}

	/** The row whose name is at the pointer. */
	#namedAt(event) {
		const corner = this.canvas.getBoundingClientRect();
		const place = event.clientY - corner.y + this.scroller.scrollTop;
		const item = this.#items.find(({ row, top, height }) => row && place >= top && place < top + height);

		return event.clientX < corner.x + this.#left() && event.clientY < corner.y + this.height - AXIS_HEIGHT ? item?.row : null;
	}

	#onDown(event) {
		const at = event.button === 0 ? this.#at(event) : null;

		if (!at)
			return;
		this.canvas.setPointerCapture(event.pointerId);
		this.#cursor = null;
		this.#drag = { row: at.row, from: at.slot, to: at.slot, x: event.clientX };
	}

	#onMove(event) {
		const at = this.#at(event);

		this.#hover = at;
		if (this.#drag)
			this.#drag.to = at.slot;
		const named = at ? null : this.#namedAt(event);
		// Only bars can be clicked.
		this.canvas.style.cursor = at && (this.#drag || barAt(at.row, at.slot)) ? "pointer" : "default";
		if (at)
			this.tooltip.show(this.#isDragged(event) ? this.#dragNote() : this.#note(at), event.clientX, event.clientY);
		else if (named)
			this.tooltip.show(nameNote(named), event.clientX, event.clientY);
		else
			this.tooltip.hide();
		this.#redraw();
	}

	#isDragged(event) {
		return this.#drag !== null && Math.abs(event.clientX - this.#drag.x) >= DRAG_MIN;
	}

	#onUp(event) {
		const drag = this.#drag;

		if (!drag)
			return;
		const isClick = !this.#isDragged(event);
		this.#endDrag();
		if (isClick)
			this.#selectBar(drag.row, drag.from);
		else
			this.#selectSlots(drag.row, Math.min(drag.from, drag.to), Math.max(drag.from, drag.to) + 1);
	}

	#onLeave() {
		this.#hover = null;
		this.tooltip.hide();
		this.#redraw();
	}

	#onBlur() {
		this.#cursor = null;
		this.tooltip.hide();
		this.#redraw();
	}

	#endDrag() {
		this.#drag = null;
		this.#redraw();
	}

	#selectBar(row, slot) {
		const bar = barAt(row, slot);

		if (bar)
			this.#select(row, bar.part, bar.first, bar.end);
	}

	/** What took most of the thread's time in the slots. */
	#selectSlots(row, first, end) {
		const { parts } = partsIn(row, first, end);

		if (parts.length)
			this.#select(row, parts[0], first, end);
	}

	#select(row, part, first, end) {
		this.dispatchEvent(new CustomEvent("select", { detail: { row, part, from_ms: this.#timeOf(first), to_ms: this.#timeOf(end) } }));
	}

	#onKey(event) {
		const step = event.shiftKey ? LEAP : 1;
		const actions = {
			ArrowUp: () => this.#moveRow(-1), ArrowDown: () => this.#moveRow(1), ArrowLeft: () => this.#moveSlot(-step), ArrowRight: () => this.#moveSlot(step),
			Home: () => this.#moveSlot(-Infinity), End: () => this.#moveSlot(Infinity),
			Enter: () => this.#cursor && this.#selectBar(this.#cursor.row, this.#cursor.slot), Escape: () => this.#onEscape(),
			"+": () => this.#zoom(0.5), "-": () => this.#zoom(2),
		};

		if (!this.#timeline || this.#items.length === 0 || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(actions, event.key))
			return;
		event.preventDefault();
		event.stopPropagation();
		actions[event.key]();
	}

	/** The cursor's row and slot; where the keyboard has not been yet, at what is selected, or at the first row. */
	#startCursor() {
		const isNew = this.#cursor === null;
		const first = this.#itemOf(this.#selection?.key) ?? this.#items.find(({ row }) => row);
		const { from_ms, slot_ms, count } = this.#timeline.grid;
		const selected_ms = this.#selection ? this.#selection.from_ms - from_ms : (count * slot_ms) / 2;

		this.#cursor ??= { row: first.row, slot: Math.min(count - 1, Math.max(0, Math.floor(selected_ms / slot_ms))) };
		return isNew;
	}

	#moveRow(by) {
		const rows = this.#items.filter(({ row }) => row);

		if (!this.#startCursor()) {
			const at = rows.findIndex(({ row }) => row === this.#cursor.row);
			this.#cursor.row = rows[Math.min(rows.length - 1, Math.max(0, at + by))].row;
		}
		this.#tellCursor();
	}

	#moveSlot(by) {
		if (!this.#startCursor())
			this.#cursor.slot = Math.min(this.#timeline.grid.count - 1, Math.max(0, this.#cursor.slot + by));
		this.#tellCursor();
	}

	#tellCursor() {
		const { row, slot } = this.#cursor;
		const { top } = this.#itemOf(row.key);
		const shown = this.height - AXIS_HEIGHT;

		// A group's title above its first row is seen, too.
		if (top - GROUP_HEIGHT < this.scroller.scrollTop)
			this.scroller.scrollTop = top - GROUP_HEIGHT;
		else if (top + this.#rowHeight > this.scroller.scrollTop + shown)
			this.scroller.scrollTop = top + this.#rowHeight - shown;
		const corner = this.canvas.getBoundingClientRect();
		this.tooltip.show(this.#note(this.#cursor), corner.x + this.#xOf(slot + 1), corner.y + top - this.scroller.scrollTop + this.#rowHeight);
		this.dispatchEvent(new CustomEvent("cell", { detail: this.#sentence(this.#cursor) }));
		this.#redraw();
	}

	#onEscape() {
		this.tooltip.hide();
		if (this.#cursor) {
			this.#cursor = null;
			this.#redraw();
		}
		this.dispatchEvent(new Event("clear"));
	}

	/** Show @times as much time around the cursor, or around the middle. */
	#zoom(times) {
		const { slot_ms, count } = this.#timeline.grid;
		const middle_ms = this.#timeOf(this.#cursor ? this.#cursor.slot + 0.5 : count / 2);

		this.dispatchEvent(new CustomEvent("zoom", { detail: { middle_ms, span_ms: count * slot_ms * times } }));
	}

	#sentence({ row, slot }) {
		const { parts, whole } = partsIn(row, slot, slot + 1);
		const words = parts.map(({ title, value }) => `${title} ${formatShare(value, whole)}`);

		return `${row.name}, ${formatTime(this.#timeOf(slot))}: ${words.join(", ") || this.#whyEmpty(slot)}`;
	}

	#whyEmpty(slot) {
		const time_ms = this.#timeOf(slot);

		if (this.#gaps.some(({ from_ms, to_ms }) => from_ms <= time_ms && time_ms < to_ms))
			return "No data: no agent sent any";
		if (this.#known.newest_ms && time_ms > this.#known.newest_ms)
			return "Data may still arrive";
		return time_ms < this.#known.oldest_ms ? "Before the oldest sample" : "Nothing was measured";
	}

	#dragNote() {
		const [first, last] = [this.#drag.from, this.#drag.to].sort((a, b) => a - b);

		return [element("span", "muted", formatSpan(this.#timeOf(first), this.#timeOf(last + 1))),
			element("strong", "", formatDuration((this.#timeOf(last + 1) - this.#timeOf(first)) * 1e6)), element("span", "muted", "Release to select")];
	}

	#note({ row, slot }) {
		const { parts, whole, unknown } = partsIn(row, slot, slot + 1);
		const { slot_ms } = this.#timeline.grid;
		const bar = barAt(row, slot);
		const head = [element("span", "muted", `${formatTime(this.#timeOf(slot))}, ${formatDuration(slot_ms * 1e6)}`),
			      element("strong", "frame-name", row.threads > 1 ? `${row.name}, ${row.threads} threads` : row.name)];

		if (parts.length === 0)
			return [...head, element("span", "muted", whole > 0 ? "Not sampled in this time" : this.#whyEmpty(slot))];
		const rows = element("dl", "tooltip-rows");
		for (const { title, color, value } of parts.slice(0, PARTS_TOLD)) {
			const swatch = element("span", "swatch");
			swatch.style.backgroundColor = this.palette.values.get(color) ?? this.palette[color];
			rows.append(element("dt", "", swatch, title), element("dd", "", formatDuration(value), element("b", "", formatShare(value, whole))));
		}
		if (unknown > whole / 100)
			rows.append(element("dt", "", "Not sampled"), element("dd", "", formatDuration(unknown), element("b", "", formatShare(unknown, whole))));
		return [...head, rows, element("span", "muted", `Click for its stacks: ${bar.part.title}, ${formatDuration((bar.end - bar.first) * slot_ms * 1e6)}`)];
	}
}

/** Why a row may be several threads. */
function nameNote({ name, threads }) {
	return [element("strong", "frame-name", name), ...(threads > 1 ? [
		element("span", "", `${threads} threads of the process have this name: the row adds up their time`),
		element("span", "muted", "Give the threads names to see a row for each")] : [])];
}
