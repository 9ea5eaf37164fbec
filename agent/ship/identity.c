// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/identity.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	MACHINE_ID_BYTES = 33, // 32 hex digits and a NUL, machine-id(5)
	NODE_BYTES_MAX = 253,  // a DNS name, as Kubernetes' nodes and hosts have
};

static void read_machine_id(char id[MACHINE_ID_BYTES])
{
	_cleanup_fclose_ FILE *file = fopen("/etc/machine-id", "re");

	// A freshly installed image says "uninitialized".
	if (!file || !fgets(id, MACHINE_ID_BYTES, file) ||
	    strspn(id, "0123456789abcdef") != MACHINE_ID_BYTES - 1)
		id[0] = 0;
}

int identity_of_start(struct id128 *ret_id, struct error *err)
{
	struct id128 id;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return error_errno(err, -errno, "no random bytes for an id");
	*ret_id = id;
	return 0;
}

int identity_of_node(const char *node, struct id128 *ret_id, struct error *err)
{
	char machine_id[MACHINE_ID_BYTES] = "";
	char host[HOST_NAME_MAX + 1] = "";
	char text[sizeof(machine_id) + NODE_BYTES_MAX + 32];

	read_machine_id(machine_id);
	if (gethostname(host, sizeof(host) - 1))
		host[0] = 0;
	if (!node || !*node)
		node = host;
	if (!*machine_id && !*node)
		return identity_of_start(ret_id, err);
	// Hashed, because machine-id(5) asks not to show the id itself to the network.
	snprintf(text, sizeof(text), "cairn-agent %s %.*s", machine_id, NODE_BYTES_MAX, node);
	*ret_id = id128_of(text, strlen(text));
	return 0;
}
