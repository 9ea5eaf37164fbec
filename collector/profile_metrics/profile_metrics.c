// SPDX-License-Identifier: Apache-2.0
#include "collector/profile_metrics/profile_metrics.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/log.h"
#include "base/memory_account.h"
#include "base/metric_text.h"
#include "collector/profile_metrics/function_share.h"
#include "collector/query/query.h"

enum { LOG_S = 600 };

struct service_share {
	char *service;
	double share; // 0 to 1
	double rate;  // a second; of nanoseconds in seconds
};

/** What was found of a metric. */
struct metric_answer {
	struct service_share *services;
	uint32_t count;
	uint32_t left_out;
	uint64_t to_ns; // Unix time: the end of its minute; 0: it was never asked
};

struct profile_metrics {
	struct profile_metrics_options options;
	struct profile_metric_list list;
	uint64_t failure_logged_ns; // monotonic
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t lock; // over what follows
	pthread_cond_t changed;
	atomic_bool is_closing; // written with the lock
	struct metric_answer answers[PROFILE_METRICS_MAX];
	uint64_t failures[PROFILE_METRICS_MAX];
};

static void answer_deinit(struct metric_answer *answer)
{
	for (uint32_t i = 0; i < answer->count; i++)
		free(answer->services[i].service);
	free(answer->services);
	*answer = (struct metric_answer){ 0 };
}

static bool is_closing(void *context)
{
	return atomic_load(&((struct profile_metrics *)context)->is_closing);
}

// ---- asking -----------------------------------------------------------------------------------

static int fill_answer(const struct flame_tree *tree, const struct profile_metric *metric,
		       struct deadline *deadline, struct metric_answer *answer)
{
	_cleanup_free_ struct function_share *shares = NULL;
	double seconds = PROFILE_METRIC_INTERVAL_S;
	uint32_t count;
	int rc = function_shares_of(tree, metric->regex, deadline, &shares, &count);

	if (rc)
		return rc;
	if (strstr(metric->type, ":nanoseconds:"))
		seconds *= (double)NS_PER_SECOND;
	if (count > PROFILE_METRIC_SERVICES_MAX) {
		answer->left_out = count - PROFILE_METRIC_SERVICES_MAX;
		count = PROFILE_METRIC_SERVICES_MAX;
	}
	answer->services = calloc(count ? count : 1, sizeof(*answer->services));
	for (uint32_t i = 0; answer->services && i < count; i++) {
		const struct function_share *share = &shares[i];
		char *service =
			strdup(string_table_get(&tree->strings, tree->nodes[share->group].name));

		if (!service)
			return -ENOMEM;
		answer->services[answer->count++] = (struct service_share){
			.service = service,
			.share = share->total > 0 ? (double)share->value / (double)share->total : 0,
			.rate = (double)share->value / seconds,
		};
	}
	return answer->services ? 0 : -ENOMEM;
}

static int ask(struct profile_metrics *metrics, const struct profile_metric *metric,
	       const struct time_range *minute, struct metric_answer *answer, struct error *err)
{
	_cleanup_(selector_deinit) struct selector selector = { 0 };
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct deadline deadline = {
		.at_ns = clock_monotonic_ns() + PROFILE_METRIC_DEADLINE_S * NS_PER_SECOND,
		.is_gone = is_closing,
		.context = metrics,
		.poll_ns = DEADLINE_POLL_NS,
	};
	int rc = selector_parse(metric->query ? metric->query : "{}", SELECTOR_ALL_TENANTS,
				&selector, err);

	if (rc)
		return rc;
	selector_set_deadline(&selector, &deadline);
	const struct query query = {
		.store = metrics->options.store,
		.selector = &selector,
		.type = metric->type,
		.range = *minute,
		.group_by = LABEL_SERVICE,
		.lines = FRAME_LINES_NONE,
		.symbolizer = metrics->options.symbolizer,
	};
	rc = query_flame_tree(&query, &tree, err);
	if (rc)
		return rc;
	answer->to_ns = minute->to_ns;
	rc = fill_answer(&tree, metric, &deadline, answer);
	return rc == -ENOMEM ? error_errno(err, rc, "profile metrics")
	       : rc          ? deadline_check(&deadline, err)
			     : 0;
}

static int ask_within_budget(struct profile_metrics *metrics, uint32_t number,
			     const struct time_range *minute, struct metric_answer *answer,
			     struct error *err)
{
	struct memory_account account;

	memory_account_begin(&account, metrics->options.budget);
	int rc = ask(metrics, &metrics->list.metrics[number], minute, answer, err);
	memory_account_end(&account);
	int refused = memory_account_check(&account, err);
	return refused ? refused : rc;
}

