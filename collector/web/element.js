// SPDX-License-Identifier: Apache-2.0
// Making elements. Text is never parsed as markup: names come from profiled processes.

/** A new <@tag> with class @className and @children (strings become text). */
export function element(tag, className = "", ...children) {
	const made = document.createElement(tag);

	if (className)
		made.className = className;
	made.append(...children);
	return made;
}

/** The element with @id; throws if index.html lacks it. */
export function byId(id) {
	const found = document.getElementById(id);

	if (!found)
		throw new Error(`index.html lacks #${id}`);
	return found;
}

/** Show @text in @target, or hide it when there is none. */
export function setOptionalText(target, text) {
	target.textContent = text;
	target.hidden = !text;
}

/** An <svg> that shows a symbol of index.html. */
export function icon(name) {
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	const use = document.createElementNS("http://www.w3.org/2000/svg", "use");

	svg.setAttribute("class", "icon");
	svg.setAttribute("aria-hidden", "true");
	use.setAttribute("href", `#icon-${name}`);
	svg.append(use);
	return svg;
}

/** @sentence, with what is between backquotes as code. */
export function quoted(sentence) {
	return sentence.split("`").map((part, at) => (at % 2 ? element("code", "", part) : part));
}
