// SPDX-License-Identifier: Apache-2.0
// The weight of sampled intervals goes where their threads have time left.
#include <errno.h>

#include "tests/test.h"

#include "agent/stacks/slot_room.h"

#define SLOT_NS 20000000ULL

/* Ten slots from slot 100 on, of which some are accounted for; then a value is placed. Times in slots. */
struct row {
	const char *what;
	double total;
	struct slot_range exact;
	double exact_ns;
	struct slot_range range;
	double ns;
	struct {
		uint64_t first, last;
		double ns;
	} pieces[SLOT_PIECES_MAX];
};

static const struct row rows[] = {
	{ "in its own slot", 10, { 100, 100 }, 0, { 105, 105 }, 1, { { 105, 105, 1 } } },
	{ "one thread before it",
	  10,
	  { 100, 100 },
	  0,
	  { 105, 105 },
	  4,
	  { { 105, 105, 1 }, { 102, 104, 3 } } },
	{ "two threads",
	  20,
	  { 100, 100 },
	  0,
	  { 105, 105 },
	  4,
	  { { 105, 105, 2 }, { 104, 104, 2 } } },
	{ "few of a thread's time is known",
	  3,
	  { 100, 100 },
	  0,
	  { 105, 105 },
	  1,
	  { { 105, 105, 1 } } },
	{ "no room before it",
	  10,
	  { 100, 104 },
	  5,
	  { 105, 105 },
	  3,
	  { { 105, 105, 1 }, { 106, 107, 2 } } },
	{ "behind a gap",
	  10,
	  { 103, 104 },
	  2,
	  { 105, 105 },
	  3,
	  { { 105, 105, 1 }, { 101, 102, 2 } } },
	{ "before and after",
	  10,
	  { 100, 102 },
	  3,
	  { 104, 104 },
	  4,
	  { { 104, 104, 1 }, { 103, 103, 1 }, { 105, 106, 2 } } },
	{ "more than there is: where it was",
	  10,
	  { 100, 100 },
	  0,
	  { 109, 109 },
	  12,
	  { { 109, 109, 3 }, { 100, 108, 9 } } },
	{ "before all of it",
	  10,
	  { 100, 100 },
	  0,
	  { 50, 51 },
	  3,
	  { { 50, 51, 0 }, { 100, 102, 3 } } },
	{ "after all of it",
	  10,
	  { 100, 100 },
	  0,
	  { 150, 150 },
	  2,
	  { { 150, 150, 0 }, { 108, 109, 2 } } },
};

TEST(values_go_where_there_is_room)
{
	for EACH (row, rows) {
		struct slot_piece pieces[SLOT_PIECES_MAX];
		struct slot_room room = { 0 };
		uint32_t count, wanted = 0;

		EXPECT_EQ(0,
			  slot_room_init(&room, (struct slot_range){ 100, 109 }, SLOT_NS,
					 (uint64_t)(row->total * SLOT_NS)),
			  row->what);
		slot_room_take(&room, row->exact, (uint64_t)(row->exact_ns * SLOT_NS));
		count = slot_room_place(&room, row->range, (uint64_t)(row->ns * SLOT_NS), pieces);
		while (wanted < SLOT_PIECES_MAX && row->pieces[wanted].last)
			wanted++;
		EXPECT_EQ(wanted, count, row->what);
		for (uint32_t i = 0; i < count; i++) {
			EXPECT_EQ(row->pieces[i].first, pieces[i].range.first, row->what);
			EXPECT_EQ(row->pieces[i].last, pieces[i].range.last, row->what);
			EXPECT_EQ(row->pieces[i].ns * SLOT_NS, pieces[i].ns, row->what);
		}
		slot_room_deinit(&room);
	}
}

TEST(pieces_are_few)
{
	struct slot_piece pieces[SLOT_PIECES_MAX];
	struct slot_room room = { 0 };
	uint64_t sum = 0;

	assert_int_equal(
		0, slot_room_init(&room, (struct slot_range){ 0, 99 }, SLOT_NS, 100 * SLOT_NS));
	for (uint64_t slot = 0; slot < 100; slot += 2)
		slot_room_take(&room, (struct slot_range){ slot, slot }, SLOT_NS);
	uint32_t count =
		slot_room_place(&room, (struct slot_range){ 51, 51 }, 30 * SLOT_NS, pieces);

	assert_int_equal(SLOT_PIECES_MAX, count);
	for (uint32_t i = 0; i < count; i++)
		sum += pieces[i].ns;
	assert_true(sum == 30 * SLOT_NS);
	// The last one has the gaps in it, on both sides.
	assert_true(pieces[3].range.first == 1 && pieces[3].range.last >= 53);
	slot_room_deinit(&room);
}

TEST(refuses_what_is_too_long)
{
	struct slot_room room = { 0 };

	assert_int_equal(-E2BIG, slot_room_init(&room, (struct slot_range){ 0, UINT64_MAX - 1 },
						SLOT_NS, 1));
	assert_int_equal(-E2BIG, slot_room_init(&room, (struct slot_range){ 2, 1 }, SLOT_NS, 1));
	struct slot_piece pieces[SLOT_PIECES_MAX];

	assert_int_equal(1, slot_room_place(&room, (struct slot_range){ 7, 8 }, 5, pieces));
	assert_true(pieces[0].ns == 5 && pieces[0].range.first == 7 && pieces[0].range.last == 8);
	slot_room_take(&room, (struct slot_range){ 7, 8 }, 5);
}

RUN_TESTS(cmocka_unit_test(values_go_where_there_is_room), cmocka_unit_test(pieces_are_few),
	  cmocka_unit_test(refuses_what_is_too_long))
