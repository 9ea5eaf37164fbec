// SPDX-License-Identifier: Apache-2.0
// Functions that burn known shares of CPU: 50, 30 and 20 percent on average, in rounds of random
// order and length. burn_beta works through a callee, burn_gamma at a known depth of recursion.
// What each really used is printed at the end.
//
//   burn_c [--seconds S] [--threads N] [--depth D] [--seed X] [--round-ms M]

#include <pthread.h>
#include <stdatomic.h>

#include "tests/workloads/truth.h"

enum { THREADS_MAX = 64, DEPTH_DEFAULT = 12 };

enum { ALPHA, BETA, GAMMA, FUNCTIONS };

struct worker {
	pthread_t thread;
	int number;
	int depth;
	uint64_t end_ns; // CLOCK_MONOTONIC
	uint64_t round_ns;
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

NOINLINE void run_rounds(struct worker *worker)
{
	while (clock_ns(CLOCK_MONOTONIC) < worker->end_ns) {
		double choice = random_unit(&worker->random);
		uint64_t ns = random_between(&worker->random, worker->round_ns / 4,
					     worker->round_ns * 7 / 4);

		if (choice < 0.5)
			worker->cpu_ns[ALPHA] += burn_alpha(ns);
		else if (choice < 0.8)
			worker->cpu_ns[BETA] += burn_beta(ns);
		else
			worker->cpu_ns[GAMMA] += burn_gamma(ns, worker->depth);
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
	double seconds = option_number(argc, argv, "--seconds", 5);
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
	struct truth truths[] = { { "burn_alpha", 0 }, { "burn_beta", 0 }, { "burn_gamma", 0 } };

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.number = i,
			.depth = (int)option_number(argc, argv, "--depth", DEPTH_DEFAULT),
			.end_ns = end_ns,
			.round_ns = (uint64_t)(option_number(argc, argv, "--round-ms", 40) * 1e6),
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
