// SPDX-License-Identifier: Apache-2.0
// A fleet of virtual agents that replay real profiles: those that an agent's spool has kept on disk. Each is sent by the
// agent's own sender, through gRPC, with dictionaries and retries, as of a node of its own. Pods come and go: their names change.
// Deploys come, too: a program has another build id, and so other locations and stacks, on all nodes.
//
// --ago N replays the N seconds before now, as fast as the collector takes them, instead of in real time.
// Each ten seconds, and at the end, a line of JSON has what was sent and what became of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ship/identity.h"
#include "agent/ship/sender.h"
#include "agent/ship/spool_folder.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/log.h"
#include "bench/arguments.h"

#define USAGE                                                                        \
	"--collector HOST:PORT --spool DIR [--agents 100] [--seconds 60] [--ago 0] " \
	"[--pod-seconds 600] [--deploy-seconds 300]"

enum {
	AGENTS_MAX = 10000,
	DAY_S = 86400,
	RECORDED_MAX = 10000, // intervals
	LABEL_BYTES = 256,
	SHOWN_SECONDS = 10,
	FLUSH_SECONDS = 60,
	SPOOL_BYTES = 1 << 30,
	BEHIND_MAX = 4, // batches of an agent that wait while the past is replayed
};

struct settings {
	const char *collector, *spool;
	uint32_t agents, seconds, ago, pod_seconds, deploy_seconds;
};

/** Export intervals of one node, oldest first. */
struct recording {
	struct profile **profiles;
	uint32_t count;
	uint64_t samples, series, stacks; // of all
	uint64_t interval_ns;             // the median length
};

struct agent {
	struct sender *sender;
	uint64_t from_ns; // of its next interval
	uint64_t pushed_batches, pushed_samples;
	uint32_t number;
	uint32_t at; // in the recording
};

static void fail(const char *what, const char *cause)
{
	fprintf(stderr, "replay_agents: %s: %s\n", what, cause);
	exit(1);
}

/* ---- the recording -------------------------------------------------------------------------- */

