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

static struct time_range within(struct time_range range, struct time_range hull)
{
	if (range.from_ns < hull.from_ns)
		range.from_ns = hull.from_ns;
	if (range.to_ns > hull.to_ns)
		range.to_ns = hull.to_ns;
	return range;
}

static void add_block(struct time_blocks *blocks, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns < to_ns)
		blocks->blocks[blocks->count++] = (struct time_range){ from_ns, to_ns };
}

/** Add the blocks of @range: what lies before the hull, the hull's cut by @length, what lies after it. */
static void cut_range(struct time_blocks *blocks, struct time_range range, struct time_range hull,
		      uint64_t length)
{
	struct time_range inside = within(range, hull);

	if (inside.from_ns >= inside.to_ns) {
		add_block(blocks, range.from_ns, range.to_ns);
		return;
	}
	add_block(blocks, range.from_ns, inside.from_ns);
	for (uint64_t at = inside.from_ns; at < inside.to_ns;) {
		uint64_t next = (at / length + 1) * length;

		if (next > inside.to_ns)
			next = inside.to_ns;
		add_block(blocks, at, next);
		at = next;
	}
	add_block(blocks, inside.to_ns, range.to_ns);
}

int time_blocks_of(const struct time_range *ranges, uint32_t count, struct time_range hull,
		   struct time_blocks *ret_blocks)
{
	struct time_blocks blocks = { .count = 0 };
	uint64_t total_ns = 0;

	if (count < 1 || count > QUERY_RANGES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++) {
		struct time_range inside = within(ranges[i], hull);

		if (ranges[i].from_ns >= ranges[i].to_ns)
			return -EINVAL;
		total_ns += inside.from_ns < inside.to_ns ? inside.to_ns - inside.from_ns : 0;
	}
	for (uint32_t i = 0; i < count; i++)
		cut_range(&blocks, ranges[i], hull, block_length(total_ns));
	*ret_blocks = blocks;
	return 0;
}
