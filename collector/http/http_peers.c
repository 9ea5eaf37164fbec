// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_peers.h"

#include <string.h>

#include "base/array.h"

int http_peers_init(struct http_peers *peers, uint32_t count_max, uint32_t connections_max)
{
	*peers = (struct http_peers){ .count_max = count_max, .connections_max = connections_max };
	pthread_mutex_init(&peers->lock, NULL);
	return array_allocate(&peers->peers, count_max, sizeof(*peers->peers));
}

void http_peers_deinit(struct http_peers *peers)
{
	pthread_mutex_destroy(&peers->lock);
	free(peers->peers);
}

/* Needs the lock. */
static struct http_peer *find(const struct http_peers *peers, const char *name)
{
	for (uint32_t i = 0; i < peers->count; i++)
		if (strcmp(peers->peers[i].name, name) == 0)
			return &peers->peers[i];
	return NULL;
}

bool http_peers_have_room(struct http_peers *peers, const struct sockaddr *address)
{
	char name[ADDRESS_PEER_BYTES];

	address_peer_name(address, name);
	pthread_mutex_lock(&peers->lock);
	const struct http_peer *peer = find(peers, name);
	bool has_room =
		peer ? peer->connections < peers->connections_max : peers->count < peers->count_max;
	pthread_mutex_unlock(&peers->lock);
	return has_room;
}

void http_peers_add(struct http_peers *peers, const struct sockaddr *address)
{
	char name[ADDRESS_PEER_BYTES];

	address_peer_name(address, name);
	pthread_mutex_lock(&peers->lock);
	struct http_peer *peer = find(peers, name);
	if (!peer && peers->count < peers->count_max) {
		peer = &peers->peers[peers->count++];
		*peer = (struct http_peer){ 0 };
		memcpy(peer->name, name, sizeof(name));
	}
	if (peer)
		peer->connections++;
	pthread_mutex_unlock(&peers->lock);
}

void http_peers_remove(struct http_peers *peers, const struct sockaddr *address)
{
	char name[ADDRESS_PEER_BYTES];

	address_peer_name(address, name);
	pthread_mutex_lock(&peers->lock);
	struct http_peer *peer = find(peers, name);
	if (peer && !--peer->connections)
		*peer = peers->peers[--peers->count];
	pthread_mutex_unlock(&peers->lock);
}