static int compare_lengths(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static uint64_t median_length(const struct recording *recording)
{
	uint64_t *lengths = malloc(recording->count * sizeof(*lengths));

	for (uint32_t i = 0; i < recording->count; i++)
		lengths[i] = recording->profiles[i]->to_ns - recording->profiles[i]->from_ns;
	qsort(lengths, recording->count, sizeof(*lengths), compare_lengths);
	uint64_t median = lengths[recording->count / 2];
	free(lengths);
	return median;
}

static struct recording read_recording(const char *path)
{
	struct recording recording = { 0 };
	struct spool_folder_files files;
	struct spool_folder *folder;
	struct error err = { 0 };

	if (spool_folder_open(path, &folder, &err) || spool_folder_list(folder, &files, &err))
		fail(path, err.text);
	recording.profiles = calloc(files.count + 1, sizeof(*recording.profiles));
	for (uint32_t i = 0; i < files.count && recording.count < RECORDED_MAX; i++) {
		struct batch batch = { 0 };

		if (spool_folder_read(folder, files.list[i].number, &batch, &err) ||
		    batch_unpack(&batch, &err))
			fail(path, err.text);
		recording.samples += batch.profile->sample_count;
		recording.series += batch.profile->series_count;
		recording.stacks += batch.profile->stack_count;
		recording.profiles[recording.count++] = take(batch.profile);
		batch_unload(&batch);
	}
	spool_folder_files_deinit(&files);
	spool_folder_close(folder);
	if (!recording.count)
		fail(path, "no batch in it; record with cairn-agent --spool-dir and a collector "
			   "that is away");
	recording.interval_ns = median_length(&recording);
	return recording;
}

/* ---- one batch of a virtual node ------------------------------------------------------------- */

static uint64_t mix(uint64_t number)
{
	number = (number ^ number >> 33) * 0xff51afd7ed558ccdULL; // MurmurHash3's finalizer
	number = (number ^ number >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return number ^ number >> 33;
}

/* How often this program was deployed by then; each has its own moment. */
static uint64_t deploy_of(const struct settings *settings, const char *build_id, uint64_t at_ns)
{
	uint64_t phase = id128_of(build_id, strlen(build_id)).low % settings->deploy_seconds;

	// Libraries and programs of the distribution stay: one file in eight is the service's own.
	if (id128_of(build_id, strlen(build_id)).high % 8)
		return 0;
	return (at_ns / NS_PER_SECOND + phase) / settings->deploy_seconds;
}

static void set_numbered(struct labels *labels, const char *name, uint64_t number)
{
	const char *value = labels_get(labels, name);
	char numbered[LABEL_BYTES];

	if (!value)
		return;
	snprintf(numbered, sizeof(numbered), "%.200s-%llx", value, (unsigned long long)number);
	labels_set(labels, name, numbered);
}

static uint32_t copy_location(const struct settings *settings, const struct profile *from,
			      const struct location *location, uint64_t at_ns, struct profile *to)
{
	struct line lines[LOCATION_LINES_MAX];
	struct location copy = *location;
	const char *build_id = profile_string(from, location->build_id);
	uint64_t deploy = *build_id ? deploy_of(settings, build_id, at_ns) : 0;
	char deployed[LABEL_BYTES];
	uint32_t at;

	if (deploy) {
		snprintf(deployed, sizeof(deployed), "%.100s%llx", build_id,
			 (unsigned long long)deploy);
		build_id = deployed;
		copy.id = location_id_of_offset(location->kind, build_id, location->offset);
	}
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct line *line = &from->lines[location->first_line + i];

		lines[i].number = line->number;
		profile_add_string(to, profile_string(from, line->name), &lines[i].name);
		profile_add_string(to, profile_string(from, line->file), &lines[i].file);
	}
	profile_add_string(to, profile_string(from, location->module), &copy.module);
	profile_add_string(to, build_id, &copy.build_id);
	if (profile_add_location(to, &copy, lines, location->line_count, &at))
		fail("a location", "no memory");
	return at;
}

static uint32_t copy_series(const struct settings *settings, const struct profile *from,
			    const struct series *series, const struct agent *agent,
			    struct profile *to)
{
	uint64_t generation =
		(agent->from_ns / NS_PER_SECOND + mix(agent->number)) / settings->pod_seconds;
	struct labels labels = { 0 };
	uint32_t at;

	if (labels_copy(&series->labels, &labels))
		fail("labels", "no memory");
	set_numbered(&labels, LABEL_NODE, agent->number);
	set_numbered(&labels, LABEL_POD, mix(agent->number ^ mix(generation)) & 0xfffff);
	set_numbered(&labels, LABEL_CONTAINER_ID, mix(agent->number ^ mix(generation)));
	if (profile_add_series(to, &labels, profile_string(from, series->type), &at))
		fail("a series", "no memory");
	labels_deinit(&labels);
	return at;
}

/* Of an interval that lies in two minutes by the new time the parts are two samples, as the agent would send them. */
static void add_sample(struct profile *profile, uint32_t series, uint32_t stack, uint64_t slot,
		       const struct sample *sample)
{
	uint64_t minute_slots = 60 * NS_PER_SECOND / profile->slot_ns;
	uint64_t left = minute_slots - slot % minute_slots, slots = 1 + sample->more_slots;
	int64_t first = left < slots ? sample->value / (int64_t)slots * (int64_t)left : 0;
	int rc = 0;

	if (left < slots) {
		rc = profile_add_interval(profile, series, stack, slot, (uint32_t)left - 1, first);
		slot += left;
		slots -= left;
	}
	if (rc || profile_add_interval(profile, series, stack, slot, (uint32_t)slots - 1,
				       sample->value - first))
		fail("a sample", "no memory");
}

/* The agent's next interval: a recorded one as of its node, now. */
static struct profile *make_profile(const struct settings *settings, const struct profile *recorded,
				    struct agent *agent)
{
	struct profile *profile = profile_new(recorded->slot_ns);
	uint32_t *locations = calloc(recorded->location_count + 1, sizeof(*locations));
	uint32_t *stacks = calloc(recorded->stack_count + 1, sizeof(*stacks));
	uint32_t *series = calloc(recorded->series_count + 1, sizeof(*series));
	uint32_t frames[STACK_FRAMES_MAX];
	int64_t later = (int64_t)(agent->from_ns / recorded->slot_ns) -
			(int64_t)(recorded->from_ns / recorded->slot_ns);

	if (!profile || !locations || !stacks || !series)
		fail("a profile", "no memory");
	profile->from_ns = agent->from_ns;
	profile->to_ns = agent->from_ns + recorded->to_ns - recorded->from_ns;
	for (uint32_t i = 0; i < recorded->location_count; i++)
		locations[i] = copy_location(settings, recorded, &recorded->locations[i],
					     agent->from_ns, profile);
	for (uint32_t i = 0; i < recorded->stack_count; i++) {
		const struct stack *stack = &recorded->stacks[i];

		for (uint32_t j = 0; j < stack->location_count; j++)
			frames[j] = locations[recorded->stack_locations[stack->first_location + j]];
		if (profile_add_stack(profile, frames, stack->location_count, stack->end,
				      &stacks[i]))
			fail("a stack", "no memory");
	}
	for (uint32_t i = 0; i < recorded->series_count; i++)
		series[i] = copy_series(settings, recorded, &recorded->series[i], agent, profile);
	for (uint32_t i = 0; i < recorded->sample_count; i++) {
		const struct sample *sample = &recorded->samples[i];

		add_sample(profile, series[sample->series], stacks[sample->stack],
			   (uint64_t)((int64_t)sample->slot + later), sample);
	}
	free(locations);
	free(stacks);
	free(series);
	profile_sort_samples(profile);
	return profile;
}

/* ---- the fleet ----------------------------------------------------------------------------- */

static void open_agent(const struct settings *settings, const struct recording *recording,
		       uint32_t number, uint64_t begin_ns, struct agent *ret_agent)
{
	struct sender_options options = { .address = settings->collector,
					  .spool_bytes = SPOOL_BYTES,
					  SENDER_DEFAULTS };
	struct error err = { 0 };

	*ret_agent = (struct agent){
		.number = number,
		.at = (uint32_t)(mix(number) % recording->count), // not all the same moment
		// Starts are spread over an interval, as those of a rollout are.
		.from_ns = begin_ns + mix(number + 1) % recording->interval_ns,
	};
	// Each is a node of its own.
	if (identity_of_start(&options.agent, &err) || identity_of_start(&options.boot, &err) ||
	    sender_open(&options, &ret_agent->sender, &err))
		fail("sender", err.text);
}

static bool is_behind(const struct agent *agent)
{
	struct sender_stats stats;

	sender_read_stats(agent->sender, &stats);
	return agent->pushed_batches - stats.batches_sent - stats.batches_refused > BEHIND_MAX;
}

/* When its next interval ends. */
static uint64_t due_ns(const struct recording *recording, const struct agent *agent)
{
	const struct profile *recorded = recording->profiles[agent->at];

	return agent->from_ns + recorded->to_ns - recorded->from_ns;
}

/* Push what is due by @now_ns. Returns whether there was something. */
static bool push_due(const struct settings *settings, const struct recording *recording,
		     struct agent *agent, uint64_t now_ns)
{
	if (due_ns(recording, agent) > now_ns || is_behind(agent))
		return false;
	struct profile *profile = make_profile(settings, recording->profiles[agent->at], agent);
	agent->from_ns = profile->to_ns;
	agent->at = (agent->at + 1) % recording->count;
	agent->pushed_batches++;
	agent->pushed_samples += profile->sample_count;
	sender_push(agent->sender, profile);
	return true;
}

/* Returns whether all that was pushed is acknowledged or refused. */
static bool show(const struct agent *agents, uint32_t count)
{
	struct sender_stats sum = { 0 };
	uint64_t pushed = 0, pushed_batches = 0, away = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct sender_stats stats;

		sender_read_stats(agents[i].sender, &stats);
		sum.batches_sent += stats.batches_sent;
		sum.batches_refused += stats.batches_refused;
		sum.samples_sent += stats.samples_sent;
		sum.samples_refused += stats.samples_refused;
		sum.samples_other += stats.samples_other;
		sum.bytes_sent += stats.bytes_sent;
		sum.retries += stats.retries;
		sum.resends += stats.resends;
		away += stats.away;
		pushed += agents[i].pushed_samples;
		pushed_batches += agents[i].pushed_batches;
	}
	printf("{\"batches\": %llu, \"samples\": %llu, \"acknowledged\": %llu, \"refused\": %llu, "
	       "\"other\": %llu, "
	       "\"bytes\": %llu, \"retries\": %llu, \"resends\": %llu, \"away\": %llu}\n",
	       (unsigned long long)pushed_batches, (unsigned long long)pushed,
	       (unsigned long long)sum.samples_sent, (unsigned long long)sum.samples_refused,
	       (unsigned long long)sum.samples_other, (unsigned long long)sum.bytes_sent,
	       (unsigned long long)sum.retries, (unsigned long long)sum.resends,
	       (unsigned long long)away);
	fflush(stdout);
	return sum.batches_sent + sum.batches_refused == pushed_batches;
}

