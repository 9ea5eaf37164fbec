// SPDX-License-Identifier: Apache-2.0
// Labels of an NCCL call's series, from its count's key: communicator, rank, ranks, collective.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/labels.h"
#include "bpf/sample.h"

enum {
	// Series with a known communicator per export interval: a node has some hundreds. Past it a
	// communicator is "unknown".
	NCCL_SERIES_MAX = 4096,
};

/** Compared as bytes: no padding. */
struct nccl_call {
	uint64_t identity; // 0: not known
	uint32_t rank;     // or NCCL_RANK_UNKNOWN
	uint32_t ranks;    // 0: not known
	uint64_t collective;
};

/** Read the key of an NCCL kind's count. Without @has_identity the communicator stays unknown. */
void nccl_call_of_count(const struct count_key *key, bool has_identity, struct nccl_call *ret_call);

/** Set the labels; unknown ones get the value "unknown". Returns 0, also where labels are full; -ENOMEM. */
int nccl_labels_set(const struct nccl_call *call, struct labels *labels);
