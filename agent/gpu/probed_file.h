// SPDX-License-Identifier: Apache-2.0
// One file of the GPU's driver and its probes: where each function of the table has its place, and
// the links that are attached now. Private to gpu_probes.c. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/gpu/gpu_probes.h"
#include "agent/probes/probe_site.h"
#include "agent/probes/probe_duty_cycle.h"

enum {
	// A program for each tier, for entry and return, and room for pieces of what was refused.
	PROBED_FILE_LINKS_MAX = 32,
};

/** Probes that come and go together. */
enum probe_set {
	PROBE_SET_WINDOWS,
	PROBE_SET_OTHERS, // those that are always there, but for these:
	// Of memory: each call counts, for what is seen to be allocated and not to be freed stays for ever. So
	// they stay attached when other kinds come or go.
	PROBE_SET_STEADY,
	PROBE_SET_CAPTURES, // launches, while graphs are captured
	PROBE_SET_COUNT,
};

struct probe_links {
	struct probe_link *links[PROBED_FILE_LINKS_MAX];
	uint32_t count;
};

struct probed_file {
	const struct gpu_driver *driver;
	const struct gpu_probes_options *options;
	const struct probe_duty_cycle *plan;
	uint32_t shares_with; // the number of the file that has the probes; 0: itself
	struct probe_site sites[GPU_PROBES_NAMES_MAX]; // by row of the table
	bool has_site[GPU_PROBES_NAMES_MAX];
	struct probe_links links[PROBE_SET_COUNT];
	struct probe_links former; // of PROBE_SET_OTHERS, until those are attached anew
	uint32_t generation;       // of PROBE_SET_OTHERS: GPU_CALL_GENERATION or 0
	uint64_t steady_kinds;     // that PROBE_SET_STEADY was attached for
	uint64_t refused;          // probes, by the kernel
	int refusal;               // what it said last
};

/**
 * Find the functions' places. @options and @plan, which says of each kind of call when it is probed,
 * outlive the file. Returns 0; -ENOENT if it has none of the functions; -ENOEXEC; -ENOMEM; -errno.
 */
int probed_file_open(const struct gpu_driver *driver, const struct gpu_probes_options *options,
		     const struct probe_duty_cycle *plan, struct probed_file **ret_file);
/** Detaches what is attached. */
void probed_file_close(struct probed_file *file);

/** Attach the probes of a set; none if the file shares those of another. */
void probed_file_attach(struct probed_file *file, enum probe_set set);
void probed_file_detach(struct probed_file *file, enum probe_set set);
/**
 * It has changed which are always there: attach those anew, with this generation, and when it counts, detach those
 * from before. Steady ones are touched only if some of them are concerned, and may miss calls meanwhile.
 */
void probed_file_attach_next(struct probed_file *file, uint32_t generation);
void probed_file_detach_former(struct probed_file *file);

/** What a call of this row costs in this file, in nanoseconds; 0: it has no such function. */
double probed_file_cost(const struct probed_file *file, size_t row);

/**
 * Are the probes of @other in this file, too? Files of containers have a device and inode of their
 * own in each, and one file below them, which is what the kernel's probes are in.
 */
bool probed_file_is_probed_by(const struct probed_file *file, const struct probed_file *other);

/** The program for a row's entry or return; -1: none. */
int probed_file_program(const struct gpu_probes_options *options, size_t row, bool at_return);
