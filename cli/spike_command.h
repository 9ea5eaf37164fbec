// SPDX-License-Identifier: Apache-2.0
// The command that shows what a spike is made of.
#pragma once

#include <jansson.h>

#include "base/buffer.h"

/**
 * Append the `cairn query` of @spike, an item of /api/v1/spikes, between the times @from and @to, for a shell; with
 * --collector-http unless @collector_http is the default.
 */
void spike_command_append(struct buffer *text, const json_t *spike, const char *from,
			  const char *to, const char *collector_http);
