// SPDX-License-Identifier: Apache-2.0
// A double of what services do when nothing is wrong: values by slot, drawn from a seed.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"

#define NOISE_SAMPLE_NS (10.1e6) // of CPU time at 99 Hz

struct noise {
	uint64_t state;
};

static inline double noise_draw(struct noise *noise)
{
	// xorshift64*: the same values everywhere.
	noise->state ^= noise->state >> 12;
	noise->state ^= noise->state << 25;
	noise->state ^= noise->state >> 27;
	return ((double)((noise->state * 2685821657736338717ULL) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double noise_normal(struct noise *noise)
{
	return sqrt(-2 * log(noise_draw(noise))) * cos(2 * M_PI * noise_draw(noise));
}

static inline unsigned int noise_poisson(struct noise *noise, double mean)
{
	if (mean > 30)
		return (unsigned int)fmax(0, mean + sqrt(mean) * noise_normal(noise) + 0.5);
	double limit = exp(-mean), product = noise_draw(noise);
	unsigned int count = 0;

	for (; product > limit; count++)
		product *= noise_draw(noise);
	return count;
}

/** Samples of a service that uses @cores on average; @shape(context, second) multiplies that. */
static inline void noise_cpu(struct noise *noise, int64_t *values, uint32_t count, uint64_t slot_ns,
			     double cores, double (*shape)(void *context, double second),
			     void *context)
{
	double mean = cores * (double)slot_ns / NOISE_SAMPLE_NS;

	for (uint32_t i = 0; i < count; i++) {
		double factor =
			shape ? shape(context, (double)i * (double)slot_ns / (double)NS_PER_SECOND)
			      : 1;

		values[i] += (int64_t)(noise_poisson(noise, mean * factor) * NOISE_SAMPLE_NS);
	}
}

/** As noise_cpu(), with a load that goes up and down: the logarithm has @sigma and is forgotten in @memory_s. */
static inline void noise_wandering(struct noise *noise, int64_t *values, uint32_t count,
				   uint64_t slot_ns, double cores, double memory_s, double sigma)
{
	double slot_s = (double)slot_ns / (double)NS_PER_SECOND, load = 0;
	double kept = exp(-slot_s / memory_s), new = sqrt(1 - kept * kept) * sigma;

	for (uint32_t i = 0; i < count; i++) {
		load = kept * load + new *noise_normal(noise);
		values[i] += (int64_t)(noise_poisson(noise, cores * (double)slot_ns /
								    NOISE_SAMPLE_NS * exp(load)) *
				       NOISE_SAMPLE_NS);
	}
}

/** Requests at @rate per second, each a run of @mean_s, spread over slots: exponential, or with @sigma log-normal. */
static inline void noise_requests(struct noise *noise, int64_t *values, uint32_t count,
				  uint64_t slot_ns, double rate, double mean_s, double sigma)
{
	double at = 0, end = (double)count * (double)slot_ns / (double)NS_PER_SECOND;

	for (;;) {
		at -= log(noise_draw(noise)) / rate;
		if (at >= end)
			return;
		double left = mean_s * (sigma > 0 ? exp(sigma * noise_normal(noise))
						  : -log(noise_draw(noise)));

		for (uint32_t slot = (uint32_t)(at * (double)NS_PER_SECOND / (double)slot_ns);
		     slot < count && left > 0; slot++) {
			double part = fmin(left, (double)slot_ns / (double)NS_PER_SECOND);

			values[slot] += (int64_t)(part * (double)NS_PER_SECOND);
			left -= part;
		}
	}
}

/** A burst of @length_s of @cores every @period_s, give or take a tenth. */
static inline void noise_periodic(struct noise *noise, int64_t *values, uint32_t count,
				  uint64_t slot_ns, double period_s, double length_s, double cores)
{
	double end = (double)count * (double)slot_ns / (double)NS_PER_SECOND;

	for (double at = period_s * noise_draw(noise); at < end;
	     at += period_s * (0.9 + 0.2 * noise_draw(noise))) {
		uint32_t first = (uint32_t)(at * (double)NS_PER_SECOND / (double)slot_ns);
		uint32_t slots = (uint32_t)(length_s * (double)NS_PER_SECOND / (double)slot_ns) + 1;

		for (uint32_t i = first; i < first + slots && i < count; i++)
			values[i] += (int64_t)(cores * (double)slot_ns);
	}
}
