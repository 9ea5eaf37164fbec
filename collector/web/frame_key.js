// SPDX-License-Identifier: Apache-2.0
// A short key for a frame's path from the root (16 hex digits), so that a link or the next refresh
// finds the same frame again: FNV-1a in two lanes over the names on the path.

const PRIME = 0x01000193;
const OFFSETS = [0x811c9dc5, 0x9747b28c];

function hashName(name, lane) {
	let hash = OFFSETS[lane];

	for (let at = 0; at < name.length; at++)
		hash = Math.imul(hash ^ name.charCodeAt(at), PRIME);
	return hash;
}

// Mixes well enough that a child's key differs from its sibling's and its parent's in both lanes.
function mix(parent, name) {
	let hash = Math.imul(parent ^ name, PRIME) + 0x9e3779b9;

	hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
	return (hash ^ (hash >>> 13)) | 0;
}

function hex(number) {
	return (number >>> 0).toString(16).padStart(8, "0");
}

/** The key of @node of @tree. */
export function frameKey(tree, node) {
	const hash = [...OFFSETS];

	for (const step of tree.pathOf(node)) {
		for (const lane of [0, 1])
			hash[lane] = mix(hash[lane], hashName(tree.nameOf(step), lane));
	}
	return hex(hash[0]) + hex(hash[1]);
}

function laneOfNodes(tree, lane) {
	const nameHashes = Int32Array.from(tree.names, (name) => hashName(name, lane));
	const hashes = new Int32Array(tree.count);

	for (let node = 0; node < tree.count; node++) {
		const above = node === 0 ? OFFSETS[lane] : hashes[tree.parent[node]];
		hashes[node] = mix(above, nameHashes[tree.name[node]]);
	}
	return hashes;
}

/** The node of @tree that has @key, or -1. */
export function findFrame(tree, key) {
	const wanted = [parseInt(key.slice(0, 8), 16) | 0, parseInt(key.slice(8), 16) | 0];
	const first = laneOfNodes(tree, 0);
	let second = null;

	for (let node = 0; node < tree.count; node++) {
		if (first[node] !== wanted[0])
			continue;
		second ??= laneOfNodes(tree, 1);
		if (second[node] === wanted[1])
			return node;
	}
	return -1;
}
