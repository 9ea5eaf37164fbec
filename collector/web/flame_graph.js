// SPDX-License-Identifier: Apache-2.0
// The flame graph: a canvas as large as the visible part of its scroller, on which only boxes that
// can be seen are drawn. The tree is laid out once; a frame of an animation only scales.

import { colorByKind } from "./flame_colors.js";
import { FrameText } from "./frame_text.js";
import { shortName } from "./short_name.js";

export const ROW = 20;	      // height of a level, px
const BOX_MIN = 0.5;	      // narrower boxes join into one strip, px
const CHAR_MIN = 4;	      // px of most characters
const STRIP_ALPHA = 0.5;
const TEXT_MIN = 22;	      // narrower boxes have no text, px
const TEXT_PAD = 5;
const ZOOM_MS = 170;
const ROWS_ABOVE_ZOOM = 2;    // ancestors still visible when a zoom scrolls
const DRAW_TIMES_KEPT = 240;
const DRAG_MIN = 4;	      // px; less is a click
const WHEEL_ZOOM = 1.003;     // per px of the wheel
const SPAN_MIN = 1e-7;	      // of the whole
const PAD = 8;		      // below the last row, px

export class FlameGraph extends EventTarget {
	#tree = null;
	#search = null;
	#coloring = colorByKind;
	#paint = { colors: [], of: new Uint16Array(0) };
	#zoom = 0;
	#hover = -1;
	#focus = -1;
	#current = -1; // the match that a search is at
	#pan = null;   // a drag: { x, y, from, to, scrollTop, moved }
	#pointer = null; // its last position on the canvas
	#rootAtTop = true;
	#palette;
	#frame = 0;
	#animation = null;
	#from = 0;
	#to = 1;
	#levels = 0;	 // shown: down to the deepest frame below the zoomed one
	#fullHeight = 0; // of all levels, px
	#laidHeight = 0; // of the canvas when fullHeight was set
	#text = new FrameText();
	#short = new Map(); // of the tree's names

	/**
	 * Events: "zoom" (detail: node), "hover" and "focus" (detail: { node, x, y } or null),
	 * "search" (detail: name), "menu" (detail: { node, x, y }), "copy" (detail: node).
	 */
	constructor(scroller, spacer, canvas, palette) {
		super();
		this.scroller = scroller;
		this.spacer = spacer;
		this.canvas = canvas;
		this.ctx = canvas.getContext("2d", { alpha: false });
		this.drawTimes_ms = [];
		this.#palette = palette;
		this.#listen();
	}

	get tree() {
		return this.#tree;
	}

	get zoomed() {
		return this.#zoom;
	}

