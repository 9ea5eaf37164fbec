// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/batch.h"

#include <errno.h>
#include <stdlib.h>

#include <zlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"

// Malloc's own words and half-full tables come on top of what a profile's arrays say.
static size_t profile_bytes(const struct profile *profile)
{
	const struct hash_table *tables[] = { &profile->location_index, &profile->stack_index,
					      &profile->series_index, &profile->strings.index };
	size_t bytes = sizeof(*profile) + profile->strings.bytes_capacity +
		       (size_t)profile->strings.capacity * sizeof(uint32_t) +
		       (size_t)profile->line_capacity * sizeof(struct line) +
		       (size_t)profile->location_capacity * sizeof(struct location) +
		       (size_t)profile->stack_location_capacity * sizeof(uint32_t) +
		       (size_t)profile->stack_capacity * sizeof(struct stack) +
		       (size_t)profile->series_capacity * sizeof(struct series) +
		       (size_t)profile->sample_capacity * sizeof(struct sample);

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		bytes += (size_t)tables[i]->slot_count * sizeof(struct hash_table_slot);
	// A label is two short strings of 32 bytes each and its pair.
	for (uint32_t i = 0; i < profile->series_count; i++)
		bytes += (size_t)profile->series[i].labels.count * (64 + sizeof(struct label));
	return bytes;
}

struct batch *batch_new(const struct batch_id *id, struct profile *profile)
{
	struct batch *batch = calloc(1, sizeof(*batch));

	if (!batch) {
		profile_free(profile);
		return NULL;
	}
	batch->id = *id;
	batch->profile = profile;
	batch->memory_bytes = sizeof(*batch) + profile_bytes(profile);
	batch->sample_count = profile->sample_count;
	return batch;
}

void batch_free(struct batch *batch)
{
	if (!batch)
		return;
	profile_free(batch->profile);
	free(batch->packed.bytes);
	free(batch);
}

static bool define_all(void *context, const struct profile *profile, const struct stack *stack)
{
	(void)context, (void)profile, (void)stack;
	return true;
}

int batch_compress(const struct batch *batch, struct packed *ret_packed, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer message = { 0 };
	int rc = export_request_encode(&batch->id, batch->profile, define_all, NULL, &message, err);

	if (rc)
		return rc;
	uLongf size = compressBound(message.size);
	_cleanup_free_ uint8_t *bytes = malloc(size);
	// The fastest level: this runs in the sampling loop while the collector is away.
	if (!bytes || compress2(bytes, &size, message.bytes, message.size, Z_BEST_SPEED) != Z_OK)
		return error_set(err, -ENOMEM, "out of memory for a packed batch");
	uint8_t *exact = realloc(bytes, size);
	bytes = exact ? exact : bytes;
	*ret_packed = (struct packed){ take(bytes), size, message.size };
	return 0;
}

int batch_pack(struct batch *batch, struct error *err)
{
	int rc = batch->packed.bytes ? 0 : batch_compress(batch, &batch->packed, err);

	if (rc)
		return rc;
	profile_free(take(batch->profile));
	batch->memory_bytes = sizeof(*batch) + batch->packed.size;
	return 0;
}

int batch_unpack(struct batch *batch, struct error *err)
{
	const struct packed *packed = &batch->packed;
	uLongf size = packed->message_size;
	struct batch_id id;

	if (batch->profile)
		return 0;
	_cleanup_free_ uint8_t *message = malloc(size);
	if (!message)
		return error_set(err, -ENOMEM, "out of memory for a batch");
	if (uncompress(message, &size, packed->bytes, packed->size) != Z_OK)
		return error_set(err, -EBADMSG, "a packed batch is damaged");
	int rc = export_request_decode(message, size, &id, &batch->profile, NULL, err);
	if (rc)
		return rc;
	if (batch->is_found) {
		batch->id = id;
		batch->sample_count = batch->profile->sample_count;
	}
	batch->memory_bytes = sizeof(*batch) + packed->size + profile_bytes(batch->profile);
	return 0;
}

void batch_unload(struct batch *batch)
{
	profile_free(take(batch->profile));
	free(take(batch->packed.bytes));
	batch->packed = (struct packed){ 0 };
	batch->memory_bytes = sizeof(*batch);
}
