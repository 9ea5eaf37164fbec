// SPDX-License-Identifier: Apache-2.0
// What the in-process profiler reports, for people at a terminal.
#pragma once

#include <stddef.h>

#include "base/event_log.h"

/** Print all that wait on standard error, each as a line of @command. */
void profiler_events_print(struct event_log *events, const char *command);

/** Take all that wait; the last one goes to @text, which stays as it is if there is none. */
void profiler_events_take_last(struct event_log *events, char *text, size_t size);
