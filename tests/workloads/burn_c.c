// SPDX-License-Identifier: Apache-2.0
// Functions that burn known shares of CPU: 50, 30 and 20 percent on average, in rounds of random
// order and length. burn_beta works through a callee, burn_gamma at a known depth of recursion.
// What each really used is printed at the end. With --load L each thread uses that part of a CPU, and
// sleeps after each round. With --cpu C each ends when it has used so many seconds of CPU time,
// however busy the machine is.
//
//   burn_c [--seconds S | --cpu C] [--load L] [--threads N] [--depth D] [--seed X] [--round-ms M]

#include <pthread.h>
#include <stdatomic.h>

#include "tests/workloads/truth.h"

enum { THREADS_MAX = 64, DEPTH_DEFAULT = 12 };

enum { ALPHA, BETA, GAMMA, FUNCTIONS };

struct worker {
	pthread_t thread;
	int number;
	int depth;
	uint64_t end_ns;     // CLOCK_MONOTONIC
	uint64_t cpu_ns_max; // of the thread's CPU time
	uint64_t round_ns;
	double load; // part of a CPU
	struct random_source random;
	uint64_t cpu_ns[FUNCTIONS];
};

uint64_t burn_alpha(uint64_t ns);
uint64_t burn_beta(uint64_t ns);
uint64_t burn_beta_callee(uint64_t ns);
uint64_t burn_gamma(uint64_t ns, int depth);
void run_rounds(struct worker *worker);
void *worker_main(void *argument);

NOINLINE uint64_t burn_alpha(uint64_t ns)
{
	return burn_ns(ns);
}

NOINLINE uint64_t burn_beta_callee(uint64_t ns)
{
	return burn_ns(ns);
}

NOINLINE uint64_t burn_beta(uint64_t ns)
{
	uint64_t used = burn_beta_callee(ns);

	KEEP_FRAME();
	return used;
}

NOINLINE uint64_t burn_gamma(uint64_t ns, int depth)
{
	if (depth <= 1)
		return burn_ns(ns);

	uint64_t used = burn_gamma(ns, depth - 1);
	KEEP_FRAME();
	return used;
}

static void rest_after(uint64_t burned_ns, double load)
{
	uint64_t ns = (uint64_t)((double)burned_ns * (1 - load) / load);

	nanosleep(&(struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
				      .tv_nsec = (long)(ns % 1000000000) },
		  NULL);
}

NOINLINE void run_rounds(struct worker *worker)
{
	while (clock_ns(CLOCK_MONOTONIC) < worker->end_ns && thread_cpu_ns() < worker->cpu_ns_max) {
		double choice = random_unit(&worker->random);
		uint64_t ns = random_between(&worker->random, worker->round_ns / 4,
					     worker->round_ns * 7 / 4);

		if (choice < 0.5)
			worker->cpu_ns[ALPHA] += burn_alpha(ns);
		else if (choice < 0.8)
			worker->cpu_ns[BETA] += burn_beta(ns);
		else
			worker->cpu_ns[GAMMA] += burn_gamma(ns, worker->depth);
		if (worker->load < 1)
			rest_after(ns, worker->load);
	}
}

NOINLINE void *worker_main(void *argument)
{
	struct worker *worker = argument;
	char name[16];

	snprintf(name, sizeof(name), "burner-%d", worker->number);
	pthread_setname_np(pthread_self(), name);
	run_rounds(worker);
	KEEP_FRAME();
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	int threads = (int)option_number(argc, argv, "--threads", 1);
	struct random_source random = random_seeded(argc, argv);
	double cpu_seconds = option_number(argc, argv, "--cpu", 0);
	double seconds = option_number(argc, argv, "--seconds", cpu_seconds > 0 ? 3600 : 5);
	double load = option_number(argc, argv, "--load", 1);
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
	struct truth truths[] = { { "burn_alpha", 0 }, { "burn_beta", 0 }, { "burn_gamma", 0 } };

	if (threads < 1 || threads > THREADS_MAX || load <= 0 || load > 1)
		return 2;
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.number = i,
			.depth = (int)option_number(argc, argv, "--depth", DEPTH_DEFAULT),
			.end_ns = end_ns,
			.cpu_ns_max = cpu_seconds > 0 ? (uint64_t)(cpu_seconds * 1e9) : UINT64_MAX,
			.round_ns = (uint64_t)(option_number(argc, argv, "--round-ms", 40) * 1e6),
			.load = load,
			.random = { random.state + (uint64_t)i * 7919 },
		};
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			return 1;
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		for (int f = 0; f < FUNCTIONS; f++)
			truths[f].cpu_ns += workers[i].cpu_ns[f];
	}
	print_truth(truths, FUNCTIONS);
	return 0;
}
