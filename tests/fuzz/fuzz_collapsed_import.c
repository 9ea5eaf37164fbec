// SPDX-License-Identifier: Apache-2.0
// Any text as collapsed stacks: refused with the line, or samples whose values are those of the lines.

#include <stdlib.h>
#include <string.h>

#include "base/import/collapsed_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const struct labels labels = { 0 };
	const struct import_source source = { .labels = &labels, .from_ns = 1, .to_ns = 2 };
	struct importer importer;
	struct error err = { 0 };

	if (!size)
		return 0;
	check(!importer_init(&importer, 0, size));
	int rc = collapsed_import(&importer, &source, (const char *)bytes + 1, size - 1,
				  bytes[0] % 2 ? COLLAPSED_UNCOUNTED : COLLAPSED_COUNTED, &err);
	check(rc == err.code && (!rc || err.text[0]));
	check(importer.profile->sample_count <= importer.samples);
	importer_deinit(&importer);
	return 0;
}
