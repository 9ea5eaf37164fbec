// SPDX-License-Identifier: Apache-2.0
// A protobuf message as JSON and back, by protobuf's rules (protobuf.dev/programming-guides/json): lowerCamelCase names, 64-bit
// integers as strings, fields with their default left out.
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/buffer.h"
#include "base/error.h"

/** Append @message. */
void message_json_append(const ProtobufCMessage *message, struct buffer *buffer);

/**
 * Read @text (@size bytes) as a message of @descriptor. Members that it does not have are skipped. Returns 0, and the message is
 * to be freed with protobuf_c_message_free_unpacked(); -EINVAL with the member in @err; -ENOMEM.
 */
int message_json_parse(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t size,
		       ProtobufCMessage **ret_message, struct error *err);
