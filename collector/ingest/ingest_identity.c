// SPDX-License-Identifier: Apache-2.0
#include "collector/ingest/ingest_identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/contract/label_names.h"

enum rpc_status ingest_admit(void *context, const struct rpc_visitor *visitor, void **ret_caller,
			     struct error *err)
{
	const struct access_request request = {
		.address = visitor->peer,
		.authorization = visitor->authorization,
		.tls_session = visitor->tls_session,
	};
	struct identity *identity = malloc(sizeof(*identity));
	int rc = identity ? access_identify(context, &request, identity, err)
			  : error_set(err, -ENOMEM, "out of memory");
	bool known = !rc;

	if (!rc)
		rc = access_check(identity, ACCESS_INGEST, err);
	if (!rc) {
		*ret_caller = identity;
		return RPC_OK;
	}
	free(identity);
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
	int rc = set_label(profile, LABEL_TENANT, is_local ? "" : identity->tenant, err);

	if (!rc && identity->node[0])
		rc = set_label(profile, LABEL_NODE, identity->node, err);
	batch->identity = is_local ? address : identity_id(identity);
	// A fleet may share a credential, and still has many clocks.
	const struct id128 parts[] = { batch->identity, address };
	batch->clock = id128_of(parts, sizeof(parts));
	return rc;
}
