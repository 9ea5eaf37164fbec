// SPDX-License-Identifier: Apache-2.0
// Keyboard shortcuts, inactive while typing.

function isTyping(target) {
	return target.matches?.("input, select, textarea, [contenteditable]");
}

/** Call the function of @actions (by KeyboardEvent.key) when its key is pressed. */
export function listenForShortcuts(actions) {
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target))
			return;
		const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
		if (!action)
			return;
		event.preventDefault();
		action();
	});
}
