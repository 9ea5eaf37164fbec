// SPDX-License-Identifier: Apache-2.0
// Parses selectors such as {service="llm", node=~"a.*"} far enough to show and replace one matcher.
// The collector validates them.

const WORD = /^[A-Za-z0-9_][A-Za-z0-9_.:/@-]*$/;
const MATCHER = /\s*([A-Za-z_][A-Za-z0-9_.]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*/y;

function unescape(text) {
	return text.replace(/\\(.)/gs, (all, char) => (char === "n" ? "\n" : char === "t" ? "\t" : char));
}

function escape(text) {
	return text.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n");
}

/** The matchers of @text as [{ name, op, value }], or null if this parser cannot read it. */
export function parseSelector(text) {
	const trimmed = text.trim();

	if (trimmed === "" || WORD.test(trimmed))
		return trimmed ? [{ name: "service", op: "=", value: trimmed }] : [];
	if (!trimmed.startsWith("{") || !trimmed.endsWith("}"))
		return null;
	const matchers = [];
	const end = trimmed.length - 1;
	let at = 1;
	if (trimmed.slice(1, end).trim() === "")
		return matchers;
	for (;;) {
		MATCHER.lastIndex = at;
		const found = MATCHER.exec(trimmed);
		if (!found)
			return null;
		matchers.push({ name: found[1], op: found[2], value: unescape(found[3]) });
		at = MATCHER.lastIndex;
		if (at === end)
			return matchers;
		if (trimmed[at++] !== ",")
			return null;
	}
}

/** Selector text of @matchers; "" for none. */
export function formatSelector(matchers) {
	if (matchers.length === 0)
		return "";
	return "{" + matchers.map((m) => `${m.name}${m.op}"${escape(m.value)}"`).join(", ") + "}";
}

/** The value of @text's matcher name="value" on label @name, or null. */
export function selectedValue(text, name) {
	const matchers = parseSelector(text) ?? [];
	const found = matchers.find((m) => m.name === name && m.op === "=");

	return found ? found.value : null;
}

/**
 * @text with label @name bound to @value alone; null: with no matcher on it. Matchers on other
 * labels stay. Text that does not parse is replaced as a whole.
 */
export function withValue(text, name, value) {
	const others = (parseSelector(text) ?? []).filter((m) => m.name !== name);

	return formatSelector(value === null ? others : [{ name, op: "=", value }, ...others]);
}
