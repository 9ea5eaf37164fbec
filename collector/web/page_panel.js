// SPDX-License-Identifier: Apache-2.0
// A page that shows one answer: progress that can be cancelled, a message instead of data, and the page's body.

import { element } from "./element.js";
import { Panel } from "./panel.js";

/**
 * The page of pages.js in @root: @fetch(view, range, signal) asks, @show(answer, view, range) returns the elements of the page.
 * The last answer stays while the next one is on its way.
 */
export function pagePanel(root, fetch, show) {
	const progress = element("div", "progress page-progress");
	const message = element("p", "page-message", "Loading …");
	const body = element("div", "");
	const panel = new Panel(progress, message);

	progress.hidden = true;
	root.append(progress, message, body);
	return {
		async load(view, range) {
			const answer = await panel.load((signal) => fetch(view, range, signal));

			if (answer === undefined) {
				if (!panel.busy && !body.hasChildNodes())
					panel.setMessage("Cancelled. Choose a time range to load again.");
				return;
			}
			panel.setMessage();
			body.replaceChildren(...show(answer, view, range));
		},
		fail(text) {
			panel.setMessage(text);
			body.replaceChildren();
		},
	};
}
