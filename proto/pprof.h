// SPDX-License-Identifier: Apache-2.0
// A profile as a pprof file: a gzipped profile.proto, for `go tool pprof`, Grafana and others.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/profile.h"

/**
 * Append the samples of @type. One pprof sample stands for a series and a stack, over all slots;
 * the series' labels are its labels. A stack that was cut has "[truncated: reason]" as its
 * outermost frame; a frame without a name is called "module+0xoffset". Addresses are offsets in
 * the module's file.
 *
 * Returns 0; -EINVAL if @type has not five parts; -ENOMEM; -E2BIG for more distinct functions than
 * there are numbers; -EFBIG when the buffer's limit is hit.
 */
int pprof_encode(const struct profile *profile, const char *type, struct buffer *buffer,
		 struct error *err);
