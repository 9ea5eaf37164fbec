// SPDX-License-Identifier: Apache-2.0
// The agent's HTTP listener for probes and metrics: /healthz, /readyz, /metrics. It has a thread of its own, and asks
// the main loop for a report when its last one is old. Nothing can be changed through it, and it shows no profile.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/error.h"

enum {
	ADMIN_CONNECTIONS_MAX = 16,
	ADMIN_CONNECTIONS_PER_IP_MAX = 8,
	ADMIN_HEADER_BYTES_MAX = 16 << 10, // with libmicrohttpd's own state
	ADMIN_IDLE_S_MAX = 5,
	ADMIN_WAIT_MS_MAX = 3000, // for a report; then the main loop hangs
	ADMIN_REASON_BYTES = 200,
};

/* A report is shown for so long before the main loop is asked for another. */
#define ADMIN_REPORT_NS_MIN (1 * NS_PER_SECOND)

/** What the main loop knows of the agent. Texts are copied. */
struct admin_report {
	const char *metrics; // in Prometheus's text format
	size_t metrics_size;
	const char *not_ready; // why; NULL: it is ready
};

struct admin_server;

/**
 * Serve on the listening socket @fd, which is the server's from now on, and of which @address is the name. Returns 0 or a negative
 * errno with @err.
 */
int admin_server_open(const char *address, int fd, struct admin_server **ret_server,
		      struct error *err);
/** NULL is allowed. */
void admin_server_close(struct admin_server *server);

/** Readable when a report is wanted; for the main loop. Owned by the server. */
int admin_server_fd(const struct admin_server *server);
/** The main loop answers. */
void admin_server_report(struct admin_server *server, const struct admin_report *report);
