// SPDX-License-Identifier: Apache-2.0
// Questions about profile types. What each type is stands in contract.js.

import { PROFILE_TYPES, SECTIONS } from "./contract.js";

const BY_TYPE = new Map(PROFILE_TYPES.map((spec) => [spec.type, spec]));
const PLACE = new Map(PROFILE_TYPES.map(({ type }, at) => [type, at]));
const OTHERS = "Others";

/** Labels that only some types have. */
export const LABELS_OF_TYPES = [...new Set(PROFILE_TYPES.flatMap(({ labels }) => labels))];

/** What is known of @type. One that the contract does not have is named by its parts, and has stacks unless it is a gauge. */
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

/** What a link says for @type: its word if it has one. */
export function wordOfType(type) {
	return BY_TYPE.get(type)?.word ?? type;
}

/** The type that @word of a link means: a word's, else @word itself. */
export function typeOfWord(word) {
	return PROFILE_TYPES.find((spec) => spec.word === word)?.type ?? word;
}

/** Is a value of @type a level (of memory in use), not an amount that adds up over time? */
export function isGauge(type) {
	return String(type).split(":")[3] === "gauge";
}

/** Do values of several series of @type make a sum? Temperatures, clocks and percentages do not: theirs is a mean. */
export function addsUp(type) {
	return !isGauge(type) || !["percent", "celsius", "hertz"].includes(String(type).split(":")[2]);
}

/** Has @type waits of class "idle", which are left out unless asked for? */
export function hasIdle(type) {
	return Boolean(BY_TYPE.get(type)?.labels.includes("wait"));
}

/** Is @label one that only some types have, and @type none of them? A selector on it would find nothing. */
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
