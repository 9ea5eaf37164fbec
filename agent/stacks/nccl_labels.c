// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/nccl_labels.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "agent/stacks/sample_kind.h"
#include "base/cleanup.h"
#include "base/contract/label_values.h"
#include "bpf/gpu/gpu_call.h"
#include "base/contract/label_names.h"

static const char *const collectives[] = {
	[NCCL_OTHER] = "other",
	[NCCL_ALL_REDUCE] = "all_reduce",
	[NCCL_BROADCAST] = "broadcast",
	[NCCL_REDUCE] = "reduce",
	[NCCL_ALL_GATHER] = "all_gather",
	[NCCL_REDUCE_SCATTER] = "reduce_scatter",
	[NCCL_ALL_TO_ALL] = "all_to_all",
	[NCCL_GATHER] = "gather",
	[NCCL_SCATTER] = "scatter",
	[NCCL_SEND] = "send",
	[NCCL_RECEIVE] = "receive",
	[NCCL_GROUP] = "group",
	[NCCL_INIT] = "init",
	[NCCL_DESTROY] = "destroy",
};

_Static_assert(ARRAY_SIZE(collectives) == NCCL_COLLECTIVE_COUNT, "each has a token");
_Static_assert(sizeof(struct nccl_call) == 24, "no padding: it is hashed");

void nccl_call_of_count(const struct count_key *key, bool has_identity, struct nccl_call *ret_call)
{
	*ret_call = (struct nccl_call){
		.identity = has_identity ? key->kernel.high : 0,
		.rank = (uint32_t)key->kernel.low,
		.ranks = (uint32_t)(key->kernel.low >> 32),
		.collective =
			key->kernel_leaf < NCCL_COLLECTIVE_COUNT ? key->kernel_leaf : NCCL_OTHER,
	};
}

static int set(struct labels *labels, const char *name, const char *value)
{
	return labels_set(labels, name, value) == -ENOMEM ? -ENOMEM : 0;
}

static int set_number(struct labels *labels, const char *name, uint32_t number, bool is_known)
{
	char text[16] = VALUE_UNKNOWN;

	if (is_known)
		snprintf(text, sizeof(text), "%" PRIu32, number);
	return set(labels, name, text);
}

int nccl_labels_set(const struct nccl_call *call, struct labels *labels)
{
	char identity[20] = VALUE_UNKNOWN;
	int rc;

	if (call->identity)
		snprintf(identity, sizeof(identity), "%016" PRIx64, call->identity);
	// ncclGroupEnd() starts the calls of all communicators in the group.
	if (call->collective == NCCL_GROUP)
		return set(labels, LABEL_COLLECTIVE, collectives[call->collective]);
	rc = set(labels, LABEL_COMMUNICATOR, identity);
	if (!rc)
		rc = set_number(labels, LABEL_RANK, call->rank, call->rank != NCCL_RANK_UNKNOWN);
	if (!rc)
		rc = set_number(labels, LABEL_RANKS, call->ranks, call->ranks != 0);
	return rc ? rc : set(labels, LABEL_COLLECTIVE, collectives[call->collective]);
}
