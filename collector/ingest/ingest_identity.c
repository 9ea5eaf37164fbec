// SPDX-License-Identifier: Apache-2.0
#include "collector/ingest/ingest_identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/contract/label_names.h"

const char *ingest_tenant(const struct identity *identity)
{
	return strcmp(identity->tenant, ACCESS_ALL_TENANTS) == 0 ? ACCESS_NO_TENANT
								 : identity->tenant;
}

/** Before the message: what is beyond the tenant's rate is not received. */
static enum rpc_status admit_rate(const struct ingest_gate *gate, const struct identity *identity,
				  uint32_t *ret_pause_ms, struct error *err)
{
	struct tenant *tenant = tenant_limits_find(gate->limits, ingest_tenant(identity));
	uint64_t now_ns = clock_monotonic_ns();

	if (!tenant_take_ingest(tenant, 0, now_ns, err))
		return RPC_OK;
	if (ret_pause_ms)
		*ret_pause_ms = tenant_ingest_pause_ms(tenant, now_ns);
	return RPC_RESOURCE_EXHAUSTED;
}

enum rpc_status ingest_admit(void *context, const struct rpc_visitor *visitor, void **ret_caller,
			     struct error *err)
{
	const struct ingest_gate *gate = context;
	const struct access_request request = {
		.address = visitor->peer,
		.authorization = visitor->authorization,
		.tls_session = visitor->tls_session,
	};
	struct identity *identity = malloc(sizeof(*identity));
	int rc = identity ? access_identify(gate->access, &request, identity, err)
			  : error_set(err, -ENOMEM, "out of memory");
	bool known = !rc;

	if (!rc)
		rc = access_check(identity, ACCESS_INGEST, err);
	enum rpc_status status =
		rc ? RPC_INTERNAL : admit_rate(gate, identity, visitor->ret_pause_ms, err);
	if (status == RPC_OK) {
		*ret_caller = identity;
		return RPC_OK;
	}
	free(identity);
	if (!rc)
		return status;
	return rc == -ENOMEM ? RPC_RESOURCE_EXHAUSTED
	       : known       ? RPC_PERMISSION_DENIED
			     : RPC_UNAUTHENTICATED;
}

static int set_label(struct profile *profile, const char *name, const char *value,
		     struct error *err)
{
	for (uint32_t i = 0; i < profile->series_count; i++) {
		struct series *series = &profile->series[i];
		int rc = labels_set(&series->labels, name, value);

		if (rc)
			return error_set(err, rc, "series[%u]: too many labels: %s does not fit", i,
					 name);
		series->id = series_id_of(&series->labels, profile_string(profile, series->type));
	}
	return 0;
}

/** Of the key and the tenant: a batch is a duplicate only of the same credential's. */
static struct id128 identity_id(const struct identity *identity)
{
	const struct id128 parts[] = { id128_of(identity->key, strlen(identity->key)),
				       id128_of(identity->tenant, strlen(identity->tenant)) };

	return id128_of(parts, sizeof(parts));
}

int ingest_identity_apply(const struct identity *identity, const char *peer,
			  struct profile *profile, struct store_batch_id *batch, struct error *err)
{
	const struct id128 address = id128_of(peer, strlen(peer));
	bool is_local = strcmp(identity->tenant, ACCESS_ALL_TENANTS) == 0;
	int rc = set_label(profile, LABEL_TENANT, ingest_tenant(identity), err);

	if (!rc && identity->node[0])
		rc = set_label(profile, LABEL_NODE, identity->node, err);
	batch->identity = is_local ? address : identity_id(identity);
	// A fleet may share a credential, and still has many clocks.
	const struct id128 parts[] = { batch->identity, address };
	batch->clock = id128_of(parts, sizeof(parts));
	return rc;
}