static void note_failure(struct profile_metrics *metrics, uint32_t number, const struct error *err)
{
	uint64_t now_ns = clock_monotonic_ns();

	pthread_mutex_lock(&metrics->lock);
	metrics->failures[number]++;
	pthread_mutex_unlock(&metrics->lock);
	metrics_add(metrics->options.metrics, METRIC_PROFILE_METRICS_FAILED, 1);
	if (metrics->failure_logged_ns &&
	    ns_between(metrics->failure_logged_ns, now_ns) < LOG_S * NS_PER_SECOND)
		return;
	metrics->failure_logged_ns = now_ns;
	log_warn("profile metrics: %s not computed for a minute: %s; use a narrower query if it "
		 "takes too long",
		 metrics->list.metrics[number].name, err->text);
}

uint32_t profile_metrics_look(struct profile_metrics *metrics, uint64_t now_ns)
{
	const uint64_t minute_ns = PROFILE_METRIC_INTERVAL_S * NS_PER_SECOND;
	uint64_t to_ns =
		ns_before(now_ns, PROFILE_METRIC_DELAY_S * NS_PER_SECOND) / minute_ns * minute_ns;
	const struct time_range minute = { ns_before(to_ns, minute_ns), to_ns };
	uint32_t failures = 0;

	for (uint32_t i = 0; i < metrics->list.count && !is_closing(metrics); i++) {
		struct metric_answer answer = { 0 };
		struct error err = { 0 };

		int rc = ask_within_budget(metrics, i, &minute, &answer, &err);
		if (!rc) {
			struct metric_answer before;

			pthread_mutex_lock(&metrics->lock);
			before = metrics->answers[i];
			metrics->answers[i] = answer;
			pthread_mutex_unlock(&metrics->lock);
			answer = before;
		} else if (rc != -ECANCELED) {
			note_failure(metrics, i, &err);
			failures++;
		}
		answer_deinit(&answer);
	}
	return failures;
}

/** Wait, unless it is the end. False: it is. */
static bool pause_for(struct profile_metrics *metrics, uint64_t ns)
{
	uint64_t until_ns = clock_monotonic_ns() + ns;
	const struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_SECOND),
					.tv_nsec = (long)(until_ns % NS_PER_SECOND) };
	int rc = 0;

	pthread_mutex_lock(&metrics->lock);
	while (!is_closing(metrics) && !rc)
		rc = pthread_cond_clockwait(&metrics->changed, &metrics->lock, CLOCK_MONOTONIC,
					    &until);
	pthread_mutex_unlock(&metrics->lock);
	return !is_closing(metrics);
}

/** Until the next minute's batches have come. */
static uint64_t next_pause_ns(uint64_t now_ns, uint64_t took_ns)
{
	const uint64_t minute_ns = PROFILE_METRIC_INTERVAL_S * NS_PER_SECOND;
	const uint64_t delay_ns = PROFILE_METRIC_DELAY_S * NS_PER_SECOND;
	uint64_t pause_ns = minute_ns - ns_before(now_ns, delay_ns) % minute_ns;
	uint64_t least_ns = PROFILE_METRICS_SHARE * took_ns;

	return pause_ns > least_ns ? pause_ns : least_ns;
}

static void *look_each_minute(void *context)
{
	struct profile_metrics *metrics = context;
	uint64_t took_ns;

	pthread_setname_np(pthread_self(), "profile-metrics");
	do {
		uint64_t began_ns = clock_monotonic_ns();

		profile_metrics_look(metrics, clock_realtime_ns());
		took_ns = ns_between(began_ns, clock_monotonic_ns());
	} while (pause_for(metrics, next_pause_ns(clock_realtime_ns(), took_ns)));
	return NULL;
}

// ---- the text ---------------------------------------------------------------------------------

/** A label's value: backslash, quote and newline are escaped. */
static void append_value(struct buffer *buffer, const char *value)
{
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			buffer_append_byte(buffer, '\\');
		if (*value == '\n')
			buffer_append_string(buffer, "\\n");
		else
			buffer_append_byte(buffer, (uint8_t)*value);
	}
}

static bool is_fresh(const struct metric_answer *answer, uint64_t now_ns)
{
	return answer->to_ns &&
	       ns_between(answer->to_ns, now_ns) < PROFILE_METRIC_STALE_S * NS_PER_SECOND;
}

static void append_services(const struct profile_metrics *metrics, uint64_t now_ns,
			    const char *name, bool is_share, struct buffer *buffer)
{
	for (uint32_t i = 0; i < metrics->list.count; i++) {
		const struct metric_answer *answer = &metrics->answers[i];

		for (uint32_t j = 0; is_fresh(answer, now_ns) && j < answer->count; j++) {
			const struct service_share *service = &answer->services[j];

			buffer_printf(buffer, "%s{metric=\"%s\",service=\"", name,
				      metrics->list.metrics[i].name);
			append_value(buffer, service->service);
			buffer_printf(buffer, "\"} %.9g\n",
				      is_share ? service->share : service->rate);
		}
	}
}