	/** Show @tree (null: nothing) zoomed to @zoom. */
	setTree(tree, zoom = 0) {
		this.#tree = tree;
		this.#search = null;
		this.#hover = -1;
		this.#focus = -1;
		this.#current = -1;
		this.#short.clear();
		this.#repaint();
		this.#zoom = zoom;
		this.#animation = null;
		if (tree)
			[this.#from, this.#to] = this.#spanOf(zoom);
		this.#setLevels();
		this.#hoverAgain();
	}

	/** Set the keyboard's focus to @node; -1: none. */
	setFocus(node) {
		this.#setFocus(node);
	}

	get focused() {
		return this.#focus;
	}

	/** Zoom to @node, animated unless the user prefers reduced motion. */
	setZoom(node, animate = true) {
		if (!this.#tree)
			return;
		this.#zoom = node;
		const [from, to] = this.#spanOf(node);
		const still = !animate || matchMedia("(prefers-reduced-motion: reduce)").matches;
		this.#animation = still ? null :
			{ began: performance.now(), from: this.#from, to: this.#to, toFrom: from, toTo: to };
		if (still)
			[this.#from, this.#to] = [from, to];
		this.#setHover(-1);
		this.#setLevels();
		this.#scrollToLevel(Math.max(0, this.#tree.depth[node] - ROWS_ABOVE_ZOOM), true);
	}

	/** Paint the nodes of @found (FlameTree.find()) and dim the others; null: no search. */
	setSearch(found) {
		this.#search = found;
		this.#redraw();
	}

	/** Mark @node (-1: none) as the search's current match, and scroll to it. */
	setCurrent(node) {
		this.#current = node;
		if (node >= 0)
			this.#scrollToLevel(this.#tree.depth[node]);
		this.#redraw();
	}

	/** The same without scrolling. */
	markCurrent(node) {
		this.#current = node;
		this.#redraw();
	}

	/** Was it moved or scaled by the pointer? */
	get isMoved() {
		if (!this.#tree || this.#animation)
			return false;
		const [from, to] = this.#spanOf(this.#zoom);
		return this.#from !== from || this.#to !== to;
	}

	/** Is @node drawn at least @least px wide, wherever it is scrolled to? */
	isWide(node, least) {
		const { start, total } = this.#tree;
		const [from, to] = this.#spanOf(this.#zoom);

		return start[node] + total[node] > from && start[node] < to && (total[node] * this.width) / (to - from) >= least;
	}

	setRootAtTop(rootAtTop) {
		this.#rootAtTop = rootAtTop;
		this.#setLevels();
		if (this.#tree)
			this.#scrollToLevel(Math.max(0, this.#tree.depth[this.#zoom] - ROWS_ABOVE_ZOOM), true);
	}

	setPalette(palette) {
		this.#palette = palette;
		this.#repaint();
	}

	/** @coloring: (tree, palette) to { colors, of }, as in flame_colors.js. */
	setColoring(coloring) {
		this.#coloring = coloring;
		this.#repaint();
	}

	#repaint() {
		if (this.#tree)
			this.#paint = this.#coloring(this.#tree, this.#palette);
		this.#redraw();
	}

	#colorOf(node) {
		return this.#paint.colors[this.#paint.of[node]];
	}

	/** Fit the canvas to the scroller's size and the screen's pixels. */
	resize() {
		const ratio = window.devicePixelRatio || 1;
		const width = this.scroller.clientWidth;
		const height = this.scroller.clientHeight;

		if (width === 0 || height === 0)
			return;
		this.ratio = ratio;
		this.width = width;
		this.height = height;
		this.canvas.width = Math.round(width * ratio);
		this.canvas.height = Math.round(height * ratio);
		this.canvas.style.width = `${width}px`;
		this.canvas.style.height = `${height}px`;
		this.font = getComputedStyle(this.canvas).font;
		this.#setText();
		this.#text.measure(this.ctx);
		this.#setLevels();
	}

	/** Draw now, outside any animation; returns the milliseconds it took. For measuring. */
	drawNow() {
		const began = performance.now();

		this.#draw();
		return performance.now() - began;
	}

	/** The visible boxes in window coordinates, widest first. */
	boxes() {
		const tree = this.#tree;
		const corner = this.canvas.getBoundingClientRect();
		const boxes = [];

		if (!tree || !this.width)
			return boxes;
		this.#eachVisible((node, x, width, y) => {
			if (width >= 1)
				boxes.push({ node, name: tree.nameOf(node), module: tree.moduleOf(node),
					     kind: tree.kindOf(node), self: tree.self[node], total: tree.total[node],
					     depth: tree.depth[node], matched: Boolean(this.#search?.match[node]), current: node === this.#current,
					     color: this.#colorOf(node), x: corner.x + x, y: corner.y + y, width, height: ROW - 1 });
		});
		return boxes.sort((a, b) => b.width - a.width || a.depth - b.depth);
	}

	#spanOf(node) {
		const tree = this.#tree;

		return [tree.start[node], tree.start[node] + Math.max(tree.total[node], 1e-9)];
	}

	#setLevels() {
		const tree = this.#tree;

		const height = this.height ?? 0;
		const fromBottom = this.#fullHeight - this.#laidHeight - this.scroller.scrollTop;

		this.#levels = tree && tree.count ? tree.depth[this.#zoom] + tree.levelsBelow(this.#zoom) : 0;
		this.#fullHeight = Math.max(this.#levels * ROW + PAD, height);
		this.#laidHeight = height;
		this.spacer.style.height = `${this.#fullHeight}px`;
		// The root stays where it was seen, at the top or at the bottom.
		if (!this.#rootAtTop)
			this.scroller.scrollTop = this.#fullHeight - height - fromBottom;
		this.#redraw();
	}

	/** The top of @level within the canvas. */
	#levelTop(level) {
		const top = this.#rootAtTop ? level * ROW : this.#fullHeight - PAD - (level + 1) * ROW;

		return top - this.scroller.scrollTop;
	}

	#levelAt(y) {
		const at = y + this.scroller.scrollTop;

		return Math.floor((this.#rootAtTop ? at : this.#fullHeight - PAD - at) / ROW);
	}

	/** Scroll so that @level is visible; @first: at the edge where the root is. */
	#scrollToLevel(level, first = false) {
		const top = this.#levelTop(level) + this.scroller.scrollTop;
		const height = this.scroller.clientHeight;

		if (first)
			this.scroller.scrollTop = this.#rootAtTop ? top : top + ROW + PAD - height;
		else if (top < this.scroller.scrollTop)
			this.scroller.scrollTop = top;
		else if (top + ROW > this.scroller.scrollTop + height)
			this.scroller.scrollTop = top + ROW - height;
	}

	#redraw() {
		if (!this.#frame)
			this.#frame = requestAnimationFrame((now) => this.#onFrame(now));
	}

	#onFrame(now) {
		this.#frame = 0;
		this.#advance(now);
		const began = performance.now();
		this.#draw();
		this.drawTimes_ms.push(performance.now() - began);
		if (this.drawTimes_ms.length > DRAW_TIMES_KEPT)
			this.drawTimes_ms.shift();
		if (this.#animation)
			this.#redraw();
	}

	#advance(now) {
		const motion = this.#animation;

		if (!motion)
			return;
		const part = Math.min(1, Math.max(0, (now - motion.began) / ZOOM_MS));
		const eased = 1 - (1 - part) ** 3;
		this.#from = motion.from + (motion.toFrom - motion.from) * eased;
		this.#to = motion.to + (motion.toTo - motion.to) * eased;
		if (part === 1)
			this.#animation = null;
	}

	get settled() {
		return !this.#animation && !this.#frame;
	}

	#draw() {
		const { ctx } = this;

		if (!this.width)
			return;
		ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
		ctx.fillStyle = this.#palette.surface;
		ctx.fillRect(0, 0, this.width, this.height);
		if (!this.#tree || this.#tree.count === 0)
			return;
		this.#setText();
		this.#eachVisible((node, x, width, y) => this.#drawBox(node, x, width, y),
				  (strip, y) => this.#drawStrip(strip, y));
		this.#drawMark(this.#current, this.#palette.ink);
		this.#drawMark(this.#hover, this.#palette.ink);
		this.#drawMark(this.#focus, this.#palette.focus);
	}

	#setText() {
		this.ctx.font = this.font;
		this.ctx.textBaseline = "middle";
		this.ctx.textRendering = "optimizeSpeed"; // no kerning, no ligatures: letter by letter
	}

	/**
	 * Call onBox(node, x, width, y) for each visible box, and onStrip({ from, to, node, matched },
	 * y) for runs of boxes too narrow to be boxes.
	 */
	#eachVisible(onBox, onStrip = () => {}) {
		const tree = this.#tree;
		const first = Math.max(0, Math.min(this.#levelAt(0), this.#levelAt(this.height)));
		const last = Math.min(this.#levels - 1, Math.max(this.#levelAt(0), this.#levelAt(this.height)));

		for (let level = first; level <= last && level < tree.levelCount; level++)
			this.#eachInLevel(level, onBox, onStrip);
	}

	#eachInLevel(level, onBox, onStrip) {
		const { order, start, total, levelStart } = this.#tree;
		const scale = this.width / (this.#to - this.#from);
		const y = this.#levelTop(level);
		const end = levelStart[level + 1];
		let strip = null; // adjoining narrow boxes, and the widest of them

		for (let at = this.#tree.levelSearch(level, this.#from); at < end; at++) {
			const node = order[at];
			const x = (start[node] - this.#from) * scale;
			const width = total[node] * scale;
			if (x >= this.width)
				break;
			if (width >= BOX_MIN) {
				const left = Math.max(x, 0);
				onBox(node, left, Math.min(x + width, this.width) - left, y);
				continue;
			}
			if (!strip || x > strip.to + BOX_MIN) {
				if (strip)
					onStrip(strip, y);
				strip = { from: x, to: x, node, matched: false };
			}
			strip.to = x + width;
			strip.node = total[node] > total[strip.node] ? node : strip.node;
			strip.matched ||= this.#search !== null && this.#search.match[node] === 1;
		}
		if (strip)
			onStrip(strip, y);
	}

	#snap(x) {
		return Math.round(x * this.ratio) / this.ratio;
	}

	#drawBox(node, x, width, y) {
		const { ctx } = this;
		const palette = this.#palette;
		const left = this.#snap(x);
		const right = this.#snap(x + width);
		// A gap between boxes, unless that would leave nothing.
		const shown = Math.max(right - left - (right - left >= 3 ? 1 : 0), 1 / this.ratio);
		const matched = this.#search !== null && this.#search.match[node] === 1;
		const dim = (this.#search !== null && !matched) || this.#isAboveZoom(node);

		ctx.fillStyle = matched ? palette.match : dim ? palette.dim : this.#colorOf(node);
		ctx.fillRect(left, y, shown, ROW - 1);
		if (shown < TEXT_MIN)
			return;
		const text = this.#text.fit(this.#nameFor(node, shown), shown - 2 * TEXT_PAD);
		if (!text)
			return;
		ctx.fillStyle = matched ? palette["match-ink"] : dim ? palette["dim-ink"] : palette["frame-ink"];
		ctx.fillText(text, left + TEXT_PAD, y + ROW / 2);
	}

	/** The name of @node, without its templates' arguments where it is too long for @width px. */
	#nameFor(node, width) {
		const name = this.#tree.nameOf(node);

		if (name.length * CHAR_MIN < width)
			return name;
		if (!this.#short.has(name))
			this.#short.set(name, shortName(name));
		return this.#short.get(name);
	}

	// In the colour of the widest box, but pale: a strip is not one frame.
	#drawStrip(strip, y) {
		const { ctx } = this;
		const palette = this.#palette;
		const width = strip.to - strip.from;

		if (width < BOX_MIN && !strip.matched)
			return;
		ctx.fillStyle = strip.matched ? palette.match : this.#search ? palette.dim : this.#colorOf(strip.node);
		ctx.globalAlpha = strip.matched ? 1 : STRIP_ALPHA;
		ctx.fillRect(strip.from, y, Math.max(width, 1 / this.ratio), ROW - 1);
		ctx.globalAlpha = 1;
	}

	#isAboveZoom(node) {
		return this.#zoom !== 0 && this.#tree.depth[node] < this.#tree.depth[this.#zoom];
	}

	#rectOf(node) {
		const tree = this.#tree;
		const scale = this.width / (this.#to - this.#from);
		const x = (tree.start[node] - this.#from) * scale;
		const left = Math.max(0, x);
		const right = Math.min(this.width, x + tree.total[node] * scale);

		return { x: left, y: this.#levelTop(tree.depth[node]), width: right - left };
	}

	#drawMark(node, color) {
		if (node < 0)
			return;
		const { x, y, width } = this.#rectOf(node);
		if (width <= 0)
			return;
		this.ctx.strokeStyle = color;
		this.ctx.lineWidth = 2;
		this.ctx.strokeRect(this.#snap(x) + 1, y + 1, Math.max(this.#snap(width) - 3, 1), ROW - 3);
	}

	#listen() {
		this.scroller.addEventListener("scroll", () => this.#redraw(), { passive: true });
		this.canvas.addEventListener("pointermove", (event) => this.#onPointer(event));
		this.canvas.addEventListener("pointerleave", () => this.#onLeave());
		this.canvas.addEventListener("click", (event) => this.#onClick(event));
		this.canvas.addEventListener("pointerdown", (event) => this.#onDown(event));
		this.canvas.addEventListener("pointerup", () => this.#onUp());
		this.canvas.addEventListener("pointercancel", () => this.#onUp());
		this.canvas.addEventListener("wheel", (event) => this.#onWheel(event), { passive: false });
		this.canvas.addEventListener("contextmenu", (event) => this.#onMenu(event));
		this.scroller.addEventListener("keydown", (event) => this.#onKey(event));
		this.scroller.addEventListener("blur", () => this.#setFocus(-1));
		new ResizeObserver(() => this.resize()).observe(this.scroller);
	}

	/** The node under a pointer, or -1; a strip of narrow boxes has none. */
	#nodeUnder(event) {
		if (!this.#tree || !this.width)
			return -1;
		const corner = this.canvas.getBoundingClientRect();
		const level = this.#levelAt(event.clientY - corner.y);
		const x = event.clientX - corner.x;
		if (level >= this.#levels)
			return -1;
		return this.#tree.nodeAt(level, this.#from + (x / this.width) * (this.#to - this.#from));
	}

	// A drag moves the picture; a finger scrolls the page instead.
	#onDown(event) {
		if (event.button !== 0 || event.pointerType === "touch" || !this.#tree)
			return;
		this.#pan = { x: event.clientX, y: event.clientY, from: this.#from, to: this.#to, scrollTop: this.scroller.scrollTop,
			      moved: false, pointer: event.pointerId };
	}

	#onUp() {
		// The click that follows sees whether it ended a drag.
		setTimeout(() => (this.#pan = null), 0);
	}

	#dragTo(x, y) {
		const pan = this.#pan;

		if (!pan.moved && Math.abs(x - pan.x) + Math.abs(y - pan.y) < DRAG_MIN)
			return;
		if (!pan.moved)
			this.canvas.setPointerCapture(pan.pointer);
		pan.moved = true;
		this.#setHover(-1);
		this.#setSpan(pan.from - ((x - pan.x) * (pan.to - pan.from)) / this.width, pan.to - pan.from);
		this.scroller.scrollTop = pan.scrollTop - (y - pan.y);
	}

	/** Show @length of the root's value from @from on, as far as there is any. */
	#setSpan(from, length) {
		const whole = this.#tree.total[0];
		const shown = Math.min(length, whole);

		this.#animation = null;
		this.#from = Math.max(0, Math.min(from, whole - shown));
		this.#to = this.#from + Math.max(shown, 1e-9);
		this.#redraw();
	}

	/** Ctrl and the wheel: zoom about the pointer. Sideways: pan. */
	#onWheel(event) {
		if (!this.#tree || (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)))
			return;
		event.preventDefault();
		const length = this.#to - this.#from;
		if (!event.ctrlKey) {
			this.#setSpan(this.#from + (event.deltaX * length) / this.width, length);
			return;
		}
		const at = (event.clientX - this.canvas.getBoundingClientRect().x) / this.width;
		const next = Math.max(length * WHEEL_ZOOM ** event.deltaY, this.#tree.total[0] * SPAN_MIN);
		this.#setSpan(this.#from + at * (length - next), next);
	}

	#onMenu(event) {
		const node = this.#nodeUnder(event);

		if (node < 0)
			return;
		event.preventDefault();
		this.#setHover(-1);
		this.dispatchEvent(new CustomEvent("menu", { detail: { node, x: event.clientX, y: event.clientY } }));
	}

	#onPointer(event) {
		if (this.#pan) {
			this.#dragTo(event.clientX, event.clientY);
			return;
		}
		this.#pointer = { clientX: event.clientX, clientY: event.clientY };
		this.#hoverAgain();
	}

	// After a refresh another frame may be under the resting pointer.
	#hoverAgain() {
		const at = this.#pointer;

		this.#setHover(at ? this.#nodeUnder(at) : -1, at?.clientX, at?.clientY);
	}

	#onLeave() {
		this.#pointer = null;
		this.#setHover(-1);
	}

	#setHover(node, x = 0, y = 0) {
		if (node !== this.#hover)
			this.#redraw();
		this.#hover = node;
		this.canvas.style.cursor = node >= 0 ? "pointer" : "";
		this.dispatchEvent(new CustomEvent("hover", { detail: node >= 0 ? { node, x, y } : null }));
	}

	#onClick(event) {
		const node = this.#nodeUnder(event);

		if (node < 0 || this.#pan?.moved)
			return;
		if (event.shiftKey)
			this.dispatchEvent(new CustomEvent("search", { detail: this.#tree.nameOf(node) }));
		else
			this.#requestZoom(node);
	}

	#requestZoom(node) {
		this.dispatchEvent(new CustomEvent("zoom", { detail: node }));
	}

	#setFocus(node) {
		if (node === this.#focus)
			return;
		this.#focus = node;
		this.#redraw();
		if (node < 0) {
			this.dispatchEvent(new CustomEvent("focus", { detail: null }));
			return;
		}
		this.#scrollToLevel(this.#tree.depth[node]);
		const { x, y, width } = this.#rectOf(node);
		const corner = this.canvas.getBoundingClientRect();
		this.dispatchEvent(new CustomEvent("focus", {
			detail: { node, x: corner.x + x + Math.min(width / 2, 200), y: corner.y + y + ROW },
		}));
	}

	#onKey(event) {
		if (!this.#tree || this.#tree.count === 0 || event.ctrlKey || event.metaKey || event.altKey)
			return;
		const down = this.#rootAtTop ? "ArrowDown" : "ArrowUp";
		const up = this.#rootAtTop ? "ArrowUp" : "ArrowDown";
		const focus = this.#focus >= 0 ? this.#focus : -1;
		const moves = {
			[down]: () => this.#setFocus(focus < 0 ? this.#zoom : this.#widestChild(focus)),
			[up]: () => this.#setFocus(focus < 0 ? this.#zoom : this.#tree.parent[focus]),
			ArrowLeft: () => this.#setFocus(focus < 0 ? this.#zoom : this.#neighbour(focus, -1)),
			ArrowRight: () => this.#setFocus(focus < 0 ? this.#zoom : this.#neighbour(focus, 1)),
			Enter: () => focus >= 0 && this.#requestZoom(focus),
			Backspace: () => this.#requestZoom(this.#tree.parent[this.#zoom]),
			Home: () => this.#setFocus(this.#zoom),
			c: () => focus >= 0 && this.dispatchEvent(new CustomEvent("copy", { detail: focus })),
			m: () => focus >= 0 && this.#openMenu(focus),
			ContextMenu: () => focus >= 0 && this.#openMenu(focus),
		};
		if (!moves[event.key])
			return;
		event.preventDefault();
		moves[event.key]();
	}

	#openMenu(node) {
		const { x, y, width } = this.#rectOf(node);
		const corner = this.canvas.getBoundingClientRect();

		this.dispatchEvent(new CustomEvent("menu", {
			detail: { node, x: corner.x + x + Math.min(width / 2, 200), y: corner.y + y + ROW, byKey: true },
		}));
	}

	#widestChild(node) {
		let widest = node;

		for (const child of this.#tree.childrenOf(node)) {
			if (widest === node || this.#tree.total[child] > this.#tree.total[widest])
				widest = child;
		}
		return widest;
	}

	/** The next box of the same level that is wide enough to see, or @node itself. */
	#neighbour(node, step) {
		const { order, levelStart, depth, start, total } = this.#tree;
		const level = depth[node];
		const least = (BOX_MIN * (this.#to - this.#from)) / this.width;

		for (let at = order.subarray(levelStart[level], levelStart[level + 1]).indexOf(node) + levelStart[level] + step;
		     at >= levelStart[level] && at < levelStart[level + 1]; at += step) {
			const next = order[at];
			if (start[next] + total[next] <= this.#from || start[next] >= this.#to)
				break;
			if (total[next] >= least)
				return next;
		}
		return node;
	}
}
