// SPDX-License-Identifier: Apache-2.0
// Keyboard shortcuts, inactive while typing.

function isTyping(target) {
	return target.matches?.("input:not([type=checkbox], [type=radio]), textarea, [contenteditable]");
}

/** Call the function of @actions (by KeyboardEvent.key) when its key is pressed. */
export function listenForShortcuts(actions) {
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target))
			return;
		// A list that was closed keeps the focus: Escape leaves it, and other keys work.
		if (event.key === "Escape" && event.target.matches?.("select")) {
			event.target.blur();
			return;
		}
		const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
		if (!action)
			return;
		event.preventDefault();
		action();
	});
}
