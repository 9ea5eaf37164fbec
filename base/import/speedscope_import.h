// SPDX-License-Identifier: Apache-2.0
// Reads speedscope's files (https://www.speedscope.app/file-format-schema.json), as py-spy, rbspy and others write them.
#pragma once

#include "base/import/importer.h"

/** Is it one? The text names the schema, or has its members. */
bool speedscope_is_likely(const char *text, size_t size);

/**
 * Add the samples of all profiles of a file: "sampled" ones with their weights, one after the other in time, and "evented" ones.
 * A profile's name becomes the label `thread` if there are several. Returns 0; -EBADMSG with the member in @err; -EINVAL; -E2BIG;
 * -ENOMEM.
 */
int speedscope_import(struct importer *importer, const struct import_source *source,
		      const char *text, size_t size, struct error *err);
