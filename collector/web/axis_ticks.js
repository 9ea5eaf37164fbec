// SPDX-License-Identifier: Apache-2.0
// Round numbers and round times for the axes of a chart.

const TICK_WIDTH = 92; // px between times, so that labels to the millisecond fit
const TIME_STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500,
		       ...[1, 2, 5, 10, 15, 30].map((s) => s * 1000),
		       ...[1, 2, 5, 10, 15, 30].map((m) => m * 60e3),
		       ...[1, 2, 3, 6, 12, 24, 48, 96, 168].map((h) => h * 3600e3)];

/**
 * { values, max }: three to five round values above zero, the last at or above @peak. Bytes are round
 * in KiB, MiB and so on: @base is 1024 then.
 */
export function valueTicks(peak, base = 10) {
	if (base === 1024 && peak >= 1024) {
		const unit = 1024 ** Math.floor(Math.log(peak) / Math.log(1024) + 1e-9);
		const { values, max } = valueTicks(peak / unit);
		return { values: values.map((value) => value * unit), max: max * unit };
	}
	const wanted = (peak > 0 ? peak : 1) / 3;
	const power = 10 ** Math.floor(Math.log10(wanted));
	const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= wanted) * power;
	const count = Math.max(1, Math.ceil((peak > 0 ? peak : 1) / step - 1e-9));

	return { values: Array.from({ length: count + 1 }, (unused, at) => at * step), max: count * step };
}

/** { times, step_ms }: round local times in the range, as many as labels fit into @width px. */
export function timeTicks(from_ms, to_ms, width) {
	const wanted = (to_ms - from_ms) / Math.max(1, Math.floor(width / TICK_WIDTH));
	const step_ms = TIME_STEPS_MS.find((step) => step >= wanted) ?? TIME_STEPS_MS.at(-1);
	const shift_ms = new Date(from_ms).getTimezoneOffset() * 60e3;
	const times = [];

	for (let time = Math.ceil((from_ms - shift_ms) / step_ms) * step_ms + shift_ms; time <= to_ms; time += step_ms)
		times.push(time);
	return { times, step_ms };
}
