// SPDX-License-Identifier: Apache-2.0
// The files of the CUDA driver, NCCL and the CUPTI helper that processes of the node map: the host's, those of
// container images, and deleted ones that an upgrade left to running processes. A uprobe sits in a file and fires in
// all processes that map it, so this module reports when a file gets its first process and loses its last. One
// thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/build_id.h"
#include "agent/gpu/gpu_calls.h"
#include "agent/process/mapping.h"
#include "agent/process/process_table.h"

enum {
	GPU_DRIVERS_MAX = 64, // files: the host's, and one for each image that brings its own
	GPU_DRIVER_PATH_BYTES = 256,
};

/** How long a file stays after its last process: servers restart. */
#define GPU_DRIVER_LINGER_NS (3ULL * 1000000000)

/** One file. */
struct gpu_driver {
	uint32_t number; // never reused
	enum gpu_library library;
	int fd;                             // open for reading; owned here
	char build_id[BUILD_ID_TEXT_BYTES]; // "": none
	char path[GPU_DRIVER_PATH_BYTES];   // in some process's mount namespace; cut if longer
	uint32_t processes;                 // known to map it
};

/**
 * Called when files appear and disappear; for NCCL's only while some process maps the CUDA driver. A driver is valid
 * until gone() returns.
 */
struct gpu_driver_listener {
	void (*come)(void *context, const struct gpu_driver *driver);
	void (*gone)(void *context, const struct gpu_driver *driver);
	void *context;
};

struct gpu_drivers;

/** Returns NULL when out of memory. */
struct gpu_drivers *gpu_drivers_new(const struct gpu_driver_listener *listener);
/** Calls gone() for each file. NULL is allowed. */
void gpu_drivers_free(struct gpu_drivers *drivers);

/** Look through the mappings of the sampled processes in @table, once a second however often it is called. */
void gpu_drivers_update(struct gpu_drivers *drivers, struct process_table *table, uint64_t now_ns);

/**
 * The same in steps, for tests: a round names all live processes, and passes the mappings of those whose mappings
 * changed since the last round. @folder is the process's folder in /proc.
 */
void gpu_drivers_begin(struct gpu_drivers *drivers);
/** False: pass its mappings. @generation: process_mappings_generation(); 0: unknown. */
bool gpu_drivers_knows(struct gpu_drivers *drivers, const struct process_key *key,
		       uint64_t generation);
void gpu_drivers_note(struct gpu_drivers *drivers, const struct process_key *key,
		      uint64_t generation, int folder, const struct mapping_list *list);
void gpu_drivers_end(struct gpu_drivers *drivers, uint64_t now_ns);

/** Calls @fn for each process known to map a file of @library. */
void gpu_drivers_each_process(const struct gpu_drivers *drivers, enum gpu_library library,
			      void (*fn)(void *context, const struct process_key *key),
			      void *context);
uint32_t gpu_drivers_count(const struct gpu_drivers *drivers);
/** Files that were dropped: beyond GPU_DRIVERS_MAX. */
uint64_t gpu_drivers_dropped(const struct gpu_drivers *drivers);
