// SPDX-License-Identifier: Apache-2.0
// What a chart shows beside its series: when a CPU quota throttled what is looked at, and when an
// agent changed what it measures. Pure functions, and their drawing.

import { formatDuration, formatShare } from "./format.js";
import { stepsOf } from "./series_stack.js";

// A change reads "stacks of waits at 1/4", "waits of llm (42) off", "cost above the budget" (agent/budget.c).
const STATE_OF_THING = / (all|on|off|at \S+( Hz)?|above the budget|within the budget)$/;
const BACK_TO_ALL = / (all|on|within the budget)$/;
const BAND_HEIGHT = 4;	 // px, of the band at the top of the plot
const MARK_SIZE = 4;	 // px, half the width of a mark on the time axis
const REACH = 7;	 // px from a mark at which the pointer means it
const SHARE_MIN = 0.001; // of a step; less is drawn as none

/**
 * The marks of what askMarks() told for @range (in ms): { throttled, changes, before, reduced }.
 *   throttled  { total, span_ms, groups: [{ group, total }], steps: [{ from_ms, to_ms, share }] }, null where there was none
 *   changes    [{ time_ms, at, step_ms, text }] in order; time_ms is the middle of the step (the at-th) that it was in
 *   before     the last change of each thing that was made before the range and holds in it
 *   reduced    the same at the end of the range
 */
export function marksOf(told, range, stored) {
	const changes = changesOf(told.changes, range);
	const before = inForce(changesOf(told.before, { from_ms: 0, to_ms: range.from_ms }));

	return { throttled: throttledOf(told.throttled, range, stored), changes, before, reduced: inForce([...before, ...changes]) };
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
		// The worst of them: the mean of a throttled container and a free one is nobody's.
		const share = Math.max(...answer.series.map((s) => s.values[at])) / answer.step_ns;
		if (share >= SHARE_MIN)
			steps.push({ from_ms: Math.max(range.from_ms, first_ms + at * step_ms),
				     to_ms: Math.min(range.to_ms, first_ms + (at + 1) * step_ms), share });
	}
	return { groups, steps, total: groups.reduce((sum, g) => sum + g.total, 0), span_ms: Math.max(1, to_ms - from_ms) };
}

function changesOf(answer, range) {
	const { first_ms, step_ms } = stepsOf(answer);

	return answer.series.flatMap(({ group, values }) => values.flatMap((count, at) =>
		(count > 0 ? [{ time_ms: Math.min(range.to_ms, Math.max(range.from_ms, first_ms + (at + 0.5) * step_ms)),
				at, step_ms, text: group }] : [])))
		.sort((a, b) => a.at - b.at || severity(a.text) - severity(b.text));
}

/** Several steps down are taken at once, but one up at a time: of one moment the worst is the last. */
function severity(text) {
	const [, part, hertz] = /at (?:1\/(\d+)|(\d+) Hz)$/.exec(text) ?? [];

	if (part || hertz)
		return part ? Number(part) : 1 / Number(hertz);
	return BACK_TO_ALL.test(text) ? 0 : Infinity;
}

/** Of @changes by time the last of each thing, unless it says that nothing is reduced any more. */
function inForce(changes) {
	const last = new Map(changes.map((change) => [change.text.replace(STATE_OF_THING, ""), change]));

	return [...last.values()].filter(({ text }) => !BACK_TO_ALL.test(text));
}

/** "12 % of the time"; of several CPUs it can be more than all of it. */
export function throttledShare(total_ns, span_ms) {
	const span_ns = span_ms * 1e6;

	return total_ns <= span_ns ? `${formatShare(total_ns, span_ns)} of the time` :
		`${formatDuration(total_ns)} of CPU time in ${formatDuration(span_ns)}`;
}

/** Draw @marks into @plot: { ctx, palette, xOf(time_ms), top, bottom }. */
export function drawMarks(marks, plot) {
	const { ctx, palette, xOf, top, bottom } = plot;

	ctx.fillStyle = palette.warn;
	for (const { from_ms, to_ms, share } of marks.throttled?.steps ?? []) {
		const left = Math.round(xOf(from_ms));
		const right = Math.max(left + 1, Math.round(xOf(to_ms)));
		ctx.globalAlpha = 0.08 + 0.17 * Math.min(1, share);
		ctx.fillRect(left, top, right - left, bottom - top);
		ctx.globalAlpha = 1;
		ctx.fillRect(left, top - BAND_HEIGHT, right - left, BAND_HEIGHT);
	}
	// Of many in one place one is seen.
	for (const x of new Set(marks.changes.map(({ time_ms }) => Math.round(xOf(time_ms)))))
		drawChange(plot, x);
}

/** A line through the plot that stands on a flag below the axis. */
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

/** The changes that a pointer at @x means. */
export function changesNear(marks, x, xOf) {
	return marks.changes.filter(({ time_ms, step_ms }) =>
		Math.abs(xOf(time_ms) - x) <= Math.max(REACH, 1 + (xOf(time_ms + step_ms) - xOf(time_ms)) / 2));
}

/** The share of the step around @time_ms that was throttled, 0 for none. */
export function throttledAt(marks, time_ms) {
	return marks.throttled?.steps.find(({ from_ms, to_ms }) => from_ms <= time_ms && time_ms < to_ms)?.share ?? 0;
}
