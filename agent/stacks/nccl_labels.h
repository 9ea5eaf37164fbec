// SPDX-License-Identifier: Apache-2.0
// Whose a call of NCCL is, out of the key of its count: labels of its series.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/labels.h"
#include "bpf/sample.h"

enum {
	// Of known communicators, in one window: a node has some hundreds. Those of others are "unknown".
	NCCL_SERIES_MAX = 4096,
};

/** Compared as bytes: no padding. */
struct nccl_of {
	uint64_t identity; // 0: not known
	uint32_t rank;     // or NCCL_RANK_UNKNOWN
	uint32_t ranks;    // 0: not known
	uint64_t collective;
};

/** What the key of a count of NCCL's kinds says; without its communicator unless @may_be_known. */
void nccl_of_count(const struct count_key *key, bool may_be_known, struct nccl_of *ret_of);

/**
 * Set the labels (agent/stacks/sample_kind.h); those that are not known say so. Returns 0 or -ENOMEM: what
 * has too many labels does without these.
 */
int nccl_labels_set(const struct nccl_of *of, struct labels *labels);
