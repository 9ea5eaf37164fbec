// SPDX-License-Identifier: Apache-2.0
// OTEL_RESOURCE_ATTRIBUTES: "service.name=llm,service.version=1.2,team=search", values percent-encoded (OpenTelemetry's
// resource SDK; W3C Baggage). They are a process's own word and may carry secrets: few of them become labels.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/labels.h"

enum {
	RESOURCE_ATTRIBUTES_MAX = 8,        // besides the well-known ones; LABELS_MAX bounds all
	RESOURCE_ATTRIBUTES_READ_MAX = 128, // per process: SDKs set some 20
	RESOURCE_ATTRIBUTE_VALUE_MAX = 256, // bytes
};

/**
 * Set those attributes as labels that are service.*, deployment.*, or match the operator's @patterns (label_patterns.h):
 * well-known ones under short names (service.name is "service", k8s.pod.name "pod"), others with '_' in place of
 * characters that a label name cannot have. Labels that cairn sets itself cannot be set by an attribute of that name.
 * @text may hold anything. Adds to *refused those that are not allowed, reserved, or too many. Returns 0 or -ENOMEM.
 */
int resource_attributes_add(struct labels *labels, const char *patterns, const char *text,
			    size_t size, uint64_t *refused);
