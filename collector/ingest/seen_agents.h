// SPDX-License-Identifier: Apache-2.0
// Which agents sent batches, and when: the fleet as the collector sees it. In memory since its start; bounded. Thread-safe.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id128.h"
#include "base/profile/profile.h"
#include "collector/access/identity.h"
#include "proto/export_message.h"

enum {
	SEEN_AGENTS_MAX = 4096, // starts of agents; the least recently seen is evicted
	SEEN_NODE_BYTES = 128,  // of a node's name; a longer one is cut
};

struct seen_agent {
	struct id128 machine, boot; // a boot is one start of an agent
	char node[SEEN_NODE_BYTES]; // label `node` of its series; "": none
	char tenant[ACCESS_TENANT_BYTES];
	char version[EXPORT_VERSION_BYTES];
	uint64_t first_ns, seen_ns; // Unix time of its first and of its last batch
	uint64_t batches, samples;  // taken, since the collector's start
	bool replaced; // another agent started on the machine, and this one has not sent since
};

struct seen_agents;

/** NULL when out of memory. */
struct seen_agents *seen_agents_new(void);
/** NULL is allowed. */
void seen_agents_free(struct seen_agents *agents);

/** Agent @batch has sent @profile, whose series have the labels that its credential gives them, at @now_ns (Unix time). */
void seen_agents_note(struct seen_agents *agents, const struct batch_id *batch,
		      const struct profile *profile, uint64_t now_ns);

/** Agents that sent a batch at or after @since_ns (Unix time). A restarted agent counts once. */
uint32_t seen_agents_count(struct seen_agents *agents, uint64_t since_ns);

/**
 * Those of @tenant (ACCESS_ALL_TENANTS: all), one for each machine, sorted by node: the caller frees *ret_agents. Returns 0 or
 * -ENOMEM.
 */
int seen_agents_list(struct seen_agents *agents, const char *tenant, struct seen_agent **ret_agents,
		     uint32_t *ret_count);
