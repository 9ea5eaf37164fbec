// SPDX-License-Identifier: Apache-2.0
// Asking the collector. One question at a time per topic: a new one aborts the one before.

/** A question the collector refused or did not answer. away: nobody answered at all. */
export class ApiError extends Error {
	constructor(message, { status = 0, code = "", field = "", away = false } = {}) {
		super(message);
		this.name = "ApiError";
		Object.assign(this, { status, code, field, away });
	}
}

/** The path and query of an API call; parameters that are null or "" are left out. */
export function apiPath(path, params = {}) {
	const query = new URLSearchParams();

	for (const [name, value] of Object.entries(params)) {
		if (value !== null && value !== undefined && value !== "")
			query.set(name, value);
	}
	const text = query.toString();
	return `/api/v1/${path}${text ? "?" + text : ""}`;
}

async function errorOf(response) {
	const away = response.status === 502 || response.status === 503 || response.status === 504;
	let told = {};

	try {
		told = (await response.json()).error ?? {};
	} catch {
		// A proxy in between answers in its own words.
	}
	return new ApiError(String(told.message ?? `HTTP ${response.status}`), {
		status: response.status,
		code: String(told.code ?? ""),
		field: String(told.field ?? ""),
		away,
	});
}

/** The JSON answer to a call. Throws ApiError, or AbortError after @signal. */
export async function ask(path, params, signal) {
	let response;

	try {
		response = await fetch(apiPath(path, params), { signal, headers: { Accept: "application/json" } });
	} catch (error) {
		if (error.name === "AbortError")
			throw error;
		throw new ApiError("no answer", { away: true });
	}
	if (!response.ok)
		throw await errorOf(response);
	try {
		return await response.json();
	} catch (error) {
		if (error.name === "AbortError")
			throw error;
		throw new ApiError("the answer is not JSON", { status: response.status });
	}
}

/** Questions about one topic, of which only the latest matters. */
export class Topic {
	#controller = null;

	/**
	 * Ask through @question(signal). Returns its answer, or undefined when a later question
	 * overtook this one or it was cancelled. Throws what the question throws.
	 */
	async ask(question) {
		this.cancel();
		const controller = new AbortController();
		this.#controller = controller;
		try {
			const answer = await question(controller.signal);
			return controller.signal.aborted ? undefined : answer;
		} catch (error) {
			if (controller.signal.aborted)
				return undefined;
			throw error;
		} finally {
			if (this.#controller === controller)
				this.#controller = null;
		}
	}

	get busy() {
		return this.#controller !== null;
	}

	cancel() {
		this.#controller?.abort();
		this.#controller = null;
	}
}
