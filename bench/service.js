// SPDX-License-Identifier: Apache-2.0
// An HTTP service on Node: middleware as frameworks chain it, promises, JSON, maps, sorting and strings, on the
// one thread that runs JavaScript.
//
//     node service.js PORT SECONDS
//
// It ends by itself after SECONDS.
"use strict";
const http = require("node:http");

const ORDERS = 300;
const DEPTH_MIN = 4, DEPTH_MAX = 20;

function random(limit) {
	return Math.floor(Math.random() * limit);
}

function makeOrders() {
	return Array.from({ length: ORDERS },
		() => ({ customer: random(40), product: `product${random(90)}`, price: Math.random() }));
}

function sumByCustomer(orders) {
	return orders.reduce((sums, order) => sums.set(order.customer, (sums.get(order.customer) ?? 0) + order.price),
		new Map());
}

function report() {
	const orders = makeOrders().sort((a, b) => a.product.localeCompare(b.product) || a.price - b.price);
	const copy = JSON.parse(JSON.stringify(orders));
	return [...sumByCustomer(copy)].map(([customer, sum]) => `${customer}:${sum.toFixed(2)}`).join(",");
}

class Layer {
	constructor(next) {
		this.next = next;
	}

	handle(request) {
		return this.next(request);
	}
}

const layers = [
	(request, next) => next({ ...request, seen: true }),
	(request, next) => new Layer(next).handle(request),
	(request, next) => [request].map((each) => next(each))[0],
	(request, next) => {
		try {
			return next(request);
		} finally {
			request.done = true;
		}
	},
];

function run(request, left) {
	return left ? layers[left % layers.length](request, (each) => run(each, left - 1)) : report();
}

async function answer(body) {
	return run(JSON.parse(body), DEPTH_MIN + random(DEPTH_MAX - DEPTH_MIN));
}

const server = http.createServer((request, response) => {
	const parts = [];
	request.on("data", (part) => parts.push(part));
	request.on("end", async () => {
		const text = await answer(Buffer.concat(parts).toString());
		response.writeHead(200, { "Content-Length": Buffer.byteLength(text) });
		response.end(text);
	});
});
server.listen(Number(process.argv[2]), "127.0.0.1");
setTimeout(() => process.exit(0), 1000 * Number(process.argv[3]));
