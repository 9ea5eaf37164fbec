// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/pod_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/containers/json_parts.h"
#include "base/address.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/http_fetch.h"
#include "base/secret_file.h"
#include "base/text.h"

enum {
	URL_BYTES = POD_CONTINUE_BYTES_MAX + 1024,
	ADDRESS_BYTES = 300,
	NODE_BYTES = 256, // a name has 253
	PATH_BYTES = 4096,
	PAGE_PODS = 100, // the server's cache answers whole, whatever is asked
	CONNECT_S = 5,
	LIST_SILENCE_S = 20,
	LIST_S = 60,
	WATCH_S_MIN = 240, // then the server ends it; a fleet does not ask again at once
	WATCH_S_SPREAD = 120,
	WATCH_GRACE_S = 30,
	UNAUTHORIZED = 401,
	FORBIDDEN = 403,
	NOT_FOUND = 404,
	GONE = 410, // the version is too old to go on after it
};

#define RETRY_MIN_NS (1 * NS_PER_SECOND)
#define RETRY_MAX_NS (30 * NS_PER_SECOND)
/* After a watch that ends earlier there is a pause: else it would begin again and again. */
#define WATCH_NS_MIN (2 * NS_PER_SECOND)
#define SUBJECT      "kubernetes"

enum ask { ASK_NOTHING, ASK_LIST, ASK_WATCH };

struct pod_watch {
	struct pod_watch_options options;
	char server[ADDRESS_BYTES], kubelet[ADDRESS_BYTES], node[NODE_BYTES];
	char token_file[PATH_BYTES], ca_file[PATH_BYTES];
	char *label_patterns, *annotation_patterns, *excluded_namespaces, *node_labels;
	struct http_fetcher *fetcher;        // the thread's, as all up to the lock
	char version[POD_VERSION_BYTES_MAX]; // watched after it; "": list first
	uint64_t retry_ns;                   // the next pause after a failure
	long status;                         // of the last answer; 0: there was none
	enum ask failing;                    // what failed, and was logged
	bool is_by_kubelet;                  // and logged
	bool is_node_refused;                // and logged
	atomic_bool is_stopping;
	atomic_uint_fast64_t lists, events, failures, dropped;
	pthread_mutex_t lock; // of the condition
	pthread_cond_t wake;
	pthread_t thread;
	bool is_running;
};

/* ---- one request --------------------------------------------------------------------------- */

/* What a transfer feeds: the parts of its answer. */
struct transfer {
	struct pod_watch *watch;
	struct json_parts parts;
	json_part_fn *on_part;
	uint64_t bytes, bytes_max;
	struct pod_list_metadata page; // of a list
	bool is_gone;                  // of a watch
	int rc;                        // why the transfer was ended
};

static int on_bytes(void *context, const void *bytes, size_t size)
{
	struct transfer *transfer = context;

	transfer->bytes += size;
	if (transfer->bytes > transfer->bytes_max)
		transfer->rc = -EFBIG;
	else
		transfer->rc =
			json_parts_feed(&transfer->parts, bytes, size, transfer->on_part, transfer);
	return transfer->rc;
}

static bool is_over(void *context)
{
	const struct transfer *transfer = context;

	return atomic_load(&transfer->watch->is_stopping);
}

static const char *words_of(int rc)
{
	switch (rc) {
	case -EFBIG:
		return "its answer is too long";
	case -ENOMEM:
		return "out of memory";
	case -EPROTO:
		return "it ends the watch with an error";
	case -ESTALE:
		return "it no longer has the version that is watched";
	default:
		return "its answer is no list of pods";
	}
}

/* The token is replaced on disk once an hour, or so: it is read for each request. */
static int request(struct transfer *transfer, const char *url, uint32_t silence_s,
		   uint32_t timeout_s, struct error *err)
{
	struct pod_watch *watch = transfer->watch;
	bool is_secure = text_begins_with(url, "https://");
	char token[SECRET_BYTES_MAX] = "";
	const struct http_fetch fetch = {
		.url = url,
		.protocols = "http,https",
		.connect_timeout_s = CONNECT_S,
		.silence_timeout_s = silence_s,
		.timeout_s = timeout_s,
		.ca_file = is_secure ? watch->ca_file : NULL,
		.bearer_token = is_secure ? token : NULL,
		.accept = "application/json",
		.is_direct = true,
		.on_bytes = on_bytes,
		.is_over = is_over,
		.context = transfer,
	};
	watch->status = 0;
	int rc = is_secure ? secret_file_read(watch->token_file, token, err) : 0;

	if (!rc)
		rc = http_fetch(watch->fetcher, &fetch, &watch->status, err);
	secret_erase(token, sizeof(token));
	transfer->is_gone |= watch->status == GONE;
	if (rc == -ECANCELED && transfer->rc)
		rc = error_set(err, transfer->rc, "%s", words_of(transfer->rc));
	atomic_fetch_add(&watch->dropped, transfer->parts.dropped);
	return rc;
}

