// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/failed_code.h"

#include "base/clock.h"

#define WAIT_NS_MIN (10 * NS_PER_SECOND)
#define WAIT_NS_MAX (600 * NS_PER_SECOND)

/* Its entry; FAILED_CODE_MAPPINGS_MAX: none. */
static uint32_t find(const struct failed_code *failed, uint64_t start)
{
	for (uint32_t i = 0; i < failed->count; i++)
		if (failed->mappings[i].start == start)
			return i;
	// The last entry is that of all others.
	return failed->count == FAILED_CODE_MAPPINGS_MAX ? failed->count - 1
							 : FAILED_CODE_MAPPINGS_MAX;
}

bool failed_code_may_try(const struct failed_code *failed, uint64_t start, uint64_t now_ns)
{
	uint32_t at = find(failed, start);

	return at == FAILED_CODE_MAPPINGS_MAX || now_ns >= failed->mappings[at].due_ns;
}

void failed_code_add(struct failed_code *failed, uint64_t start, uint64_t now_ns)
{
	uint32_t at = find(failed, start);
	struct failed_mapping *mapping;

	if (at == FAILED_CODE_MAPPINGS_MAX) {
		at = failed->count++;
		failed->mappings[at] =
			(struct failed_mapping){ .start = start, .tries = FAILED_CODE_TRIES };
	}
	mapping = &failed->mappings[at];
	if (mapping->tries && --mapping->tries)
		return;
	mapping->tries = FAILED_CODE_TRIES_AGAIN;
	mapping->wait_ns = !mapping->wait_ns                    ? WAIT_NS_MIN
			   : mapping->wait_ns * 2 < WAIT_NS_MAX ? mapping->wait_ns * 2
								: WAIT_NS_MAX;
	mapping->due_ns = now_ns + mapping->wait_ns;
}

void failed_code_remove(struct failed_code *failed, uint64_t start)
{
	uint32_t at = find(failed, start);

	if (at == FAILED_CODE_MAPPINGS_MAX)
		return;
	failed->mappings[at] = failed->mappings[--failed->count];
}
