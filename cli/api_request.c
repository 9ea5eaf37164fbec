// SPDX-License-Identifier: Apache-2.0
#include "cli/api_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config/config_quantity.h"
#include "base/utf8.h"
#include "cli/api_error.h"
#include "cli/progress.h"

void api_request_deinit(struct api_request *request)
{
	free(request->from);
	free(request->to);
	free(request->collector_http);
	http_security_deinit(&request->security);
}

int api_request_set_selector(struct api_request *request, int count, char **words,
			     struct error *err)
{
	if (count > 1)
		return error_set(err, -EINVAL,
				 "more than one SELECTOR: \"%.40s\"; put quotes around the whole "
				 "selector",
				 words[1]);
	request->selector = count ? words[0] : "";
	return 0;
}

static int check_time(const char *flag, const char *text, uint64_t now_ns, uint64_t *ret_ns,
		      struct error *err)
{
	struct error cause = { 0 };
	int rc = time_parse(text, now_ns, ret_ns, &cause);

	return rc ? error_set(err, rc, "%s: %s", flag, cause.text) : 0;
}

int api_request_check(const struct api_request *request, struct error *err)
{
	uint64_t now_ns = clock_realtime_ns(), from_ns = 0, to_ns = 0;
	int rc = check_time("--from", request->from, now_ns, &from_ns, err);

	if (!rc)
		rc = check_time("--to", request->to, now_ns, &to_ns, err);
	if (!rc && from_ns >= to_ns)
		rc = error_set(err, -EINVAL, "--from (%s) is not before --to (%s)", request->from,
			       request->to);
	return rc;
}

void api_request_append_page(const struct api_request *request, const char *path,
			     struct buffer *url)
{
	size_t length = strlen(request->collector_http);

	while (length && request->collector_http[length - 1] == '/')
		length--;
	buffer_append(url, request->collector_http, length);
	buffer_append_string(url, path);
}

void api_request_begin_url(const struct api_request *request, const char *path, struct buffer *url)
{
	api_request_append_page(request, path, url);
	http_append_parameter(url, "query", request->selector);
	http_append_parameter(url, "from", request->from);
	http_append_parameter(url, "to", request->to);
}

static void show_progress(void *context, uint64_t received_bytes)
{
	uint64_t waited_ns = clock_monotonic_ns() - *(const uint64_t *)context;
	char detail[48];

	if (waited_ns < NS_PER_SECOND)
		return;
	snprintf(detail, sizeof(detail), "%llu KiB received",
		 (unsigned long long)(received_bytes >> 10));
	progress_draw("waiting for the collector", waited_ns, 0, detail);
}

typedef int (*exchange_fn)(const struct http_request *request, struct http_response *response,
			   struct error *err);

static int send(const struct api_request *request, exchange_fn exchange, struct buffer *url,
		struct http_response *response, struct error *err)
{
	struct error cause = { 0 };
	uint64_t started_ns = clock_monotonic_ns();
	struct http_request sent = {
		.url = buffer_string(url),
		.security = &request->security,
		.timeout_ms = (uint32_t)(request->timeout_ns / NS_PER_MS),
		.progress = progress_is_shown() ? show_progress : NULL,
		.context = &started_ns,
	};
	int rc = exchange(&sent, response, &cause);

	progress_clear();
	if (rc)
		return api_error_no_answer(request->collector_http, rc, &cause, err);
	return response->status == 200 ? 0 : api_error_read(response, err);
}

int api_request_send(const struct api_request *request, struct buffer *url,
		     struct http_response *response, struct error *err)
{
	return send(request, http_get, url, response, err);
}

int api_request_send_deletion(const struct api_request *request, struct buffer *url,
			      struct http_response *response, struct error *err)
{
	return send(request, http_delete, url, response, err);
}

int api_request_send_post(const struct api_request *request, struct buffer *url,
			  struct http_response *response, struct error *err)
{
	return send(request, http_post, url, response, err);
}

const char *json_text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

const char *json_word_of(const json_t *object, const char *key, char *ret_word, size_t size)
{
	snprintf(ret_word, size, "%s", json_text_of(object, key));
	utf8_clean(ret_word);
	return ret_word;
}
