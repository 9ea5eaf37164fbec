// SPDX-License-Identifier: Apache-2.0
// The menu of a frame: opened by the right mouse button, or by a key.

import { byId, element } from "./element.js";

export class FrameMenu {
	#returnTo = null;

	constructor() {
		this.box = element("div", "popover menu frame-menu");
		this.box.hidden = true;
		this.box.role = "menu";
		byId("main-panel").append(this.box);
		this.box.addEventListener("keydown", (event) => this.#onKey(event));
		document.addEventListener("pointerdown", (event) => {
			if (!this.box.contains(event.target))
				this.close();
		});
	}

	/**
	 * Show @actions, [{ label, note, act }], for the frame called @name at (@x, @y) in window coordinates. @returnTo
	 * has the focus when the menu closes.
	 */
	open(name, actions, x, y, returnTo) {
		this.box.ariaLabel = name;
		this.box.replaceChildren(element("p", "frame-menu-name", name), ...actions.map(({ label, note = "", act }) => {
			const item = element("button", "menu-row", label, element("span", "muted", note));
			item.type = "button";
			item.role = "menuitem";
			item.addEventListener("click", () => {
				this.close();
				act();
			});
			return item;
		}));
		this.#returnTo = returnTo;
		this.box.hidden = false;
		const { width, height } = this.box.getBoundingClientRect();
		this.box.style.left = `${Math.max(8, Math.min(x, window.innerWidth - width - 8))}px`;
		this.box.style.top = `${Math.max(8, Math.min(y, window.innerHeight - height - 8))}px`;
		this.box.querySelector("button").focus();
	}

	close() {
		if (this.box.hidden)
			return;
		this.box.hidden = true;
		this.#returnTo?.focus({ preventScroll: true });
	}

	#onKey(event) {
		const items = [...this.box.querySelectorAll("button")];
		const at = items.indexOf(document.activeElement);
		const moves = {
			ArrowDown: () => items[(at + 1) % items.length].focus(),
			ArrowUp: () => items[(at - 1 + items.length) % items.length].focus(),
			Home: () => items[0].focus(),
			End: () => items.at(-1).focus(),
			Escape: () => this.close(),
			Tab: () => this.close(),
		};

		event.stopPropagation();
		if (!moves[event.key])
			return;
		event.preventDefault();
		moves[event.key]();
	}
}
