// SPDX-License-Identifier: Apache-2.0
// Addresses as settings have them (HOST:PORT, [IPV6]:PORT, :PORT, unix:PATH), and those of peers.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

enum { ADDRESS_PEER_BYTES = 46 }; // INET6_ADDRSTRLEN

/**
 * Can only processes of this machine reach it: loopback's numbers, "localhost" or a Unix socket? Other
 * names count as reachable from outside, whatever they resolve to now.
 */
bool address_is_local(const char *address);

/**
 * Who is at @address, without the port: "10.0.0.7", also where IPv6 carries it; of IPv6 the network of 64 bits, because one host
 * has all of it; "unix".
 */
void address_peer_name(const struct sockaddr *address, char ret_name[ADDRESS_PEER_BYTES]);
