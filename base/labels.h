// SPDX-License-Identifier: Apache-2.0
// Names and values that identify a series: service="llm", node="a17", process="python3".
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id128.h"

enum {
	LABELS_MAX = 32,            // per series; Pyroscope's limit is 30
	LABEL_NAME_BYTES_MAX = 128, // without the NUL
	LABEL_VALUE_BYTES_MAX = 1024,
};

struct label {
	char *name;
	char *value;
};

/** Sorted by name, each name once, no empty values. Owns its strings. A zeroed struct is empty. */
struct labels {
	struct label *pairs;
	uint32_t count;
};

void labels_deinit(struct labels *labels);

/**
 * Set @name to @value, replacing; an empty value removes. Values that are too long are cut, bytes
 * that are not UTF-8 are replaced by '?'.
 * Returns 0; -ENOMEM; -E2BIG at LABELS_MAX; -EINVAL if the name is not [a-zA-Z_][a-zA-Z0-9_]* or
 * too long. On failure the labels are unchanged.
 */
int labels_set(struct labels *labels, const char *name, const char *value);

/** The value, or NULL. */
const char *labels_get(const struct labels *labels, const char *name);

/** Deep copy into an empty @ret_copy. Returns 0 or -ENOMEM. */
int labels_copy(const struct labels *labels, struct labels *ret_copy);

bool labels_equal(const struct labels *labels, const struct labels *other);

/** A hash of all names and values, equal wherever it is computed. */
struct id128 labels_id(const struct labels *labels);

/**
 * Read "name=value" (as --label takes it) into @labels.
 * Returns 0, or a negative errno and @err with the remedy.
 */
int labels_parse_pair(struct labels *labels, const char *pair, struct error *err);
