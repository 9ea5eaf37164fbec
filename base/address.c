// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { HOST_BYTES = 256 };

bool address_is_local(const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t size = colon ? (size_t)(colon - address) : strlen(address);
	char host[HOST_BYTES];
	struct in6_addr six;
	struct in_addr four;

	if (strncmp(address, "unix:", 5) == 0)
		return true;
	if (size >= 2 && address[0] == '[' && address[size - 1] == ']') {
		address++;
		size -= 2;
	}
	if (size >= sizeof(host))
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)size, address);
	if (strcmp(host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}
