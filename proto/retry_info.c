// SPDX-License-Identifier: Apache-2.0
#include "proto/retry_info.h"

#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/import/wire.h"
#include "proto/wire_append.h"

#define RETRY_INFO "google.rpc.RetryInfo" // the end of its type's URL

/** google.protobuf.Duration {1 seconds, 2 nanos} */
static uint32_t read_duration(const struct wire_field *message)
{
	struct reader reader = wire_message(message);
	struct wire_field field;
	uint64_t seconds = 0, ns = 0;

	while (wire_next(&reader, &field)) {
		if (field.number == 1)
			seconds = field.value;
		else if (field.number == 2)
			ns = field.value;
	}
	if (seconds >= RETRY_PAUSE_MS_MAX / 1000 || ns > 999999999)
		return (int64_t)seconds < 0 || (int64_t)ns < 0 ? 1 : RETRY_PAUSE_MS_MAX;
	uint32_t ms = (uint32_t)(seconds * 1000 + ns / 1000000);
	return ms ? ms : 1;
}

/** google.protobuf.Any {1 type_url, 2 value}; RetryInfo {1 retry_delay}. 0: another type. */
static uint32_t read_detail(const struct wire_field *message)
{
	struct reader reader = wire_message(message);
	struct wire_field field, delay;
	struct wire_text type = { "", 0 };
	struct reader value = { 0 };
	size_t size = strlen(RETRY_INFO);

	while (wire_next(&reader, &field)) {
		if (field.number == 1)
			type = wire_string(&field);
		else if (field.number == 2)
			value = wire_message(&field);
	}
	if (type.size < size || memcmp(type.at + type.size - size, RETRY_INFO, size) != 0)
		return 0;
	while (wire_next(&value, &delay))
		if (delay.number == 1)
			return read_duration(&delay);
	return 1;
}

/** Base64 as gRPC's headers of bytes have it: without padding. */
static void encode_base64(const struct buffer *bytes, char text[RETRY_INFO_TEXT_BYTES])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t bit_count = 8 * bytes->size, at = 0;

	for (size_t bit = 0; bit < bit_count && at + 1 < RETRY_INFO_TEXT_BYTES; bit += 6) {
		size_t byte = bit / 8;
		unsigned int pair = (unsigned int)bytes->bytes[byte] << 8 |
				    (byte + 1 < bytes->size ? bytes->bytes[byte + 1] : 0);

		text[at++] = digits[pair >> (10 - bit % 8) & 63];
	}
	text[at] = '\0';
}

void retry_info_encode(int status, uint32_t pause_ms, char ret_text[RETRY_INFO_TEXT_BYTES])
{
	_cleanup_(buffer_deinit) struct buffer delay = { 0 }, info = { 0 }, detail = { 0 },
					       message = { 0 };

	pause_ms = pause_ms < RETRY_PAUSE_MS_MAX ? pause_ms : RETRY_PAUSE_MS_MAX;
	wire_append_number(&delay, 1, pause_ms / 1000);
	wire_append_number(&delay, 2, pause_ms % 1000 * 1000000ULL);
	wire_append_message(&info, 1, &delay);
	wire_append_text(&detail, 1, "type.googleapis.com/" RETRY_INFO);
	wire_append_message(&detail, 2, &info);
	wire_append_number(&message, 1, (uint64_t)status);
	wire_append_message(&message, 3, &detail);
	encode_base64(&message, ret_text);
}

uint32_t retry_info_pause_ms(const void *bytes, size_t size)
{
	struct reader reader = wire_reader(bytes, size);
	struct wire_field field;
	uint32_t pause_ms = 0;

	// Status {1 code, 2 message, 3 details[]}
	while (!pause_ms && wire_next(&reader, &field))
		if (field.number == 3)
			pause_ms = read_detail(&field);
	return pause_ms;
}
