// SPDX-License-Identifier: Apache-2.0
// Whose batch it is: admission of agents, and what their credential says about a batch. Nothing that
// a message says about its tenant counts, nor about its node if the credential names one.
#pragma once

#include "base/profile/profile.h"
#include "collector/access/access.h"
#include "collector/limits/tenant_limits.h"
#include "collector/store/store.h"
#include "proto/rpc_handler.h"

/** Who may send, and how much. Borrowed. */
struct ingest_gate {
	struct access *access;
	struct tenant_limits *limits; // NULL: none
};

/** An rpc_admit_fn; @context is a struct ingest_gate. The caller is a struct identity. */
enum rpc_status ingest_admit(void *context, const struct rpc_visitor *visitor, void **ret_caller,
			     struct error *err);

/** The tenant that a batch of @identity is of: without a login none. */
const char *ingest_tenant(const struct identity *identity);

/**
 * Set label `tenant` of each series from @identity, and `node` if the credential names one; and the
 * identity of the batch, that of @peer's address where there is no login, and whose clock it is. Returns 0; -ENOMEM; -E2BIG at
 * LABELS_MAX.
 */
int ingest_identity_apply(const struct identity *identity, const char *peer,
			  struct profile *profile, struct store_batch_id *batch, struct error *err);