/* ---- what the log says --------------------------------------------------------------------- */

static const char *remedy_of(const struct pod_watch *watch, int rc)
{
	if (watch->status == UNAUTHORIZED || watch->status == FORBIDDEN)
		return "let the service account list and watch pods; ";
	return rc == -ENOENT || rc == -EACCES ? "mount the service account's token; " : "";
}

static void report_failure(struct pod_watch *watch, enum ask ask, int rc, const struct error *err)
{
	if (watch->failing)
		return;
	watch->failing = ask;
	event_warn(watch->options.events, SUBJECT,
		   "new pods stay without labels: %s: %.200s; %sretrying every %d s", watch->server,
		   err->text, remedy_of(watch, rc), (int)(RETRY_MAX_NS / NS_PER_SECOND));
}

/* A list that is answered says nothing of a watch that is refused. */
static void report_success(struct pod_watch *watch, enum ask ask)
{
	if (watch->failing != ask)
		return;
	event_info(watch->options.events, SUBJECT, "%s answers again", watch->server);
	watch->failing = ASK_NOTHING;
	watch->is_by_kubelet = false;
}

/* ---- lists --------------------------------------------------------------------------------- */

static int put_pod(struct pod_watch *watch, const char *text, size_t size)
{
	struct pod *pod;
	int rc = pod_json_read(text, size, &watch->options.selection, &pod);

	if (rc == -ENOMEM)
		return rc; // all of it is asked for again
	if (rc)
		atomic_fetch_add(&watch->dropped, 1); // the others count all the same
	else
		pod_table_put(watch->options.table, pod);
	return 0;
}

static int on_list_part(void *context, enum json_part part, const char *text, size_t size)
{
	struct transfer *transfer = context;

	if (part == JSON_PART_METADATA)
		return pod_json_read_metadata(text, size, &transfer->page);
	return put_pod(transfer->watch, text, size);
}

static int list_page(struct pod_watch *watch, const char *url, struct pod_list_metadata *page,
		     uint64_t *bytes, struct error *err)
{
	struct transfer transfer = {
		.watch = watch,
		.on_part = on_list_part,
		.bytes_max = POD_LIST_BYTES_MAX - *bytes,
	};

	json_parts_init(&transfer.parts, JSON_LIST);
	int rc = request(&transfer, url, LIST_SILENCE_S, LIST_S, err);
	if (!rc && json_parts_end(&transfer.parts))
		rc = error_set(err, -EBADMSG, "its answer is cut off");
	json_parts_deinit(&transfer.parts);
	*bytes += transfer.bytes;
	*page = transfer.page;
	return rc;
}

/*
 * Version 0 is answered from the server's cache, which a thousand agents may ask at once. The next page, which servers with
 * a large cache do not have, must not name a version.
 */
static void format_list_url(const struct pod_watch *watch, const char *next_page,
			    char ret_url[URL_BYTES])
{
	snprintf(ret_url, URL_BYTES,
		 "%s/api/v1/pods?fieldSelector=spec.nodeName%%3D%s&limit=%d&%s%s", watch->server,
		 watch->node, PAGE_PODS, next_page[0] ? "continue=" : "resourceVersion=0",
		 next_page);
}

static int list_server(struct pod_watch *watch, struct error *err)
{
	struct pod_list_metadata page = { 0 };
	uint64_t bytes = 0;
	char url[URL_BYTES];
	int rc = 0;

	pod_table_begin_list(watch->options.table);
	for (uint32_t pages = 0; !rc && (!pages || page.next_page[0]); pages++) {
		if (pages == POD_PAGES_MAX)
			return error_set(err, -E2BIG, "its list has too many pages");
		format_list_url(watch, page.next_page, url);
		rc = list_page(watch, url, &page, &bytes, err);
	}
	if (!rc && !page.version[0])
		rc = error_set(err, -EBADMSG, "its answer is no list of pods");
	if (rc)
		return rc;
	memcpy(watch->version, page.version, sizeof(watch->version));
	return 0;
}

