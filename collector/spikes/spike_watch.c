// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/spike_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/http_fetch.h"
#include "base/log.h"
#include "base/memory_account.h"
#include "collector/spikes/spike_alert.h"
#include "collector/spikes/spikes.h"

enum { CONNECT_S = 5, POST_S = 10, LOG_S = 600 };

/** A spike that was reported. */
struct known_spike {
	char *service, *group;
	const struct spike_type *type;
	uint64_t to_ns;
};

struct spike_watch {
	struct spike_watch_options options;
	char *webhook, *page_url;
	struct http_fetcher *fetcher;
	pthread_t thread;
	bool has_thread;
	uint64_t scanned_ns; // Unix time up to which was scanned; 0: never
	uint64_t failure_logged_ns;
	struct known_spike known[SPIKE_WATCH_KNOWN_MAX];
	uint32_t known_count;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	atomic_bool closing; // written with the lock
};

// ---- what is known --------------------------------------------------------------------------

static void known_deinit(struct known_spike *known)
{
	free(known->service);
	free(known->group);
}

static void free_known_before(struct spike_watch *watch, uint64_t before_ns)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < watch->known_count; i++) {
		if (watch->known[i].to_ns < before_ns)
			known_deinit(&watch->known[i]);
		else
			watch->known[kept++] = watch->known[i];
	}
	watch->known_count = kept;
}

/** Was @spike reported before? If so it is as long now as it is. */
static bool is_known(struct spike_watch *watch, const struct spike *spike)
{
	for (uint32_t i = 0; i < watch->known_count; i++) {
		struct known_spike *known = &watch->known[i];

		if (known->type != spike->type || strcmp(known->service, spike->service) != 0 ||
		    strcmp(known->group, spike->group) != 0 ||
		    spike->interval.from_ns > known->to_ns)
			continue;
		if (known->to_ns < spike->interval.to_ns)
			known->to_ns = spike->interval.to_ns;
		return true;
	}
	return false;
}

static void add_known(struct spike_watch *watch, const struct spike *spike)
{
	struct known_spike known = {
		.service = strdup(spike->service),
		.group = strdup(spike->group),
		.type = spike->type,
		.to_ns = spike->interval.to_ns,
	};

	// At worst it is reported twice.
	if (watch->known_count == SPIKE_WATCH_KNOWN_MAX || !known.service || !known.group)
		known_deinit(&known);
	else
		watch->known[watch->known_count++] = known;
}

// ---- the webhook ----------------------------------------------------------------------------

static bool is_closing(void *context)
{
	return atomic_load(&((struct spike_watch *)context)->closing);
}

/** Wait, unless it is the end. False: it is. */
static bool pause_for(struct spike_watch *watch, uint64_t ns)
{
	uint64_t until_ns = clock_monotonic_ns() + ns;
	const struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_SECOND),
					.tv_nsec = (long)(until_ns % NS_PER_SECOND) };
	int rc = 0;

	pthread_mutex_lock(&watch->lock);
	while (!is_closing(watch) && !rc)
		rc = pthread_cond_clockwait(&watch->changed, &watch->lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&watch->lock);
	return !is_closing(watch);
}

static int ignore_bytes(void *context, const void *bytes, size_t size)
{
	(void)context, (void)bytes, (void)size;
	return 0;
}

/** Once in ten minutes: a webhook that is away for a night must not fill the log. */
static void log_failure(struct spike_watch *watch, const char *what, const char *text)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (watch->failure_logged_ns && now_ns - watch->failure_logged_ns < LOG_S * NS_PER_SECOND)
		return;
	watch->failure_logged_ns = now_ns;
	log_warn("spikes: %s: %s", what, text);
}

