// SPDX-License-Identifier: Apache-2.0
// Many agents without sampling: each sends made-up profiles through the agent's own sender, and accounts for
// what the collector acknowledged. Each second, and at the end, a line of JSON has the account; in it all
// times are nanoseconds of made-up CPU time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ship/identity.h"
#include "agent/ship/sender.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/profile/profile.h"
#include "bench/arguments.h"

#define USAGE                                                                                     \
	"--collector HOST:PORT --service NAME [--agents 10] [--seconds 10] [--flush-seconds 60] " \
	"[--interval-ms 1000] [--samples 50] [--spool-bytes 67108864] [--stacks 100] "            \
	"[--name-bytes 16]"

enum {
	AGENTS_MAX = 10000,
	SAMPLES_MAX = 10000, // of one batch
	STACKS_MAX = 4000,
	NAME_BYTES_MAX = 4000,
	SAMPLE_VALUE_NS = 1000000,
};

#define SLOT_NS (20 * NS_PER_MS)

struct settings {
	const char *collector, *service;
	uint32_t agents, seconds, flush_seconds, interval_ms, samples, stacks, name_bytes;
	uint32_t spool_bytes;
};

struct account {
	uint64_t pushed, acknowledged, dropped, refused; // samples
	uint64_t retries, duplicates, away;
};

static void fail(const char *what, const struct error *err)
{
	fprintf(stderr, "virtual_agents: %s: %s\n", what, err->text);
	exit(1);
}

/* Long names make large batches. */
static uint32_t add_stack(const struct settings *settings, struct profile *profile, uint32_t number)
{
	char name[NAME_BYTES_MAX + 1];
	struct location location = { .kind = FRAME_KIND_NATIVE, .offset = 64 * number };
	struct line line = { .number = number + 1 };
	uint32_t at, stack;

	int size = snprintf(name, sizeof(name), "made_up_%u", number);
	for (; size < (int)settings->name_bytes; size++)
		name[size] = '_';
	name[size] = '\0';
	location.id = location_id_of_offset(location.kind, "made up", location.offset);
	profile_add_string(profile, name, &line.name);
	profile_add_location(profile, &location, &line, 1, &at);
	profile_add_stack(profile, &at, 1, STACK_END_COMPLETE, &stack);
	return stack;
}

/* Of the interval that ends now; no two samples are of one stack and slot. */
static struct profile *make_profile(const struct settings *settings, uint32_t agent)
{
	struct profile *profile = profile_new(SLOT_NS);
	struct labels labels = { 0 };
	uint32_t stacks[STACKS_MAX], series;
	char node[32];

	profile->to_ns = clock_realtime_ns();
	profile->from_ns = profile->to_ns - settings->interval_ms * NS_PER_MS;
	snprintf(node, sizeof(node), "virtual-%u", agent);
	labels_set(&labels, "service", settings->service);
	labels_set(&labels, "node", node);
	profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series);
	labels_deinit(&labels);
	for (uint32_t i = 0; i < settings->stacks; i++)
		stacks[i] = add_stack(settings, profile, i);

	uint64_t last_slot = profile->to_ns / SLOT_NS;
	for (uint32_t i = 0; i < settings->samples; i++)
		profile_add_sample(profile, series, stacks[i % settings->stacks],
				   last_slot - i / settings->stacks, SAMPLE_VALUE_NS);
	profile_sort_samples(profile);
	return profile;
}

static struct account read_account(struct sender *const *senders, uint32_t count, uint64_t pushed)
{
	struct account account = { .pushed = pushed };

	for (uint32_t i = 0; i < count; i++) {
		struct sender_stats stats;

		sender_read_stats(senders[i], &stats);
		account.acknowledged += stats.samples_sent;
		account.dropped += stats.spool.dropped_samples;
		account.refused += stats.samples_refused;
		account.retries += stats.retries;
		account.duplicates += stats.duplicates;
		account.away += stats.away;
	}
	return account;
}