/* All of its pods on one page, without a version. */
static int list_kubelet(struct pod_watch *watch, struct error *err)
{
	struct pod_list_metadata page;
	uint64_t bytes = 0;
	char url[URL_BYTES];

	snprintf(url, sizeof(url), "%s/pods", watch->kubelet);
	pod_table_begin_list(watch->options.table);
	return list_page(watch, url, &page, &bytes, err);
}

static void end_list(struct pod_watch *watch)
{
	pod_table_end_list(watch->options.table);
	atomic_fetch_add(&watch->lists, 1);
}

/* ---- the node ------------------------------------------------------------------------------ */

static int on_node(void *context, enum json_part part, const char *text, size_t size)
{
	struct transfer *transfer = context;
	struct pod_watch *watch = transfer->watch;
	struct labels labels = { 0 };
	int rc = pod_json_read_node(text, size, watch->options.node_labels, &labels);

	(void)part;
	if (rc)
		return rc;
	pod_table_put_node(watch->options.table, &labels);
	watch->is_node_refused = false;
	return 0;
}

static const char *remedy_of_node(const struct pod_watch *watch)
{
	switch (watch->status) {
	case FORBIDDEN:
		return "let the service account get nodes, or remove --node-labels";
	case NOT_FOUND:
		return "--node must be the node's name in Kubernetes";
	default:
		return "asking again in some minutes";
	}
}

/* Nothing waits for what will not come. Where nobody answers the list says why. */
static void report_node(struct pod_watch *watch, const struct error *err)
{
	struct labels none = { 0 };

	atomic_fetch_add(&watch->failures, 1);
	if (!watch->status)
		return;
	if ((watch->status == FORBIDDEN || watch->status == NOT_FOUND) &&
	    !pod_table_node_version(watch->options.table))
		pod_table_put_node(watch->options.table, &none);
	event_warn_once(watch->options.events, &watch->is_node_refused, SUBJECT,
			"processes have no labels of their node: %s: %.200s; %s", watch->server,
			err->text, remedy_of_node(watch));
}

static void ask_for_node(struct pod_watch *watch)
{
	struct transfer transfer = {
		.watch = watch,
		.on_part = on_node,
		.bytes_max = JSON_PART_BYTES_MAX,
	};
	struct error err = { 0 };
	char url[URL_BYTES];

	if (!watch->options.node_labels)
		return;
	snprintf(url, sizeof(url), "%s/api/v1/nodes/%s?resourceVersion=0", watch->server,
		 watch->node);
	json_parts_init(&transfer.parts, JSON_EVENTS);
	int rc = request(&transfer, url, LIST_SILENCE_S, LIST_S, &err);
	json_parts_deinit(&transfer.parts);
	if (rc && !atomic_load(&watch->is_stopping))
		report_node(watch, &err);
}

/* ---- watches ------------------------------------------------------------------------------- */

static int on_error_event(struct transfer *transfer, long status)
{
	transfer->is_gone |= status == GONE;
	return status == GONE ? -ESTALE : -EPROTO;
}

static int on_event(void *context, enum json_part part, const char *text, size_t size)
{
	struct transfer *transfer = context;
	struct pod_watch *watch = transfer->watch;
	struct pod_event event = { 0 };
	int rc = pod_json_read_event(text, size, &watch->options.selection, &event);

	(void)part;
	if (rc == -ENOMEM)
		return rc; // a list has it again
	if (rc)
		atomic_fetch_add(&watch->dropped, 1);
	else
		atomic_fetch_add(&watch->events, 1);
	if (event.kind == POD_ERROR && !rc)
		return on_error_event(transfer, event.status);
	report_success(watch, ASK_WATCH);
	if (event.version[0])
		memcpy(watch->version, event.version, sizeof(watch->version));
	if (event.pod)
		pod_table_put(watch->options.table, event.pod);
	if (event.kind == POD_DELETED)
		pod_table_remove(watch->options.table, event.uid);
	watch->retry_ns = watch->options.retry_min_ns;
	return 0;
}

