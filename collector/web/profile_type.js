// SPDX-License-Identifier: Apache-2.0
// Profile types as people call them.

const TITLES = {
	"process_cpu/cpu": "CPU time",
	"process_cpu/samples": "CPU samples",
	"off_cpu/off_cpu": "Off-CPU time",
	"memory/alloc_space": "Allocated memory",
};

/** "CPU time" for process_cpu:cpu:…, otherwise its name and sample type as they are. */
export function typeTitle(type) {
	const [name, sampleType] = type.split(":");

	return TITLES[`${name}/${sampleType}`] ?? `${name} ${sampleType}`;
}
