// SPDX-License-Identifier: Apache-2.0
// A short key (16 hex digits) for a frame's path from the root, so that a link or the next refresh
// finds the same frame: two 32-bit FNV-1a hashes, the key's halves, over the names on the path.

const PRIME = 0x01000193;
const OFFSETS = [0x811c9dc5, 0x9747b28c];

function hashName(name, half) {
	let hash = OFFSETS[half];

	for (let at = 0; at < name.length; at++)
		hash = Math.imul(hash ^ name.charCodeAt(at), PRIME);
	return hash;
}

// Mixes well enough that a child's key differs from its sibling's and its parent's in both halves.
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
		for (const half of [0, 1])
			hash[half] = mix(hash[half], hashName(tree.nameOf(step), half));
	}
	return hex(hash[0]) + hex(hash[1]);
}

function halfKeys(tree, half) {
	const nameHashes = Int32Array.from(tree.names, (name) => hashName(name, half));
	const hashes = new Int32Array(tree.count);

	for (let node = 0; node < tree.count; node++) {
		const above = node === 0 ? OFFSETS[half] : hashes[tree.parent[node]];
		hashes[node] = mix(above, nameHashes[tree.name[node]]);
	}
	return hashes;
}

/** The node of @tree that has @key, or -1. */
export function findFrame(tree, key) {
	const wanted = [parseInt(key.slice(0, 8), 16) | 0, parseInt(key.slice(8), 16) | 0];
	const first = halfKeys(tree, 0);
	let second = null;

	for (let node = 0; node < tree.count; node++) {
		if (first[node] !== wanted[0])
			continue;
		second ??= halfKeys(tree, 1);
		if (second[node] === wanted[1])
			return node;
	}
	return -1;
}