/* Until it ends, in whatever way. */
static int watch_server(struct pod_watch *watch, struct error *err)
{
	struct transfer transfer = {
		.watch = watch,
		.on_part = on_event,
		.bytes_max = UINT64_MAX,
	};
	uint32_t seconds = WATCH_S_MIN + (uint32_t)(random() % WATCH_S_SPREAD);
	char url[URL_BYTES];

	snprintf(url, sizeof(url),
		 "%s/api/v1/pods?watch=1&fieldSelector=spec.nodeName%%3D%s&resourceVersion=%s&"
		 "allowWatchBookmarks=true&timeoutSeconds=%u",
		 watch->server, watch->node, watch->version, seconds);
	json_parts_init(&transfer.parts, JSON_EVENTS);
	int rc = request(&transfer, url, 0, seconds + WATCH_GRACE_S, err);
	json_parts_deinit(&transfer.parts);
	return transfer.is_gone ? -ESTALE : rc;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void pause_for(struct pod_watch *watch, uint64_t span_ns)
{
	uint64_t until_ns = clock_monotonic_ns() + span_ns;
	const struct timespec until = { (time_t)(until_ns / NS_PER_SECOND),
					(long)(until_ns % NS_PER_SECOND) };

	pthread_mutex_lock(&watch->lock);
	while (!atomic_load(&watch->is_stopping) && clock_monotonic_ns() < until_ns)
		pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
	pthread_mutex_unlock(&watch->lock);
}

/* Longer after each failure, and a half longer or shorter: a fleet does not come back at once. */
static void back_off(struct pod_watch *watch)
{
	uint64_t span_ns = watch->retry_ns;

	watch->retry_ns = span_ns * 2 < RETRY_MAX_NS ? span_ns * 2 : RETRY_MAX_NS;
	pause_for(watch, span_ns / 2 + (uint64_t)random() % span_ns);
}

static void ask_kubelet(struct pod_watch *watch)
{
	struct error err = { 0 };
	int rc = list_kubelet(watch, &err);

	if (!rc) {
		end_list(watch);
		if (!watch->is_by_kubelet)
			event_info(watch->options.events, SUBJECT,
				   "labels of pods come from the kubelet %s until the API server "
				   "answers",
				   watch->kubelet);
		watch->is_by_kubelet = true;
		return;
	}
	atomic_fetch_add(&watch->failures, 1);
	if (watch->is_by_kubelet || watch->retry_ns == watch->options.retry_min_ns)
		event_warn(watch->options.events, SUBJECT,
			   "the kubelet %s does not answer either: %.200s; new pods stay without "
			   "labels",
			   watch->kubelet, err.text);
	watch->is_by_kubelet = false;
}

/* Each returns whether the next turn may begin at once. */
static bool turn_list(struct pod_watch *watch)
{
	struct error err = { 0 };

	ask_for_node(watch);
	int rc = list_server(watch, &err);

	if (atomic_load(&watch->is_stopping))
		return true;
	if (!rc) {
		end_list(watch);
		report_success(watch, ASK_LIST);
		return true;
	}
	atomic_fetch_add(&watch->failures, 1);
	report_failure(watch, ASK_LIST, rc, &err);
	if (watch->kubelet[0])
		ask_kubelet(watch);
	return false;
}

/*
 * The server ends a watch after some minutes, and the next one goes on where it was. One that breaks, as connections do, or
 * whose version has become too old, begins with a list again: that tells whether the server is there.
 */
static bool turn_watch(struct pod_watch *watch)
{
	uint64_t begin_ns = clock_monotonic_ns();
	struct error err = { 0 };
	int rc = watch_server(watch, &err);
	bool is_early = ns_between(begin_ns, clock_monotonic_ns()) < WATCH_NS_MIN;

	if (atomic_load(&watch->is_stopping))
		return true;
	if (!is_early)
		watch->retry_ns = watch->options.retry_min_ns;
	if (!rc) {
		report_success(watch, ASK_WATCH);
		ask_for_node(watch); // as often as a watch ends: each five minutes
		return !is_early;
	}
	watch->version[0] = '\0';
	if (rc != -ESTALE)
		atomic_fetch_add(&watch->failures, 1);
	if (rc != -ESTALE && rc != -EAGAIN)
		report_failure(watch, ASK_WATCH, rc, &err);
	return false;
}

static void *run(void *context)
{
	struct pod_watch *watch = context;

	prctl(PR_SET_NAME, "cairn-pods");
	while (!atomic_load(&watch->is_stopping))
		if (!(watch->version[0] ? turn_watch(watch) : turn_list(watch)))
			back_off(watch);
	return NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

/* https://HOST:PORT, or http:// of this machine. */
static int copy_address(const char *address, char ret_address[ADDRESS_BYTES], struct error *err)
{
	size_t size = strlen(address);
	bool is_plain = text_begins_with(address, "http://") &&
			address_is_local(address + strlen("http://"));

	if (!text_begins_with(address, "https://") && !is_plain)
		return error_set(err, -EINVAL,
				 "\"%.60s\" is no address of a server: https://HOST:PORT", address);
	if (size >= ADDRESS_BYTES || strpbrk(address + strlen("https://"), "/?#@ \t"))
		return error_set(err, -EINVAL, "\"%.60s\": only https://HOST:PORT", address);
	memcpy(ret_address, address, size + 1);
	return 0;
}

static int copy_node(const char *node, char ret_node[NODE_BYTES], struct error *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
	size_t size = strlen(node);

	if (!size || size >= NODE_BYTES || node[strspn(node, allowed)])
		return error_set(err, -EINVAL, "\"%.60s\" is no node's name", node);
	memcpy(ret_node, node, size + 1);
	return 0;
}

static int copy_selection(struct pod_watch *watch)
{
	const struct {
		const char *from;
		char **to;
		const char **used;
	} lists[] = {
		{ watch->options.selection.label_patterns, &watch->label_patterns,
		  &watch->options.selection.label_patterns },
		{ watch->options.selection.annotation_patterns, &watch->annotation_patterns,
		  &watch->options.selection.annotation_patterns },
		{ watch->options.selection.excluded_namespaces, &watch->excluded_namespaces,
		  &watch->options.selection.excluded_namespaces },
		{ watch->options.node_labels, &watch->node_labels, &watch->options.node_labels },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		if (!lists[i].from)
			continue;
		*lists[i].to = strdup(lists[i].from);
		if (!*lists[i].to)
			return -ENOMEM;
		*lists[i].used = *lists[i].to;
	}
	return 0;
}

static int set_up(struct pod_watch *watch, struct error *err)
{
	const struct pod_watch_options *options = &watch->options;
	int rc = copy_address(options->server, watch->server, err);

	if (!rc && options->kubelet)
		rc = copy_address(options->kubelet, watch->kubelet, err);
	if (!rc)
		rc = copy_node(options->node, watch->node, err);
	if (rc)
		return rc;
	snprintf(watch->token_file, sizeof(watch->token_file), "%s/token", options->credentials);
	snprintf(watch->ca_file, sizeof(watch->ca_file), "%s/ca.crt", options->credentials);
	if (copy_selection(watch))
		return error_set(err, -ENOMEM, "out of memory");
	return http_fetcher_open(&watch->fetcher, err);
}

static int start_thread(struct pod_watch *watch, struct error *err)
{
	int rc = -pthread_create(&watch->thread, NULL, run, watch);

	watch->is_running = !rc;
	return rc ? error_errno(err, rc, "start a thread") : 0;
}

int pod_watch_start(const struct pod_watch_options *options, struct pod_watch **ret_watch,
		    struct error *err)
{
	struct pod_watch *watch = calloc(1, sizeof(*watch));
	pthread_condattr_t attributes;

	if (!watch)
		return error_set(err, -ENOMEM, "out of memory");
	watch->options = *options;
	if (!watch->options.retry_min_ns)
		watch->options.retry_min_ns = RETRY_MIN_NS;
	watch->retry_ns = watch->options.retry_min_ns;
	pthread_mutex_init(&watch->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&watch->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	int rc = set_up(watch, err);
	if (!rc)
		rc = start_thread(watch, err);
	if (rc) {
		pod_watch_free(watch);
		return rc;
	}
	*ret_watch = watch;
	return 0;
}

void pod_watch_stop(struct pod_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	atomic_store(&watch->is_stopping, true);
	pthread_cond_signal(&watch->wake);
	pthread_mutex_unlock(&watch->lock);
}

void pod_watch_free(struct pod_watch *watch)
{
	if (!watch)
		return;
	pod_watch_stop(watch);
	if (watch->is_running)
		pthread_join(watch->thread, NULL);
	http_fetcher_close(watch->fetcher);
	pthread_cond_destroy(&watch->wake);
	pthread_mutex_destroy(&watch->lock);
	free(watch->label_patterns);
	free(watch->annotation_patterns);
	free(watch->excluded_namespaces);
	free(watch->node_labels);
	free(watch);
}

void pod_watch_read_stats(const struct pod_watch *watch, struct pod_watch_stats *ret_stats)
{
	*ret_stats = (struct pod_watch_stats){
		.lists = atomic_load(&watch->lists),
		.events = atomic_load(&watch->events),
		.failures = atomic_load(&watch->failures),
		.dropped = atomic_load(&watch->dropped),
	};
}
