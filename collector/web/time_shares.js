// SPDX-License-Identifier: Apache-2.0
// Where a function's time goes: Python, native and kernel code on a CPU, waits for a GPU, other blocked time, each as a
// share of all of them. Pure functions.

/** The columns: key, title and what it means. */
export const SHARE_COLUMNS = [
	["python", "Python", "running Python code or its interpreter"],
	["native", "Native", "running native or JIT code"],
	["kernel", "Kernel", "running in the kernel"],
	["gpu", "GPU wait", "waiting for a GPU, blocked or in a busy loop"],
	["blocked", "Blocked", "off-CPU, except idle and waits for a GPU"],
];

const keyOf = (row) => `${row.kind} ${row.name}`;

function totalsOf(answers) {
	const totals = new Map();

	for (const { rows } of answers) {
		for (const row of rows)
			totals.set(keyOf(row), (totals.get(keyOf(row)) ?? 0) + row.total);
	}
	return totals;
}

/**
 * @answer of /api/v1/top on CPU time, with `shares` in each row: { python, native, kernel, gpu, blocked }, which add up
 * to 1. @blocked and @gpu: answers on other profile types with the same functions.
 */
export function withShares(answer, blocked, gpu) {
	const blockedOf = totalsOf(blocked);
	const gpuOf = totalsOf(gpu);
	const at = (kind) => answer.kinds.indexOf(kind);

	return { ...answer, rows: answer.rows.map((row) => {
		const ran = (...kinds) => kinds.reduce((sum, kind) => sum + (row.ran[at(kind)] ?? 0), 0);
		const parts = { python: ran("python"), native: ran("native", "jit", "unknown"), kernel: ran("kernel"),
				gpu: gpuOf.get(keyOf(row)) ?? 0, blocked: blockedOf.get(keyOf(row)) ?? 0 };
		const whole = Object.values(parts).reduce((sum, part) => sum + part, 0);

		return { ...row, shares: Object.fromEntries(Object.entries(parts).map(([key, part]) => [key, whole > 0 ? part / whole : 0])) };
	}) };
}
