// SPDX-License-Identifier: Apache-2.0
// Which files' symbols are missing: frames that have a build id and no name, by file. Pure.
#pragma once

#include <stdint.h>

#include "base/profile/profile.h"

struct missing_file {
	uint32_t build_id, module; // the profile's strings
	int64_t value;             // of samples with such a frame; each counts once
};

/**
 * The files of @profile, of query_profile(), the largest values first. *ret_files is the caller's, also if there are none; *ret_total
 * is the value of all samples. Returns 0 or -ENOMEM.
 */
int missing_symbols_of(const struct profile *profile, struct missing_file **ret_files,
		       uint32_t *ret_count, int64_t *ret_total);
