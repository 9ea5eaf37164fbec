// SPDX-License-Identifier: Apache-2.0
// Waits for what another thread does. Where that never happens, for want of memory, the test fails and does not hang.
#pragma once

#include <unistd.h>

#include "tests/test.h"

enum { WAIT_TRIES_MAX = 20000 }; // of a millisecond or more

#define WAIT_WHILE(condition)                                                     \
	do {                                                                      \
		for (uint32_t tries = 0; condition; tries++) {                    \
			if (tries == WAIT_TRIES_MAX)                              \
				fail_msg("in vain: waited while %s", #condition); \
			usleep(1000);                                             \
		}                                                                 \
	} while (0)
