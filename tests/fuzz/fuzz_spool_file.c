// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of the spool: it is refused, or a batch that is written as the same bytes again and unpacked or
// refused. The mutator makes the checksums right, which a fuzzer would hardly find.

#include <stdlib.h>
#include <string.h>

#include "agent/ship/spool_file.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/id128.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed);

enum { CONTENT_CHECK_AT = 40, HEADER_CHECK_AT = SPOOL_FILE_HEADER_BYTES - 8, SIZE_AT = 16 };

static void check(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint8_t again[SPOOL_FILE_HEADER_BYTES];
	struct batch *batch = calloc(1, sizeof(*batch));
	struct spool_file_header header;
	struct error err;

	batch->is_found = true;
	int rc = spool_file_decode_header(bytes, size, size, &header, &err);
	if (spool_file_decode(bytes, size, batch, &err) == 0) {
		check(rc == 0 && header.sample_count == batch->sample_count);
		spool_file_encode_header(&batch->packed, batch->sample_count, again);
		check(memcmp(again, bytes, sizeof(again)) == 0);
		check(batch->packed.size == size - sizeof(again));
		if (batch_unpack(batch, &err) == 0)
			check(batch->sample_count == batch->profile->sample_count);
	}
	batch_free(batch);
	return 0;
}

// A small sound file, which a fuzzer would hardly find.
static size_t sound_file(uint8_t *bytes, size_t size_max)
{
	const struct batch_id id = { .agent = { 1, 2 }, .boot = { 3, 4 }, .sequence = 5 };
	struct profile *profile = profile_new(20 * NS_PER_MS);
	struct location location = { .id = { 1, 1 }, .kind = FRAME_KIND_NATIVE };
	struct labels labels = { 0 };
	uint32_t at = 0, series = 0, stack = 0;

	profile->from_ns = 1700000000 * NS_PER_SECOND;
	profile->to_ns = profile->from_ns + NS_PER_SECOND;
	profile_add_location(profile, &location, NULL, 0, &at);
	labels_set(&labels, LABEL_SERVICE, "llm");
	profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series);
	labels_deinit(&labels);
	profile_add_stack(profile, &at, 1, STACK_END_COMPLETE, &stack);
	profile_add_sample(profile, series, stack, 85000000001, 10);

	struct batch *batch = batch_new(&id, profile);
	size_t size = 0;
	if (batch_pack(batch, NULL) == 0 &&
	    SPOOL_FILE_HEADER_BYTES + batch->packed.size <= size_max) {
		size = SPOOL_FILE_HEADER_BYTES + batch->packed.size;
		spool_file_encode_header(&batch->packed, batch->sample_count, bytes);
		memcpy(bytes + SPOOL_FILE_HEADER_BYTES, batch->packed.bytes, batch->packed.size);
	}
	batch_free(batch);
	return size;
}

static void mend_checks(uint8_t *bytes, size_t size)
{
	uint64_t content_size = size - SPOOL_FILE_HEADER_BYTES;
	struct id128 content = id128_of(bytes + SPOOL_FILE_HEADER_BYTES, content_size);

	memcpy(bytes + SIZE_AT, &content_size, sizeof(content_size));
	memcpy(bytes + CONTENT_CHECK_AT, &content, sizeof(content));
	uint64_t header = id128_of(bytes, HEADER_CHECK_AT).low;
	memcpy(bytes + HEADER_CHECK_AT, &header, sizeof(header));
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed)
{
	if (size < SPOOL_FILE_HEADER_BYTES)
		size = sound_file(bytes, size_max);
	size = LLVMFuzzerMutate(bytes, size, size_max);
	if (size >= SPOOL_FILE_HEADER_BYTES && seed % 4)
		mend_checks(bytes, size);
	return size;
}
