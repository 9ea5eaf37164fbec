// SPDX-License-Identifier: Apache-2.0
// Shapes of a merged call tree: interpreter frames folded, recursion and libraries collapsed, functions
// hidden, one function in focus. A folded frame's self value counts for its caller, so that totals stay exact.
// Pure functions over the columns of /api/v1/merge.

const PYTHON_BINARY = /^(?:lib)?python[\d.]*[dmut]{0,2}(?:$|[-.])/;
const C_RUNTIME = /^(?:libc|libpthread|ld-linux[\w-]*|ld-musl[\w-]*|libc\.musl[\w-]*)[.-]/;
// How CPython calls: its loop, and what lies between a call's bytecode and the function.
const CALL_MACHINERY = /^_?Py(?:Eval_(?:Eval|Vector)|Object_(?:MakeTp|Fast)?Call|CFunction_Call|Run_)|vectorcall|^slot_tp_|^cfunction_call|^type_call$/i;
const SHARED_OBJECT = /\.so(?:\.|$)|\.dylib$/;

const KINDS_MAX = 16; // of frames, so that a key is a number

const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);

/** What a shape does: defaults to nothing. */
export const PLAIN = { fold: false, recursion: false, libraries: false, hide: [], focus: "" };

/**
 * @answer (of /api/v1/merge) in a shape: { fold, recursion, libraries: booleans, hide: [name], focus: name, inverted:
 * a node's children are its callers }.
 * @grouped: the first level holds label values, which stay. The result has `received`: the frames of
 * @answer, `folded`: how many interpreter frames were folded, and `outside`: the value that focus leaves out.
 */
export function shapeAnswer(answer, { fold, recursion, libraries, hide, focus, inverted = false }, grouped = false) {
	let shaped = { ...answer, names: answer.names.map(String), received: answer.nodes?.parent?.length ?? 0, folded: 0, outside: 0 };

	if (shaped.received === 0)
		return shaped;

	if (focus)
		shaped = focusOn(shaped, focus, grouped);
	if (fold)
		shaped = dropFrames(shaped, interpreterFrames(shaped, grouped, inverted), grouped);
	if (hide.length > 0) {
		const hidden = new Set(hide);
		const { names, nodes } = shaped;
		shaped = { ...dropFrames(shaped, nodes.name.map((name) => hidden.has(names[name])), grouped), folded: shaped.folded };
	}
	if (libraries)
		shaped = collapse(shaped, libraryNames(shaped), grouped);
	if (recursion)
		shaped = collapse(shaped, null, grouped);
	return shaped;
}

/**
 * Which frames are the interpreter's own work between Python functions: native frames of its binary that lead to a
 * Python function, its call machinery below one, and the C runtime's start above the first. Returns a boolean
 * per node. @inverted: a node's children are its callers.
 */
export function interpreterFrames({ names, kinds, nodes }, grouped = false, inverted = false) {
	const count = nodes.parent.length;
	const native = kinds.indexOf("native");
	const python = kinds.indexOf("python");
	const isOfPython = names.map((path) => PYTHON_BINARY.test(baseName(path)));
	const isRuntime = names.map((path) => C_RUNTIME.test(baseName(path)));
	const isMachinery = names.map((name) => CALL_MACHINERY.test(name));
	const ancestor = new Uint8Array(count); // one is a Python function
	const descendant = new Uint8Array(count);
	const level = grouped ? levelsOf(nodes) : null;

	for (let node = 1; node < count; node++)
		ancestor[node] = ancestor[nodes.parent[node]] || nodes.kind[nodes.parent[node]] === python ? 1 : 0;
	for (let node = count - 1; node > 0; node--) {
		if (nodes.kind[node] === python || descendant[node])
			descendant[nodes.parent[node]] = 1;
	}
	const [isBelow, leads] = inverted ? [descendant, ancestor] : [ancestor, descendant];
	return Array.from({ length: count }, (unused, node) => {
		if (node === 0 || nodes.kind[node] !== native || (grouped && level[node] === 1))
			return false;
		const module = nodes.module[node];
		const isCall = Boolean(isBelow[node] && isMachinery[nodes.name[node]]);
		if (isOfPython[module])
			return Boolean(leads[node]) || isCall;
		return Boolean(leads[node]) && (isCall || (!isBelow[node] && isRuntime[module]));
	});
}

function levelsOf(nodes) {
	const level = new Uint16Array(nodes.parent.length);

	for (let node = 1; node < level.length; node++)
		level[node] = level[nodes.parent[node]] + 1;
	return level;
}

/** Nodes of a result while it grows: children of a node with the same name and kind are one. */
class Growing {
	constructor({ names, nodes }) {
		this.nameCount = names.length;
		this.nodes = { parent: [0], name: [nodes.name[0]], module: [nodes.module[0]], kind: [nodes.kind[0]],
			       self: [nodes.self[0]], total: [nodes.total[0]] };
		this.index = new Map();
	}

