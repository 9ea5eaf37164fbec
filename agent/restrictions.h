// SPDX-License-Identifier: Apache-2.0
// What the agent gives up at its start: core dumps, being traced by others, and system calls that it never makes. They make
// it less useful to somebody who gets to run code in it. What kernel or container refuses is posted; the agent goes on.
#pragma once

#include <stdint.h>

#include "base/event_log.h"

struct restrictions;

/**
 * Restrict the calling thread and those it starts from now on, for good. A system call of the list fails with EPERM, and
 * is posted and counted: a library may try one and do without it, and an operator should know. Connections are accepted on
 * @listener only; -1: on none. @events outlives it. NULL where calls are not counted.
 */
struct restrictions *restrictions_impose(struct event_log *events, int listener);

/** System calls refused; @restrictions may be NULL. */
uint64_t restrictions_refused(const struct restrictions *restrictions);

/** Stops counting; the calls stay refused. NULL is allowed. */
void restrictions_free(struct restrictions *restrictions);
