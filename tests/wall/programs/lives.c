// SPDX-License-Identifier: Apache-2.0
// Threads and processes with unusual lives. --part selects one:
//
//     migrants   threads that are moved to another CPU while they are blocked
//     doomed     processes that are killed while all their threads are blocked for ever
//     forks      a process that forks children, which sleep, work and end
//     stopped    a process that is stopped by SIGSTOP, again and again, while it sleeps
//     churn      threads that live for a millisecond or two
//     throttled  one that burns; its cgroup may have a quota
//
// What nobody can measure from within has two bounds, of the same thing: "least" and "most".

#include "tests/wall/programs/story.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MS 1000000ULL

enum { MIGRANTS = 3, DOOMED_THREADS = 4, CREATORS = 3 };

static uint64_t end_ns;
static struct story stories[16];

/* Sums over all threads or children of one name. */
struct bounds {
	uint64_t count;
	uint64_t least_ns, most_ns; // of their lives together
	uint64_t running_ns;
	uint64_t stopped_ns;
};

static bool is_over(void)
{
	return now_ns() >= end_ns;
}

static void print_bounds(const char *name, const struct bounds *bounds)
{
	char more[512];

	snprintf(more, sizeof(more),
		 ", \"%s\": {\"count\": %llu, \"least\": %llu, \"most\": %llu, \"running\": %llu, "
		 "\"stopped\": %llu}, \"process_cpu\": %llu",
		 name, (unsigned long long)bounds->count, (unsigned long long)bounds->least_ns,
		 (unsigned long long)bounds->most_ns, (unsigned long long)bounds->running_ns,
		 (unsigned long long)bounds->stopped_ns,
		 (unsigned long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
	print_stories(stories, sizeof(stories) / sizeof(*stories), more);
}

// ---- moved while blocked --------------------------------------------------------------------

static atomic_int migrant_ids[MIGRANTS];

static NOINLINE void wait_elsewhere(void)
{
	sleep_ns(7 * MS);
	AFTERWARDS();
}

static void *migrant(void *context)
{
	struct story *story = context;

	story_begin(story);
	migrant_ids[story - stories] = (int)syscall(SYS_gettid);
	while (!is_over()) {
		wait_begin(story);
		wait_elsewhere();
		wait_end(story);
		burn(MS / 2);
	}
	migrant_ids[story - stories] = 0;
	story_end(story);
	return NULL;
}

static void play_migrants(void)
{
	pthread_t threads[MIGRANTS];
	struct bounds moves = { 0 };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (int i = 0; i < MIGRANTS; i++) {
		stories[i] = (struct story){ .thread = "migrant",
					     .function = "wait_elsewhere",
					     .wait = "sleep" };
		pthread_create(&threads[i], NULL, migrant, &stories[i]);
	}
	while (!is_over()) {
		for (int i = 0; i < MIGRANTS; i++) {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET((moves.count + (uint64_t)i) % (uint64_t)cpus, &set);
			if (migrant_ids[i])
				sched_setaffinity(migrant_ids[i], sizeof(set), &set);
		}
		moves.count++;
		sleep_ns(3 * MS);
	}
	for (int i = 0; i < MIGRANTS; i++)
		pthread_join(threads[i], NULL);
	print_bounds("moves", &moves);
}

// ---- killed while blocked -------------------------------------------------------------------

static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static atomic_int *blocked_count; // shared with the parent

static NOINLINE void wait_for_ever(void)
{
	pthread_mutex_lock(&taken);
	AFTERWARDS();
}

static void *doomed(void *context)
{
	(void)context;
	prctl(PR_SET_NAME, "doomed");
	++*blocked_count;
	wait_for_ever();
	return NULL;
}

static void be_doomed(void)
{
	pthread_t thread;

	prctl(PR_SET_NAME, "doomed-main");
	pthread_mutex_lock(&taken);
	for (int i = 0; i < DOOMED_THREADS; i++)
		pthread_create(&thread, NULL, doomed, NULL);
	for (;;)
		pause();
}

static void play_doomed(uint64_t lives_ns)
{
	struct bounds bounds = { 0 };

	while (!is_over()) {
		uint64_t began = now_ns();
		*blocked_count = 0;
		pid_t child = fork();

		if (child == 0)
			be_doomed();
		while (*blocked_count < DOOMED_THREADS)
			sleep_ns(MS / 2);
		uint64_t blocked = now_ns();
		sleep_ns(lives_ns);
		uint64_t killed = now_ns();
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		bounds.count += DOOMED_THREADS;
		bounds.least_ns += DOOMED_THREADS * (killed - blocked);
		bounds.most_ns += DOOMED_THREADS * (now_ns() - began);
	}
	print_bounds("doomed", &bounds);
}

// ---- forks ----------------------------------------------------------------------------------

static NOINLINE void wait_as_child(void)
{
	sleep_ns(20 * MS);
	AFTERWARDS();
}

// Returns the CPU time that it took, its end included.
static NOINLINE uint64_t wait_for_fork(pid_t child)
{
	struct rusage usage = { 0 };
	int status;

	wait4(child, &status, 0, &usage);
	AFTERWARDS();
	return 1000 * (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) +
	       1000 * MS * (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
}

static void be_forked(struct bounds *shared, uint64_t began)
{
	prctl(PR_SET_NAME, "forked");
	shared->running_ns -=
		clock_ns(CLOCK_PROCESS_CPUTIME_ID); // until then it had its parent's name
	burn(2 * MS);
	wait_as_child();
	shared->least_ns += now_ns() - began;
	_exit(0);
}

static void play_forks(void)
{
	struct bounds *shared =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct story *story = &stories[0];

	*story = (struct story){ .thread = "forker", .function = "wait_for_fork", .wait = "child" };
	story_begin(story);
	while (!is_over()) {
		uint64_t began = now_ns();
		pid_t child = fork();

		if (child == 0)
			be_forked(shared, now_ns());
		wait_begin(story);
		shared->running_ns += wait_for_fork(child);
		wait_end(story);
		shared->count++;
		shared->most_ns += now_ns() - began;
	}
	story_end(story);
	print_bounds("forked", shared);
}

// ---- stopped --------------------------------------------------------------------------------

static NOINLINE void wait_and_be_stopped(void)
{
	sleep_ns(10 * MS);
	AFTERWARDS();
}

static void be_stopped(void)
{
	prctl(PR_SET_NAME, "stopped");
	for (;;)
		wait_and_be_stopped();
}

static void play_stopped(void)
{
	struct bounds bounds = { .count = 0 };
	uint64_t began = now_ns();
	pid_t child = fork();
	int status;

	if (child == 0)
		be_stopped();
	uint64_t forked = now_ns();
	while (!is_over()) {
		sleep_ns(150 * MS);
		kill(child, SIGSTOP);
		waitpid(child, &status, WUNTRACED);
		uint64_t stopped = now_ns();
		sleep_ns(350 * MS);
		bounds.stopped_ns += now_ns() - stopped;
		kill(child, SIGCONT);
		bounds.count++;
	}
	bounds.least_ns = now_ns() - forked;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	bounds.most_ns = now_ns() - began;
	print_bounds("stopped", &bounds);
}

// ---- short lives ----------------------------------------------------------------------------

static NOINLINE void wait_for_a_moment(void)
{
	sleep_ns(MS);
	AFTERWARDS();
}

static void *live_shortly(void *context)
{
	uint64_t began = now_ns();
	uint64_t *lived_ns = context;

	prctl(PR_SET_NAME, "churn");
	burn(MS / 4);
	wait_for_a_moment();
	*lived_ns = now_ns() - began;
	return NULL;
}

/* One life after the other. */
static void *create_lives(void *context)
{
	struct bounds *bounds = context;

	prctl(PR_SET_NAME, "creator");
	while (!is_over()) {
		uint64_t created = now_ns(), lived_ns = 0;
		pthread_t thread;

		if (pthread_create(&thread, NULL, live_shortly, &lived_ns))
			exit(1);
		pthread_join(thread, NULL);
		bounds->count++;
		bounds->least_ns += lived_ns;
		bounds->most_ns += now_ns() - created;
	}
	return NULL;
}

static void play_churn(void)
{
	struct bounds bounds[CREATORS] = { 0 };
	pthread_t threads[CREATORS];

	for (int i = 0; i < CREATORS; i++)
		pthread_create(&threads[i], NULL, create_lives, &bounds[i]);
	for (int i = 0; i < CREATORS; i++) {
		pthread_join(threads[i], NULL);
		if (i > 0) {
			bounds[0].count += bounds[i].count;
			bounds[0].least_ns += bounds[i].least_ns;
			bounds[0].most_ns += bounds[i].most_ns;
		}
	}
	print_bounds("churn", &bounds[0]);
}

// ---- under a quota ----------------------------------------------------------------------------

static NOINLINE void burn_throttled(void)
{
	while (!is_over())
		burn(MS);
	AFTERWARDS();
}

static void play_throttled(void)
{
	stories[0] = (struct story){ .thread = "throttled", .function = "burn_throttled" };
	story_begin(&stories[0]);
	burn_throttled();
	story_end(&stories[0]);
	print_bounds("throttled", &(struct bounds){ 0 });
}

int main(int argc, char **argv)
{
	const char *part = option(argc, argv, "--part", "");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	end_ns = now_ns() + (uint64_t)(atof(option(argc, argv, "--seconds", "10")) * 1e9);
	blocked_count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (blocked_count == MAP_FAILED)
		return 1;
	if (strcmp(part, "migrants") == 0)
		play_migrants();
	else if (strcmp(part, "doomed") == 0)
		play_doomed(3000 * MS);
	else if (strcmp(part, "forks") == 0)
		play_forks();
	else if (strcmp(part, "stopped") == 0)
		play_stopped();
	else if (strcmp(part, "churn") == 0)
		play_churn();
	else if (strcmp(part, "throttled") == 0)
		play_throttled();
	else
		return 2;
}