	/** The child of @parent called @name, made if there is none. */
	child(parent, name, module, kind) {
		const key = (parent * this.nameCount + name) * KINDS_MAX + kind; // below 2^53: both are at most some millions
		let node = this.index.get(key);

		if (node === undefined) {
			const { nodes } = this;
			node = nodes.parent.length;
			this.index.set(key, node);
			nodes.parent.push(parent);
			nodes.name.push(name);
			nodes.module.push(module);
			nodes.kind.push(kind);
			nodes.self.push(0);
			nodes.total.push(0);
		}
		return node;
	}
}

/** @answer with other nodes: placeOf(node, above, growing) is the new node of @node, whose parent is now @above. */
function regrow(answer, placeOf) {
	const { nodes } = answer;
	const growing = new Growing(answer);
	const place = new Uint32Array(nodes.parent.length);

	for (let node = 1; node < place.length; node++) {
		const above = place[nodes.parent[node]];
		const to = placeOf(node, above, growing);
		place[node] = to;
		growing.nodes.self[to] += nodes.self[node];
		// One that became a part of its caller is in the caller's total already.
		if (to !== above)
			growing.nodes.total[to] += nodes.total[node];
	}
	return { ...answer, nodes: growing.nodes };
}

function plainChild({ nodes }, node, above, growing) {
	return growing.child(above, nodes.name[node], nodes.module[node], nodes.kind[node]);
}

/** Without the frames that @drop (a boolean per node) marks; their callees hang under their callers. */
function dropFrames(answer, drop, grouped) {
	const isGroup = (node) => grouped && answer.nodes.parent[node] === 0;
	let folded = 0;
	const shaped = regrow(answer, (node, above, growing) => {
		if (!drop[node] || isGroup(node))
			return plainChild(answer, node, above, growing);
		folded++;
		return above;
	});

	return { ...shaped, folded: answer.folded + folded };
}

/** For each node the name of the library that it is in, as a position in names, or -1. Adds names to @answer. */
function libraryNames(answer) {
	const { nodes, kinds } = answer;
	const native = kinds.indexOf("native");
	const kernel = kinds.indexOf("kernel");
	const names = [...answer.names];
	const titles = new Map();
	const titleOf = (title) => {
		if (!titles.has(title))
			titles.set(title, names.push(title) - 1);
		return titles.get(title);
	};
	const library = nodes.name.map((unused, node) => {
		if (nodes.kind[node] === kernel)
			return titleOf("[kernel]");
		const path = answer.names[nodes.module[node]];
		return nodes.kind[node] === native && SHARED_OBJECT.test(path) ? titleOf(`[${baseName(path)}]`) : -1;
	});

	answer.names = names;
	return library;
}

/**
 * Frames that call themselves become one. @title: for each node the name under which it collapses, -1: its own stays,
 * and callees of the same name stay apart; null: each collapses under its own name.
 */
function collapse(answer, title, grouped) {
	const { nodes } = answer;

	return regrow(answer, (node, above, growing) => {
		const name = title && title[node] >= 0 ? title[node] : nodes.name[node];
		const isGroup = grouped && nodes.parent[node] === 0;
		const collapses = !isGroup && (title === null || title[node] >= 0);

		if (collapses && above !== 0 && growing.nodes.name[above] === name && growing.nodes.kind[above] === nodes.kind[node] &&
		    !(grouped && growing.nodes.parent[above] === 0))
			return above;
		return growing.child(above, name, nodes.module[node], nodes.kind[node]);
	});
}

/** Only the stacks that have a frame called @name, with its callers. */
function focusOn(answer, name, grouped) {
	const { names, nodes } = answer;
	const count = nodes.parent.length;
	const kept = new Uint8Array(count);
	const inside = new Uint8Array(count);
	const total = nodes.total.map(() => 0);

	for (let node = 1; node < count; node++) {
		const isGroup = grouped && nodes.parent[node] === 0;
		const outermost = !inside[nodes.parent[node]] && !isGroup && names[nodes.name[node]] === name;
		inside[node] = inside[nodes.parent[node]] || outermost ? 1 : 0;
		kept[node] = inside[node];
		if (inside[node])
			total[node] = nodes.total[node];
		for (let at = outermost ? nodes.parent[node] : -1; at >= 0; at = at === 0 ? -1 : nodes.parent[at]) {
			total[at] += nodes.total[node];
			kept[at] = 1;
		}
	}
	const number = new Uint32Array(count);
	const made = { parent: [], name: [], module: [], kind: [], self: [], total: [] };
	for (let node = 0; node < count; node++) {
		if (node > 0 && !kept[node])
			continue;
		number[node] = made.parent.push(number[nodes.parent[node]]) - 1;
		made.name.push(nodes.name[node]);
		made.module.push(nodes.module[node]);
		made.kind.push(nodes.kind[node]);
		made.self.push(inside[node] ? nodes.self[node] : 0);
		made.total.push(total[node]);
	}
	return { ...answer, nodes: made, outside: (nodes.total[0] ?? 0) - (total[0] ?? 0) };
}
