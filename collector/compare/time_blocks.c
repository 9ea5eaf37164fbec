// SPDX-License-Identifier: Apache-2.0
#include "collector/compare/time_blocks.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/store/rows.h"

#define SLOT_NS (20 * NS_PER_MS) // an agent's time slot

/** A round length that cuts @total_ns into at most TIME_BLOCKS_WANTED blocks. */
static uint64_t block_length(uint64_t total_ns)
{
	static const uint64_t units[] = { MINUTE_NS, NS_PER_SECOND, SLOT_NS };
	uint64_t wanted = (total_ns + TIME_BLOCKS_WANTED - 1) / TIME_BLOCKS_WANTED;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (wanted > units[i])
			return (wanted + units[i] - 1) / units[i] * units[i];
	return SLOT_NS;
}

int time_blocks_of(const struct time_range *ranges, uint32_t count, struct time_blocks *ret_blocks)
{
	struct time_blocks blocks = { .count = 0 };
	uint64_t total_ns = 0;

	if (count < 1 || count > QUERY_RANGES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++) {
		if (ranges[i].from_ns >= ranges[i].to_ns)
			return -EINVAL;
		total_ns += ranges[i].to_ns - ranges[i].from_ns;
	}

	uint64_t length = block_length(total_ns);
	for (uint32_t i = 0; i < count; i++) {
		for (uint64_t at = ranges[i].from_ns; at < ranges[i].to_ns;) {
			uint64_t next = (at / length + 1) * length;

			if (next > ranges[i].to_ns)
				next = ranges[i].to_ns;
			blocks.blocks[blocks.count++] = (struct time_range){ at, next };
			at = next;
		}
	}
	*ret_blocks = blocks;
	return 0;
}
