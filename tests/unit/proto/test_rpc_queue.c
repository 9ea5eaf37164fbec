// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_queue.h"

#include "base/cleanup.h"
#include "proto/rpc_call.h"
#include "tests/test.h"

static const struct rpc_method method = { .name = "/test/Work", .work_per_byte = 1 };

struct rig {
	struct rpc_queue queue;
	struct byte_budget budget;
};

static void rig_init(struct rig *rig, size_t bytes)
{
	rig->budget = (struct byte_budget){ .bytes_max = bytes };
	rpc_queue_init(&rig->queue, &rig->budget);
}

static struct rpc_call *push(struct rig *rig, const char *peer_name, size_t work)
{
	struct rpc_peer *peer = rpc_queue_find_peer(&rig->queue, peer_name);
	struct rpc_call *call = rpc_call_new(peer, NULL);

	peer->call_count++;
	call->budget = &rig->budget;
	call->method = &method;
	call->inflated_size = work;
	assert_true(rpc_queue_push(&rig->queue, call, 100));
	return call;
}

static void finish(struct rig *rig, struct rpc_call *call)
{
	struct rpc_peer *peer = call->peer;

	rpc_call_drop_message(call);
	call->budget = NULL;
	rpc_call_free(call);
	peer->call_count--;
	rpc_queue_release_peer(&rig->queue, peer);
}

static void expect_next(struct rig *rig, struct rpc_call *expected, const char *what)
{
	struct rpc_call *call = rpc_queue_pop(&rig->queue);

	if (call != expected)
		fail_msg("%s: another call came", what);
	finish(rig, call);
}

TEST(peers_take_turns)
{
	struct rig rig;
	struct rpc_call *much[4], *little[2];

	rig_init(&rig, 1000);
	for EACH (call, much)
		*call = push(&rig, "10.0.0.1", 1);
	for EACH (call, little)
		*call = push(&rig, "10.0.0.2", 1);
	expect_next(&rig, much[0], "first");
	expect_next(&rig, little[0], "the other peer's turn");
	expect_next(&rig, much[1], "and back");
	expect_next(&rig, little[1], "the other peer's last");
	expect_next(&rig, much[2], "alone");
	expect_next(&rig, much[3], "alone again");
	rpc_queue_close(&rig.queue);
	assert_null(rpc_queue_pop(&rig.queue));
	rpc_queue_deinit(&rig.queue);
}

TEST(a_call_without_memory_waits_beside_others)
{
	struct rig rig;

	rig_init(&rig, 1000);
	struct rpc_call *large = push(&rig, "10.0.0.1", 900);
	struct rpc_call *small = push(&rig, "10.0.0.2", 100);
	assert_true(byte_budget_take(&rig.budget, 500));
	expect_next(&rig, small, "fits");
	byte_budget_give(&rig.budget, 500);
	expect_next(&rig, large, "fits now");
	EXPECT_EQ(0, rig.budget.bytes_taken, "given back");
	rpc_queue_deinit(&rig.queue);
}

TEST(a_removed_call_does_not_come)
{
	struct rig rig;

	rig_init(&rig, 1000);
	struct rpc_call *first = push(&rig, "10.0.0.1", 1);
	struct rpc_call *second = push(&rig, "10.0.0.1", 1);
	struct rpc_call *third = push(&rig, "10.0.0.2", 1);
	assert_true(rpc_queue_remove(&rig.queue, second));
	finish(&rig, second);
	assert_true(rpc_queue_remove(&rig.queue, third));
	finish(&rig, third);
	struct rpc_call *fourth = push(&rig, "10.0.0.1", 1);
	expect_next(&rig, first, "first");
	struct rpc_call *popped = rpc_queue_pop(&rig.queue);
	assert_ptr_equal(fourth, popped);
	assert_false(rpc_queue_remove(&rig.queue, popped));
	finish(&rig, popped);
	rpc_queue_deinit(&rig.queue);
}

TEST(a_peer_queues_so_many)
{
	struct rig rig;

	rig_init(&rig, 1000);
	struct rpc_call *first = push(&rig, "10.0.0.1", 1);
	struct rpc_call *second = rpc_call_new(first->peer, NULL);
	assert_false(rpc_queue_push(&rig.queue, second, 1));
	rpc_call_free(second);
	expect_next(&rig, first, "first");
	rpc_queue_deinit(&rig.queue);
}

RUN_TESTS(cmocka_unit_test(peers_take_turns),
	  cmocka_unit_test(a_call_without_memory_waits_beside_others),
	  cmocka_unit_test(a_removed_call_does_not_come), cmocka_unit_test(a_peer_queues_so_many))
