// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/test.h"

#include "agent/overhead/own_cpu.h"
#include "base/clock.h"

#define BURN_NS (60 * NS_PER_MS)

static uint64_t sum_of(const uint64_t ns[OWN_CPU_COUNT])
{
	uint64_t sum = 0;

	for (int i = 0; i < OWN_CPU_COUNT; i++)
		sum += ns[i];
	return sum;
}

static atomic_bool ended;

static void *burn(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "event_engine");
	uint64_t before[OWN_CPU_COUNT], now[OWN_CPU_COUNT];

	own_cpu_read(before);
	do {
		own_cpu_read(now);
	} while (now[OWN_CPU_GRPC] - before[OWN_CPU_GRPC] < BURN_NS &&
		 sum_of(now) - sum_of(before) < 100 * BURN_NS);
	ended = true;
	return NULL;
}

TEST(thread_time_counts_for_group)
{
	uint64_t before[OWN_CPU_COUNT], now[OWN_CPU_COUNT];
	pthread_t thread;

	own_cpu_read(before);
	assert_int_equal(0, pthread_create(&thread, NULL, burn, NULL));
	while (!ended)
		own_cpu_read(now);
	pthread_join(thread, NULL);
	// The loop before has read it while the thread lived, or after its end.
	if (now[OWN_CPU_GRPC] + now[OWN_CPU_OTHER] < before[OWN_CPU_GRPC] + BURN_NS / 2)
		fail_msg("gRPC's thread has used %llu ns", (unsigned long long)now[OWN_CPU_GRPC]);
	own_cpu_read(now);
	EXPECT_EQ(0, now[OWN_CPU_GRPC], "the thread has ended");
	if (now[OWN_CPU_OTHER] < BURN_NS)
		fail_msg("its time is nobody's");
	if (sum_of(now) > clock_process_cpu_ns() + NS_PER_MS || now[OWN_CPU_MAIN] == 0)
		fail_msg("more than there was, or nothing of the main thread");
}

TEST(recognizes_threads_by_name)
{
	static const struct {
		const char *name;
		int main;
		enum own_cpu_group group;
	} cases[] = {
		{ "cairn-agent\n", 1, OWN_CPU_MAIN },     { "cairn-agent\n", 0, OWN_CPU_OTHER },
		{ "sender\n", 0, OWN_CPU_SENDER },        { "grpc_global_tim\n", 0, OWN_CPU_GRPC },
		{ "default-executo\n", 0, OWN_CPU_GRPC }, { "unwind-tables\n", 0, OWN_CPU_TABLES },
		{ "resolver-execut\n", 0, OWN_CPU_GRPC }, { "", 0, OWN_CPU_OTHER },
	};

	for EACH (c, cases)
		EXPECT_EQ(c->group, own_cpu_group_of(c->name, c->main), c->name);
}

RUN_TESTS(cmocka_unit_test(thread_time_counts_for_group),
	  cmocka_unit_test(recognizes_threads_by_name))
