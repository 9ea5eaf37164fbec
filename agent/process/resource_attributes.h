// SPDX-License-Identifier: Apache-2.0
// OTEL_RESOURCE_ATTRIBUTES: "service.name=llm,service.version=1.2,team=search", values
// percent-encoded (OpenTelemetry's resource SDK; W3C Baggage).
#pragma once

#include <stddef.h>

#include "base/labels.h"

enum {
	RESOURCE_ATTRIBUTES_MAX = 8,        // besides the well-known ones; LABELS_MAX bounds all
	RESOURCE_ATTRIBUTE_VALUE_MAX = 256, // bytes
};

/**
 * Set the attributes as labels: well-known ones under short names (service.name is "service", k8s.pod.name "pod"),
 * others with '_' in place of characters that a label name cannot have. Left out: the agent's own labels (node,
 * process, thread) and attributes of the SDK. @text may hold anything. Returns 0 or -ENOMEM.
 */
int resource_attributes_add(struct labels *labels, const char *text, size_t size);
