// SPDX-License-Identifier: Apache-2.0
// Times as text: relative ("now-5m"), RFC 3339, Unix seconds to nanoseconds, or local
// "2030-01-31 14:05:00" or "14:05". A view keeps the text, so that "last 15 minutes" stays live.

export const PRESETS = [
	{ from: "now-1m", label: "Last minute", short: "1 m" },
	{ from: "now-5m", label: "Last 5 minutes", short: "5 m" },
	{ from: "now-15m", label: "Last 15 minutes", short: "15 m" },
	{ from: "now-1h", label: "Last hour", short: "1 h" },
	{ from: "now-6h", label: "Last 6 hours", short: "6 h" },
	{ from: "now-24h", label: "Last 24 hours", short: "24 h" },
	{ from: "now-2d", label: "Last 2 days", short: "2 d" },
	{ from: "now-7d", label: "Last 7 days", short: "7 d" },
];

const UNITS_MS = { ms: 1, s: 1000, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3 };
const RELATIVE = /^now(?:\s*-\s*(\d{1,9})(ms|s|m|h|d|w))?$/;
const DURATION = /^(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h|d|w)$/;
const LOCAL = /^(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3})\d*)?)?)?$/;
const CLOCK = /^(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,3})\d*)?)?$/;
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
const UNIX = /^\d{1,19}$/;
const YEAR_MAX_MS = 4102444800000; // 2100, beyond which a time is a typing error

function unixToMs(text) {
	const number = Number(text);

	if (number < 1e11)
		return number * 1000;
	return number < 1e14 ? number : number < 1e17 ? number / 1000 : number / 1e6;
}

function localToMs(found) {
	const [year, month, day, hour, minute, second, fraction] = found.slice(1).map((part) => part ?? "0");
	const time = new Date(+year, +month - 1, +day, +hour, +minute, +second,
			      Math.round(Number(`0.${fraction}`) * 1000));

	// Date rolls 31 February over; reject it instead.
	return time.getMonth() === month - 1 && time.getHours() === +hour ? time.getTime() : null;
}

/** The time of day @found on the day of @near_ms in local time, @days later; null if there is no such time. */
function clockToMs(found, near_ms, days) {
	const [hour, minute, second, fraction] = found.slice(1).map((part) => part ?? "0");
	const day = new Date(near_ms);

	if (hour > 23 || minute > 59 || second > 59)
		return null;
	return new Date(day.getFullYear(), day.getMonth(), day.getDate() + days, +hour, +minute, +second, Math.round(Number(`0.${fraction}`) * 1000)).getTime();
}

/** @text, a time of day, as the last such time until @now_ms; null if it is none. */
function lastClock(text, now_ms) {
	const found = CLOCK.exec(text);
	const today_ms = found ? clockToMs(found, now_ms, 0) : null;

	return today_ms === null || today_ms <= now_ms ? today_ms : clockToMs(found, now_ms, -1);
}

/** The same as the first such time after @from_ms. */
function nextClock(text, from_ms) {
	const found = CLOCK.exec(text);
	const same_ms = found ? clockToMs(found, from_ms, 0) : null;

	return same_ms === null || same_ms > from_ms ? same_ms : clockToMs(found, from_ms, 1);
}

/** The zone of local times at @time_ms: "UTC", "UTC+01:00". */
export function zoneText(time_ms) {
	const minutes = -new Date(time_ms).getTimezoneOffset();
	const two = (number) => String(number).padStart(2, "0");

	return minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

/** @text as Unix milliseconds at @now_ms, or null if it is no time. */
export function resolveTime(text, now_ms) {
	const trimmed = text.trim();
	const relative = RELATIVE.exec(trimmed);

	if (relative)
		return now_ms - (relative[1] ? Number(relative[1]) * UNITS_MS[relative[2]] : 0);
	if (UNIX.test(trimmed))
		return unixToMs(trimmed);
	const parsed = RFC3339.test(trimmed) ? Date.parse(trimmed) : NaN;
	if (!Number.isNaN(parsed))
		return parsed;
	const local = LOCAL.exec(trimmed);
	return local ? localToMs(local) : lastClock(trimmed, now_ms);
}

/** "2s", "500ms", "1m" as milliseconds; null if @text is no duration. */
export function durationMs(text) {
	const found = DURATION.exec(text.trim());
	const duration_ms = found ? Number(found[1]) * UNITS_MS[found[2]] : 0;

	return duration_ms > 0 ? duration_ms : null;
}

/** Does @text move with the clock? */
export function isRelative(text) {
	return RELATIVE.test(text.trim());
}

/**
 * { from_ms, to_ms } of two texts at @now_ms; a time of day in @to is the first after @from. Or { error, field }, a message to show.
 */
export function resolveRange(from, to, now_ms) {
	const from_ms = resolveTime(from, now_ms);
	const to_ms = (from_ms === null ? null : nextClock(to.trim(), from_ms)) ?? resolveTime(to, now_ms);

	if (from_ms === null || from_ms > YEAR_MAX_MS)
		return { field: "from", error: `“${from}” is not a time` };
	if (to_ms === null || to_ms > YEAR_MAX_MS)
		return { field: "to", error: `“${to}” is not a time` };
	if (from_ms >= to_ms)
		return { field: "from", error: "From must be before To" };
	return { from_ms: Math.floor(from_ms), to_ms: Math.ceil(to_ms) };
}

/** The milliseconds of @range between the oldest and the newest sample of @stored: { oldest_ms, newest_ms }, 0 if unknown. */
export function coveredMs(range, stored) {
	return Math.max(0, Math.min(range.to_ms, stored.newest_ms || range.to_ms) - Math.max(range.from_ms, stored.oldest_ms || 0));
}

/** The shortest preset that fits data of @age_ms; the longest if none does. */
export function presetForAge(age_ms) {
	return PRESETS.find((preset) => -resolveTime(preset.from, 0) >= 1.25 * age_ms) ?? PRESETS.at(-1);
}

/** Unix milliseconds as the text that links carry. */
export function absoluteTime(time_ms) {
	return new Date(time_ms).toISOString();
}
