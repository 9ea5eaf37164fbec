// SPDX-License-Identifier: Apache-2.0
// Values of labels as people read them. What a thread did, its state and what it waited for, has a colour of its
// own (style.css, --wait-lock and so on).

import { LABEL_VALUES } from "./contract.js";

const COLORED_LABELS = ["state", "wait"];
const NUMBERED = { gpu: "GPU", rank: "rank" };

/** All values that have a colour, as "label/value". */
export const COLORED = COLORED_LABELS.flatMap((label) => Object.keys(LABEL_VALUES[label]).map((value) => `${label}/${value}`));

function known(label, value) {
	return Object.hasOwn(LABEL_VALUES, label) && Object.hasOwn(LABEL_VALUES[label], value) ? LABEL_VALUES[label][value] : null;
}

/** Does @label say what threads did, in values that have colours? */
export function hasColors(label) {
	return COLORED_LABELS.includes(label);
}

/** @value of @label as shown; a series without the label has none. */
export function valueTitle(label, value) {
	if (value === "")
		return "(none)";
	if (Object.hasOwn(NUMBERED, label) && /^\d+$/.test(value))
		return `${NUMBERED[label]} ${value}`;
	return known(label, value)?.title ?? value;
}

/** What @value of @label means; "" where there is nothing to explain. */
export function valueMeaning(label, value) {
	const meaning = known(label, value)?.meaning ?? "";

	return label === "wait" && meaning ? `Waiting for ${meaning}` : meaning;
}

/** The place of a thread's state in a stack of them: running is below. Others keep their order. */
export function placeOf(label, value) {
	return label === "state" ? Object.keys(LABEL_VALUES.state).indexOf(value) : 0;
}
