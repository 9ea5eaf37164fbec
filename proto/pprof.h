// SPDX-License-Identifier: Apache-2.0
// Encodes a profile as a pprof file: a gzipped profile.proto, for `go tool pprof`, Grafana and
// others.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/profile/profile.h"

/**
 * Append the samples of @type. There is one pprof sample per series and stack, summed over slots, with
 * the series' labels. The outermost frame of a truncated stack is "[truncated: reason]"; a frame without
 * a name is "module+0xoffset". Addresses are offsets in the module's file.
 *
 * Returns 0; -EINVAL if @type does not have five parts; -ENOMEM; -E2BIG (too many distinct functions);
 * -EFBIG (the buffer's limit is reached).
 */
int pprof_encode(const struct profile *profile, const char *type, struct buffer *buffer,
		 struct error *err);
/** The same, not compressed: the message itself. */
int pprof_encode_plain(const struct profile *profile, const char *type, struct buffer *buffer,
		       struct error *err);
/**
 * As pprof_encode(), with the period of sampling in the type's unit, and a sample type samples/count before the type's own: values
 * in periods, rounded, and at least 1.
 */
int pprof_encode_sampled(const struct profile *profile, const char *type, uint64_t period,
			 struct buffer *buffer, struct error *err);
