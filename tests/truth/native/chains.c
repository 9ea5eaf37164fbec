// SPDX-License-Identifier: Apache-2.0
// Walks random chains of calls and writes each down first, a line of functions from the outside in:
//
//     chains [--seconds S] [--warm-up S] [--seed N] [--threads N] [--deep N] [--library FILE]
//            [--timer] [--mappings N] [--main-exits]
//
// Seconds are of time that a thread ran.
// Until the warm-up is over the thread is called "warm-up", then "truth": samples carry that name.
// With --mappings the process has so many executable ones; with --main-exits the first thread ends
// before the others. With --deep each chain has a recursion that is so deep.
// With --timer a signal interrupts the chains at any instruction, and its handler burns, too.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>

#include "tests/truth/native/walk.h"

enum {
	STEPS_MAX = 24, // of one chain
	RECURSION_MAX = 30,
	HUGE_STEPS_MAX = 4, // so that the stack suffices
	SIGNAL_STACK_BYTES = 16 << 20,
	LINE_BYTES = 8192,
	NS_MIN = 4000000, // a chain's leaf burns between these
	NS_MAX = 30000000,
	TIMER_US = 1500,
	THREADS_MAX = 16,
	CRYPTO_LEAVES = 2, // the last ones
	STRETCH_MAX = 8,   // seconds last no longer than so many
};

int have_crypto(void);

#ifdef NO_CPP
const struct step cpp_steps[1];
const size_t cpp_step_count = 0;
#endif

static double seconds = 3, warm_up = 1;
static uint64_t seed;
static int thread_count = 1, deep, main_exits;
static struct step library_step = { NULL, "library_step library_inner" };
static size_t leaf_count;

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/*
 * How far a thread that began at @begin_ns has come: in time that it ran, so that on a loaded machine it
 * is sampled as often, and the agent, which is as slow there, gets as far in the warm-up.
 */
static uint64_t progress_ns(uint64_t begin_ns)
{
	uint64_t ran_ns = thread_cpu_ns(), least_ns = (monotonic_ns() - begin_ns) / STRETCH_MAX;

	return ran_ns > least_ns ? ran_ns : least_ns;
}

static const struct step *random_step(uint64_t *random)
{
	size_t count = c_step_count + cpp_step_count + (library_step.function != NULL);
	size_t pick = random_below(random, count);

	if (pick < c_step_count)
		return &c_steps[pick];
	pick -= c_step_count;
	return pick < cpp_step_count ? &cpp_steps[pick] : &library_step;
}

static const struct step *find_step(const char *path)
{
	for (size_t i = 0; i < c_step_count; i++)
		if (!strcmp(c_steps[i].path, path))
			return &c_steps[i];
	abort();
}

static void write_down(const struct walk *walk, int count, const char *root)
{
	char line[LINE_BYTES];
	int size = snprintf(line, sizeof(line), "chain %s", root);

	for (int i = 0; i < count; i++) {
		const char *path = walk->chain[i]->path, *star = strchr(path, '*');

		if (star && i + 1 < count && !strchr(path, '/'))
			size += snprintf(line + size, sizeof(line) - (size_t)size, " %s%d", path,
					 walk->recursion);
		else
			size += snprintf(line + size, sizeof(line) - (size_t)size, " %s", path);
	}
	size += snprintf(line + size, sizeof(line) - (size_t)size, "\n");
	for (int done = 0; done < size;) {
		ssize_t written = write(1, line + done, (size_t)(size - done));

		if (written <= 0)
			_exit(1);
		done += (int)written;
	}
}

static void draw_chain(struct walk *walk, const char *root)
{
	int count = 1 + (int)random_below(&walk->random, STEPS_MAX), huge = 0, at = 0;

	if (deep)
		walk->chain[at++] = find_step("step_recursion recurse*");
	while (at < count) {
		const struct step *step = random_step(&walk->random);

		if (deep && strchr(step->path, '*'))
			continue;
		if (strstr(step->path, "huge") && huge++ >= HUGE_STEPS_MAX)
			continue;
		walk->chain[at++] = step;
	}
	walk->chain[at++] = &c_leaves[random_below(&walk->random, leaf_count)];
	walk->at = 0;
	walk->recursion = deep ? deep : 1 + (int)random_below(&walk->random, RECURSION_MAX);
	walk->ns = NS_MIN + random_below(&walk->random, NS_MAX - NS_MIN);
	write_down(walk, at, root);
}

