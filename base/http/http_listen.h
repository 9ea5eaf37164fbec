// SPDX-License-Identifier: Apache-2.0
// Opens a listening socket at an address as users write it.
#pragma once

#include "base/error.h"

/** Can users write an address so? Returns 0, or -EINVAL with @err. @setting: the option's name, for @err. */
int http_listen_check(const char *address, const char *setting, struct error *err);

/**
 * Listen on @address: "host:port", ":port" (all addresses), "[::1]:port", or "unix:PATH", to which
 * only this user may connect (*ret_port is 0). @setting: the option's name,
 * for @err. Returns 0 (*ret_fd is non-blocking and the caller's); -EINVAL for an invalid address;
 * -EADDRINUSE and others, with the remedy in @err.
 */
int http_listen(const char *address, const char *setting, int *ret_fd, int *ret_port,
		struct error *err);
