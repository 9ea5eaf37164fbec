// SPDX-License-Identifier: Apache-2.0
// A link to the current view. Relative times are pinned, so that it shows the same data later.

import { formatRange } from "./format.js";
import { writeView } from "./state.js";
import { absoluteTime } from "./time_range.js";

/** The address of @view at @range. */
export function linkTo(view, range) {
	const pinned = { ...view, from: absoluteTime(range.from_ms), to: absoluteTime(range.to_ms) };

	return location.origin + location.pathname + writeView(pinned);
}

// Without TLS browsers have no clipboard object; the old way works there.
function copyBySelection(text) {
	const area = document.createElement("textarea");
	const focused = document.activeElement;

	area.value = text;
	area.className = "visually-hidden";
	document.body.append(area);
	area.select();
	const copied = document.execCommand("copy");
	area.remove();
	focused?.focus();
	return copied;
}

/** Copy the link; returns the message to show. */
export async function copyLink(view, range, now_ms) {
	const link = linkTo(view, range);
	let copied = false;

	try {
		await navigator.clipboard.writeText(link);
		copied = true;
	} catch {
		copied = copyBySelection(link);
	}
	return copied ? `Link copied, range pinned: ${formatRange(range.from_ms, range.to_ms, now_ms)}` :
		"The browser blocked copying. Copy the link from the address bar.";
}
