// SPDX-License-Identifier: Apache-2.0
// Keys that work anywhere on the page but where text is typed.

function isTyping(target) {
	return target.matches?.("input, select, textarea, [contenteditable]");
}

/** Call the function of @actions (by key, as KeyboardEvent.key tells it) when its key is pressed. */
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
