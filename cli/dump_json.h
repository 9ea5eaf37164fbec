// SPDX-License-Identifier: Apache-2.0
// A process's stacks as JSON, as docs/dump.md describes it.
#pragma once

#include "agent/dump/process_dump.h"
#include "base/buffer.h"

/** Returns 0 or -ENOMEM. */
int dump_json_write(const struct process_dump *dump, bool python_only, struct buffer *text);
