// SPDX-License-Identifier: Apache-2.0
// OTEL_RESOURCE_ATTRIBUTES: "service.name=llm,service.version=1.2,team=search", values
// percent-encoded (OpenTelemetry's resource SDK; W3C Baggage).
#pragma once

#include <stddef.h>

#include "base/labels.h"

enum {
	RESOURCE_ATTRIBUTES_MAX = 8,        // besides the well-known ones: LABELS_MAX is for all
	RESOURCE_ATTRIBUTE_VALUE_MAX = 256, // bytes
};

/**
 * Set the attributes as labels: the well-known ones under our names (service.name is "service",
 * k8s.pod.name "pod" and so on), others with what a label's name cannot hold replaced by '_'. Names
 * that are the agent's own to set (node, process, thread) and what tells only about the SDK are
 * left out. @text may be anything. Returns 0 or -ENOMEM.
 */
int resource_attributes_add(struct labels *labels, const char *text, size_t size);