static void print_account(const struct account *account)
{
	printf("{\"pushed\": %llu, \"acknowledged\": %llu, \"dropped\": %llu, \"refused\": %llu, "
	       "\"retries\": %llu, \"duplicates\": %llu, \"away\": %llu}\n",
	       (unsigned long long)account->pushed * SAMPLE_VALUE_NS,
	       (unsigned long long)account->acknowledged * SAMPLE_VALUE_NS,
	       (unsigned long long)account->dropped * SAMPLE_VALUE_NS,
	       (unsigned long long)account->refused * SAMPLE_VALUE_NS,
	       (unsigned long long)account->retries, (unsigned long long)account->duplicates,
	       (unsigned long long)account->away);
	fflush(stdout);
}

static bool is_settled(const struct account *account)
{
	return account->acknowledged + account->dropped + account->refused == account->pushed;
}

static struct settings read_settings(int argc, char **argv)
{
	struct settings settings = { .agents = 10,
				     .seconds = 10,
				     .flush_seconds = 60,
				     .interval_ms = 1000,
				     .samples = 50,
				     .stacks = 100,
				     .spool_bytes = 64 << 20 };
	const struct argument arguments[] = {
		{ .name = "collector", .text = &settings.collector },
		{ .name = "service", .text = &settings.service },
		{ .name = "agents", .number = &settings.agents, .min = 1, .max = AGENTS_MAX },
		{ .name = "seconds", .number = &settings.seconds, .max = 86400 },
		{ .name = "flush-seconds", .number = &settings.flush_seconds, .max = 3600 },
		{ .name = "interval-ms", .number = &settings.interval_ms, .min = 1, .max = 60000 },
		{ .name = "samples", .number = &settings.samples, .max = SAMPLES_MAX },
		{ .name = "spool-bytes", .number = &settings.spool_bytes, .max = 1 << 30 },
		{ .name = "stacks", .number = &settings.stacks, .min = 1, .max = STACKS_MAX },
		{ .name = "name-bytes", .number = &settings.name_bytes, .max = NAME_BYTES_MAX },
	};

	read_arguments(argc, argv, arguments, ARRAY_SIZE(arguments), USAGE);
	if (!settings.collector || !settings.service)
		die("usage: virtual_agents " USAGE);
	if (settings.samples > settings.stacks * (settings.interval_ms * NS_PER_MS / SLOT_NS))
		die("virtual_agents: an interval has room for %u samples a slot of 20 ms",
		    settings.stacks);
	return settings;
}

static struct sender *open_sender(const struct settings *settings)
{
	struct sender_options options = { .address = settings->collector,
					  .spool_bytes = settings->spool_bytes,
					  .call_ms = 5000,
					  .backoff_ms_min = 250,
					  .backoff_ms_max = 2000 };
	struct sender *sender;
	struct error err = { 0 };

	// Each is a node of its own.
	if (identity_of_start(&options.agent, &err) || identity_of_start(&options.boot, &err))
		fail("identity", &err);
	if (sender_open(&options, &sender, &err))
		fail("sender", &err);
	return sender;
}

int main(int argc, char **argv)
{
	const struct settings settings = read_settings(argc, argv);
	struct sender **senders = calloc(settings.agents, sizeof(struct sender *));
	uint64_t pushed = 0;

	for (uint32_t i = 0; i < settings.agents; i++)
		senders[i] = open_sender(&settings);
	uint64_t begin_ns = clock_monotonic_ns(), shown_ns = begin_ns, next_ns = begin_ns;
	uint64_t end_ns = begin_ns + settings.seconds * NS_PER_SECOND;
	struct account account = { 0 };
	while (next_ns < end_ns) {
		for (uint32_t i = 0; i < settings.agents; i++) {
			sender_push(senders[i], make_profile(&settings, i));
			pushed += settings.samples;
		}
		next_ns += settings.interval_ms * NS_PER_MS;
		for (uint64_t now_ns; (now_ns = clock_monotonic_ns()) < next_ns;)
			usleep((useconds_t)((next_ns - now_ns) / 1000 + 1));
		account = read_account(senders, settings.agents, pushed);
		if (clock_monotonic_ns() - shown_ns >= NS_PER_SECOND) {
			shown_ns = clock_monotonic_ns();
			print_account(&account);
		}
	}
	end_ns += settings.flush_seconds * NS_PER_SECOND;
	do {
		usleep(100000);
		account = read_account(senders, settings.agents, pushed);
	} while (!is_settled(&account) && clock_monotonic_ns() < end_ns);
	print_account(&account);
	// Senders are left to the kernel: ended one by one, thousands take minutes.
	_exit(0);
}
