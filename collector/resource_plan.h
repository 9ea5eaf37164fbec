// SPDX-License-Identifier: Apache-2.0
// What the collector may use of its machine, and how much of it each part gets: memory and descriptors.
#pragma once

#include <stdint.h>

#include "base/error.h"

enum {
	DESCRIPTORS_MIN = 128,
	CONNECTIONS_MAX = 4096,      // of agents; more need more collectors
	ADMIN_CONNECTIONS_MAX = 32,  // of probes and administrators
	CONNECTION_BYTES = 20 << 10, // HTTP/2's tables: 18 KiB were measured
};

struct memory_plan {
	uint64_t total_bytes;
	uint64_t store_bytes;    // caches and open partitions
	uint64_t messages_bytes; // of agents: received, inflated, decoded, stored
	uint64_t
		answers_bytes; // to queries: what they allocate, and answers not yet read by the client
	uint32_t connections_max;
};

/**
 * Divide @wanted_bytes, or if that is 0 three quarters of @cgroup_bytes, or if there is no such limit a
 * quarter of @machine_bytes.
 */
struct memory_plan memory_plan_make(uint64_t wanted_bytes, uint64_t cgroup_bytes,
				    uint64_t machine_bytes);

struct descriptor_plan {
	uint64_t limit;
	uint32_t agents; // connections
	uint32_t http;
};

/** Divide @limit descriptors. -EMFILE: too few to work with. */
int descriptor_plan_make(uint64_t limit, uint32_t agents_max, struct descriptor_plan *ret_plan,
			 struct error *err);
/** Raise the soft limit of open files as far as it is useful and allowed. Returns the limit. */
uint64_t descriptors_raise(void);
