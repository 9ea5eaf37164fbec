// SPDX-License-Identifier: Apache-2.0
// A spike's words in JSON.
#pragma once

#include "base/buffer.h"
#include "collector/spikes/spike.h"

/** Append "title", "sentence" and "path" as members, with commas between. */
void spike_json_append_words(struct buffer *body, const struct spike *spike);
