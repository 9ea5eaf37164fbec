// SPDX-License-Identifier: Apache-2.0
// Labels that only relabel rules see: "__meta_kubernetes_pod_label_team". Names and values come from users.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum {
	META_LABELS_MAX = 128,             // of a process, with its pod's
	META_LABELS_BYTES_MAX = 16 << 10,  // of a process: annotations alone may have 256 KiB
	META_LABEL_NAME_BYTES_MAX = 384,   // a pod's label has 317, its prefix some 50
	META_LABEL_VALUE_BYTES_MAX = 1024, // as a label's
};

/** In the order in which they were added. A zeroed struct is empty. */
struct meta_labels {
	struct buffer pairs; // name, NUL, value, NUL, ...
	uint32_t count;
	uint32_t dropped; // without room
};

void meta_labels_deinit(struct meta_labels *meta);

/**
 * Add @prefix with @name, in which '_' stands for what a label's name cannot have. A value that is too long is cut, an empty
 * one is no label. Returns 0 or -ENOMEM.
 */
int meta_labels_add(struct meta_labels *meta, const char *prefix, const char *name,
		    const char *value);
/** Add all of @other. Returns 0 or -ENOMEM. */
int meta_labels_add_all(struct meta_labels *meta, const struct meta_labels *other);

bool meta_labels_equal(const struct meta_labels *meta, const struct meta_labels *other);

/** The label at @at, 0 for the first; @at is the next one's then. False: there is none. */
bool meta_labels_next(const struct meta_labels *meta, size_t *at, const char **ret_name,
		      const char **ret_value);

/** The name that meta_labels_add() makes. */
void meta_labels_name(const char *prefix, const char *name,
		      char ret_name[META_LABEL_NAME_BYTES_MAX + 1]);
