// SPDX-License-Identifier: Apache-2.0
// A link to the current view. Relative times are pinned, so that it shows the same data later.

import { copyText } from "./clipboard.js";
import { formatRange } from "./format.js";
import { writeView } from "./state.js";
import { absoluteTime } from "./time_range.js";

/** The address of @view at @range. */
export function linkTo(view, range) {
	const pinned = { ...view, from: absoluteTime(range.from_ms), to: absoluteTime(range.to_ms) };

	return location.origin + location.pathname + writeView(pinned);
}

/** Copy the link; returns the message to show. */
export async function copyLink(view, range, now_ms) {
	const copied = await copyText(linkTo(view, range));

	return copied ? `Link copied, range pinned: ${formatRange(range.from_ms, range.to_ms, now_ms)}` :
		"The browser blocked copying. Copy the link from the address bar.";
}
