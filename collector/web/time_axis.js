// SPDX-License-Identifier: Apache-2.0
// The axis of times below charts, heat maps and timelines. Those above each other have the same times at the same places.

import { timeTicks } from "./axis_ticks.js";
import { formatClock } from "./format.js";

export const SIDES = { left: 52, right: 12 }; // px beside a plot
const EDGE = 2; // px right of the last label
const TICK_HEIGHT = 3; // px

/**
 * Write the times from @from_ms to @to_ms below @plot: { ctx, palette, left, width, right, baseline, ticksAt }. right is the canvas's
 * right side, baseline the labels', ticksAt the top of small ticks (none: without). Returns the times' places.
 */
export function drawTimes({ ctx, palette, left, width, right, baseline, ticksAt }, from_ms, to_ms) {
	const { times, step_ms } = timeTicks(from_ms, to_ms, width);
	const places = times.map((time_ms) => Math.round(left + ((time_ms - from_ms) / (to_ms - from_ms)) * width));

	ctx.textBaseline = "alphabetic";
	ctx.textAlign = "center";
	ctx.fillStyle = palette["ink-muted"];
	places.forEach((x, at) => {
		const text = formatClock(times[at], step_ms);
		ctx.fillText(text, Math.min(x, right - EDGE - ctx.measureText(text).width / 2), baseline);
		if (ticksAt !== undefined)
			ctx.fillRect(x, ticksAt, 1, TICK_HEIGHT);
	});
	return places;
}
