// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of each format: refused with a word, or samples within their limits. The first byte chooses the format.

#include <stdlib.h>
#include <string.h>

#include "base/import/import_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const struct labels labels = { 0 };
	const struct import_source source = { .labels = &labels,
					      .end_ns = 1700000000 * NS_PER_SECOND };
	struct importer importer;
	struct error err = { 0 };
	enum import_format format;

	if (size < 2)
		return 0;
	import_format_of(bytes + 1, size - 1, &format, NULL);
	format = (enum import_format)(bytes[0] % (IMPORT_COLLAPSED + 1));
	check(!importer_init(&importer, 1700000000 * NS_PER_SECOND, size));
	// A block of its own size shows who reads too far.
	uint8_t *copy = malloc(size - 1);
	memcpy(copy, bytes + 1, size - 1);
	int rc = import_file(&importer, &source, format, bytes[0] / 8, copy, size - 1, &err);
	check(rc == err.code && (!rc || err.text[0]));
	check(importer.profile->sample_count <= size);
	for (uint32_t i = 0; i < importer.profile->sample_count; i++)
		check(importer.profile->samples[i].more_slots < 3000);
	free(copy);
	importer_deinit(&importer);
	return 0;
}
