// SPDX-License-Identifier: Apache-2.0
// Ends connections whose client is too slow. libmicrohttpd's own timeout ends only those that are quiet: a client that sends
// or reads a byte now and then would hold a connection and an answer for ever.
#pragma once

#include <stdint.h>

struct http_watch;
struct http_watched; // a connection

/** @late is called for each connection that is ended. NULL: no memory or no thread. */
struct http_watch *http_watch_open(void (*late)(void *context), void *context);
/** When all connections are closed. NULL is allowed. */
void http_watch_close(struct http_watch *watch);

/** NULL: out of memory; the connection is not watched. */
struct http_watched *http_watch_add(struct http_watch *watch, int fd);
/** Before the descriptor is closed. NULL is allowed. */
void http_watch_remove(struct http_watch *watch, struct http_watched *watched);
/** Shut the connection down in @ms, unless set again before; 0: never. NULL is allowed. */
void http_watch_set(struct http_watch *watch, struct http_watched *watched, uint64_t ms);