static NOINLINE void run_chain(struct walk *walk)
{
	if (!setjmp(walk->home))
		GO_ON(walk);
}

static NOINLINE void run_chains(struct walk *walk, uint64_t begin_ns, double until,
				const char *root)
{
	while ((double)progress_ns(begin_ns) < until * 1e9) {
		draw_chain(walk, root);
		run_chain(walk);
	}
}

static void give_signal_stack(void)
{
	stack_t stack = { .ss_size = SIGNAL_STACK_BYTES };

	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	sigaltstack(&stack, NULL);
}

static NOINLINE void run_thread(uint64_t thread_seed, const char *root)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	uint64_t begin = monotonic_ns();

	walk->random = thread_seed;
	current_walk = walk;
	give_signal_stack();
	prctl(PR_SET_NAME, "warm-up");
	run_chains(walk, begin, warm_up, root);
	prctl(PR_SET_NAME, "truth");
	run_chains(walk, begin, warm_up + seconds, root);
	prctl(PR_SET_NAME, "done");
}

static NOINLINE void *thread_main(void *number)
{
	run_thread(seed + (uintptr_t)number, "thread_main run_thread run_chains run_chain");
	return number;
}

static NOINLINE void run_threads(void)
{
	pthread_t threads[THREADS_MAX];
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 8 << 20);
	for (int i = 1; i < thread_count; i++)
		pthread_create(&threads[i], &attributes, thread_main, (void *)(uintptr_t)i);
	if (main_exits)
		pthread_exit(NULL);
	run_thread(seed, "main run_threads run_thread run_chains run_chain");
	for (int i = 1; i < thread_count; i++)
		pthread_join(threads[i], NULL);
}

static NOINLINE void burn_in_handler(struct walk *walk)
{
	uint64_t number = walk->random | 1;
	uint64_t end = thread_cpu_ns() + 400000;

	while (thread_cpu_ns() < end)
		for (int i = 0; i < 1000; i++)
			TRIPLE(number);
}

static NOINLINE void on_timer(int number)
{
	if (number == SIGALRM && current_walk)
		burn_in_handler(current_walk);
	KEEP_FRAME();
}

static void start_timer(void)
{
	struct sigaction action = { .sa_handler = on_timer, .sa_flags = SA_RESTART };
	struct itimerval interval = { { 0, TIMER_US }, { 0, TIMER_US } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &interval, NULL);
}

/* Pages of this very file, with gaps between, so that the kernel cannot join them. */
static void add_mappings(int count)
{
	long page = sysconf(_SC_PAGESIZE);
	char *place = mmap(NULL, (size_t)(2 * count * page), PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int file = open("/proc/self/exe", O_RDONLY);

	for (int i = 0; i < count; i++)
		if (mmap(place + 2 * i * page, (size_t)page, PROT_READ | PROT_EXEC,
			 MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
			abort();
	close(file);
}

static void open_library(const char *path)
{
#ifdef STATIC
	(void)path;
#else
	void *library = dlopen(path, RTLD_LAZY);

	if (library)
		*(void **)&library_step.function = dlsym(library, "library_step");
	if (!library_step.function) {
		fprintf(stderr, "chains: %s\n", dlerror());
		exit(1);
	}
#endif
}

int main(int argc, char **argv)
{
	seed = monotonic_ns();
	leaf_count = c_leaf_count;
#ifndef STATIC
	leaf_count -= have_crypto() ? 0 : CRYPTO_LEAVES;
#endif
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--seconds"))
			seconds = atof(value);
		else if (!strcmp(argv[i], "--warm-up"))
			warm_up = atof(value);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(value, NULL, 0);
		else if (!strcmp(argv[i], "--threads"))
			thread_count = atoi(value);
		else if (!strcmp(argv[i], "--deep"))
			deep = atoi(value);
		else if (!strcmp(argv[i], "--library"))
			open_library(value);
		else if (!strcmp(argv[i], "--timer"))
			start_timer();
		else if (!strcmp(argv[i], "--mappings"))
			add_mappings(atoi(value));
		else if (!strcmp(argv[i], "--main-exits"))
			main_exits = 1;
	}
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	run_threads();
	KEEP_FRAME();
	return 0;
}
