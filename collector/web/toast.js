// SPDX-License-Identifier: Apache-2.0
// A message at the window's foot that goes by itself.

import { byId } from "./element.js";

const SHOWN_MS = 5000;

let timer = 0;

export function showToast(text) {
	const toast = byId("toast");

	toast.textContent = text;
	toast.hidden = false;
	clearTimeout(timer);
	timer = setTimeout(() => (toast.hidden = true), SHOWN_MS);
}
