// SPDX-License-Identifier: Apache-2.0
// The frame search's syntax: text (any case, anywhere in the name), "text" in quotes
// (the whole name), or /pattern/ (a regular expression, any case).

/**
 * A function from name to boolean for @text; null when @text is empty. Throws SyntaxError when a
 * pattern is wrong.
 */
export function frameMatcher(text) {
	const trimmed = text.trim();

	if (trimmed === "")
		return null;
	if (trimmed.length > 2 && trimmed.startsWith("/") && trimmed.endsWith("/")) {
		const pattern = new RegExp(trimmed.slice(1, -1), "i");
		return (name) => pattern.test(name);
	}
	if (trimmed.length > 2 && trimmed.startsWith('"') && trimmed.endsWith('"')) {
		const exact = trimmed.slice(1, -1);
		return (name) => name === exact;
	}
	const part = trimmed.toLowerCase();
	return (name) => name.toLowerCase().includes(part);
}

/** The search text that matches @name alone. */
export function exactSearch(name) {
	return `"${name}"`;
}
