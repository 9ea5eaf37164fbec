// SPDX-License-Identifier: Apache-2.0
// Annotations of a chart: CPU throttling and load shedding. Pure functions, and their drawing.

import { formatNumber } from "./format.js";
import { knobSentence } from "./knob.js";
import { specOf } from "./profile_type.js";
import { stepsOf } from "./series_stack.js";

const BAND_HEIGHT = 4;	 // px, of the band at the top of the plot
const MARK_SIZE = 4;	 // px, half the width of a mark on the time axis
const REACH = 7;	 // px from a mark within which the pointer selects it
const CPUS_MIN = 0.001; // of a step; less is drawn as none
const STRIP_HEIGHT = 3;	 // px, of the strip on the time axis
const ARRIVES_MS = 10000; // agents send every 5 s: older data is complete

/**
 * The marks of fetchMarks()'s answer for @range (in ms): { throttled, changes, shedding, gaps }.
 *   throttled  { total, span_ms, groups: [{ group, total }], steps: [{ from_ms, to_ms, cpus }] }, null without throttling
 *   changes    [{ time_ms, at, step_ms, knob, text }] in order; time_ms is the middle of its step, the at-th
 *   shedding   [{ knob, step, text, agents, spans: [{ from_ms, to_ms }], is_whole, to_end }], the longest first: when each
 *              shedding step was active and on how many agents; for the whole range, and in the newest data?
 *   gaps       [{ from_ms, to_ms }]: no agent of the view's nodes sent anything
 */
export function marksOf(answers, range, stored) {
	return { throttled: throttledOf(answers.throttled, range, stored), changes: changesOf(answers.changes, range),
		 shedding: sheddingOf(answers.shedding, range, stored), gaps: answers.presence ? gapsOf(answers.presence, range, stored) : [] };
}

/** The gaps of marksOf(), by what the agents counted. Without any counter in the range nothing is known. */
export function gapsOf(answer, range, stored) {
	const { first_ms, step_ms } = stepsOf(answer);
	const values = answer.series[0]?.values ?? [];
	const isKnown = (at) => first_ms + at * step_ms >= stored.oldest_ms &&
		first_ms + (at + 1) * step_ms <= (stored.newest_ms || range.to_ms) - ARRIVES_MS;

	if (!values.some((value) => value > 0))
		return [];
	return spansOf(values.map((value, at) => (value === 0 && isKnown(at) ? 1 : 0)), (at) => Math.min(range.to_ms, Math.max(range.from_ms, first_ms + at * step_ms)));
}

/** The steps of @shedding that reduce @type, those that drop most of it first. */
export function reducedIn(shedding, type) {
	return specOf(type).reducedBy.flatMap((name) => shedding.filter(({ knob }) => knob === name));
}

function throttledOf(answer, range, stored) {
	const { first_ms, step_ms, stepCount } = stepsOf(answer);
	const groups = answer.series.filter((s) => s.total > 0).map(({ group, total }) => ({ group, total }));
	const from_ms = Math.max(range.from_ms, stored.oldest_ms || 0);
	const to_ms = Math.min(range.to_ms, stored.newest_ms || range.to_ms);
	const steps = [];

	if (groups.length === 0)
		return null;
	for (let at = 0; at < stepCount; at++) {
		// The maximum: a mean of throttled and unthrottled containers describes neither.
		const cpus = Math.max(...answer.series.map((s) => s.values[at])) / answer.step_ns;
		if (cpus >= CPUS_MIN)
			steps.push({ from_ms: Math.max(range.from_ms, first_ms + at * step_ms),
				     to_ms: Math.min(range.to_ms, first_ms + (at + 1) * step_ms), cpus });
	}
	return { groups, steps, total: groups.reduce((sum, g) => sum + g.total, 0), span_ms: Math.max(1, to_ms - from_ms) };
}

function changesOf(answer, range) {
	const { first_ms, step_ms } = stepsOf(answer);

	return answer.series.flatMap(({ labels, values }) => values.flatMap((count, at) =>
		(count > 0 ? [{ time_ms: Math.min(range.to_ms, Math.max(range.from_ms, first_ms + (at + 0.5) * step_ms)),
				at, step_ms, knob: labels.knob, text: knobSentence(labels) }] : [])))
		.sort((a, b) => a.at - b.at);
}

function sheddingOf(answer, range, stored) {
	const { first_ms, step_ms, stepCount } = stepsOf(answer);
	const end_ms = Math.min(range.to_ms, stored.newest_ms || range.to_ms) - ARRIVES_MS;
	const last = Math.min(stepCount - 1, Math.floor((end_ms - first_ms) / step_ms));

	return answer.series.filter((s) => s.total > 0).map(({ labels, values }) => {
		const spans = spansOf(values, (at) => Math.min(range.to_ms, Math.max(range.from_ms, first_ms + at * step_ms)));
		const to_end = values.slice(Math.max(0, last)).some((value) => value > 0);

		return { knob: labels.knob, step: String(labels.step ?? ""), text: knobSentence(labels), isOff: labels.step === "off" && !labels.pid, spans, to_end, is_whole: to_end && spans.length === 1 && values[0] > 0,
			 agents: Math.max(1, Math.round(Math.max(...values) / answer.step_ns)) };
	});
}

