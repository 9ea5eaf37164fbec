// SPDX-License-Identifier: Apache-2.0
// Long names cut in the middle, where they say least: a C++ function's own name is at the end, after its
// templates' arguments.

import { element } from "./element.js";

const LONG = 44; // characters; shorter names are never changed
const TAIL = 18; // characters that are always shown

/** @name without what is within brackets, where it is long: "at::cpu<…>::run(…)". */
export function shortName(name) {
	if (name.length <= LONG || / \([^()]+:?\d*\)$/.test(name))
		return name;
	return withoutInside(withoutInside(name, "(", ")"), "<", ">");
}

// "operator<", "operator()" and "->" are no brackets; a bracket that does not close stays as it is.
function withoutInside(name, open, close) {
	let depth = 0;
	let from = 0;
	let short = "";

	for (let at = 0; at < name.length; at++) {
		const before = name.slice(Math.max(0, at - 10), at);
		const isOperator = open === "(" ? before.endsWith("operator") : /operator[<>=-]*$|-$/.test(before);
		if (name[at] === open && !isOperator && depth++ === 0) {
			short += name.slice(from, at + 1);
			from = at + 1;
		} else if (name[at] === close && !isOperator && depth > 0 && --depth === 0) {
			short += at > from ? "…" : "";
			from = at;
		}
	}
	return short + name.slice(from);
}

/** Elements that show @name in as much room as there is: its start, an ellipsis where it is cut, its end. */
export function nameElement(name) {
	const short = shortName(name);
	const shown = element("span", "function-name");

	if (short.length <= LONG) {
		shown.textContent = short;
	} else {
		shown.classList.add("cut");
		shown.append(element("span", "name-head", short.slice(0, -TAIL)), element("span", "name-tail", short.slice(-TAIL)));
	}
	return shown;
}
