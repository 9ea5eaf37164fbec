// SPDX-License-Identifier: Apache-2.0
// Test equipment: what tests tell the double of the NVIDIA Management Library to be. It has the real
// one's soname, symbols and structures, and refuses what the real one refuses. Never installed.
#pragma once

#include <stdbool.h>

enum { NVML_DOUBLE_PROCESSES = 4, NVML_DOUBLE_PLACES = 3 };

/** What a GPU under MIG has in one of its places for instances. */
struct nvml_double_instance {
	bool is_there;
	unsigned int id, uuid; // the number of the instance, and what tells it from others before
	unsigned long long used_bytes;
	double busy; // what GPM answers; above 100: not to be had
};

struct nvml_double_process {
	unsigned int pid;
	unsigned long long memory_bytes;
	unsigned int sm;            // 0: did no work lately, has no sample
	unsigned long long time_us; // of its sample
	unsigned int instance;      // under MIG
};

/** Both GPUs of the double are alike, but for their names. */
struct nvml_double {
	unsigned int gpu_count;
	bool no_driver; // nvmlInit_v2() says so
	bool is_lost;   // every call on a GPU says so
	bool is_hidden; // the first GPU cannot be had
	bool is_mig;    // no utilisation, processes by instance
	struct nvml_double_instance instances[NVML_DOUBLE_PLACES]; // of each GPU, under MIG
	bool no_gpm;                                               // older than Hopper
	unsigned int busy, memory_busy, power_mw, temperature, sm_mhz, memory_mhz, sent_kib,
		received_kib, link_generation, link_width;
	// Times that the GPUs were reset: handles from before are refused until the library is begun anew.
	unsigned int resets;
	unsigned long long used_bytes, reasons;
	double sm_active, tensor_active; // what GPM answers; above 100: not to be had
	struct nvml_double_process processes[NVML_DOUBLE_PROCESSES];
	// What became of the calls.
	unsigned int inits, shutdowns, samples_alive;
};

/** To be found by dlsym(): the double's state, the caller's to change. */
struct nvml_double *nvml_double(void);
