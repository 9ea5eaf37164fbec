// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/bounded_json.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

static _Thread_local size_t memory_used;

static void *bounded_malloc(size_t size)
{
	if (size > JSON_MEMORY_MAX || memory_used > JSON_MEMORY_MAX - size)
		return NULL;
	void *memory = malloc(size);
	memory_used += malloc_usable_size(memory);
	return memory;
}

/* What was allocated before the bound was set is not in the sum. */
static void bounded_free(void *memory)
{
	size_t size = malloc_usable_size(memory);

	memory_used -= size < memory_used ? size : memory_used;
	free(memory);
}

static void set_bound(void)
{
	json_set_alloc_funcs(bounded_malloc, bounded_free);
}

json_t *bounded_json_parse(const char *text, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, set_bound);
	return json_loadb(text, size, 0, NULL);
}

const char *bounded_json_string(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}
