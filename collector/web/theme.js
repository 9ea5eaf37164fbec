// SPDX-License-Identifier: Apache-2.0
// Dark or light. A classic script, run before the first paint, so that a chosen theme never flashes.
// Without a choice the system's preference applies. A change sends a "themechange" event.
"use strict";

(() => {
	const KEY = "cairn-theme";
	const root = document.documentElement;
	const systemDark = window.matchMedia("(prefers-color-scheme: dark)");

	// Storage may be forbidden (private windows, policies); then the choice lasts as long as the page.
	function stored() {
		try {
			return localStorage.getItem(KEY);
		} catch {
			return null;
		}
	}

	function store(theme) {
		try {
			localStorage.setItem(KEY, theme);
		} catch {
			// The page works without.
		}
	}

	function announce() {
		window.dispatchEvent(new Event("themechange"));
	}

	function toggle() {
		const dark = root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches;

		root.dataset.theme = dark ? "light" : "dark";
		store(root.dataset.theme);
		announce();
	}

	const choice = stored();
	if (choice === "dark" || choice === "light")
		root.dataset.theme = choice;
	systemDark.addEventListener("change", announce);
	document.addEventListener("DOMContentLoaded", () => {
		document.getElementById("theme").addEventListener("click", toggle);
	});
})();
