// SPDX-License-Identifier: Apache-2.0
// Colours for canvases, read from style.css so that each is written once. A kind of frame
// has one hue in a few shades, so that neighbours are distinct and the kind is visible.

import { FRAME_KINDS } from "./contract.js";
import { COLORED } from "./label_value.js";

export const KINDS = ["root", "group", ...FRAME_KINDS, "truncated"];
export const SHADES = 5;
export const SERIES_COLORS = 8;
export const HEAT_SHADES = 64;
const HEAT_STOPS = 5; // --heat-0 … --heat-4
export const MODULE_HUES = 12;

const OKLCH = /^oklch\(([\d.]+) ([\d.]+) ([\d.]+|none)/;

// The browser resolves variables, light-dark() and themes; which needs an element.
function resolveColor(probe, name) {
	probe.style.color = `var(--${name})`;
	return getComputedStyle(probe).color;
}

/** Shade @shade of @color (as computed, in oklch): a little lighter or darker, a little turned. */
function shadeOf(color, shade) {
	const found = OKLCH.exec(color);

	if (!found)
		return color;
	const step = shade - (SHADES - 1) / 2;
	const light = Number(found[1]) + step * 0.014;
	const hue = (found[3] === "none" ? 0 : Number(found[3])) + step * 2.5;
	return `oklch(${light.toFixed(4)} ${found[2]} ${hue.toFixed(2)})`;
}

/** Numbers of a colour as computed, in oklch. */
function partsOf(color) {
	const [, light, chroma, hue] = OKLCH.exec(color) ?? [0, "0.5", "0", "0"];

	return [Number(light), Number(chroma), hue === "none" ? 0 : Number(hue)];
}

/** HEAT_SHADES colours from the first of @stops to the last: equal steps of value look like equal steps. */
function heatShades(stops) {
	const parts = stops.map(partsOf);

	// Hues turn the short way.
	for (let at = 1; at < parts.length; at++)
		parts[at][2] += 360 * Math.round((parts[at - 1][2] - parts[at][2]) / 360);
	return Array.from({ length: HEAT_SHADES }, (unused, shade) => {
		const place = (shade / (HEAT_SHADES - 1)) * (parts.length - 1);
		const left = Math.min(parts.length - 2, Math.floor(place));
		const [light, chroma, hue] = parts[left].map((part, at) => part + (parts[left + 1][at] - part) * (place - left));
		return `oklch(${light.toFixed(4)} ${chroma.toFixed(4)} ${hue.toFixed(2)})`;
	});
}

/** @colors as the words of image data. */
export function wordsOf(colors) {
	const ctx = new OffscreenCanvas(colors.length, 1).getContext("2d", { willReadFrequently: true });

	colors.forEach((color, at) => {
		ctx.fillStyle = color;
		ctx.fillRect(at, 0, 1, 1);
	});
	return new Uint32Array(ctx.getImageData(0, 0, colors.length, 1).data.buffer);
}


/** @color, in oklch, at hue number @hue of MODULE_HUES, in a shade. */
function turned(color, hue, shade) {
	const found = OKLCH.exec(color);

	return found ? shadeOf(`oklch(${found[1]} ${found[2]} ${(hue * 360) / MODULE_HUES})`, shade) : color;
}

/** The colours of the active theme: { kinds, modules, dim, ink, ..., series, values, heat, heatWords }. */
export function readPalette() {
	const probe = document.createElement("span");
	const plain = (name) => resolveColor(probe, name);

	probe.hidden = true;
	document.body.append(probe);
	const palette = {
		// kinds[k * SHADES + s] is the colour of kind k in shade s.
		kinds: KINDS.flatMap((kind) => {
			const color = plain(`kind-${kind}`);
			return Array.from({ length: SHADES }, (unused, shade) => shadeOf(color, shade));
		}),
		// modules[h * SHADES + s] is hue h in shade s, as light as native code.
		modules: Array.from({ length: MODULE_HUES * SHADES }, (unused, at) =>
			turned(plain("kind-native"), Math.floor(at / SHADES), at % SHADES)),
		series: Array.from({ length: SERIES_COLORS }, (unused, at) => plain(`series-${at}`)),
		// A wait class or thread state has the same colour everywhere.
		values: new Map(COLORED.map((value) => [value, plain(value.replace("/", "-").replace("_", "-"))])),
	};
	for (const name of ["surface", "ink", "ink-muted", "line", "accent", "match", "match-ink", "dim",
			    "dim-ink", "frame-ink", "focus", "other", "warn", "gpu-spin"])
		palette[name] = plain(name);
	palette.heat = heatShades(Array.from({ length: HEAT_STOPS }, (unused, at) => plain(`heat-${at}`)));
	palette.heatWords = wordsOf(palette.heat);
	probe.remove();
	return palette;
}

/** A number from 0 to 2^32 - 1 for @name: the same for equal names, whatever the data. */
export function hashName(name) {
	let hash = 0;

	for (let at = 0; at < name.length; at++)
		hash = Math.imul(hash, 31) + name.charCodeAt(at);
	return (hash ^ (hash >>> 16)) >>> 0;
}

/** The number of @name's shade. */
export function shadeNumber(name) {
	return hashName(name) % SHADES;
}
