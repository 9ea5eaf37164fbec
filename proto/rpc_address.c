// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_address.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int rpc_address_check(const char *address, unsigned port_min, struct error *err)
{
	if (!strncmp(address, "unix:", 5)) {
		// sun_path's size: gRPC cuts a longer path silently.
		if (address[5] && strlen(address + 5) < 108)
			return 0;
		return error_set(err, -EINVAL,
				 "address \"%s\": expected a socket path of 1 to 107 bytes",
				 address);
	}

	const char *colon = strrchr(address, ':');
	bool bracketed = *address == '[' && colon && colon[-1] == ']';
	if (!colon || colon == address || (!bracketed && memchr(address, ':', colon - address)))
		return error_set(err, -EINVAL,
				 "address \"%s\": expected HOST:PORT, [IPV6]:PORT or unix:PATH",
				 address);

	char *end;
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || port < port_min || port > 65535)
		return error_set(err, -EINVAL, "address \"%s\": expected a port from %u to 65535",
				 address, port_min);
	return 0;
}