static int post(struct spike_watch *watch, const char *json, struct error *err)
{
	const struct http_fetch request = {
		.url = watch->webhook,
		.protocols = "http,https",
		.connect_timeout_s = CONNECT_S,
		.timeout_s = POST_S,
		.json = json,
		.on_bytes = ignore_bytes,
		.is_over = is_closing,
		.context = watch,
	};
	long status;
	int rc = -ECANCELED;

	for (int attempt = 0; attempt < SPIKE_WATCH_TRIES; attempt++) {
		if (attempt && !pause_for(watch, watch->options.retry_ns))
			break;
		rc = http_fetch(watch->fetcher, &request, &status, err);
		// What the server refuses it will refuse again.
		if (!rc || (status >= 400 && status < 500) || is_closing(watch))
			break;
	}
	return rc;
}

static void report(struct spike_watch *watch, const struct spike *const *spikes, uint32_t count,
		   uint64_t now_ns)
{
	struct error err = { 0 };

	if (!watch->webhook || !count)
		return;
	_cleanup_free_ char *json = spike_alerts_encode(spikes, count, watch->page_url, now_ns);
	int rc = json ? post(watch, json, &err) : error_set(&err, -ENOMEM, "out of memory");

	metrics_add(watch->options.metrics, rc ? METRIC_SPIKE_ALERTS_FAILED : METRIC_SPIKE_ALERTS,
		    count);
	if (rc && rc != -ECANCELED)
		log_failure(watch, "alerts dropped: --spike-webhook not reached", err.text);
}

// ---- a scan ---------------------------------------------------------------------------------

static struct time_range range_of_scan(const struct spike_watch *watch, uint64_t now_ns)
{
	uint64_t longest_ns = SPIKE_WATCH_RANGE_S_MAX * NS_PER_SECOND;
	uint64_t from_ns =
		watch->scanned_ns ? watch->scanned_ns : now_ns - watch->options.interval_ns;

	from_ns -= SPIKE_WATCH_OVERLAP_S * NS_PER_SECOND;
	if (from_ns > now_ns || now_ns - from_ns > longest_ns)
		from_ns = now_ns - longest_ns;
	return (struct time_range){ from_ns, now_ns };
}

/** Report the first of each incident that is new. Returns their number. */
static uint32_t report_new(struct spike_watch *watch, const struct spikes *spikes, uint64_t now_ns)
{
	const struct spike *found[SPIKE_WATCH_REPORTED_MAX];
	uint32_t count = 0;

	free_known_before(watch, now_ns - SPIKE_WATCH_RANGE_S_MAX * NS_PER_SECOND);
	for (uint32_t i = 0; i < spikes->count; i++) {
		const struct spike *spike = &spikes->items[i];

		if (is_known(watch, spike))
			continue;
		add_known(watch, spike);
		if (spike->incident == i && count < SPIKE_WATCH_REPORTED_MAX)
			found[count++] = spike;
	}
	metrics_add(watch->options.metrics, METRIC_SPIKES, count);
	report(watch, found, count, now_ns);
	return count;
}

static int scan(struct spike_watch *watch, uint64_t now_ns, uint32_t *ret_new, struct error *err)
{
	_cleanup_(selector_deinit) struct selector selector = { 0 };
	_cleanup_(spikes_deinit) struct spikes spikes = { 0 };
	struct deadline deadline = {
		.at_ns = clock_monotonic_ns() + SPIKE_WATCH_DEADLINE_S * NS_PER_SECOND,
		.is_gone = is_closing,
		.context = watch,
		.poll_ns = DEADLINE_POLL_NS,
	};
	const struct spikes_options options = { .min_s = SPIKES_MIN_S_DEFAULT,
						.limit = SPIKE_WATCH_REPORTED_MAX };

	int rc = selector_parse("{}", SELECTOR_ALL_TENANTS, &selector, err);
	if (rc)
		return rc;
	selector_set_deadline(&selector, &deadline);
	const struct query query = {
		.store = watch->options.store,
		.selector = &selector,
		.range = range_of_scan(watch, now_ns),
		.symbolizer = watch->options.symbolizer,
	};

	rc = query_spikes(&query, &options, &spikes, err);
	watch->scanned_ns = now_ns; // also of a scan that failed: the next one must not be longer
	if (rc)
		return rc;
	*ret_new = report_new(watch, &spikes, now_ns);
	return 0;
}

