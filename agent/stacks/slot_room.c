// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/slot_room.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define SLOT_ROOM_SLOTS_MAX \
	8192 // 80 s of the shortest slots: threads that had not been accounted for so long are rare

int slot_room_init(struct slot_room *room, struct slot_range range, uint64_t slot_ns,
		   uint64_t total_ns)
{
	uint64_t count = range.last - range.first + 1, threads;

	if (range.last < range.first || count > SLOT_ROOM_SLOTS_MAX)
		return -E2BIG;
	uint64_t *ns = malloc(count * sizeof(*ns));
	if (!ns)
		return -ENOMEM;
	threads = total_ns / (count * slot_ns) + !!(total_ns % (count * slot_ns));
	for (uint64_t i = 0; i < count; i++)
		ns[i] = threads * slot_ns;
	*room = (struct slot_room){ .ns = ns, .first = range.first, .count = (uint32_t)count };
	return 0;
}

void slot_room_deinit(struct slot_room *room)
{
	free(room->ns);
	*room = (struct slot_room){ 0 };
}

static uint64_t take(uint64_t *ns, uint64_t wanted)
{
	uint64_t taken = *ns < wanted ? *ns : wanted;

	*ns -= taken;
	return taken;
}

/* The slots of @range that the room has: from the index returned up to @ret_end. */
static uint32_t slots_within(const struct slot_room *room, struct slot_range range,
			     uint32_t *ret_end)
{
	uint64_t first = range.first > room->first ? range.first - room->first : 0;
	uint64_t end = range.last >= room->first ? range.last - room->first + 1 : 0;

	*ret_end = end < room->count ? (uint32_t)end : room->count;
	return first < room->count ? (uint32_t)first : room->count;
}

void slot_room_take(struct slot_room *room, struct slot_range range, uint64_t ns)
{
	uint64_t share = ns / (range.last - range.first + 1);
	uint32_t end;

	for (uint32_t i = slots_within(room, range, &end); i < end; i++)
		take(&room->ns[i], share);
}

/* @slot lies beside the last piece: part of it, or of a new one behind a gap. */
static void add_slot(struct slot_piece *pieces, uint32_t *count, uint64_t slot, uint64_t ns)
{
	struct slot_piece *last = &pieces[*count - 1];
	bool is_beside = slot + 1 == last->range.first || slot == last->range.last + 1;

	// The first piece is the range itself.
	if (*count < SLOT_PIECES_MAX && (*count == 1 || !is_beside)) {
		pieces[(*count)++] = (struct slot_piece){ { slot, slot }, ns };
		return;
	}
	if (slot < last->range.first)
		last->range.first = slot;
	if (slot > last->range.last)
		last->range.last = slot;
	last->ns += ns;
}

uint32_t slot_room_place(struct slot_room *room, struct slot_range range, uint64_t ns,
			 struct slot_piece ret_pieces[SLOT_PIECES_MAX])
{
	uint32_t count = 1, end, begin = slots_within(room, range, &end);
	uint64_t left = ns, taken;

	ret_pieces[0] = (struct slot_piece){ .range = range };
	for (uint32_t i = begin; i < end; i++)
		left -= take(&room->ns[i], left);
	ret_pieces[0].ns = ns - left;
	for (uint32_t i = begin; i-- && left;) {
		taken = take(&room->ns[i], left);
		left -= taken;
		if (taken)
			add_slot(ret_pieces, &count, room->first + i, taken);
	}
	for (uint32_t i = end; i < room->count && left; i++) {
		taken = take(&room->ns[i], left);
		left -= taken;
		if (taken)
			add_slot(ret_pieces, &count, room->first + i, taken);
	}
	ret_pieces[0].ns += left;
	return count;
}
