// SPDX-License-Identifier: Apache-2.0
// In which slots of an export interval threads have time that no stack accounts for. A sampled off-CPU interval has the
// weight of others of its threads, which came before or after it: their time goes where there is room. In its own slot alone it
// would be the time of many threads, and a spike that never was. Pure.
#pragma once

#include <stdint.h>

/** Of one value; a further one is part of the last. */
#define SLOT_PIECES_MAX 4

/** Slots that a value is spread over, evenly. */
struct slot_range {
	uint64_t first, last;
};

struct slot_piece {
	struct slot_range range;
	uint64_t ns;
};

/** Zero-initialized: no room anywhere. */
struct slot_room {
	uint64_t *ns; // by slot
	uint64_t first;
	uint32_t count;
};

/**
 * @total_ns of threads' time in the slots of @range, of @slot_ns each: room for the fewest threads that can have had so much.
 * Returns 0, -ENOMEM, or -E2BIG for a range of more than SLOT_ROOM_SLOTS_MAX slots.
 */
int slot_room_init(struct slot_room *room, struct slot_range range, uint64_t slot_ns,
		   uint64_t total_ns);
void slot_room_deinit(struct slot_room *room);

/** @ns of the slots of @range are accounted for: an even share of each, or what it has. */
void slot_room_take(struct slot_room *room, struct slot_range range, uint64_t ns);

/**
 * Take room for @ns: in @range, then in slots before it, then after it. The first piece is @range with what has no room
 * anywhere; all are @ns together. Returns how many.
 */
uint32_t slot_room_place(struct slot_room *room, struct slot_range range, uint64_t ns,
			 struct slot_piece ret_pieces[SLOT_PIECES_MAX]);
