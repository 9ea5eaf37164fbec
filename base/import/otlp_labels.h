// SPDX-License-Identifier: Apache-2.0
// Which of OpenTelemetry's resource attributes become labels, and which (base/contract/resource_names.h). A sender's attributes
// may hold anything, also secrets (process.environment_variable.*): the others are left out.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/labels.h"

/** Set the label of an attribute, if it is allowed. True if it was. */
bool otlp_label_set(struct labels *labels, const char *name, size_t name_size, const char *value,
		    size_t value_size);

/** Where no attribute named the service: the workload, the container or the executable. Returns 0 or -ENOMEM. */
int otlp_labels_finish(struct labels *labels);
