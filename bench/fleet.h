// SPDX-License-Identifier: Apache-2.0
// A synthetic fleet: each host runs a few services, whose threads have Zipf-distributed stacks. It
// makes what agents would send: a profile per host and export interval.
//
// The stored size depends on its assumptions. 5 services have 4,000 stacks each, 12 to 60 frames
// deep, in a forest of shared callers. Each thread name has its own popularity of its service's
// stacks, Zipf with exponent 1.05. Consecutive samples are independent, which is harder to compress
// than real programs. A host has 2 to 8 busy CPUs at 99 Hz, each running one thread for 50 ms on
// average. A sample's weight is its CPU's period, one of 16 primes that changes each 0.3 to 0.7 s,
// with microseconds of jitter, as an agent measures it with a CPU clock.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/profile/profile.h"

enum {
	FLEET_SERVICES = 5,
	FLEET_STACKS = 4000, // per service
	FLEET_FUNCTIONS = 1500,
	FLEET_THREADS = 6, // thread names per service
	FLEET_HOST_SERVICES = 3,
	FLEET_HOST_SERIES = FLEET_HOST_SERVICES * FLEET_THREADS,
	FLEET_CPUS_MAX = 8,
	FLEET_PERIODS = 16,
};

#define FLEET_SLOT_NS (20 * NS_PER_MS)

struct fleet_cpu {
	uint64_t tick_ns;   // time of its last sample
	uint64_t switch_ns; // time of its next thread switch
	uint64_t change_ns; // time of its next period
	uint64_t period_ns;
	uint64_t jitter_ns; // delay of the last tick
	uint64_t remainder_ns;
	uint32_t series;
};

struct fleet_host {
	uint32_t number;
	uint32_t cpu_count;
	struct fleet_cpu cpus[FLEET_CPUS_MAX];
	uint32_t services[FLEET_HOST_SERVICES];
	uint64_t sequence;
	uint8_t *acknowledged; // by service and stack
};

struct fleet_sample {
	uint32_t series; // of the host
	uint32_t stack;  // of the series' service
	uint64_t slot;
	int64_t value;
};

struct fleet {
	struct profile *stacks[FLEET_SERVICES];               // the definitions
	uint32_t *popularity[FLEET_SERVICES * FLEET_THREADS]; // rank to stack
	double *zipf;                                         // cumulated
	uint64_t periods_ns[FLEET_PERIODS];
	struct fleet_host *hosts;
	uint32_t host_count;
	uint64_t unit_ns; // samples' weights are multiples of it
	uint64_t random[2];
	struct fleet_sample *samples;
	uint32_t sample_count, sample_capacity;
};

