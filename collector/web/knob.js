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

// Steps of which a part is kept, each kept one counting for more: {part} of {whole}.
const KEPT = {
	off_cpu_unwind: "{part} of {whole} off-CPU stacks kept",
	page_faults_unwind: "{part} of {whole} page faults kept",
	cpu_frequency: "CPU sampled at {part} Hz",
};

const SENTENCES_MAX = 3; // in a notice; the popover has all

/**
 * What of a figure is less under @steps, [{ knob, step, text }]: "CPU sampled at 19 Hz; 1 of 64 off-CPU stacks kept, sums stay
 * right; page faults off: not recorded meanwhile". "" without any.
 */
export function keptSentence(steps) {
	const isKept = ({ knob }) => Object.hasOwn(KEPT, knob);
	const kept = steps.filter(isKept).map(({ knob, step }) => {
		const [part, whole = ""] = step.replace(/Hz$/, "").split("/");
		return KEPT[knob].replace(/\{(part|whole)\}/g, (unused, field) => (field === "part" ? part : whole));
	});
	const gaps = steps.filter((one) => !isKept(one)).map(({ text }) => `${text}: not recorded meanwhile`);
	const few = (words) => [...new Set(words)].slice(0, SENTENCES_MAX).join("; ");

	return [kept.length ? `${few(kept)}, sums stay right` : "", few(gaps)].filter((words) => words).join("; ");
}

/** What shedding by @knob means for the profiles; "" for an unknown knob. */
export function knobMeaning(knob) {
	return Object.hasOwn(KNOBS, knob) ? LABEL_VALUES.knob[knob].meaning : "";
}
