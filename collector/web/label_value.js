// SPDX-License-Identifier: Apache-2.0
// Titles of label values. Thread states and wait classes have colours of their own (style.css, --wait-lock and so on).

import { LABEL_VALUES } from "./contract.js";

const COLORED_LABELS = ["state", "wait"];
const NUMBERED = { gpu: "GPU", rank: "rank" };

/** All values that have a colour, as "label/value". */
export const COLORED = COLORED_LABELS.flatMap((label) => Object.keys(LABEL_VALUES[label]).map((value) => `${label}/${value}`));

function known(label, value) {
	return Object.hasOwn(LABEL_VALUES, label) && Object.hasOwn(LABEL_VALUES[label], value) ? LABEL_VALUES[label][value] : null;
}

/** Do the values of @label have colours of their own? */
export function hasColors(label) {
	return COLORED_LABELS.includes(label);
}

/** @value of @label as shown; "" is a series without the label. */
export function valueTitle(label, value) {
	if (value === "")
		return "(none)";
	if (Object.hasOwn(NUMBERED, label) && /^\d+$/.test(value))
		return `${NUMBERED[label]} ${value}`;
	return known(label, value)?.title ?? value;
}

/** What @value of @label means; "" if it needs no explanation. */
export function valueMeaning(label, value) {
	const meaning = known(label, value)?.meaning ?? "";

	return label === "wait" && meaning ? `Waiting for ${meaning}` : meaning;
}

/** The position of a thread state in stacked series: running is at the bottom. Other labels keep their order. */
export function placeOf(label, value) {
	return label === "state" ? Object.keys(LABEL_VALUES.state).indexOf(value) : 0;
}
