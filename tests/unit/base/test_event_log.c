// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>

#include "tests/test.h"

#include "base/event_log.h"

static struct event_log *events;
static struct event event;

static int set_up(void **state)
{
	(void)state;
	events = event_log_new();
	return events ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	event_log_free(events);
	return 0;
}

TEST(events_come_in_order)
{
	event_warn(events, "gpu", "probe %d", 1);
	event_info(events, "governor", "restored");
	assert_true(event_log_next(events, &event));
	EXPECT_EQ(LOG_LEVEL_WARN, event.severity, "severity");
	EXPECT_STR("gpu", event.subject, "subject");
	EXPECT_STR("probe 1", event.text, "text");
	assert_true(event_log_next(events, &event));
	EXPECT_EQ(LOG_LEVEL_INFO, event.severity, "severity");
	EXPECT_STR("restored", event.text, "text");
	assert_false(event_log_next(events, &event));
}

TEST(a_waiting_event_is_not_repeated)
{
	bool is_posted = false;

	event_warn(events, "gpu", "lost");
	event_warn(events, "gpu", "lost");
	event_warn(events, "wall", "lost");
	assert_true(event_log_next(events, &event));
	assert_true(event_log_next(events, &event));
	EXPECT_STR("wall", event.subject, "another subject");
	assert_false(event_log_next(events, &event));
	event_warn(events, "gpu", "lost");
	assert_true(event_log_next(events, &event)); // it happened again

	for (int i = 0; i < 2; i++) {
		event_warn_once(events, &is_posted, "gpu", "full");
		EXPECT_EQ(i == 0, event_log_next(events, &event), "once");
	}
}

TEST(a_full_queue_counts_what_it_drops)
{
	for (int i = 0; i < EVENTS_MAX + 3; i++)
		event_warn(events, "gpu", "event %d", i);
	for (int i = 0; i < EVENTS_MAX; i++)
		assert_true(event_log_next(events, &event));
	EXPECT_STR("event 63", event.text, "the last one kept");
	assert_true(event_log_next(events, &event));
	EXPECT_STR("dropped 3 log lines: queue full (limit 64)", event.text, "dropped");
	EXPECT_EQ(3, event_log_dropped(events), "dropped");
	assert_false(event_log_next(events, &event));
}

static void *post_many(void *subject)
{
	for (int i = 0; i < 10000; i++)
		event_warn(events, subject, "event %d", i);
	return NULL;
}

TEST(threads_may_post)
{
	pthread_t threads[2];
	uint64_t seen = 0;

	pthread_create(&threads[0], NULL, post_many, "a");
	pthread_create(&threads[1], NULL, post_many, "b");
	for (int i = 0; i < 1000; i++)
		seen += event_log_next(events, &event);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	while (event_log_next(events, &event))
		seen++;
	assert_true(seen > 0 && seen + event_log_dropped(events) >= 20000);
}

TEST(no_log_ignores_events)
{
	event_warn(NULL, "gpu", "lost");
}

#define WITH_LOG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(WITH_LOG(events_come_in_order), WITH_LOG(a_waiting_event_is_not_repeated),
	  WITH_LOG(a_full_queue_counts_what_it_drops), WITH_LOG(threads_may_post),
	  cmocka_unit_test(no_log_ignores_events))
