// SPDX-License-Identifier: Apache-2.0
// Names cut to the width of their box. Measuring text is slow, adding up widths of characters is
// not: each ASCII character is measured once per font.

const ELLIPSIS = "…";
const ASCII = 128;

export class FrameText {
	constructor() {
		this.widths = new Float32Array(ASCII);
		this.ellipsis = 0;
	}

	/** Measure with @ctx, whose font is set. */
	measure(ctx) {
		for (let code = 32; code < ASCII; code++)
			this.widths[code] = ctx.measureText(String.fromCharCode(code)).width;
		this.wide = ctx.measureText("漢").width; // at least as wide as what is not ASCII
		this.ellipsis = ctx.measureText(ELLIPSIS).width;
	}

	/** @text, or its start and an ellipsis, at most @width wide; "" when not even two characters fit. */
	fit(text, width) {
		let used = 0;
		let keep = 0; // characters that fit with an ellipsis behind them

		for (let at = 0; at < text.length; at++) {
			const code = text.charCodeAt(at);
			used += code < ASCII ? this.widths[code] : this.wide;
			if (used > width)
				return keep >= 2 ? text.slice(0, keep) + ELLIPSIS : "";
			if (used + this.ellipsis <= width)
				keep = at + 1;
		}
		return text;
	}
}
