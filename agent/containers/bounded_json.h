// SPDX-License-Identifier: Apache-2.0
// JSON of others, by jansson within a bound of memory: nested empty lists take 40 bytes a byte. The only user of jansson in
// this room, beside those who read what it returns.
#pragma once

#include <stddef.h>

#include <jansson.h>

#include "base/cleanup.h"

enum { JSON_MEMORY_MAX = 24 << 20 }; // of a thread, while an object is read

/** NULL: no JSON, or too much of it. Free it in the same thread. */
json_t *bounded_json_parse(const char *text, size_t size);

static inline void bounded_json_free(json_t **json)
{
	json_decref(*json);
}

#define _cleanup_json_ _cleanup_(bounded_json_free)

/** "" for what is no string. */
const char *bounded_json_string(const json_t *object, const char *key);
