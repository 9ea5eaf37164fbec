// SPDX-License-Identifier: Apache-2.0
// A merged call tree in typed arrays, laid out once: each node spans [start, start + total) of the
// root's value, children lie in order of their names, and each level's nodes lie in order of start.

const NONE = 0xffffffff;

function column(nodes, name, count, Type) {
	const values = nodes[name];

	if (!Array.isArray(values) || values.length !== count)
		throw new Error(`merge: column ${name} does not have ${count} values`);
	return Type.from(values);
}

function checkReferences(tree) {
	for (let node = 0; node < tree.count; node++) {
		if (node > 0 && tree.parent[node] >= node)
			throw new Error(`merge: node ${node} comes before its parent`);
		if (tree.name[node] >= tree.names.length || tree.module[node] >= tree.names.length)
			throw new Error(`merge: node ${node} has no name`);
	}
}

/** Positions of 0..count-1 sorted by @key (each below @keyCount), kept in order of @from where equal. */
function sortByKey(from, key, keyCount) {
	const starts = new Uint32Array(keyCount + 1);
	const sorted = new Uint32Array(from.length);

	for (const node of from)
		starts[key[node] + 1]++;
	for (let at = 0; at < keyCount; at++)
		starts[at + 1] += starts[at];
	for (const node of from)
		sorted[starts[key[node]]++] = node;
	return sorted;
}

/** For each name its place in alphabetical order; truncated stacks come last. */
function rankNames(names) {
	const order = Array.from(names.keys());
	const last = names.map((name) => (isTruncated(name) ? 1 : 0));
	const rank = new Uint32Array(names.length);

	order.sort((a, b) => last[a] - last[b] || (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : 0));
	order.forEach((name, place) => (rank[name] = place));
	return rank;
}

/** Stacks whose root was not reached hang under nodes named "[truncated: reason]". */
function isTruncated(name) {
	return name.startsWith("[truncated");
}

export class FlameTree {
	/**
	 * @answer: of /api/v1/merge. @grouped: the first level holds label values, not frames;
	 * groupTitle(value) is how one is shown. Throws on a malformed answer.
	 */
	constructor(answer, grouped = false, groupTitle = String) {
		const nodes = answer.nodes ?? {};
		const count = nodes.parent?.length ?? 0;

		this.count = count;
		this.names = (answer.names ?? []).map(String);
		this.kinds = (answer.kinds ?? []).map(String);
		this.unit = String(answer.unit ?? "");
		this.type = String(answer.type ?? "");
		this.grouped = grouped;
		this.cut = Number(answer.cut ?? 0);
		this.nodeCount = Number(answer.node_count ?? count); // before the collector dropped small ones
		this.received = Number(answer.received ?? count); // before frames were folded here
		this.folded = Number(answer.folded ?? 0);
		this.stackCount = Number(answer.stacks ?? 0);
		this.seriesCount = Number(answer.series ?? 0);
		this.parent = column(nodes, "parent", count, Uint32Array);
		this.name = column(nodes, "name", count, Uint32Array);
		this.module = column(nodes, "module", count, Uint32Array);
		this.kind = column(nodes, "kind", count, Uint8Array);
		this.self = column(nodes, "self", count, Float64Array);
		this.total = column(nodes, "total", count, Float64Array);
		checkReferences(this);
		if (grouped)
			this.#nameGroups(groupTitle);
		this.#layOut();
	}

