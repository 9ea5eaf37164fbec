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
/** What a pprof file has beside the samples of one type. */
struct pprof_options {
	const char *const *types; // of five parts: a sample type each, the first is the default
	uint32_t type_count;      // 1 to PPROF_TYPES_MAX
	// Of sampling, in the unit of the first type: there is a sample type samples/count before it, with values in periods,
	// rounded, and at least 1. 0: none.
	uint64_t period;
};

enum { PPROF_TYPES_MAX = 8 };

/** As pprof_encode(), with @options. A sample has a value of its own type, and 0 of the others. */
int pprof_encode_types(const struct profile *profile, const struct pprof_options *options,
		       struct buffer *buffer, struct error *err);
