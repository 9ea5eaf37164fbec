// SPDX-License-Identifier: Apache-2.0
// OpenTelemetry's resource attributes (its semantic conventions) and the labels that they are here: what a process says of itself,
// what a sender of profiles says of a process, and what the agent says of one in OTLP.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum resource_use {
	RESOURCE_OF_PROCESS = 1, // OTEL_RESOURCE_ATTRIBUTES becomes the label, where it is allowed
	RESOURCE_OF_SENDER = 2,  // what somebody else profiled
	RESOURCE_OF_LABEL = 4,   // the label becomes the attribute
};

struct resource_name {
	const char *attribute;
	const char *label;
	uint32_t uses;             // of enum resource_use
	const char *workload_kind; // the attribute names a workload of this kind; NULL: it does not
};

/** All of them. Of several attributes that a process sets for one label, that of the last row counts. */
const struct resource_name *resource_names(uint32_t *ret_count);
/** The row of @attribute for @use, or NULL. */
const struct resource_name *resource_name_find(const char *attribute, enum resource_use use);

/**
 * Allowed on every machine, and from every sender: they name a deployment, and nobody keeps secrets in them. Other attributes
 * may hold anything.
 */
bool resource_name_is_allowed(const char *attribute);

/** The attribute that says what @label does; NULL: none. @workload_kind: of LABEL_WORKLOAD, else NULL. */
const char *resource_name_of_label(const char *label, const char *workload_kind);
