// SPDX-License-Identifier: Apache-2.0
// The view, kept in the address bar: a link restores it, Back returns to the previous view. Links are
// untrusted, so each field is checked when read.

import { TYPE } from "./contract.js";
import { typeOfWord, wordOfType } from "./profile_type.js";
import { readRegions, wholeSlots, writeRegions } from "./regions.js";
import { withValue } from "./selector.js";
import { absoluteTime, durationMs, resolveTime } from "./time_range.js";

export const NODES_DEFAULT = 32768; // about 270 KiB on the wire; smaller frames are below a pixel
export const NODES_MAX = 131072;

const AT_FOR_MS = 1000; // of a link with at alone
const AT_FOR_MAX_MS = 6 * 3600e3;
const AROUND_MIN_MS = 60e3; // shown before and after it
const AROUND_TIMES = 5;

const START_PAGE = "services";

const isTime = (text) => resolveTime(text, 0) !== null;
const oneOf = (...words) => (text) => words.includes(text);
const isSwitch = oneOf("on", "off");
const atMost = (length) => (text) => text.length <= length;

/**
 * Each field of a view: its default, which links omit, the check of a link's value, and how links read and write it
 * where their text differs.
 *   page    which page is shown: pages.js; without any field in the link the services
 *   query   selector text            type    five-part profile type; in links its short word
 *   from/to time texts               group   label to group by; "auto": the type's own, or services until one is picked
 *   idle    "out": exclude idle time; "in": include it
 *   zoom    key of the zoomed frame  search  text searched for in the flame graph
 *   filter  text filtering the table sort    column, "-" before it: smallest first
 *   layout  which panes are shown    root    where the flame graph's root lies
 *   fold    "on": interpreter frames between Python functions are folded
 *   lines   "on": frames are source lines, not functions
 *   recursion, libraries  "on": calls to itself, and calls within a library, are one frame
 *   hide    names of hidden functions, a line each      focus  name of the one whose stacks alone are shown
 *   color   what colours mean        sandwich  function whose callers and callees are shown
 *   columns "on": the table has columns of where time goes
 *   code    function whose source lines are shown instead of the table
 *   live    refresh while the range ends now
 *   nodes   maximum number of boxes
 *   thread  of the timeline page: the selector of the thread whose stacks are shown
 *   of the compare page: against, what with (compare_query.js); base, base_from, base_to its selector and times; norm "rate" or
 *   "share"; by which value functions are compared; show, changes of the table
 */
const FIELDS = {
	page: { fallback: "service", check: oneOf("services", "service", "timeline", "compare", "fleet") },
	query: { fallback: "", check: atMost(8192) },
	type: { fallback: TYPE.CPU, check: (text) => text.length <= 160 && text.split(":").length === 5, read: typeOfWord, write: wordOfType },
	from: { fallback: "now-15m", check: isTime },
	to: { fallback: "now", check: isTime },
	over: { fallback: "chart", check: oneOf("chart", "heat") },
	thread: { fallback: "", check: atMost(8192) },
	sel: { fallback: "", check: (text) => readRegions(text) !== null },
	group: { fallback: "auto", check: (text) => text === "" || /^[A-Za-z_][A-Za-z0-9_.]{0,127}$/.test(text) },
	idle: { fallback: "out", check: oneOf("out", "in") },
	zoom: { fallback: "", check: (text) => /^[0-9a-f]{16}$/.test(text) },
	search: { fallback: "", check: atMost(400) },
	filter: { fallback: "", check: atMost(400) },
	sort: { fallback: "self", check: (text) => /^-?(name|self|total|python|native|kernel|gpu|blocked)$/.test(text) },
	layout: { fallback: "both", check: oneOf("flame", "both", "table") },
	root: { fallback: "top", check: oneOf("top", "bottom") },
	fold: { fallback: "on", check: isSwitch },
	lines: { fallback: "off", check: isSwitch },
	recursion: { fallback: "off", check: isSwitch },
	libraries: { fallback: "off", check: isSwitch },
	hide: { fallback: "", check: atMost(4096) },
	focus: { fallback: "", check: atMost(1024) },
	color: { fallback: "kind", check: oneOf("kind", "module") },
	sandwich: { fallback: "", check: atMost(1024) },
	columns: { fallback: "off", check: isSwitch },
	code: { fallback: "", check: atMost(1024) },
	live: { fallback: "on", check: oneOf("on", "off") },
	nodes: { fallback: String(NODES_DEFAULT), check: (text) => /^\d{1,6}$/.test(text) && +text >= 1 && +text <= NODES_MAX },
	against: { fallback: "before", check: oneOf("before", "1h", "1d", "7d", "rest", "query", "range") },
	base: { fallback: "", check: atMost(8192) },
	base_from: { fallback: "", check: (text) => text === "" || isTime(text) },
	base_to: { fallback: "", check: (text) => text === "" || isTime(text) },
	norm: { fallback: "rate", check: oneOf("rate", "share") },
	by: { fallback: "self", check: oneOf("self", "total") },
	show: { fallback: "all", check: oneOf("all", "new", "gone", "grown", "shrunk") },
};

