// SPDX-License-Identifier: Apache-2.0
// The agent's figures as Prometheus text: what the log and the series of its counters say, too.
#pragma once

#include "agent/stats.h"
#include "base/buffer.h"

/** Since the agent's start. A failure sticks in @buffer. */
void metrics_encode(const struct stats *stats, struct buffer *buffer);
