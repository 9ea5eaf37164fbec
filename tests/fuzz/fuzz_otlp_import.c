// SPDX-License-Identifier: Apache-2.0
// Any bytes as an OTLP request: refused with a word, or samples within their limits.

#include <stdlib.h>
#include <string.h>

#include "base/import/otlp_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint64_t rows_max = 64 + size / 8;
	struct importer importer;
	struct error err = { 0 };

	check(!importer_init(&importer, 1700000000 * NS_PER_SECOND, rows_max));
	int rc = otlp_import(&importer, bytes, size, &err);
	check(rc == err.code && (!rc || err.text[0]));
	check(importer.profile->sample_count <= rows_max);
	for (uint32_t i = 0; i < importer.profile->sample_count; i++) {
		const struct sample *sample = &importer.profile->samples[i];

		check(sample->stack < importer.profile->stack_count);
		check(sample->series < importer.profile->series_count);
		check(sample->more_slots < 3000); // a minute
		check(sample->value <= IMPORT_VALUE_MAX && sample->value >= -IMPORT_VALUE_MAX);
	}
	importer_deinit(&importer);
	return 0;
}
