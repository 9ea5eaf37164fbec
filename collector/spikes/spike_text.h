// SPDX-License-Identifier: Apache-2.0
// A spike in words. All sentences about spikes are made here.
#pragma once

#include "base/buffer.h"
#include "collector/spikes/spike.h"

/** "Blocked time (lock): 3.81 threads instead of 0.02, for 4.2 s" */
void spike_append_title(struct buffer *text, const struct spike *spike);
/**
 * "94 % of the extra blocked time (lock) is `futex` under `TokenizerPool.encode`, on 2 of 38 pods (a, b), node gpu-17.";
 * nothing if nothing is known.
 */
void spike_append_sentence(struct buffer *text, const struct spike *spike);
/** The page's address of it, from the server's root: "/?at=…&for=…&service=…". */
void spike_append_path(struct buffer *text, const struct spike *spike);
