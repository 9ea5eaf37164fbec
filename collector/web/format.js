// SPDX-License-Identifier: Apache-2.0
// Formats numbers, shares, values and times. Pure functions.

import { isGauge, specOf } from "./profile_type.js";

const COUNT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const NARROW_SPACE = "\u202f";

/** 12,345 */
export function formatCount(count) {
	return COUNT.format(count);
}

/** Three significant digits, no exponent: 0.0123, 1.23, 12.3, 123, 1,234. */
export function formatNumber(number) {
	const size = Math.abs(number);

	if (size === 0)
		return "0";
	if (size >= 99.95)
		return COUNT.format(number);
	const digits = size >= 9.995 ? 1 : size >= 0.9995 ? 2 : size >= 0.0995 ? 2 : 3;
	return size < 0.0005 ? "< 0.001" : number.toFixed(digits);
}

/** A round number for an axis, without trailing zeros. */
export function formatRound(number) {
	return Number(number.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 });
}

/** "12.3 %"; "< 0.01 %" for a share that rounds to zero; "–" without a whole. */
export function formatShare(part, whole) {
	if (!(whole > 0))
		return "–";
	const percent = (100 * part) / whole;
	if (percent === 0)
		return "0" + NARROW_SPACE + "%";
	if (percent < 0.01)
		return "<" + NARROW_SPACE + "0.01" + NARROW_SPACE + "%";
	const digits = percent >= 99.95 ? 0 : percent >= 1 ? 1 : 2;
	// Never round a part up to 100 %.
	const shown = part < whole ? Math.min(percent, 99.9) : percent;
	return shown.toFixed(shown < percent ? 1 : digits) + NARROW_SPACE + "%";
}

const DURATIONS = [
	[3600e9 * 24, "d", 3600e9, "h"],
	[3600e9, "h", 60e9, "m"],
	[60e9, "m", 1e9, "s"],
];

/** A length of time: "2 h 5 m", "1 m 12 s", "1.24 s", "20 ms", "850 ns". */
export function formatDuration(duration_ns) {
	if (duration_ns === 0)
		return "0 s";
	for (const [large, largeUnit, small, smallUnit] of DURATIONS) {
		// A hair below: 59.9999 s reads "1 m", not "60.0 s".
		if (duration_ns >= large * 0.99995) {
			const parts = Math.round(duration_ns / small);
			const each = large / small;
			const rest = parts % each;

			return `${COUNT.format((parts - rest) / each)} ${largeUnit}` +
				(rest ? ` ${rest} ${smallUnit}` : "");
		}
	}
	for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
		if (duration_ns >= size * 0.9995)
			return `${formatNumber(duration_ns / size)} ${unit}`;
	}
	return `${COUNT.format(duration_ns)} ns`;
}

/** A round length of time, without trailing zeros: "5 s", "200 ms", "2 m". */
export function formatStep(step_ms) {
	return formatDuration(step_ms * 1e6).replace(/\.0+ /, " ");
}

