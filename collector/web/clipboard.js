// SPDX-License-Identifier: Apache-2.0
// The clipboard.

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

/** Copy @text; returns whether the browser allowed it. */
export async function copyText(text) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		return copyBySelection(text);
	}
}
