// SPDX-License-Identifier: Apache-2.0
// Reads an ExportProfilesServiceRequest of OTLP's profiles signal, opentelemetry.proto.collector.profiles.v1development, with the field
// numbers of opentelemetry-proto 1.10 and 1.11 (string references, one sample type a profile). Older numberings have no dictionary
// where this has one, and are refused.
#pragma once

#include "base/import/importer.h"

/** Attribute of a Profile: cairn's type in five parts, of which OTLP has three. */
#define OTLP_TYPE_ATTRIBUTE "cairn.profile.type"

/**
 * Add the samples of all profiles. Each time of a sample is put into its slot. Samples of a CPU (samples/count with a period in CPU
 * nanoseconds) become CPU time. Native frames without names keep build id and offset. Returns 0; -EBADMSG with the field
 * in @err; -EINVAL; -E2BIG; -ENOMEM.
 */
int otlp_import(struct importer *importer, const void *bytes, size_t size, struct error *err);
