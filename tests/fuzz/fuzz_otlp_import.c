// SPDX-License-Identifier: Apache-2.0
// Any bytes as an OTLP request: refused with a word, or samples within their limits, which can be sent again.

#include <stdlib.h>
#include <string.h>

#include "base/import/otlp_import.h"
#include "proto/otlp.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

/** In requests of 4 KiB, which are read as what they are. */
static void send(const struct profile *profile)
{
	const struct batch_id batch = { .sequence = 1 };
	struct otlp_encoder *encoder = NULL;
	struct buffer request = { 0 };
	struct importer importer;
	uint64_t samples;

	check(!otlp_encoder_new(&batch, profile, &encoder, NULL));
	do {
		check(!otlp_encoder_next(encoder, 4096, &request, &samples, NULL));
		check(!importer_init(&importer, 1700000000 * NS_PER_SECOND, 1 << 20));
		check(!otlp_import(&importer, request.bytes, request.size, NULL));
		importer_deinit(&importer);
	} while (samples);
	otlp_encoder_free(encoder);
	buffer_deinit(&request);
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
	if (!rc)
		send(importer.profile);
	importer_deinit(&importer);
	return 0;
}
