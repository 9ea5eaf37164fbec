// SPDX-License-Identifier: Apache-2.0
// Any text as a message in JSON: refused, or a sound message in the wire format that is not much larger.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/import/wire.h"
#include "collector/doors/json_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct json_field inner[] = { { "text", 1, JSON_TEXT, NULL },
					   { "bytes", 2, JSON_BASE64, NULL },
					   { "n", 3, JSON_INTEGER, NULL },
					   { "f", 4, JSON_FIXED64, NULL },
					   { "d", 5, JSON_DOUBLE, NULL },
					   { "b", 6, JSON_BOOL, NULL },
					   { 0 } };
static const struct json_field outer[] = { { "o", 1, JSON_OBJECT, inner },
					   { "aB", 2, JSON_TEXT, NULL },
					   { 0 } };

static void check(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct buffer message = { .size_max = 4 * size + 64 };
	struct wire_field field;
	struct error err = { 0 };
	int rc = json_message_encode(outer, (const char *)bytes, size, &message, &err);

	check(rc == err.code && rc != -EFBIG);
	struct reader reader = wire_reader(message.bytes, message.size);
	while (!rc && wire_next(&reader, &field))
		check(field.number == 1 || field.number == 2);
	check(rc || !reader.failed);
	buffer_deinit(&message);
	return 0;
}
