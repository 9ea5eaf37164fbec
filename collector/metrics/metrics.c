// SPDX-License-Identifier: Apache-2.0
#include "collector/metrics/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/metric_text.h"
#include "base/version.h"

static const struct {
	const char *name;
	const char *sentence;
} counters[] = {
#define X(constant, name, sentence) { name, sentence },
	METRIC_COUNTERS(X)
#undef X
};

/** The fields of struct store_stats as metrics. */
static const struct {
	const char *name;
	const char *type;
	size_t offset;
	const char *sentence;
} store_figures[] = {
#define FIGURE(name, type, field, sentence)                                              \
	{                                                                                \
		"cairn_store_" name, type, offsetof(struct store_stats, field), sentence \
	}
	FIGURE("rows_appended_total", "counter", rows_appended,
	       "Rows stored since start: a row is the time of one stack of one series in a time "
	       "slot."),
	FIGURE("batches_appended_total", "counter", batches_appended,
	       "Batches of agents and pushes written since start."),
	FIGURE("batches_duplicate_total", "counter", batches_duplicate,
	       "Batches acknowledged again without storing them: an acknowledgement was lost."),
	FIGURE("rows_late_dropped_total", "counter", rows_late_dropped,
	       "Rows refused: older than --retention. Agents count and log theirs, a push gets the "
	       "number in its answer. Raise --retention, or check the senders' clocks; after an "
	       "outage they "
	       "come from full spools."),
	FIGURE("rows_future_dropped_total", "counter", rows_future_dropped,
	       "Rows refused: more than an hour ahead of the collector's clock; the agent counts "
	       "and logs them. Check the clocks."),
	FIGURE("clock_doubted", "gauge", clock_doubted,
	       "1 while the collector's clock is in doubt: nothing is deleted. See /readyz for the "
	       "reason. Set the clock, or restart the collector with --accept-clock."),
	FIGURE("retention_put_off_total", "counter", retention_put_off,
	       "Runs of retention stopped at the limit (a day of profiles an hour). Nothing to "
	       "do."),
	FIGURE("rows_other_total", "counter", rows_other,
	       "Rows stored under the label other, without some of their labels: too many series. "
	       "Remove labels with many values."),
	FIGURE("rows_series_dropped_total", "counter", rows_series_dropped,
	       "Rows dropped: an hour has the maximum of series. Remove labels with many values."),
	FIGURE("stacks_dropped_total", "counter", stacks_dropped,
	       "Stacks dropped: their hour has the maximum of stack nodes. Their values count as "
	       "lost stacks. Use fewer services per collector, or report it to cairn's "
	       "developers."),
	FIGURE("chunk_bytes_total", "counter", chunk_bytes,
	       "Compressed bytes of profiles written to chunks since start. Not the size on disk."),
	FIGURE("chunk_rows_total", "counter", chunk_rows, "Rows in written chunks."),
	FIGURE("stored_bytes", "gauge", stored_bytes, "Bytes on disk, approximate."),
	FIGURE("memory_bytes", "gauge", memory_bytes,
	       "Bytes of caches and open hours, approximate."),
	FIGURE("series", "gauge", series,
	       "Series stored, counted for each hour: one that lives for a day counts 24 times."),
	FIGURE("partitions", "gauge", partitions,
	       "Hours of profiles stored; with ClickHouse, days."),
	FIGURE("stack_nodes", "gauge", nodes,
	       "Distinct call paths stored, of all hours: a measure of memory and disk use."),
	FIGURE("batches_refused_total", "counter", batches_refused,
	       "Batches refused while the disk was full or failed; agents retry. See /readyz."),
	FIGURE("partitions_dropped_total", "counter", partitions_dropped,
	       "Hours of profiles deleted before --retention, because the disk was full or "
	       "--retention-size was reached. Give --data a larger disk, raise --retention-size, "
	       "or shorten --retention."),
	FIGURE("write_failures_total", "counter", write_failures,
	       "Times that the disk failed a write; the store was closed and opened again. Check "
	       "the disk."),
	FIGURE("partitions_damaged", "gauge", partitions_damaged,
	       "Hours with damaged files: queries skip the damaged parts. Check the disk; "
	       "cairn-collector --check lists them, and a backup may have them."),
	FIGURE("partitions_damaged_deleted_total", "counter", partitions_damaged_deleted,
	       "Hours deleted because they were damaged and new batches needed them. Check the "
	       "disk. A backup has them: restore it into an empty folder and query it there."),
	FIGURE("damaged_openings_total", "counter", damaged_openings,
	       "Times that the store was found damaged at start. Batches may be missing: see the "
	       "collector's log. Check the disk; a backup may have them."),
	FIGURE("repairs_total", "counter", repairs,
	       "Repairs of the store's files. Unreadable ones are in DATA/lost, where DATA is the "
	       "folder of --data. Check the disk."),
	FIGURE("agents_damaged_total", "counter", agents_damaged,
	       "Damaged records of acknowledged batches: a batch that such an agent resends counts "
	       "twice. Check the disk."),
	FIGURE("series_deleted_total", "counter", series_deleted,
	       "Series found by deletions (cairn delete). See the audit log for whose."),
	FIGURE("rows_deleted_total", "counter", rows_deleted,
	       "Rows of deleted series removed from disk."),
	FIGURE("rows_merged_total", "counter", rows_merged,
	       "Rows of past hours written to merged chunks; downsampling writes them again."),
	FIGURE("partitions_merged", "gauge", partitions_merged,
	       "Hours whose chunks are merged. If it stays behind past hours, run cairn-collector "
	       "--upgrade-store once, or --check: damaged hours are not merged."),
	FIGURE("deletions", "gauge", tombstones,
	       "Deletions that are still on disk, counted for each hour of profiles; nothing of "
	       "them is "
	       "shown. If it stays above 0 for long, the hour is damaged: run cairn-collector "
	       "--check."),
	FIGURE("disk_free_bytes", "gauge", disk_free_bytes, "Bytes free on the disk of --data."),
	FIGURE("agents", "gauge", agents,
	       "Starts of agents in the table of acknowledged batches, kept for a week."),
	FIGURE("agents_evicted_total", "counter", agents_evicted,
	       "Starts of agents evicted from the table of acknowledged batches (128 Ki): a batch "
	       "that such an agent resends counts twice. Check for agents that restart in a loop."),
	FIGURE("pushes", "gauge", pushes,
	       "Pushes in the table of acknowledged batches, kept for a week: the same body counts "
	       "once."),
	FIGURE("pushes_evicted_total", "counter", pushes_evicted,
	       "Pushes evicted from the table of acknowledged batches: table full, over half "
	       "pushes. The same body counts again. Nothing to do unless clients retry hours "
	       "later."),
#undef FIGURE
};

