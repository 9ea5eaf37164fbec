// SPDX-License-Identifier: Apache-2.0
// HTTP requests to the collector's API.

/** A request that failed. away: the collector is unreachable. */
export class ApiError extends Error {
	constructor(message, { status = 0, code = "", field = "", away = false } = {}) {
		super(message);
		this.name = "ApiError";
		Object.assign(this, { status, code, field, away });
	}
}

/** The path and query of an API call; skips parameters that are null or "". */
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
	let error = {};

	try {
		error = (await response.json()).error ?? {};
	} catch {
		// A proxy's answer is not JSON.
	}
	return new ApiError(String(error.message ?? `HTTP ${response.status}`), {
		status: response.status,
		code: String(error.code ?? ""),
		field: String(error.field ?? ""),
		away,
	});
}

/** The JSON response of @path. Throws ApiError, or AbortError after @signal. */
export async function request(path, params, signal) {
	let response;

	try {
		response = await fetch(apiPath(path, params), { signal, headers: { Accept: "application/json" } });
	} catch (error) {
		if (error.name === "AbortError")
			throw error;
		throw new ApiError("no answer", { away: true });
	}
	if (response.status === 401)
		document.dispatchEvent(new Event("login-needed"));
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

/** Runs one request at a time: a new one aborts the previous one. */
export class LatestRequest {
	#controller = null;

	/**
	 * Run @send(signal). Returns its answer, or undefined when a later request replaced this one
	 * or it was cancelled. Throws what @send throws.
	 */
	async run(send) {
		this.cancel();
		const controller = new AbortController();
		this.#controller = controller;
		try {
			const answer = await send(controller.signal);
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
