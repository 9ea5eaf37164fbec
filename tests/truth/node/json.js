// SPDX-License-Identifier: Apache-2.0
// json.js WARM-UP SECONDS: JSON and sorting in functions of known names; most of the time is spent in
// V8's built-in functions and in C++ that they call. Seconds are of CPU time; after the warm-up the
// thread is called "truth".
'use strict';

const text = '{"a":[1,2,3,{"b":"text","c":null}],"d":{"e":1.5,"f":[true,false]}}';

function parseAll(rounds) {
	let size = 0;
	for (let i = 0; i < rounds; i++)
		size += JSON.parse(text).a.length;
	return size;
}

function writeAll(rounds) {
	const value = JSON.parse(text);
	let size = 0;
	for (let i = 0; i < rounds; i++)
		size += JSON.stringify(value).length;
	return size;
}

function sortAll(count) {
	const values = [];
	for (let i = 0; i < count; i++)
		values.push((i * 7919) % count);
	return values.sort((a, b) => a - b).map((value) => value * 2)[count - 1];
}

function cpuSeconds() {
	const used = process.cpuUsage();
	return (used.user + used.system) / 1e6;
}

function serveAll(until) {
	let sum = 0;
	while (cpuSeconds() < until)
		sum += parseAll(2000) + writeAll(2000) + sortAll(2000);
	return sum;
}

const [warmUp, seconds] = process.argv.slice(2).map(Number);

serveAll(warmUp);
process.title = 'truth';
serveAll(warmUp + seconds);
process.title = 'done';