/** One sample of each metric. */
static void append_figures(const struct profile_metrics *metrics, const char *name,
			   double (*figure)(const struct profile_metrics *metrics, uint32_t number),
			   struct buffer *buffer)
{
	for (uint32_t i = 0; i < metrics->list.count; i++)
		buffer_printf(buffer, "%s{metric=\"%s\"} %.15g\n", name,
			      metrics->list.metrics[i].name, figure(metrics, i));
}

static double time_of(const struct profile_metrics *metrics, uint32_t number)
{
	return (double)(metrics->answers[number].to_ns / NS_PER_SECOND);
}

static double left_out_of(const struct profile_metrics *metrics, uint32_t number)
{
	return metrics->answers[number].left_out;
}

static double failures_of(const struct profile_metrics *metrics, uint32_t number)
{
	return (double)metrics->failures[number];
}

void profile_metrics_encode(struct profile_metrics *metrics, uint64_t now_ns, struct buffer *buffer)
{
	if (!metrics)
		return;
	pthread_mutex_lock(&metrics->lock);
	metric_text_begin(buffer, "cairn_profile_function_share", "gauge",
			  "Part of the service's profile whose stacks have the function, in the "
			  "last whole minute: 0 to 1.");
	append_services(metrics, now_ns, "cairn_profile_function_share", true, buffer);
	metric_text_begin(buffer, "cairn_profile_function_rate", "gauge",
			  "The same per second: of times in seconds (of CPU time: cores), else in "
			  "the type's unit.");
	append_services(metrics, now_ns, "cairn_profile_function_rate", false, buffer);
	metric_text_begin(buffer, "cairn_profile_metric_timestamp_seconds", "gauge",
			  "Unix time at which the metric's minute ended; 0: not computed yet.");
	append_figures(metrics, "cairn_profile_metric_timestamp_seconds", time_of, buffer);
	metric_text_begin(buffer, "cairn_profile_metric_services_left_out", "gauge",
			  "Services beyond the 500 largest of the metric.");
	append_figures(metrics, "cairn_profile_metric_services_left_out", left_out_of, buffer);
	metric_text_begin(buffer, "cairn_profile_metric_failures_total", "counter",
			  "Minutes not computed: the query failed. See the collector's log.");
	append_figures(metrics, "cairn_profile_metric_failures_total", failures_of, buffer);
	pthread_mutex_unlock(&metrics->lock);
}

// ---- life -------------------------------------------------------------------------------------

int profile_metrics_new(const struct profile_metrics_options *options,
			struct profile_metrics **ret_metrics, struct error *err)
{
	struct profile_metrics *metrics = calloc(1, sizeof(*metrics));

	if (!metrics)
		return error_set(err, -ENOMEM, "out of memory");
	metrics->options = *options;
	pthread_mutex_init(&metrics->lock, NULL);
	pthread_cond_init(&metrics->changed, NULL);
	int rc = profile_metric_file_read(options->path, &metrics->list, err);
	if (rc) {
		profile_metrics_close(metrics);
		return rc;
	}
	*ret_metrics = metrics;
	return 0;
}

int profile_metrics_open(const struct profile_metrics_options *options,
			 struct profile_metrics **ret_metrics, struct error *err)
{
	struct profile_metrics *metrics = NULL;
	int rc = profile_metrics_new(options, &metrics, err);

	if (rc)
		return rc;
	rc = pthread_create(&metrics->thread, NULL, look_each_minute, metrics);
	if (rc) {
		profile_metrics_close(metrics);
		return error_errno(err, -rc, "profile metrics: start a thread");
	}
	metrics->has_thread = true;
	*ret_metrics = metrics;
	return 0;
}

void profile_metrics_close(struct profile_metrics *metrics)
{
	if (!metrics)
		return;
	pthread_mutex_lock(&metrics->lock);
	atomic_store(&metrics->is_closing, true);
	pthread_cond_signal(&metrics->changed);
	pthread_mutex_unlock(&metrics->lock);
	if (metrics->has_thread)
		pthread_join(metrics->thread, NULL);
	for (uint32_t i = 0; i < metrics->list.count; i++)
		answer_deinit(&metrics->answers[i]);
	profile_metric_list_deinit(&metrics->list);
	pthread_cond_destroy(&metrics->changed);
	pthread_mutex_destroy(&metrics->lock);
	free(metrics);
}
