// SPDX-License-Identifier: Apache-2.0
// One tooltip for the page, beside the pointer and always inside the window.

const GAP = 14; // px between the pointer and the tooltip
const EDGE = 8; // px kept free at the window's edges

export class Tooltip {
	constructor(root) {
		this.root = root;
	}

	/** Show @children beside (@x, @y) in window coordinates. */
	show(children, x, y) {
		this.root.replaceChildren(...children);
		this.root.hidden = false;
		const { width, height } = this.root.getBoundingClientRect();
		const right = x + GAP + width + EDGE <= window.innerWidth;
		const below = y + GAP + height + EDGE <= window.innerHeight;
		const left = right ? x + GAP : Math.max(EDGE, x - GAP - width);
		const top = below ? y + GAP : Math.max(EDGE, y - GAP - height);
		this.root.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
	}

	hide() {
		this.root.hidden = true;
	}
}
