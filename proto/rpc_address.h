// SPDX-License-Identifier: Apache-2.0
// Addresses of clients and servers.
#pragma once

#include "base/error.h"

/**
 * Check that @address is "HOST:PORT", "[IPV6]:PORT" or "unix:PATH", with a port from @port_min. Both open
 * functions check it. Returns 0; -EINVAL with the accepted forms in @err.
 */
int rpc_address_check(const char *address, unsigned port_min, struct error *err);
