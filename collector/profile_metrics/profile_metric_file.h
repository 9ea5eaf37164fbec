// SPDX-License-Identifier: Apache-2.0
// The file of --profile-metrics: which functions' shares Prometheus gets.
//
//     - name: json
//       type: cpu                     # or five parts; cpu if it is left out
//       query: '{namespace="shop"}'   # all series if it is left out
//       function: 'json\.(loads|dumps).*'
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/regex.h"

enum {
	PROFILE_METRICS_MAX = 32, // each is a query a minute
	PROFILE_METRIC_TEXT_BYTES_MAX = 1024,
	PROFILE_METRIC_NAME_BYTES_MAX = 64,
	PROFILE_METRIC_FILE_BYTES_MAX = 64 << 10,
	PROFILE_METRIC_MATCH_STEPS_MAX = 10000, // of a function's name
};

struct profile_metric {
	char *name;
	char *type_text, *query, *function; // as written; NULL: left out
	const char *type;                   // in five parts
	struct regex *regex;                // of functions' names, whole
};

/** A zeroed struct is empty. */
struct profile_metric_list {
	struct profile_metric metrics[PROFILE_METRICS_MAX];
	uint32_t count;
};

/** Returns 0; -EINVAL with the line in @err; -ENOMEM; -errno. @ret_list is to be deinitialized in any case. */
int profile_metric_file_read(const char *path, struct profile_metric_list *ret_list,
			     struct error *err);
void profile_metric_list_deinit(struct profile_metric_list *list);
