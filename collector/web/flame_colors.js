// SPDX-License-Identifier: Apache-2.0
// Colourings of the flame graph. A coloring is a function (tree, palette) that returns { colors, of }:
// node n is drawn in colors[of[n]]. Another meaning of colour, such as a change, is one more function.

import { KINDS, MODULE_HUES, SHADES, hashName, shadeNumber } from "./palette.js";

const PYTHON_FILE = / \(([^()]+?)(?::\d+)?\)$/;
const PLAIN = (SHADES - 1) / 2; // the middle shade

/** By kind of code; equal names have equal shades. */
export function colorByKind(tree, palette) {
	const shades = Uint8Array.from(tree.names, shadeNumber);
	const of = new Uint16Array(tree.count);

	for (let node = 0; node < tree.count; node++) {
		const kind = Math.max(KINDS.indexOf(tree.kindOf(node)), 0);
		of[node] = kind * SHADES + (kind === 0 ? PLAIN : shades[tree.name[node]]);
	}
	return { colors: palette.kinds, of };
}

/** By Python file, or else by module: a hue for each, and shades for its functions. */
export function colorByModule(tree, palette) {
	const shades = Uint8Array.from(tree.names, shadeNumber);
	const of = new Uint16Array(tree.count);
	const first = palette.kinds.length;

	for (let node = 0; node < tree.count; node++) {
		const kind = tree.kindOf(node);
		const source = sourceOf(tree, node);
		const kindAt = Math.max(KINDS.indexOf(kind), 0);
		of[node] = source && kind !== "kernel" ? first + (hashName(source) % MODULE_HUES) * SHADES + shades[tree.name[node]] :
			kindAt * SHADES + (kindAt === 0 ? PLAIN : shades[tree.name[node]]);
	}
	return { colors: [...palette.kinds, ...palette.modules], of };
}

/** The files and modules of @tree by self value, largest first: [{ name, color, value }]. */
export function modulesOf(tree, palette) {
	const { colors, of } = colorByModule(tree, palette);
	const sums = new Map();

	for (let node = 1; node < tree.count; node++) {
		const name = tree.kindOf(node) === "kernel" ? "kernel" : sourceOf(tree, node).split("/").at(-1);
		if (!name || tree.self[node] <= 0)
			continue;
		if (!sums.has(name))
			sums.set(name, { name, color: colors[of[node]], value: 0 });
		sums.get(name).value += tree.self[node];
	}
	return [...sums.values()].sort((a, b) => b.value - a.value);
}

/** The Python file of @node, or its module; "" for a node without code. */
function sourceOf(tree, node) {
	const kind = tree.kindOf(node);

	if (kind === "root" || kind === "group" || kind === "truncated")
		return "";
	return (kind === "python" && PYTHON_FILE.exec(tree.nameOf(node))?.[1]) || tree.moduleOf(node);
}

export const COLORINGS = { kind: colorByKind, module: colorByModule };
