// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes an ExportResponse.
#include "proto/export_message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/v1/collector.pb-c.h"

#include "base/cleanup.h"
#include "proto/message_memory.h"

void export_response_deinit(struct export_response *response)
{
	free(response->unknown_stacks);
	*response = (struct export_response){ 0 };
}

static bool has_refused(const struct export_refused *refused)
{
	return refused->late || refused->future || refused->series || refused->other;
}

/* A message of the wire for each boost. */
struct boost_messages {
	Cairn__V1__Boost items[BOOSTS_OF_AGENT_MAX];
	Cairn__V1__Boost *list[BOOSTS_OF_AGENT_MAX];
};

static void fill_boosts(const struct export_response *response, struct boost_messages *messages,
			Cairn__V1__ExportResponse *message)
{
	for (uint32_t i = 0; i < response->boost_count; i++) {
		const struct boost *boost = &response->boosts[i];
		Cairn__V1__Boost *item = messages->list[i] = &messages->items[i];

		cairn__v1__boost__init(item);
		item->id = boost->id;
		item->left_ms = boost->left_ms;
		item->hz = boost->hz;
		item->profiles = boost->profiles;
		item->stop = boost->stop;
		item->services = (char *)boost->services;
	}
	message->boosts = messages->list;
	message->n_boosts = response->boost_count;
}

int export_response_encode(const struct export_response *response, struct buffer *buffer,
			   struct error *err)
{
	Cairn__V1__ExportResponse message = CAIRN__V1__EXPORT_RESPONSE__INIT;
	size_t ids_size = (size_t)response->unknown_stack_count * ID128_BYTES;
	_cleanup_free_ uint8_t *ids = malloc(ids_size ? ids_size : 1);

	if (!ids)
		return error_set(err, -ENOMEM, "unknown_stacks: out of memory");
	for (uint32_t i = 0; i < response->unknown_stack_count; i++)
		id128_encode(response->unknown_stacks[i], ids + (size_t)i * ID128_BYTES);
	message.unknown_stacks = (ProtobufCBinaryData){ ids_size, ids };
	message.duplicate = response->duplicate;
	message.limited = (char *)response->limited;
	struct boost_messages boosts;
	fill_boosts(response, &boosts, &message);
	Cairn__V1__Refused refused = CAIRN__V1__REFUSED__INIT;
	if (has_refused(&response->refused)) {
		refused.late = response->refused.late;
		refused.future = response->refused.future;
		refused.series = response->refused.series;
		refused.other = response->refused.other;
		refused.accepted_from_ns = response->refused.from_ns;
		refused.accepted_to_ns = response->refused.to_ns;
		message.refused = &refused;
	}

	void *bytes = buffer_extend(buffer, cairn__v1__export_response__get_packed_size(&message));
	if (bytes)
		cairn__v1__export_response__pack(&message, bytes);
	return buffer->rc ? error_errno(err, buffer->rc, "encode a response") : 0;
}

static bool decode_boost(const Cairn__V1__Boost *message, struct boost *ret_boost)
{
	struct boost boost = { .id = message->id,
			       .left_ms = message->left_ms,
			       .hz = message->hz,
			       .profiles = message->profiles & BOOST_PROFILES,
			       .stop = message->stop };

	if (!boost.id || !boost.left_ms || boost.hz > BOOST_HZ_MAX ||
	    boost.left_ms > BOOST_SECONDS_MAX * 1000U ||
	    (!boost.hz && !message->profiles && !boost.stop) ||
	    strlen(message->services) >= BOOST_SERVICES_BYTES)
		return false;
	strcpy(boost.services, message->services);
	*ret_boost = boost;
	return true;
}

static void decode_boosts(const Cairn__V1__ExportResponse *message,
			  struct export_response *response)
{
	for (size_t i = 0; i < message->n_boosts && response->boost_count < BOOSTS_OF_AGENT_MAX;
	     i++)
		response->boost_count +=
			decode_boost(message->boosts[i], &response->boosts[response->boost_count]);
}

static int decode_response(const Cairn__V1__ExportResponse *message,
			   struct export_response *ret_response, struct error *err)
{
	size_t size = message->unknown_stacks.len;

	if (size % ID128_BYTES)
		return error_set(err, -EBADMSG,
				 "unknown_stacks: %zu bytes, expected a multiple of 16", size);
	size_t count = size / ID128_BYTES;
	if (count > PROFILE_STACKS_MAX)
		return error_set(err, -E2BIG, "unknown_stacks: %zu, expected at most %d", count,
				 PROFILE_STACKS_MAX);
	struct id128 *ids = calloc(count ? count : 1, sizeof(*ids));
	if (!ids)
		return error_set(err, -ENOMEM, "unknown_stacks: out of memory");
	for (size_t i = 0; i < count; i++)
		ids[i] = id128_decode(message->unknown_stacks.data + i * ID128_BYTES);
	*ret_response = (struct export_response){ .unknown_stacks = ids,
						  .unknown_stack_count = (uint32_t)count,
						  .duplicate = message->duplicate };
	decode_boosts(message, ret_response);
	snprintf(ret_response->limited, sizeof(ret_response->limited), "%s", message->limited);
	if (message->refused)
		ret_response->refused =
			(struct export_refused){ .late = message->refused->late,
						 .future = message->refused->future,
						 .series = message->refused->series,
						 .other = message->refused->other,
						 .from_ns = message->refused->accepted_from_ns,
						 .to_ns = message->refused->accepted_to_ns };
	return 0;
}

int export_response_decode(const void *bytes, size_t size, struct export_response *ret_response,
			   struct error *err)
{
	_cleanup_(message_memory_deinit) struct message_memory memory;

	message_memory_init(&memory, size);
	Cairn__V1__ExportResponse *message =
		size > EXPORT_MESSAGE_BYTES_MAX
			? NULL
			: cairn__v1__export_response__unpack(&memory.allocator, size, bytes);
	if (!message)
		return message_memory_refusal(&memory, "ExportResponse", size,
					      EXPORT_MESSAGE_BYTES_MAX, err);
	return decode_response(message, ret_response, err);
}
