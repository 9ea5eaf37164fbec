// SPDX-License-Identifier: Apache-2.0
// `cairn-agent --check`, and `cairn doctor`: can this node be profiled with these settings, and does the collector take
// what is measured? Each finding names its remedy.
#pragma once

#include "agent/options.h"

enum {
	NODE_CHECK_SAMPLE_MS = 500, // how long it samples to see that it works
	NODE_CHECK_COLLECTOR_MS = 5000,
};

/** Print the findings on standard output. Returns the exit status: 1 if profiles would be missing, else 0. */
int node_check(const struct options *options);