/** The fields that a link from elsewhere means by service=NAME: {} without it. */
function serviceOf(params) {
	return params.has("service") ? { query: withValue(params.get("query") ?? "", "service", params.get("service")) } : {};
}

/**
 * The fields that a link from elsewhere means by at=TIME&for=DURATION: that interval selected, with time around it.
 * A missing or invalid for is a second. {} without a valid at.
 */
function momentOf(params) {
	const at_ms = params.has("at") ? resolveTime(params.get("at"), Date.now()) : null;

	if (at_ms === null)
		return {};
	const for_ms = Math.min(durationMs(params.get("for") ?? "") ?? AT_FOR_MS, AT_FOR_MAX_MS);
	const region = wholeSlots(at_ms, at_ms + for_ms);
	const around_ms = Math.max(AROUND_MIN_MS, AROUND_TIMES * for_ms);
	return { page: "service", over: "heat", sel: writeRegions([region]), live: "off",
		 from: absoluteTime(region.from_ms - around_ms), to: absoluteTime(region.to_ms + around_ms) };
}

/** The view of a query string; missing or invalid fields take their defaults. */
export function readView(search) {
	const params = new URLSearchParams(search);
	const view = {};

	for (const [name, field] of Object.entries(FIELDS)) {
		const text = params.get(name);
		const value = text !== null && field.read ? field.read(text) : text;
		view[name] = value !== null && field.check(value) ? value : field.fallback;
	}
	if (params.size === 0)
		view.page = START_PAGE;
	for (const [name, value] of Object.entries({ ...serviceOf(params), ...momentOf(params) })) {
		if (FIELDS[name].check(value))
			view[name] = value;
	}
	return view;
}

/** The query string of @view, "" for the start page with all defaults. */
export function writeView(view) {
	const parts = [];

	for (const [name, field] of Object.entries(FIELDS)) {
		const value = field.write ? field.write(view[name]) : view[name];

		if (view[name] !== field.fallback)
			// Colons, slashes, commas and equals signs are legal in a query, and links are read by people.
			parts.push(`${name}=${encodeURIComponent(value).replace(/%(3A|2F|2C|3D)/g, decodeURIComponent)}`);
	}
	if (parts.length === 1 && view.page === START_PAGE)
		return "";
	return "?" + (parts.length ? parts.join("&") : `page=${view.page}`);
}

/** The view now, and a "change" event whose detail is the set of changed fields. */
export class ViewState extends EventTarget {
	#view;

	constructor() {
		super();
		this.#view = Object.freeze(readView(location.search));
		// The address is the view's own from here on.
		if (new URLSearchParams(location.search).has("at"))
			history.replaceState(null, "", location.pathname + writeView(this.#view));
		window.addEventListener("popstate", () => this.#become(readView(location.search)));
	}

	get view() {
		return this.#view;
	}

	/** Set the fields of @patch. With @replace, Back does not return to the previous view. */
	change(patch, { replace = false } = {}) {
		const next = { ...this.#view, ...patch };
		const address = location.pathname + writeView(next);

		if (address !== location.pathname + location.search) {
			if (replace)
				history.replaceState(null, "", address);
			else
				history.pushState(null, "", address);
		}
		this.#become(next);
	}

	#become(next) {
		const changed = new Set(Object.keys(FIELDS).filter((name) => next[name] !== this.#view[name]));

		if (changed.size === 0)
			return;
		this.#view = Object.freeze(next);
		this.dispatchEvent(new CustomEvent("change", { detail: changed }));
	}
}
