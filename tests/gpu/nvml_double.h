// SPDX-License-Identifier: Apache-2.0
// Test equipment: the state that tests give the double of NVML. The double has the real library's soname, symbols and structures,
// and refuses what that refuses. Never installed.
#pragma once

#include <stdbool.h>

enum { NVML_DOUBLE_PROCESSES = 4, NVML_DOUBLE_PLACES = 3 };

/** The MIG instance in one place of a GPU. */
struct nvml_double_instance {
	bool is_there;
	unsigned int id, uuid; // its number, and what distinguishes it from former ones
	unsigned long long used_bytes;
	double busy; // GPM's values; above 100: not supported
};

struct nvml_double_process {
	unsigned int pid;
	unsigned long long memory_bytes;
	unsigned int sm;            // 0: ran nothing lately, has no sample
	unsigned long long time_us; // of its sample
	unsigned int instance;      // under MIG
};

/** Both GPUs are alike, but for their names. */
struct nvml_double {
	unsigned int gpu_count;
	bool no_driver; // nvmlInit_v2() fails
	bool is_lost;   // every call on a GPU fails
	bool is_hidden; // the first GPU fails to open
	bool is_mig;    // no utilization, processes by instance
	struct nvml_double_instance instances[NVML_DOUBLE_PLACES]; // of each GPU, under MIG
	bool no_gpm;                                               // older than Hopper
	unsigned int busy, memory_busy, power_mw, temperature, sm_mhz, memory_mhz, sent_kib,
		received_kib, link_generation, link_width;
	// Resets of the GPUs: handles from before fail until nvmlInit_v2() is called again.
	unsigned int resets;
	unsigned long long used_bytes, reasons;
	double sm_active, tensor_active; // GPM's values; above 100: not supported
	struct nvml_double_process processes[NVML_DOUBLE_PROCESSES];
	// Counts of calls.
	unsigned int inits, shutdowns, samples_alive;
};

/** Found by dlsym(): the double's state, for the caller to change. */
struct nvml_double *nvml_double(void);
