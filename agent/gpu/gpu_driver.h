// SPDX-License-Identifier: Apache-2.0
// The distinct files of the CUDA driver and of NCCL that processes of the node map: the host's, those
// that images bring for other versions, and old ones that an upgrade has left to whoever runs. A probe
// goes to a file and is met by all processes that map it, so what counts is when a file's first process
// comes and when its last one has gone. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/build_id.h"
#include "agent/gpu/gpu_calls.h"
#include "agent/process/mapping.h"
#include "agent/process/process_table.h"

enum {
	GPU_DRIVERS_MAX =
		64, // files; a node has one, and one more for each kind of image that has its own
	GPU_DRIVER_PATH_BYTES = 256,
};

/** How long a file stays when its last process has gone: servers restart. */
#define GPU_DRIVER_LINGER_NS (3ULL * 1000000000)

/** One file. */
struct gpu_driver {
	uint32_t number; // never given to another one
	enum gpu_library library;
	int fd;                             // open for reading; owned here
	char build_id[BUILD_ID_TEXT_BYTES]; // "": it has none
	char path[GPU_DRIVER_PATH_BYTES];   // as a process saw it; cut if longer
	uint32_t processes;                 // that are known to map it
};

/**
 * Told of files as they come and go; of NCCL's not while no process maps a driver. What it is told of is
 * valid until gone() returns.
 */
struct gpu_driver_listener {
	void (*come)(void *context, const struct gpu_driver *driver);
	void (*gone)(void *context, const struct gpu_driver *driver);
	void *context;
};

/** What could not be known. */
struct gpu_driver_losses {
	uint64_t too_many; // files beyond GPU_DRIVERS_MAX
	uint64_t unopened; // mappings whose file could not be opened
};

struct gpu_drivers;

/** Returns NULL when out of memory. */
struct gpu_drivers *gpu_drivers_new(const struct gpu_driver_listener *listener);
/** All files go, and the listener is told. NULL is allowed. */
void gpu_drivers_free(struct gpu_drivers *drivers);

/**
 * See what the processes of @table map now; to be called often, it does something once a second.
 * Only what is known of them counts: they were sampled, and their mappings are followed.
 */
void gpu_drivers_follow(struct gpu_drivers *drivers, struct process_table *table, uint64_t now_ns);

/**
 * The same for who has no table: a round in which all processes that live are named, those with
 * other mappings than in the round before with what they map. @folder is the process's in /proc.
 */
void gpu_drivers_begin(struct gpu_drivers *drivers);
/** False: its mappings are to be noted. @generation as process_mappings_generation(); 0: not known now. */
bool gpu_drivers_knows(struct gpu_drivers *drivers, const struct process_key *key,
		       uint64_t generation);
void gpu_drivers_note(struct gpu_drivers *drivers, const struct process_key *key,
		      uint64_t generation, int folder, const struct mapping_list *list);
void gpu_drivers_end(struct gpu_drivers *drivers, uint64_t now_ns);

/** Each process that was seen to map a file of that library. */
void gpu_drivers_each_process(const struct gpu_drivers *drivers, enum gpu_library library,
			      void (*fn)(void *context, const struct process_key *key),
			      void *context);
uint32_t gpu_drivers_count(const struct gpu_drivers *drivers);
/** How many processes map one of them. */
uint32_t gpu_drivers_process_count(const struct gpu_drivers *drivers);
void gpu_drivers_read_losses(const struct gpu_drivers *drivers,
			     struct gpu_driver_losses *ret_losses);
