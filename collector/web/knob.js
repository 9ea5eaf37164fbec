// SPDX-License-Identifier: Apache-2.0
// Load shedding in words. Pure functions.

import { KNOBS, LABEL_VALUES } from "./contract.js";

/** The labels of a shedding step. */
export const SHEDDING_LABELS = ["knob", "step", "pid", "comm"];

/** A step in words: "off-CPU stacks at 1/16", "off-CPU stacks of nginx (4711) off". */
export function knobSentence({ knob, step = "", pid = "", comm = "" }) {
	const process = comm ? `${comm} (${pid})` : `process ${pid}`;

	if (!Object.hasOwn(KNOBS, knob))
		return `${knob} ${step}`;
	return KNOBS[knob].sentence.replace(/\{(step|process)\}/g, (unused, field) => (field === "step" ? step : process));
}

/** What shedding by @knob means for the profiles; "" for an unknown knob. */
export function knobMeaning(knob) {
	return Object.hasOwn(KNOBS, knob) ? LABEL_VALUES.knob[knob].meaning : "";
}