static void replay(const struct settings *settings, const struct recording *recording,
		   struct agent *agents)
{
	uint64_t begin_ns = clock_monotonic_ns(), shown_ns = begin_ns;
	uint64_t until_ns = clock_realtime_ns() + settings->seconds * NS_PER_SECOND;

	for (;;) {
		uint64_t now_ns = clock_realtime_ns();
		bool any = false, done = true;

		// The past is replayed up to now.
		now_ns = settings->ago && now_ns > until_ns ? until_ns : now_ns;
		for (uint32_t i = 0; i < settings->agents; i++) {
			any |= push_due(settings, recording, &agents[i], now_ns);
			done &= due_ns(recording, &agents[i]) > until_ns;
		}
		if (clock_monotonic_ns() - shown_ns >= SHOWN_SECONDS * NS_PER_SECOND) {
			shown_ns = clock_monotonic_ns();
			show(agents, settings->agents);
		}
		if (done)
			return;
		if (!any)
			usleep(5000);
	}
}

static struct settings read_settings(int argc, char **argv)
{
	struct settings settings = {
		.agents = 100, .seconds = 60, .pod_seconds = 600, .deploy_seconds = 300
	};
	const struct argument arguments[] = {
		{ .name = "collector", .text = &settings.collector },
		{ .name = "spool", .text = &settings.spool },
		{ .name = "agents", .number = &settings.agents, .min = 1, .max = AGENTS_MAX },
		{ .name = "seconds", .number = &settings.seconds, .max = DAY_S },
		{ .name = "ago", .number = &settings.ago, .max = DAY_S },
		{ .name = "pod-seconds", .number = &settings.pod_seconds, .min = 1, .max = DAY_S },
		{ .name = "deploy-seconds",
		  .number = &settings.deploy_seconds,
		  .min = 1,
		  .max = DAY_S },
	};

