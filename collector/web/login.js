// SPDX-License-Identifier: Apache-2.0
// The login form. It exchanges a token for a cookie that scripts cannot read; the token is not kept here.

import { byId, setOptionalText } from "./element.js";

async function post(path, headers = {}) {
	try {
		return await fetch(`/api/v1/${path}`, { method: "POST", headers });
	} catch {
		return null;
	}
}

async function logIn(event) {
	event.preventDefault();
	const field = byId("login-token");
	const token = field.value.trim();

	// A header takes printable ASCII only; fetch() throws on others.
	const answer = /^[!-~]+$/.test(token) ? await post("login", { Authorization: `Bearer ${token}` }) : { status: 401 };
	if (answer?.ok) {
		field.value = "";
		location.reload();
		return;
	}
	setOptionalText(byId("login-error"), answer === null ? "The collector does not answer."
					   : answer.status === 401 ? "This token is not known."
					   : "This token cannot be used here.");
	field.select();
}

/** Show the form, once a request was refused for want of a login. */
export function showLogin() {
	const dialog = byId("login");

	if (!dialog.open)
		dialog.showModal();
}

/** Show who is logged in; @who is empty without a login. */
export function showUser(who) {
	const button = byId("logout");

	button.hidden = !who.startsWith("token:");
	button.title = `Logged in as ${who.replace("token:", "")}`;
}

export function listenForLogin() {
	byId("login-form").addEventListener("submit", logIn);
	byId("login").addEventListener("cancel", (event) => event.preventDefault());
	byId("logout").addEventListener("click", async () => {
		await post("logout");
		location.reload();
	});
	document.addEventListener("login-needed", showLogin);
}
