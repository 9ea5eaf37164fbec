// SPDX-License-Identifier: Apache-2.0
// One library file and its probes: the probe site of each known function, and the links attached now.
// Private to gpu_probes.c. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/gpu/gpu_calls.h"
#include "agent/gpu/gpu_driver.h"
#include "agent/probes/probe_cost.h"
#include "agent/probes/probe_duty_cycle.h"
#include "agent/probes/probe_link.h"
#include "agent/probes/probe_site.h"

enum {
	PROBED_FILE_CALLS_MAX = 320, // rows of the table of calls
	// One for each tier, entry and return; the rest is for halves of links that were refused.
	PROBED_FILE_LINKS_MAX = 32,
};

/** What is the same for all files. */
struct probed_file_options {
	enum probe_way way; // probe_link_choose()
	struct probe_cost cost;
	const struct gpu_call_symbol *calls; // outlives the files
	size_t call_count;                   // at most PROBED_FILE_CALLS_MAX
	struct gpu_call_programs programs;
};

/** Probes that are attached and detached together. */
enum probe_set {
	PROBE_SET_DUTY_CYCLED,
	PROBE_SET_ALWAYS, // but for those of memory
	// Calls that allocate or free. A missed one makes the sums wrong for good, so these stay attached while
	// PROBE_SET_ALWAYS is replaced.
	PROBE_SET_MEMORY,
	PROBE_SET_CAPTURES, // launches, while streams are captured
	PROBE_SET_COUNT,
};

struct probe_links {
	struct probe_link *links[PROBED_FILE_LINKS_MAX];
	uint32_t count;
};

struct probed_file {
	const struct gpu_driver *driver;
	const struct probed_file_options *options;
	const struct probe_duty_cycle *cycle;
	uint32_t shares_with; // number of the file that has the probes; 0: this one
	struct probe_site sites[PROBED_FILE_CALLS_MAX]; // by row of the table
	bool has_site[PROBED_FILE_CALLS_MAX];
	struct probe_links links[PROBE_SET_COUNT];
	struct probe_links former; // PROBE_SET_ALWAYS of the last generation, not yet detached
	uint32_t generation;       // of PROBE_SET_ALWAYS: GPU_CALL_GENERATION or 0
	uint64_t memory_kinds;     // kinds in PROBE_SET_MEMORY when it was attached
	uint64_t refused;          // probes
	int refusal;               // last errno of these
};

/**
 * Find the functions' sites. @options and @cycle, which has the mode of each kind of call, outlive the
 * file. Returns 0; -ENOENT if it exports none of the functions; -ENOEXEC; -ENOMEM; -errno.
 */
int probed_file_open(const struct gpu_driver *driver, const struct probed_file_options *options,
		     const struct probe_duty_cycle *cycle, struct probed_file **ret_file);
/** Detaches all sets. */
void probed_file_close(struct probed_file *file);

/** Attach a set; none if the file shares another one's probes. */
void probed_file_attach(struct probed_file *file, enum probe_set set);
void probed_file_detach(struct probed_file *file, enum probe_set set);
/**
 * Other kinds are always attached from now on: attach PROBE_SET_ALWAYS anew with this generation beside the
 * former one. Call probed_file_detach_former() when the new one counts. PROBE_SET_MEMORY is replaced only
 * if its kinds changed, and then misses calls for a moment.
 */
void probed_file_attach_next(struct probed_file *file, uint32_t generation);
void probed_file_detach_former(struct probed_file *file);

/** Nanoseconds that the probes of this row's function take per call in this file; 0: no such function. */
double probed_file_cost(const struct probed_file *file, size_t row);

/**
 * Do the probes of @other fire in this file, too? On overlayfs each container has a device and inode of
 * its own for one lower file, which is where the kernel puts uprobes.
 */
bool probed_file_is_probed_by(const struct probed_file *file, const struct probed_file *other);

/** The program for a row's entry or return; -1: none. */
int probed_file_program(const struct probed_file_options *options, size_t row, bool at_return);
