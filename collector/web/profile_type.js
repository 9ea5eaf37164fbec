// SPDX-License-Identifier: Apache-2.0
// Helpers for profile types, which contract.js declares.

import { PROFILE_TYPES, SECTIONS } from "./contract.js";

const BY_TYPE = new Map(PROFILE_TYPES.map((spec) => [spec.type, spec]));
const PLACE = new Map(PROFILE_TYPES.map(({ type }, at) => [type, at]));
const OTHERS = "Others";

/** Labels that only some types have. */
export const LABELS_OF_TYPES = [...new Set(PROFILE_TYPES.flatMap(({ labels }) => labels))];

/** The contract's spec of @type. A type it lacks is named by its parts and has stacks unless it is a gauge. */
export function specOf(type) {
	return BY_TYPE.get(type) ?? unknownSpec(String(type));
}

function unknownSpec(type) {
	const [name, sampleType, , periodType] = type.split(":");
	const spec = { type, title: `${name} ${sampleType}`.replaceAll("_", " "), section: OTHERS, meaning: "", labels: [], reducedBy: [], see: [] };

	if (isGauge(type))
		return { ...spec, meaning: "A gauge, sampled once a second", noStacks: "It has no stacks." };
	return { ...spec, rate: periodType === "cpu" ? "cores" : "threads" };
}

/** "CPU time" for process_cpu:cpu:… */
export function typeTitle(type) {
	return specOf(type).title;
}

/** @type in links: its short word if it has one. */
export function wordOfType(type) {
	return BY_TYPE.get(type)?.word ?? type;
}

/** The type of @word in a link; @word itself if it is no short word. */
export function typeOfWord(word) {
	return PROFILE_TYPES.find((spec) => spec.word === word)?.type ?? word;
}

/** Is a value of @type a level (of memory in use), not an amount that sums over time? */
export function isGauge(type) {
	return String(type).split(":")[3] === "gauge";
}

/** Do several series of @type sum? Temperatures, clocks and percentages do not: they are averaged. */
export function addsUp(type) {
	return !isGauge(type) || !["percent", "celsius", "hertz"].includes(String(type).split(":")[2]);
}

/** Has @type idle off-CPU time, which is excluded by default? */
export function hasIdle(type) {
	return Boolean(BY_TYPE.get(type)?.labels.includes("wait"));
}

/** Does @type lack @label, which other types have? A selector on it would match nothing. */
export function isForeign(label, type) {
	return LABELS_OF_TYPES.includes(label) && BY_TYPE.has(type) && !BY_TYPE.get(type).labels.includes(label);
}

/** @types as [{ section, specs }] in the picker's order. */
export function sectionsOf(types) {
	const place = (spec) => PLACE.get(spec.type) ?? PLACE.size;
	const specs = types.map(specOf).sort((a, b) => place(a) - place(b) || (a.title < b.title ? -1 : 1));

	return [...SECTIONS, OTHERS].map((section) => ({ section, specs: specs.filter((spec) => spec.section === section) }))
		.filter(({ specs: some }) => some.length > 0);
}