const SIZES = [[2 ** 50, "PiB"], [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];

export function formatBytes(bytes) {
	for (const [size, unit] of SIZES) {
		if (bytes >= size)
			return `${formatNumber(bytes / size)} ${unit}`;
	}
	return `${COUNT.format(bytes)} B`;
}

/** The same in a few characters, for a column: "12.3 M" of a count. */
export function formatShort(value, unit) {
	const [size, letter] = [[1e12, "T"], [1e9, "G"], [1e6, "M"]].find(([least]) => value >= least) ?? [1, ""];

	return unit === "count" && letter ? `${formatNumber(value / size)} ${letter}` : formatValue(value, unit);
}

// Display units of gauges: [unit, factor].
const LEVELS = new Map([["percent", ["%", 1]], ["celsius", ["°C", 1]], ["milliwatts", ["W", 1e-3]], ["hertz", ["MHz", 1e-6]]]);

/** A value in its profile type's unit. */
export function formatValue(value, unit) {
	if (unit === "nanoseconds")
		return formatDuration(value);
	if (unit === "bytes")
		return formatBytes(value);
	if (LEVELS.has(unit))
		return `${formatNumber(value * LEVELS.get(unit)[1])} ${LEVELS.get(unit)[0]}`;
	return `${COUNT.format(value)}${unit && unit !== "count" ? " " + unit : ""}`;
}

/** Bytes for an axis: "1.5 GiB", without trailing zeros. */
function roundBytes(bytes) {
	const [size, unit] = SIZES.find(([least]) => bytes >= least) ?? [1, "B"];

	return bytes === 0 ? "0" : `${formatRound(bytes / size)} ${unit}`;
}

/**
 * How to show @type's values per step as a rate: { scale, unit, axis, base, format, tick }. The rate is
 * value * scale, format(rate) formats it, tick(rate) labels an axis, round numbers are multiples of base;
 * axis is the unit if the labels lack it. Time per time is a number of cores or threads. A gauge is a level already.
 */
export function rateOf(type, unit, step_ns) {
	const [level, part] = LEVELS.get(unit) ?? [unit === "bytes" || unit === "count" ? "" : unit, 1];
	const per_s = isGauge(type) ? { scale: part, unit: specOf(type).rate ?? level } : { scale: 1e9 / step_ns, unit: "per second" };

	if (unit === "bytes")
		return { ...per_s, axis: per_s.unit, base: 1024, format: formatBytes, tick: roundBytes };
	if (unit === "nanoseconds" && !isGauge(type))
		return { scale: 1 / step_ns, unit: specOf(type).rate, axis: specOf(type).rate, base: 10, format: formatNumber, tick: formatRound };
	// A short unit has room beside each number of the axis.
	if (isGauge(type) && level && level.length <= 2)
		return { ...per_s, axis: "", base: 10, format: formatNumber, tick: (value) => `${formatRound(value)} ${level}` };
	return { ...per_s, axis: per_s.unit, base: 10, format: formatNumber, tick: formatRound };
}

function two(number) {
	return String(number).padStart(2, "0");
}

/** "14:05", "14:05:30" or "14:05:30.120", the shortest that separates times @step_ms apart. */
export function formatClock(time_ms, step_ms) {
	const time = new Date(time_ms);
	let text = `${two(time.getHours())}:${two(time.getMinutes())}`;

	if (step_ms < 60000)
		text += `:${two(time.getSeconds())}`;
	if (step_ms < 1000)
		text += `.${String(time.getMilliseconds()).padStart(3, "0")}`;
	return text;
}

/** "2030-01-31" in local time. */
export function formatDate(time_ms) {
	const time = new Date(time_ms);

	return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
}

/** Local date and time; milliseconds only if not zero. */
export function formatTime(time_ms) {
	return `${formatDate(time_ms)} ${formatClock(time_ms, time_ms % 1000 ? 1 : 1000)}`;
}

/** "2030-01-31 14:05:30 – 14:05:32"; milliseconds only if not zero. */
export function formatSpan(from_ms, to_ms) {
	const step_ms = from_ms % 1000 || to_ms % 1000 ? 1 : 1000;
	const to = formatDate(from_ms) === formatDate(to_ms) ? "" : formatDate(to_ms) + " ";

	return `${formatDate(from_ms)} ${formatClock(from_ms, step_ms)} – ${to}${formatClock(to_ms, step_ms)}`;
}

/** "14:05:30", with the date where it is not today's. */
export function formatMoment(time_ms, now_ms) {
	const day = formatDate(time_ms);

	return (day === formatDate(now_ms) ? "" : day + " ") + formatClock(time_ms, 1000);
}

/** "2030-01-31 14:05:00 – 14:06:12", without the date where it is today's. */
export function formatRange(from_ms, to_ms, now_ms) {
	const step_ms = to_ms - from_ms < 10000 ? 1 : 1000;
	const day = formatDate(from_ms);
	const left = (day === formatDate(now_ms) ? "" : day + " ") + formatClock(from_ms, step_ms);
	const right = (day === formatDate(to_ms) ? "" : formatDate(to_ms) + " ") + formatClock(to_ms, step_ms);

	return `${left} – ${right}`;
}
