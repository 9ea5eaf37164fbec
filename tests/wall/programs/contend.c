// SPDX-License-Identifier: Apache-2.0
// Two threads on one CPU: a hog that never stops, and a victim that works and sleeps by turns.
//
//     contend --seconds 10 [--cpu 0]

#include "tests/wall/programs/story.h"

static uint64_t end_ns;
static int cpu;

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sched_setaffinity");
}

static NOINLINE void burn_as_hog(void)
{
	while (now_ns() < end_ns)
		burn(1000000);
	AFTERWARDS();
}

static NOINLINE void burn_as_victim(void)
{
	burn(8000000);
	AFTERWARDS();
}

static NOINLINE void wait_as_victim(void)
{
	sleep_ns(5000000);
	AFTERWARDS();
}

static void *hog(void *context)
{
	pin();
	story_begin(context);
	burn_as_hog();
	story_end(context);
	return NULL;
}

static void *victim(void *context)
{
	struct story *story = context;

	pin();
	story_begin(story);
	while (now_ns() < end_ns) {
		burn_as_victim();
		wait_begin(story);
		wait_as_victim();
		wait_end(story);
	}
	story_end(story);
	return NULL;
}

int main(int argc, char **argv)
{
	struct story stories[] = {
		{ .thread = "hog", .function = "burn_as_hog" },
		{ .thread = "victim", .function = "wait_as_victim", .wait = "sleep" },
	};
	pthread_t threads[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cpu = atoi(option(argc, argv, "--cpu", "0"));
	end_ns = now_ns() + (uint64_t)(atof(option(argc, argv, "--seconds", "10")) * 1e9);
	pthread_create(&threads[0], NULL, hog, &stories[0]);
	pthread_create(&threads[1], NULL, victim, &stories[1]);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	print_stories(stories, 2, "");
}