	/** Give groups names of their own: a frame of the same name keeps its name. */
	#nameGroups(groupTitle) {
		for (let node = 1; node < this.count; node++) {
			const title = this.parent[node] === 0 ? groupTitle(this.nameOf(node)) : this.nameOf(node);
			if (title !== this.nameOf(node))
				this.name[node] = this.names.push(title) - 1;
		}
	}

	get value() {
		return this.count ? this.total[0] : 0;
	}

	get levelCount() {
		return this.levelStart.length - 1;
	}

	nameOf(node) {
		return this.names[this.name[node]];
	}

	moduleOf(node) {
		return this.names[this.module[node]];
	}

	/** "python", "native", ...; "group" for label values, or "root" or "truncated". */
	kindOf(node) {
		// Between its callers and callees the root is a function.
		if (node === 0 && this.kind[0] === 0)
			return "root";
		if (isTruncated(this.nameOf(node)))
			return "truncated";
		if (this.grouped && this.parent[node] === 0)
			return "group";
		return this.kinds[this.kind[node]] ?? "unknown";
	}

	/** Nodes from the root to @node, both included. */
	pathOf(node) {
		const path = [node];

		while (node !== 0) {
			node = this.parent[node];
			path.push(node);
		}
		return path.reverse();
	}

	/** Levels from @node down to its deepest descendant, itself included. */
	levelsBelow(node) {
		const from = this.start[node];
		const to = from + this.total[node];
		let level = this.depth[node];

		// A level's nodes are in order, so one lookup per level finds whether any is under @node.
		while (level + 1 < this.levelCount) {
			const at = this.levelSearch(level + 1, from);
			const next = at < this.levelStart[level + 2] ? this.order[at] : NONE;
			if (next === NONE || this.start[next] >= to || !this.isBelow(next, node))
				break;
			level++;
		}
		return level - this.depth[node] + 1;
	}

	isBelow(node, ancestor) {
		while (this.depth[node] > this.depth[ancestor])
			node = this.parent[node];
		return node === ancestor;
	}

	/** Position in order of the first node of @level that ends after @value. */
	levelSearch(level, value) {
		let low = this.levelStart[level];
		let high = this.levelStart[level + 1];

		while (low < high) {
			const middle = (low + high) >> 1;
			const node = this.order[middle];
			if (this.start[node] + this.total[node] > value)
				high = middle;
			else
				low = middle + 1;
		}
		return low;
	}

	/** The node of @level that covers @value, or -1. */
	nodeAt(level, value) {
		if (level < 0 || level >= this.levelCount)
			return -1;
		const at = this.levelSearch(level, value);
		const node = at < this.levelStart[level + 1] ? this.order[at] : NONE;
		return node !== NONE && this.start[node] <= value ? node : -1;
	}

	/** The children of @node in drawing order. */
	childrenOf(node) {
		return this.children.subarray(this.firstChild[node], this.firstChild[node + 1]);
	}

	/** Self value by kind of code, over what is drawn: Map of kind to value, largest first. */
	selfByKind() {
		const sums = new Map();

		for (let node = this.count && this.kindOf(0) !== "root" ? 0 : 1; node < this.count; node++) {
			if (this.self[node] > 0) {
				const kind = this.kindOf(node);
				sums.set(kind, (sums.get(kind) ?? 0) + this.self[node]);
			}
		}
		return new Map([...sums].sort((a, b) => b[1] - a[1]));
	}

	/** Value of truncated stacks. */
	truncatedValue() {
		const level = this.grouped ? 2 : 1;
		let sum = 0;

		if (level >= this.levelCount)
			return 0;
		for (let at = this.levelStart[level]; at < this.levelStart[level + 1]; at++) {
			if (isTruncated(this.nameOf(this.order[at])))
				sum += this.total[this.order[at]];
		}
		return sum;
	}

	/**
	 * Nodes whose name @matches(name): { match: a byte per node, count, value, nodes: largest first }. The value
	 * counts each stack once, however many of its frames match.
	 */
	find(matches) {
		const nameMatches = this.names.map((name) => (matches(name) ? 1 : 0));
		const match = new Uint8Array(this.count);
		const covered = new Uint8Array(this.count); // this node or one above it matches
		const nodes = [];
		let value = 0;

		for (let node = 1; node < this.count; node++) {
			const above = covered[this.parent[node]];
			match[node] = nameMatches[this.name[node]];
			covered[node] = above | match[node];
			if (match[node])
				nodes.push(node);
			if (match[node] && !above)
				value += this.total[node];
		}
		nodes.sort((a, b) => this.total[b] - this.total[a] || a - b);
		return { match, count: nodes.length, value, nodes };
	}

	#layOut() {
		const rank = rankNames(this.names);
		const nodes = Uint32Array.from(this.parent.keys()).subarray(1);
		const byName = sortByKey(nodes, this.name.map((name) => rank[name]), this.names.length);

		this.children = sortByKey(byName, this.parent, this.count);
		this.firstChild = new Uint32Array(this.count + 1);
		for (const node of nodes)
			this.firstChild[this.parent[node] + 1]++;
		for (let node = 0; node < this.count; node++)
			this.firstChild[node + 1] += this.firstChild[node];
		this.#placeChildren();
		this.#orderLevels();
	}

	/** Children fill their parent from the left; what remains at its right is its self value. */
	#placeChildren() {
		this.start = new Float64Array(this.count);
		this.depth = new Uint16Array(this.count);
		for (let node = 0; node < this.count; node++) {
			let start = this.start[node];
			for (const child of this.childrenOf(node)) {
				this.start[child] = start;
				this.depth[child] = this.depth[node] + 1;
				start += this.total[child];
			}
		}
	}

	/** order: nodes level by level, by start; level l is order[levelStart[l]..levelStart[l + 1]). */
	#orderLevels() {
		const levelStart = this.count ? [0, 1] : [0];

		this.order = new Uint32Array(this.count);
		let end = Math.min(1, this.count);
		for (let at = 0; at < end;) {
			const levelEnd = end;
			for (; at < levelEnd; at++) {
				for (const child of this.childrenOf(this.order[at]))
					this.order[end++] = child;
			}
			if (end > levelEnd)
				levelStart.push(end);
		}
		this.levelStart = Uint32Array.from(levelStart);
	}
}