int spike_watch_scan(struct spike_watch *watch, uint64_t now_ns, uint32_t *ret_new,
		     struct error *err)
{
	struct memory_account account;

	memory_account_begin(&account, watch->options.budget);
	int rc = scan(watch, now_ns, ret_new, err);
	memory_account_end(&account);
	int refused = memory_account_check(&account, err);
	return refused ? refused : rc;
}

static void *watch_spikes(void *context)
{
	struct spike_watch *watch = context;
	uint64_t pause_ns = watch->options.interval_ns;

	pthread_setname_np(pthread_self(), "spikes");
	while (pause_for(watch, pause_ns)) {
		uint64_t began_ns = clock_monotonic_ns();
		struct error err = { 0 };
		uint32_t count = 0;

		int rc = spike_watch_scan(watch, clock_realtime_ns(), &count, &err);
		if (rc && rc != -ECANCELED) {
			metrics_add(watch->options.metrics, METRIC_SPIKE_SCANS_FAILED, 1);
			// The query's own remedy is for people, who choose a range.
			if (rc == -ETIMEDOUT)
				error_set(&err, rc,
					  "over its time limit (%d s); search one service with "
					  "`cairn spikes SELECTOR`",
					  SPIKE_WATCH_DEADLINE_S);
			log_failure(watch,
				    "scan of all services failed, its spikes are not reported",
				    err.text);
		}
		pause_ns = SPIKE_WATCH_SHARE * (clock_monotonic_ns() - began_ns);
		if (pause_ns < watch->options.interval_ns)
			pause_ns = watch->options.interval_ns;
	}
	return NULL;
}

// ---- life -----------------------------------------------------------------------------------

int spike_watch_new(const struct spike_watch_options *options, struct spike_watch **ret_watch,
		    struct error *err)
{
	struct spike_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return error_set(err, -ENOMEM, "out of memory");
	watch->options = *options;
	if (!options->retry_ns)
		watch->options.retry_ns = SPIKE_WATCH_RETRY_S * NS_PER_SECOND;
	pthread_mutex_init(&watch->lock, NULL);
	pthread_cond_init(&watch->changed, NULL);
	watch->webhook = options->webhook ? strdup(options->webhook) : NULL;
	watch->page_url = options->page_url ? strdup(options->page_url) : NULL;
	int rc = (options->webhook && !watch->webhook) || (options->page_url && !watch->page_url)
			 ? error_set(err, -ENOMEM, "out of memory")
			 : 0;

	if (!rc && watch->webhook)
		rc = http_fetcher_open(&watch->fetcher, err);
	if (rc) {
		spike_watch_close(watch);
		return rc;
	}
	*ret_watch = watch;
	return 0;
}

int spike_watch_open(const struct spike_watch_options *options, struct spike_watch **ret_watch,
		     struct error *err)
{
	struct spike_watch *watch = NULL;
	int rc = spike_watch_new(options, &watch, err);

	if (rc)
		return rc;
	rc = pthread_create(&watch->thread, NULL, watch_spikes, watch);
	if (rc) {
		spike_watch_close(watch);
		return error_errno(err, -rc, "spikes: start a thread");
	}
	watch->has_thread = true;
	*ret_watch = watch;
	return 0;
}

void spike_watch_close(struct spike_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	atomic_store(&watch->closing, true);
	pthread_cond_signal(&watch->changed);
	pthread_mutex_unlock(&watch->lock);
	if (watch->has_thread)
		pthread_join(watch->thread, NULL);
	free_known_before(watch, UINT64_MAX);
	http_fetcher_close(watch->fetcher);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->lock);
	free(watch->webhook);
	free(watch->page_url);
	free(watch);
}
