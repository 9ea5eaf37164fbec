// SPDX-License-Identifier: Apache-2.0
// Labels of series that belong to no process: the agent's own, and those of a whole machine's GPUs.
#pragma once

#include "base/labels.h"

/**
 * @extra (--label; may be NULL), the node unless it names one, and @service. *@ret_labels is zeroed
 * before. Returns 0 or -ENOMEM; the caller frees the labels in any case.
 */
int own_labels(const struct labels *extra, const char *service, struct labels *ret_labels);
