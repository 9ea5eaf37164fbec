// SPDX-License-Identifier: Apache-2.0
// Slow requests wait in turns: who asks much waits for itself.
#include "collector/http/http_queue.h"

#include <pthread.h>

#include "base/cleanup.h"
#include "base/id128.h"
#include "tests/test.h"

enum { MANY = 8 };

static struct http_queue queue;
static char peer_a[16], peer_b[16], peer_c[16];

static uint64_t turn_of(const char *peer)
{
	return hash64_of(peer, strlen(peer)) % HTTP_TURNS;
}

/** Two peers whose turns are one are one, and which these are differs from process to process. */
static void choose_peers(void)
{
	int number = 0;

	snprintf(peer_a, sizeof(peer_a), "a");
	do
		snprintf(peer_b, sizeof(peer_b), "b%d", number++);
	while (turn_of(peer_b) == turn_of(peer_a));
	do
		snprintf(peer_c, sizeof(peer_c), "c%d", number++);
	while (turn_of(peer_c) == turn_of(peer_a) || turn_of(peer_c) == turn_of(peer_b));
}

static const char *peer_of_next(void)
{
	bool closing;
	struct http_queued *queued = http_queue_pop(&queue, &closing);

	return queued ? queued->peer : "(none)";
}

TEST(peers_take_turns)
{
	choose_peers();
	const char *const order[] = { peer_a, peer_b, peer_c, peer_a, peer_b, peer_a, peer_a };
	struct http_queued waiting[] = { { .peer = peer_a }, { .peer = peer_a }, { .peer = peer_a },
					 { .peer = peer_a }, { .peer = peer_b }, { .peer = peer_b },
					 { .peer = peer_c } };

	http_queue_init(&queue, MANY, MANY);
	for EACH (queued, waiting)
		EXPECT_EQ(true, http_queue_push(&queue, queued), queued->peer);
	for EACH (peer, order)
		EXPECT_STR(*peer, peer_of_next(), "the next");
	http_queue_deinit(&queue);
}

/* Who was served before comes after who was not, also when it asks first. */
TEST(a_newcomer_is_next)
{
	choose_peers();
	struct http_queued first = { .peer = peer_a }, again = { .peer = peer_a },
			   other = { .peer = peer_b }, last = { .peer = peer_a };

	http_queue_init(&queue, MANY, MANY);
	http_queue_push(&queue, &first);
	EXPECT_STR(peer_a, peer_of_next(), "alone");
	http_queue_push(&queue, &again);
	http_queue_push(&queue, &other);
	EXPECT_STR(peer_b, peer_of_next(), "the other");
	http_queue_push(&queue, &last); // behind the one that was taken from the end
	EXPECT_STR(peer_a, peer_of_next(), "the first one's");
	EXPECT_STR(peer_a, peer_of_next(), "the first one's last");
	EXPECT_EQ(0, queue.count, "that wait");
	http_queue_deinit(&queue);
}

TEST(one_peer_leaves_room_for_others)
{
	choose_peers();
	struct http_queued waiting[] = {
		{ .peer = peer_a }, { .peer = peer_a }, { .peer = peer_a },
		{ .peer = peer_b }, { .peer = peer_b }, { .peer = peer_c }
	};
	static const bool fits[] = { true, true, false, true, true, false };

	http_queue_init(&queue, 4, 2);
	for (uint32_t i = 0; i < ARRAY_SIZE(waiting); i++)
		EXPECT_EQ(fits[i], http_queue_push(&queue, &waiting[i]), waiting[i].peer);
	http_queue_deinit(&queue);
}

static void *wait_for_one(void *unused)
{
	bool closing = false;

	(void)unused;
	return http_queue_pop(&queue, &closing) || !closing ? &queue : NULL;
}

TEST(closing_wakes_who_waits)
{
	choose_peers();
	struct http_queued late = { .peer = peer_a }, early = { .peer = peer_a };
	bool closing = false;
	pthread_t thread;
	void *result;

	http_queue_init(&queue, MANY, MANY);
	pthread_create(&thread, NULL, wait_for_one, NULL);
	http_queue_close(&queue);
	pthread_join(thread, &result);
	EXPECT_EQ(NULL, result, "woken, with nothing");
	EXPECT_EQ(false, http_queue_push(&queue, &late), "closed");
	http_queue_deinit(&queue);

	http_queue_init(&queue, MANY, MANY);
	http_queue_push(&queue, &early);
	http_queue_close(&queue);
	EXPECT_EQ(&early, http_queue_pop(&queue, &closing), "what waits is still served");
	EXPECT_EQ(true, closing, "closed");
	http_queue_deinit(&queue);
}

RUN_TESTS(cmocka_unit_test(peers_take_turns), cmocka_unit_test(a_newcomer_is_next),
	  cmocka_unit_test(one_peer_leaves_room_for_others),
	  cmocka_unit_test(closing_wakes_who_waits))
