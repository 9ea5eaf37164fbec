// SPDX-License-Identifier: Apache-2.0
// Values of the labels that say what a thread did: what it waited for, and its state. In plain
// words, and each with a colour of its own (style.css, --wait-lock and so on).

const VALUES = {
	// In the order of the stack, from the bottom.
	state: {
		running: ["running", "on a CPU"],
		waiting: ["waiting for a CPU", "able to run, but without a CPU"],
		blocked: ["blocked", "waiting for something else than a CPU"],
	},
	wait: {
		lock: ["lock", "a mutex, a condition or a futex that another thread was to release"],
		gil: ["GIL", "Python's global interpreter lock"],
		disk: ["disk", "reading or writing a disk"],
		network: ["network", "a socket: data to come, or room to send"],
		poll: ["poll", "any of several descriptors, in poll, select or epoll"],
		sleep: ["sleep", "a time that it chose itself"],
		pipe: ["pipe", "the other end of a pipe"],
		page_fault: ["page fault", "memory that had to be read in or made"],
		gpu: ["GPU", "the GPU's driver"],
		child: ["child or thread", "the end of a child process or of another thread"],
		idle: ["idle", "work: a worker of a pool that had none"],
		stopped: ["stopped", "to be continued after a signal or a debugger"],
		other: ["other", "something that is not told apart"],
	},
};

// Values that have words, but no colour of their own.
const DIRECTIONS = { host_to_device: "host to GPU", device_to_host: "GPU to host", device_to_device: "GPU to GPU", set: "set to a value" };
const NUMBERED = { gpu: "GPU", rank: "rank" };

/** All values that have a colour, as "label/value". */
export const COLORED = Object.entries(VALUES).flatMap(([label, values]) => Object.keys(values).map((value) => `${label}/${value}`));

function known(label, value) {
	return Object.hasOwn(VALUES, label) && Object.hasOwn(VALUES[label], value) ? VALUES[label][value] : null;
}

/** Does cairn itself give @label, with values that are known here? */
export function hasKnownValues(label) {
	return Object.hasOwn(VALUES, label);
}

/** @value of @label as shown; a series without the label has none. */
export function valueTitle(label, value) {
	if (value === "")
		return "(none)";
	if (label === "direction")
		return Object.hasOwn(DIRECTIONS, value) ? DIRECTIONS[value] : value;
	if (Object.hasOwn(NUMBERED, label) && /^\d+$/.test(value))
		return `${NUMBERED[label]} ${value}`;
	return known(label, value)?.[0] ?? value;
}

/** What a thread with it waited for or did; "" where there is nothing to explain. */
export function valueAbout(label, value) {
	return known(label, value)?.[1] ?? "";
}

/** The place of a thread's state in a stack of them: running is below. Others keep their order. */
export function placeOf(label, value) {
	return label === "state" ? Object.keys(VALUES.state).indexOf(value) : 0;
}
