// SPDX-License-Identifier: Apache-2.0
// Who asks, as the rooms above know it: a key, a tenant, a node and roles.
#pragma once

#include "base/tls/tls_server.h"

enum {
	ACCESS_NAME_BYTES = TLS_NAME_BYTES,        // of a credential, with its NUL
	ACCESS_TENANT_BYTES = 64,                  // a label's value and a folder's name
	ACCESS_KEY_BYTES = ACCESS_NAME_BYTES + 16, // "certificate:NAME"
	ACCESS_ENTRIES_MAX = 1 << 14,              // lines of the file: more agents share a pattern
};

enum access_role {
	ACCESS_INGEST = 1 << 0, // send batches
	ACCESS_READ = 1 << 1,   // query, see the page's data and the metrics
	ACCESS_UPLOAD = 1 << 2, // upload debug files
	ACCESS_ADMIN = 1 << 3,  // delete what a tenant stored, boost its agents
};

/** A tenant's name in an identity: all tenants, or those series that have none. */
#define ACCESS_ALL_TENANTS "*"
#define ACCESS_NO_TENANT   ""

struct identity {
	char key[ACCESS_KEY_BYTES]; // "local", "token:NAME", "certificate:NAME", "person:NAME"
	char tenant[ACCESS_TENANT_BYTES];
	char node[ACCESS_NAME_BYTES]; // the name in a client certificate; "": none
	unsigned int roles;           // enum access_role
};
