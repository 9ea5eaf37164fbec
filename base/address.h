// SPDX-License-Identifier: Apache-2.0
// Addresses as settings have them: HOST:PORT, [IPV6]:PORT, :PORT, unix:PATH.
#pragma once

#include <stdbool.h>

/**
 * Can only processes of this machine reach it: loopback's numbers, "localhost" or a Unix socket? Other
 * names count as reachable from outside, whatever they resolve to now.
 */
bool address_is_local(const char *address);