/** The ranges of steps that have a value; timeOf(at) is when a step begins. */
function spansOf(values, timeOf) {
	const spans = [];

	values.forEach((value, at) => {
		if (value > 0 && values[at - 1] > 0)
			spans.at(-1).to_ms = timeOf(at + 1);
		else if (value > 0)
			spans.push({ from_ms: timeOf(at), to_ms: timeOf(at + 1) });
	});
	return spans;
}

/** "0.48 CPUs": the kernel sums throttled time over the CPUs whose threads it stopped. */
export function throttledCpus(total_ns, span_ms) {
	return `${formatNumber(total_ns / (span_ms * 1e6))} CPUs`;
}

/** Draw @marks, with `reduced` from reducedIn() for the shown type, into @plot: { ctx, palette, xOf(time_ms), top, bottom }. */
export function drawMarks(marks, plot) {
	const { ctx, palette, xOf, top, bottom } = plot;

	for (const gap of marks.gaps)
		drawGap(plot, xOf(gap.from_ms), xOf(gap.to_ms));
	ctx.fillStyle = palette.warn;
	for (const { from_ms, to_ms, cpus } of marks.throttled?.steps ?? []) {
		const left = Math.round(xOf(from_ms));
		const right = Math.max(left + 1, Math.round(xOf(to_ms)));
		ctx.globalAlpha = 0.08 + 0.17 * Math.min(1, cpus);
		ctx.fillRect(left, top, right - left, bottom - top);
		ctx.globalAlpha = 1;
		ctx.fillRect(left, top - BAND_HEIGHT, right - left, BAND_HEIGHT);
	}
	// A strip on the axis while load shedding reduces this type: it explains gaps.
	ctx.fillStyle = palette["ink-muted"];
	for (const { from_ms, to_ms } of marks.reduced.flatMap(({ spans }) => spans)) {
		const left = Math.round(xOf(from_ms));
		ctx.fillRect(left, bottom - STRIP_HEIGHT, Math.max(1, Math.round(xOf(to_ms)) - left), STRIP_HEIGHT);
	}
	// One line per pixel.
	for (const x of new Set(marks.changes.map(({ time_ms }) => Math.round(xOf(time_ms)))))
		drawChange(plot, x);
}

/** Nothing is known of the time from x @left to x @right: not drawn as 0. */
export function drawGap({ ctx, palette, top, bottom }, left, right) {
	const text = "no data";

	ctx.save();
	ctx.beginPath();
	ctx.rect(left, top, right - left, bottom - top);
	ctx.clip();
	ctx.fillStyle = palette.surface;
	ctx.fillRect(left, top, right - left, bottom - top);
	ctx.strokeStyle = palette.line;
	ctx.lineWidth = 2;
	ctx.beginPath();
	for (let x = left - (bottom - top); x < right; x += 8) {
		ctx.moveTo(x, bottom);
		ctx.lineTo(x + bottom - top, top);
	}
	ctx.stroke();
	if (ctx.measureText(text).width + 12 < right - left) {
		ctx.fillStyle = palette["ink-muted"];
		ctx.textAlign = "center";
		ctx.textBaseline = "middle";
		ctx.fillText(text, (left + right) / 2, (top + bottom) / 2);
	}
	ctx.restore();
}

/** A dashed line through the plot with a triangle on the axis. */
function drawChange({ ctx, palette, top, bottom }, x) {
	ctx.save();
	ctx.strokeStyle = ctx.fillStyle = palette.ink;
	ctx.lineWidth = 1;
	ctx.setLineDash([3, 2]);
	ctx.beginPath();
	ctx.moveTo(x + 0.5, top);
	ctx.lineTo(x + 0.5, bottom);
	ctx.stroke();
	ctx.beginPath();
	ctx.moveTo(x + 0.5, bottom - MARK_SIZE - 2);
	ctx.lineTo(x + 0.5 + MARK_SIZE, bottom + 2);
	ctx.lineTo(x + 0.5 - MARK_SIZE, bottom + 2);
	ctx.fill();
	ctx.restore();
}

/** The changes near a pointer at @x. */
export function changesNear(marks, x, xOf) {
	return marks.changes.filter(({ time_ms, step_ms }) =>
		Math.abs(xOf(time_ms) - x) <= Math.max(REACH, 1 + (xOf(time_ms + step_ms) - xOf(time_ms)) / 2));
}

/** Is @time_ms in a gap? */
export function isInGap(marks, time_ms) {
	return marks.gaps.some(({ from_ms, to_ms }) => from_ms <= time_ms && time_ms < to_ms);
}

/** The shedding steps that were active at @time_ms, in words. */
export function reducedAt(marks, time_ms) {
	return marks.reduced.filter(({ spans }) => spans.some(({ from_ms, to_ms }) => from_ms <= time_ms && time_ms < to_ms)).map(({ text }) => text);
}

/** How many CPUs were throttled in the step around @time_ms. */
export function throttledAt(marks, time_ms) {
	return marks.throttled?.steps.find(({ from_ms, to_ms }) => from_ms <= time_ms && time_ms < to_ms)?.cpus ?? 0;
}
