// SPDX-License-Identifier: Apache-2.0
// The colours of a change: blue has less, red has more, grey may be chance. Blue and red differ in lightness as little as
// they differ in hue much, so that those who see no red or no green tell them apart, too.

const STEPS = 4;

/** The steps' lower ends, as change by sum of both sides: a doubling is 1/3, new or gone is 1. */
const LIMITS = [0, 0.1, 0.25, 0.5];

/** From -STEPS (gone) to STEPS (new): how much of it changed. */
export function changeStep(a, b) {
	const part = a + b > 0 ? (b - a) / (a + b) : 0;
	let step = 0;

	for (const limit of LIMITS)
		step += Math.abs(part) > limit ? 1 : 0;
	return part < 0 ? -step : step;
}

/** The names of the colours in style.css, from gone to new; the middle one has not changed. */
const NAMES = [...Array.from({ length: STEPS }, (unused, at) => `diff-less-${STEPS - at}`), "diff-same",
	       ...Array.from({ length: STEPS }, (unused, at) => `diff-more-${at + 1}`)];

/** A coloring of flame_colors.js for the tree of @comparison. */
export function colorByChange(comparison) {
	return (tree) => {
		const colors = [...readColors(NAMES), ...readColors(["diff-unsure", "diff-root"])];
		const of = new Uint16Array(tree.count);
		const { a, b, certainty } = comparison.nodes;

		for (let node = 0; node < tree.count; node++)
			of[node] = node === 0 ? NAMES.length + 1 : certainty[node] === 2 ? STEPS + changeStep(a[node], b[node]) : NAMES.length;
		return { colors, of };
	};
}

// The browser resolves variables and themes; which needs an element.
function readColors(names) {
	const probe = document.createElement("span");

	probe.hidden = true;
	document.body.append(probe);
	const colors = names.map((name) => {
		probe.style.color = `var(--${name})`;
		return getComputedStyle(probe).color;
	});
	probe.remove();
	return colors;
}

/** The legend's parts: [class of style.css, words, explanation]. */
export const LEGEND = [
	["diff-less-4", "", "less than a third, or gone"],
	["diff-less-3", "", "a third to 0.6"],
	["diff-less-2", "", "0.6 to 0.8"],
	["diff-less-1", "less", "0.8 and more"],
	["diff-unsure", "not significant", "the change may be chance"],
	["diff-more-1", "", "up to 1.2 times"],
	["diff-more-2", "", "1.2 to 1.7 times"],
	["diff-more-3", "", "1.7 to 3 times"],
	["diff-more-4", "more", "three times and more, or new"],
];
