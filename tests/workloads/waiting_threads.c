// SPDX-License-Identifier: Apache-2.0
// Threads that block at known wait sites, each for another thing, and print their own stacks: for tests of
// `cairn dump`. Prints one line of JSON when all are there, then waits to be killed.

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

enum { FRAMES_MAX = 600, DEPTH = 300, ALIKE = 4, THREADS_MAX = 32, STACK_BYTES = 65536 };

/* A thread's own record: the return addresses above the function that waits. */
struct story {
	const char *name;
	pid_t tid;
	int count;
	void *frames[FRAMES_MAX];
};

static struct story stories[THREADS_MAX];
static atomic_int story_count, recorded_count;
static _Thread_local struct story *mine;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t condition_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static int pipe_ends[2];
static pthread_t sleeper_thread;
static volatile unsigned long turns;

/* Called by the function that waits: frame 0 is this one, 1 that one, whose pc will be another. */
static NOINLINE void record(void)
{
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX);

	if (mine->count)
		return;
	mine->count = count > 2 ? count - 2 : 0;
	memcpy(mine->frames, frames + 2, (size_t)mine->count * sizeof(*frames));
	recorded_count++;
}

/* Keeps compilers from making the call before it the last one. */
#define AFTERWARDS __asm__ volatile("" ::: "memory")

static NOINLINE void wait_for_mutex(void)
{
	record();
	pthread_mutex_lock(&mutex);
	AFTERWARDS;
}

static NOINLINE void wait_for_condition(void)
{
	pthread_mutex_lock(&condition_mutex);
	record();
	for (;;)
		pthread_cond_wait(&condition, &condition_mutex);
}

static NOINLINE void wait_for_rwlock(void)
{
	record();
	pthread_rwlock_rdlock(&rwlock);
	AFTERWARDS;
}

static NOINLINE void wait_for_semaphore(void)
{
	record();
	sem_wait(&semaphore);
	AFTERWARDS;
}

static NOINLINE void wait_for_pipe(void)
{
	char byte;

	record();
	if (read(pipe_ends[0], &byte, 1) < 0)
		perror("read");
}

static NOINLINE void wait_for_poll(void)
{
	struct pollfd entry = { .fd = pipe_ends[0], .events = POLLIN };

	record();
	poll(&entry, 1, -1);
	AFTERWARDS;
}

static NOINLINE void wait_for_time(void)
{
	record();
	nanosleep(&(struct timespec){ 1000, 0 }, NULL);
	AFTERWARDS;
}

static NOINLINE void wait_for_thread(void)
{
	record();
	pthread_join(sleeper_thread, NULL);
	AFTERWARDS;
}

static NOINLINE void hold_locks(void)
{
	pthread_mutex_lock(&mutex);
	pthread_rwlock_wrlock(&rwlock);
	record();
	pause();
	AFTERWARDS;
}

static NOINLINE void run(void)
{
	record();
	for (;;)
		turns++;
}

static NOINLINE void in_handler(int number)
{
	(void)number;
	record();
	pause();
	AFTERWARDS;
}

/* Interrupted where it stands, and then on a stack of its own. */
static NOINLINE void be_interrupted(void)
{
	stack_t stack = { .ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES };
	struct sigaction action = { .sa_handler = in_handler, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	pthread_kill(pthread_self(), SIGUSR1);
	AFTERWARDS;
}

static NOINLINE int recurse(int depth)
{
	if (depth == 0) {
		wait_for_time();
		return 0;
	}
	int below = recurse(depth - 1);
	__asm__ volatile("" : "+r"(below)); // or compilers make a loop of it
	return below + 1;
}

static NOINLINE void wait_deep(void)
{
	if (recurse(DEPTH) != DEPTH)
		abort();
}

/* A function with a stack of a size known only when it runs: by frame pointer, however it is built. */
static NOINLINE void with_room(size_t size, void (*then)(void))
{
	volatile char *room = __builtin_alloca(size);

	room[0] = 1;
	then();
	room[size - 1] = 1;
}

/* One whose stack is aligned more than usual. */
static NOINLINE void with_alignment(void (*then)(void))
{
	char aligned[128] __attribute__((aligned(64)));

	__asm__ volatile("" ::"r"(aligned) : "memory");
	then();
	__asm__ volatile("" ::"r"(aligned) : "memory");
}

static NOINLINE void wait_with_room(void)
{
	with_room((size_t)getpid() % 1000 + 1, wait_for_time);
	AFTERWARDS;
}

static NOINLINE void wait_aligned(void)
{
	with_alignment(wait_for_time);
	AFTERWARDS;
}

static const struct part {
	const char *name;
	void (*body)(void);
} parts[] = {
	{ "holder", hold_locks },
	{ "mutex", wait_for_mutex },
	{ "condition", wait_for_condition },
	{ "rwlock", wait_for_rwlock },
	{ "semaphore", wait_for_semaphore },
	{ "pipe", wait_for_pipe },
	{ "poll", wait_for_poll },
	{ "time", wait_for_time },
	{ "join", wait_for_thread },
	{ "runs", run },
	{ "signal", be_interrupted },
	{ "deep", wait_deep },
	{ "room", wait_with_room },
	{ "aligned", wait_aligned },
};

static void *play(void *context)
{
	const struct part *part = context;

	mine = &stories[story_count++];
	mine->name = part->name;
	mine->tid = (pid_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, part->name);
	part->body();
	return NULL;
}

static void start(const struct part *part)
{
	pthread_t thread;
	int before = recorded_count;

	if (pthread_create(&thread, NULL, play, (void *)part))
		abort();
	if (strcmp(part->name, "time") == 0)
		sleeper_thread = thread;
	while (recorded_count == before) // one after the other, so that locks are taken in order
		usleep(1000);
}

static void print_stories(void)
{
	printf("{\"pid\": %d, \"threads\": [", getpid());
	for (int i = 0; i < story_count; i++) {
		printf("%s{\"name\": \"%s\", \"tid\": %d, \"stack\": [", i ? ", " : "",
		       stories[i].name, stories[i].tid);
		for (int at = 0; at < stories[i].count; at++)
			printf("%s%lu", at ? ", " : "", (unsigned long)stories[i].frames[at]);
		printf("]}");
	}
	printf("]}\n");
	fflush(stdout);
}

static NOINLINE void wait_alike(void)
{
	wait_for_poll();
	AFTERWARDS;
}

/* Neighbours differ in what may be done with them, so that they stay apart. */
static void map_much(long count)
{
	for (long i = 0; i < count; i++) {
		int protection = PROT_READ | PROT_EXEC | (i % 2 ? PROT_WRITE : 0);

		if (mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
		    MAP_FAILED) {
			perror("mmap");
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	static const struct part alike = { "alike", wait_alike };
	bool exit_main = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--exit-main") == 0)
			exit_main = true;
		else if (strcmp(argv[i], "--mappings") == 0 && i + 1 < argc)
			map_much(atol(argv[++i]));
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pipe(pipe_ends) || sem_init(&semaphore, 0, 0))
		return 1;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		start(&parts[i]);
	for (int i = 0; i < ALIKE; i++)
		start(&alike);
	print_stories();
	if (exit_main)
		pthread_exit(NULL);
	for (;;)
		pause();
}
