// SPDX-License-Identifier: Apache-2.0
// A box that a button opens. A click outside, Escape or the button closes it.

export class Popover {
	/** @onOpen is called before the box shows, to fill it. */
	constructor(button, box, onOpen = () => {}) {
		this.button = button;
		this.box = box;
		this.onOpen = onOpen;
		button.addEventListener("click", () => (this.isOpen ? this.close() : this.open()));
		document.addEventListener("pointerdown", (event) => this.#onPointer(event));
		// Opened by a shortcut, the focus may be outside of it.
		document.addEventListener("keydown", (event) => this.#onKey(event), { capture: true });
	}

	get isOpen() {
		return !this.box.hidden;
	}

	open() {
		this.onOpen();
		this.box.hidden = false;
		this.button.setAttribute("aria-expanded", "true");
		this.#keepInside();
	}

	/** Close; the button takes the focus back if the box had it. */
	close() {
		if (!this.isOpen)
			return;
		const hadFocus = this.box.contains(document.activeElement);
		this.box.hidden = true;
		this.button.setAttribute("aria-expanded", "false");
		if (hadFocus)
			this.button.focus();
	}

	// On a narrow window a box that hangs from its button may reach beyond the edge.
	#keepInside() {
		this.box.style.translate = "";
		const { left, right } = this.box.getBoundingClientRect();
		const over = Math.max(0, right - document.documentElement.clientWidth + 8);
		const shift = left - over < 8 ? 8 - left : -over;
		if (shift)
			this.box.style.translate = `${Math.round(shift)}px 0`;
	}

	#onPointer(event) {
		if (this.isOpen && !this.box.contains(event.target) && !this.button.contains(event.target))
			this.close();
	}

	#onKey(event) {
		if (event.key !== "Escape" || !this.isOpen)
			return;
		event.stopPropagation();
		this.close();
	}
}
