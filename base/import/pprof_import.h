// SPDX-License-Identifier: Apache-2.0
// Reads a pprof profile (github.com/google/pprof proto/profile.proto), uncompressed.
#pragma once

#include "base/import/importer.h"

enum {
	IMPORT_SAMPLE_LABELS_MAX = 32, // as LABELS_MAX
};

/** Is it probably one? It begins with a field of a profile. */
bool pprof_is_likely(const void *bytes, size_t size);

/**
 * Add the samples of a profile. Each sample type is a profile type of its own; labels of samples with a text become labels,
 * but for ids of spans and traces. Returns 0; -EBADMSG with the field in @err; -EINVAL; -E2BIG; -ENOMEM.
 */
int pprof_import(struct importer *importer, const struct import_source *source, const void *bytes,
		 size_t size, struct error *err);