	read_arguments(argc, argv, arguments, ARRAY_SIZE(arguments), USAGE);
	if (!settings.collector || !settings.spool)
		die("usage: replay_agents " USAGE);
	if (settings.ago)
		settings.seconds = 0;
	return settings;
}

int main(int argc, char **argv)
{
	const struct settings settings = read_settings(argc, argv);
	struct recording recording = read_recording(settings.spool);
	struct agent *agents = calloc(settings.agents, sizeof(*agents));
	uint64_t begin_ns = clock_realtime_ns() - settings.ago * NS_PER_SECOND;

	fprintf(stderr,
		"replay_agents: %u recorded intervals of %.1f s; each has %.0f samples, %.0f "
		"series, %.0f stacks\n",
		recording.count, (double)recording.interval_ns / NS_PER_SECOND,
		(double)recording.samples / recording.count,
		(double)recording.series / recording.count,
		(double)recording.stacks / recording.count);
	log_set_level(LOG_LEVEL_ERROR); // the account says what senders would, of each agent
	for (uint32_t i = 0; i < settings.agents; i++)
		open_agent(&settings, &recording, i, begin_ns, &agents[i]);
	replay(&settings, &recording, agents);
	uint64_t flush_ns = clock_monotonic_ns() + FLUSH_SECONDS * NS_PER_SECOND;
	while (!show(agents, settings.agents) && clock_monotonic_ns() < flush_ns)
		usleep(500000);
	// Senders are left to the kernel: ended one by one, thousands take minutes.
	_exit(0);
}
