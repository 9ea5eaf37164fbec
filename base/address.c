// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { HOST_BYTES = 256 };
_Static_assert(ADDRESS_PEER_BYTES == INET6_ADDRSTRLEN, "the longest name is that of an address");

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

void address_peer_name(const struct sockaddr *address, char ret_name[ADDRESS_PEER_BYTES])
{
	struct sockaddr_in6 six;

	snprintf(ret_name, ADDRESS_PEER_BYTES, "unix");
	if (address->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, ret_name,
			  ADDRESS_PEER_BYTES);
	} else if (address->sa_family == AF_INET6) {
		memcpy(&six, address, sizeof(six));
		if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
			inet_ntop(AF_INET, six.sin6_addr.s6_addr + 12, ret_name,
				  ADDRESS_PEER_BYTES);
			return;
		}
		memset(six.sin6_addr.s6_addr + 8, 0, 8);
		inet_ntop(AF_INET6, &six.sin6_addr, ret_name, ADDRESS_PEER_BYTES);
	}
}