static inline uint64_t fleet_random(struct fleet *fleet)
{
	uint64_t a = fleet->random[0], b = fleet->random[1]; // xorshift128+

	fleet->random[0] = b;
	a ^= a << 23;
	fleet->random[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
	return fleet->random[1] + b;
}

static inline double fleet_uniform(struct fleet *fleet)
{
	return (double)(fleet_random(fleet) >> 11) * 0x1p-53;
}

static inline uint64_t fleet_exponential(struct fleet *fleet, double mean)
{
	return (uint64_t)(-mean * log(1 - fleet_uniform(fleet)));
}

static inline uint32_t fleet_zipf(struct fleet *fleet)
{
	double at = fleet_uniform(fleet);
	uint32_t low = 0, high = FLEET_STACKS - 1;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (fleet->zipf[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// ---- stacks ---------------------------------------------------------------------------------------

static inline void fleet_add_function(struct profile *profile, uint32_t service, uint32_t number)
{
	char name[128], module[64], build_id[64];
	bool kernel = number % 10 == 9;
	struct location location = { .kind = kernel ? FRAME_KIND_KERNEL : FRAME_KIND_NATIVE,
				     .offset = number * 64ULL };
	struct line line = { .number = number % 900 + 1 };
	uint32_t at;

	snprintf(name, sizeof(name), "svc%u::module_%u::Handler<%u>::process_request_%u", service,
		 number % 37, number % 11, number);
	snprintf(module, sizeof(module), kernel ? "[kernel]" : "/usr/lib/svc%u/libpart%u.so",
		 service, number % 37);
	snprintf(build_id, sizeof(build_id), "%08x%08x%08x%08x%08x", service, number % 37, 1, 2, 3);
	location.id = location_id_of_offset(location.kind, build_id, location.offset);
	profile_add_string(profile, module, &location.module);
	profile_add_string(profile, build_id, &location.build_id);
	profile_add_string(profile, name, &line.name);
	profile_add_location(profile, &location, &line, 1, &at);
}

/** Each stack shares some of its callers with an earlier one. */
static inline void fleet_add_stack(struct fleet *fleet, struct profile *profile)
{
	uint32_t locations[64], reversed[64];
	uint32_t depth = 12 + (uint32_t)(fleet_random(fleet) % 49), shared = 0, stack;

	if (profile->stack_count) {
		const struct stack *other =
			&profile->stacks[fleet_random(fleet) % profile->stack_count];

		shared = other->location_count * (50 + (uint32_t)(fleet_random(fleet) % 50)) / 100;
		shared = shared < depth - 1 ? shared : depth - 1;
		for (uint32_t i = 0; i < shared; i++) // from the root on
			locations[i] = profile->stack_locations[other->first_location +
								other->location_count - 1 - i];
	}
	for (uint32_t i = shared; i < depth; i++)
		locations[i] = (uint32_t)(fleet_random(fleet) % FLEET_FUNCTIONS);
	for (uint32_t i = 0; i < depth; i++)
		reversed[i] = locations[depth - 1 - i];
	profile_add_stack(profile, reversed, depth,
			  fleet_random(fleet) % 50 ? STACK_END_COMPLETE : STACK_END_NO_TABLE,
			  &stack);
}

static inline void fleet_init_service(struct fleet *fleet, uint32_t service)
{
	struct profile *profile = profile_new(FLEET_SLOT_NS);

	for (uint32_t i = 0; i < FLEET_FUNCTIONS; i++)
		fleet_add_function(profile, service, i);
	while (profile->stack_count < FLEET_STACKS)
		fleet_add_stack(fleet, profile);
	fleet->stacks[service] = profile;
	for (uint32_t thread = 0; thread < FLEET_THREADS; thread++) {
		uint32_t *ranks = malloc(FLEET_STACKS * sizeof(*ranks));

		for (uint32_t i = 0; i < FLEET_STACKS; i++) {
			uint32_t other = (uint32_t)(fleet_random(fleet) % (i + 1));

			ranks[i] = ranks[other];
			ranks[other] = i;
		}
		fleet->popularity[service * FLEET_THREADS + thread] = ranks;
	}
}

static inline bool fleet_is_prime(uint64_t number)
{
	for (uint64_t i = 2; i * i <= number; i++)
		if (number % i == 0)
			return false;
	return true;
}

static inline void fleet_init_host(struct fleet *fleet, uint32_t number)
{
	struct fleet_host *host = &fleet->hosts[number];

	host->number = number;
	host->cpu_count = 2 + (uint32_t)(fleet_random(fleet) % 7);
	for (uint32_t i = 0; i < FLEET_HOST_SERVICES; i++)
		host->services[i] = (number + i) % FLEET_SERVICES;
	host->acknowledged = calloc(FLEET_SERVICES * FLEET_STACKS, 1);
}

static inline void fleet_init(struct fleet *fleet, uint32_t host_count, uint64_t unit_ns)
{
	double sum = 0;

	*fleet = (struct fleet){ .random = { 1, 2 }, .host_count = host_count, .unit_ns = unit_ns };
	fleet->zipf = malloc(FLEET_STACKS * sizeof(*fleet->zipf));
	for (uint32_t i = 0; i < FLEET_STACKS; i++)
		fleet->zipf[i] = sum += pow(i + 1, -1.05);
	for (uint32_t i = 0; i < FLEET_STACKS; i++)
		fleet->zipf[i] /= sum;
	for (uint32_t i = 0; i < FLEET_PERIODS; i++) {
		uint64_t us = (uint64_t)(10101 * (1 + 0.15 * ((2.0 * i + 1) / FLEET_PERIODS - 1)));

		while (!fleet_is_prime(us))
			us++;
		fleet->periods_ns[i] = us * NS_PER_US;
	}
	for (uint32_t i = 0; i < FLEET_SERVICES; i++)
		fleet_init_service(fleet, i);
	fleet->hosts = calloc(host_count, sizeof(*fleet->hosts));
	for (uint32_t i = 0; i < host_count; i++)
		fleet_init_host(fleet, i);
}

// ---- samples --------------------------------------------------------------------------------------

/** Choose the next thread: the first names of a service are the busiest. */
static inline uint32_t fleet_choose_series(struct fleet *fleet)
{
	double at = fleet_uniform(fleet);
	uint32_t service = (uint32_t)(fleet_random(fleet) % FLEET_HOST_SERVICES);
	uint32_t thread = at < 0.6    ? 0
			  : at < 0.8  ? 1
			  : at < 0.9  ? 2
			  : at < 0.95 ? 3
			  : at < 0.98 ? 4
				      : 5;

	return service * FLEET_THREADS + thread;
}

static inline void fleet_take_sample(struct fleet *fleet, struct fleet_host *host,
				     struct fleet_cpu *cpu)
{
	uint32_t service = host->services[cpu->series / FLEET_THREADS];
	const uint32_t *ranks =
		fleet->popularity[service * FLEET_THREADS + cpu->series % FLEET_THREADS];
	uint64_t late_ns = fleet_exponential(fleet, 3000);
	uint64_t weight_ns = cpu->period_ns + late_ns - cpu->jitter_ns + cpu->remainder_ns;

	if (fleet->sample_count == fleet->sample_capacity) {
		fleet->sample_capacity = fleet->sample_capacity ? fleet->sample_capacity * 2 : 8192;
		fleet->samples =
			realloc(fleet->samples, fleet->sample_capacity * sizeof(*fleet->samples));
	}
	cpu->jitter_ns = late_ns;
	cpu->remainder_ns = weight_ns % fleet->unit_ns;
	fleet->samples[fleet->sample_count++] = (struct fleet_sample){
		.series = cpu->series,
		.stack = ranks[fleet_zipf(fleet)],
		.slot = cpu->tick_ns / FLEET_SLOT_NS,
		.value = (int64_t)(weight_ns - cpu->remainder_ns),
	};
}

static inline void fleet_run_cpu(struct fleet *fleet, struct fleet_host *host,
				 struct fleet_cpu *cpu, uint64_t from_ns, uint64_t to_ns)
{
	if (!cpu->tick_ns)
		cpu->tick_ns = from_ns + fleet_random(fleet) % 10000000;
	for (; cpu->tick_ns < to_ns; cpu->tick_ns += cpu->period_ns) {
		if (cpu->tick_ns >= cpu->switch_ns) {
			cpu->series = fleet_choose_series(fleet);
			cpu->switch_ns = cpu->tick_ns + fleet_exponential(fleet, 50e6);
		}
		if (cpu->tick_ns >= cpu->change_ns) {
			cpu->period_ns = fleet->periods_ns[fleet_random(fleet) % FLEET_PERIODS];
			cpu->change_ns = cpu->tick_ns + 300000000 + fleet_random(fleet) % 400000000;
		}
		fleet_take_sample(fleet, host, cpu);
	}
}

static inline int fleet_compare(const void *a, const void *b)
{
	const struct fleet_sample *left = a, *right = b;

	if (left->series != right->series)
		return left->series < right->series ? -1 : 1;
	if (left->slot != right->slot)
		return left->slot < right->slot ? -1 : 1;
	return left->stack < right->stack ? -1 : left->stack > right->stack;
}

static inline void fleet_join_samples(struct fleet *fleet)
{
	uint32_t kept = 0;

	qsort(fleet->samples, fleet->sample_count, sizeof(*fleet->samples), fleet_compare);
	for (uint32_t i = 1; i < fleet->sample_count; i++) {
		if (fleet_compare(&fleet->samples[kept], &fleet->samples[i]) == 0)
			fleet->samples[kept].value += fleet->samples[i].value;
		else
			fleet->samples[++kept] = fleet->samples[i];
	}
	fleet->sample_count = fleet->sample_count ? kept + 1 : 0;
}

static inline uint32_t fleet_add_series(struct profile *profile, const struct fleet_host *host,
					uint32_t number)
{
	static const char *const threads[FLEET_THREADS] = { "worker", "grpc_poller", "io",
							    "gc",     "logger",      "main" };
	uint32_t service = host->services[number / FLEET_THREADS], series;
	struct labels labels = { 0 };
	char text[64];

	snprintf(text, sizeof(text), "svc%u", service);
	labels_set(&labels, "service", text);
	labels_set(&labels, "process", text);
	snprintf(text, sizeof(text), "node-%03u", host->number);
	labels_set(&labels, "node", text);
	snprintf(text, sizeof(text), "svc%u-%05x", service, host->number * 7919);
	labels_set(&labels, "pod", text);
	labels_set(&labels, "namespace", service % 2 ? "prod" : "batch");
	labels_set(&labels, "thread", threads[number % FLEET_THREADS]);
	profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series);
	labels_deinit(&labels);
	return series;
}

/** Add the stack to @profile, defined until the collector has acknowledged it. */
static inline uint32_t fleet_copy_stack(struct profile *profile, const struct profile *from,
					uint32_t number, bool define)
{
	const struct stack *stack = &from->stacks[number];
	uint32_t locations[64], copy;

	if (!define) {
		profile_add_stack_id(profile, stack->id, &copy);
		return copy;
	}
	for (uint32_t i = 0; i < stack->location_count; i++) {
		struct location location =
			from->locations[from->stack_locations[stack->first_location + i]];
		struct line line = from->lines[location.first_line];

		profile_add_string(profile, profile_string(from, location.module),
				   &location.module);
		profile_add_string(profile, profile_string(from, location.build_id),
				   &location.build_id);
		profile_add_string(profile, profile_string(from, line.name), &line.name);
		profile_add_location(profile, &location, &line, 1, &locations[i]);
	}
	profile_add_stack(profile, locations, stack->location_count, stack->end, &copy);
	return copy;
}

/**
 * The profile that @host's agent sends for [from, to). *ret_raw: samples before equal ones were
 * joined.
 */
static inline struct profile *fleet_profile(struct fleet *fleet, struct fleet_host *host,
					    uint64_t from_ns, uint64_t to_ns, uint64_t *ret_raw)
{
	struct profile *profile = profile_new(FLEET_SLOT_NS);
	uint32_t series_of[FLEET_HOST_SERIES];

	fleet->sample_count = 0;
	for (uint32_t i = 0; i < host->cpu_count; i++)
		fleet_run_cpu(fleet, host, &host->cpus[i], from_ns, to_ns);
	*ret_raw = fleet->sample_count;
	fleet_join_samples(fleet);
	profile->from_ns = from_ns;
	profile->to_ns = to_ns;
	memset(series_of, 0xff, sizeof(series_of));
	for (uint32_t i = 0; i < fleet->sample_count; i++) {
		const struct fleet_sample *sample = &fleet->samples[i];
		uint32_t service = host->services[sample->series / FLEET_THREADS];
		uint8_t *acknowledged = &host->acknowledged[service * FLEET_STACKS + sample->stack];

		if (series_of[sample->series] == UINT32_MAX)
			series_of[sample->series] = fleet_add_series(profile, host, sample->series);
		uint32_t stack = fleet_copy_stack(profile, fleet->stacks[service], sample->stack,
						  !*acknowledged);
		*acknowledged = 1;
		profile_add_sample(profile, series_of[sample->series], stack, sample->slot,
				   sample->value);
	}
	return profile;
}