static struct metric_endpoint *find_endpoint(struct metrics *metrics, const char *name)
{
	for (size_t i = 0; i < METRIC_ENDPOINTS_MAX; i++) {
		struct metric_endpoint *endpoint = &metrics->endpoints[i];
		const char *found = atomic_load(&endpoint->name);

		if (!found && atomic_compare_exchange_strong(&endpoint->name, &found, name))
			return endpoint;
		if (strcmp(found, name) == 0)
			return endpoint;
	}
	return NULL;
}

void metrics_add_response(struct metrics *metrics, const char *endpoint, int status,
			  uint64_t duration_ns, uint64_t bytes)
{
	struct metric_endpoint *found = find_endpoint(metrics, endpoint);

	if (!found)
		return;
	atomic_fetch_add(&found->responses[status / 100 % METRIC_STATUS_CLASSES], 1);
	atomic_fetch_add(&found->duration_ns, duration_ns);
	atomic_fetch_add(&found->bytes, bytes);
}

static void encode_responses(struct metrics *metrics, struct buffer *buffer)
{
	metric_text_begin(buffer, "cairn_http_responses_total", "counter",
			  "HTTP responses by endpoint and status class.");
	for (size_t i = 0; i < METRIC_ENDPOINTS_MAX; i++) {
		struct metric_endpoint *endpoint = &metrics->endpoints[i];

		for (int class = 1; endpoint->name && class < METRIC_STATUS_CLASSES; class ++) {
			uint64_t count = endpoint->responses[class];

			if (count)
				buffer_printf(buffer,
					      "cairn_http_responses_total{endpoint=\"%s\",code=\"%"
					      "dxx\"} %llu\n",
					      endpoint->name, class, (unsigned long long)count);
		}
	}
}

static uint64_t response_count(const struct metric_endpoint *endpoint)
{
	uint64_t count = 0;

	for (int class = 0; class < METRIC_STATUS_CLASSES; class ++)
		count += endpoint->responses[class];
	return count;
}

static void encode_durations(struct metrics *metrics, struct buffer *buffer)
{
	metric_text_begin(
		buffer, "cairn_http_response_seconds", "summary",
		"Seconds from an HTTP request's arrival to the end of its response, by endpoint.");
	for (size_t i = 0; i < METRIC_ENDPOINTS_MAX; i++) {
		struct metric_endpoint *endpoint = &metrics->endpoints[i];

		if (!endpoint->name)
			continue;
		buffer_printf(buffer,
			      "cairn_http_response_seconds_sum{endpoint=\"%s\"} %.9f\n"
			      "cairn_http_response_seconds_count{endpoint=\"%s\"} %llu\n",
			      endpoint->name, (double)endpoint->duration_ns / NS_PER_SECOND,
			      endpoint->name, (unsigned long long)response_count(endpoint));
	}
	metric_text_begin(buffer, "cairn_http_response_bytes_total", "counter",
			  "Bytes of HTTP response bodies by endpoint.");
	for (size_t i = 0; i < METRIC_ENDPOINTS_MAX && metrics->endpoints[i].name; i++)
		buffer_printf(buffer, "cairn_http_response_bytes_total{endpoint=\"%s\"} %llu\n",
			      metrics->endpoints[i].name,
			      (unsigned long long)metrics->endpoints[i].bytes);
}

static void encode_process(struct buffer *buffer)
{
	metric_text_add_process(buffer);
	metric_text_begin(buffer, "cairn_build_info", "gauge", "The collector's version.");
	buffer_printf(buffer, "cairn_build_info{version=\"%s\"} 1\n", CAIRN_VERSION);
}

void metrics_encode(struct metrics *metrics, const struct store_stats *stats, uint32_t agents,
		    struct buffer *buffer)
{
	for (size_t i = 0; i < METRIC_COUNT; i++)
		metric_text_add(buffer, counters[i].name, "counter", counters[i].sentence,
				(double)metrics->counters[i]);
	metric_text_add(buffer, "cairn_agents", "gauge",
			"Agents that sent a batch in the last minute.", agents);
	for (size_t i = 0; stats && i < ARRAY_SIZE(store_figures); i++) {
		uint64_t value;

		memcpy(&value, (const char *)stats + store_figures[i].offset, sizeof(value));
		metric_text_add(buffer, store_figures[i].name, store_figures[i].type,
				store_figures[i].sentence, (double)value);
	}
	encode_responses(metrics, buffer);
	encode_durations(metrics, buffer);
	encode_process(buffer);
}
