// SPDX-License-Identifier: Apache-2.0
// How many connections each peer has open, so that one leaves room for others. A peer is who address_peer_name() names: an
// address, or an IPv6 network of 64 bits. Thread-safe.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/address.h"

struct http_peer {
	char name[ADDRESS_PEER_BYTES];
	uint32_t connections;
};

struct http_peers {
	pthread_mutex_t lock;      // guards the fields below
	struct http_peer *peers;   // that have connections
	uint32_t count, count_max; // of all; the server has no more connections than count_max
	uint32_t connections_max;  // of each
};

/** Returns 0 or -ENOMEM. */
int http_peers_init(struct http_peers *peers, uint32_t count_max, uint32_t connections_max);
void http_peers_deinit(struct http_peers *peers);

/** May the peer at @address open a connection? */
bool http_peers_have_room(struct http_peers *peers, const struct sockaddr *address);
/** It opens one; it closes one. */
void http_peers_add(struct http_peers *peers, const struct sockaddr *address);
void http_peers_remove(struct http_peers *peers, const struct sockaddr *address);
