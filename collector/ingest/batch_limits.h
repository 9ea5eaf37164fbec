// SPDX-License-Identifier: Apache-2.0
// Fits a batch into its tenant's limits of labels and stacks. Values never change: what is too long is cut, what is too much is
// left out, so that one process cannot make a whole node's batch fail.
#pragma once

#include "base/profile/profile.h"
#include "collector/limits/tenant_limits.h"
#include "collector/store/store.h"

/** How much of a batch each limit changed. */
struct batch_limited {
	uint64_t count[TENANT_LIMITS];
	struct id128 stack_salt; // of the ids of its stacks; zero: they are as they came
};

/**
 * Cut @profile, before the labels of its credential are set, and tell @batch how many series its tenant may have. Returns 0 or
 * -ENOMEM with @err.
 */
int batch_limits_apply(struct tenant *tenant, struct profile *profile, struct store_batch_id *batch,
		       struct batch_limited *ret_limited, struct error *err);

/** The ids as they came, of stacks that the store does not know. */
void batch_limits_restore_ids(const struct batch_limited *limited, struct id128 *ids,
			      uint32_t count);

/** The batch is stored: count what was changed, and say it in @text, "" if nothing was. */
void batch_limits_note(struct tenant *tenant, const struct batch_limited *limited, char *text,
		       size_t size);
