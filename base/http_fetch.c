// SPDX-License-Identifier: Apache-2.0
#include "base/http_fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/cleanup.h"
#include "base/loaded_library.h"
#include "base/secret_file.h"
#include "base/version.h"

/* A dead peer of a long, silent transfer is found out after a minute. */
enum { KEEPALIVE_IDLE_S = 30, KEEPALIVE_INTERVAL_S = 10 };

struct http_fetcher {
	CURL *curl;
	char words[CURL_ERROR_SIZE];
};

_Static_assert(HTTP_FETCH_ERROR_BYTES_MAX == CURL_ERROR_SIZE, "as curl/curl.h has it");

/* ---- libcurl ------------------------------------------------------------------------------- */

static struct {
	bool is_loaded;
	CURLcode (*global_init)(long flags);
	CURL *(*easy_init)(void);
	void (*easy_reset)(CURL *curl);
	CURLcode (*easy_setopt)(CURL *curl, CURLoption option, ...);
	CURLcode (*easy_perform)(CURL *curl);
	CURLcode (*easy_getinfo)(CURL *curl, CURLINFO info, ...);
	const char *(*easy_strerror)(CURLcode code);
	void (*easy_cleanup)(CURL *curl);
	struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
	void (*slist_free_all)(struct curl_slist *list);
} library;

/* It stays loaded. */
static int load_library(struct error *err)
{
	static const char *const names[] = { "libcurl-gnutls.so.4", "libcurl.so.4" };
	static const struct library_function functions[] = {
		{ &library.global_init, "curl_global_init" },
		{ &library.easy_init, "curl_easy_init" },
		{ &library.easy_reset, "curl_easy_reset" },
		{ &library.easy_setopt, "curl_easy_setopt" },
		{ &library.easy_perform, "curl_easy_perform" },
		{ &library.easy_getinfo, "curl_easy_getinfo" },
		{ &library.easy_strerror, "curl_easy_strerror" },
		{ &library.easy_cleanup, "curl_easy_cleanup" },
		{ &library.slist_append, "curl_slist_append" },
		{ &library.slist_free_all, "curl_slist_free_all" },
	};

	if (library.is_loaded)
		return 0;
	int rc = loaded_library_open("HTTP", names, ARRAY_SIZE(names), functions,
				     ARRAY_SIZE(functions), err);
	if (rc)
		return rc;
	if (library.global_init(CURL_GLOBAL_DEFAULT))
		return error_set(err, -EIO, "libcurl cannot be set up");
	library.is_loaded = true;
	return 0;
}

int http_fetcher_open(struct http_fetcher **ret_fetcher, struct error *err)
{
	int rc = load_library(err);
	struct http_fetcher *fetcher = rc ? NULL : calloc(1, sizeof(*fetcher));

	if (rc)
		return rc;
	if (fetcher)
		fetcher->curl = library.easy_init();
	if (!fetcher || !fetcher->curl) {
		http_fetcher_close(fetcher);
		return error_set(err, -ENOMEM, "out of memory");
	}
	*ret_fetcher = fetcher;
	return 0;
}

void http_fetcher_close(struct http_fetcher *fetcher)
{
	if (!fetcher)
		return;
	if (fetcher->curl)
		library.easy_cleanup(fetcher->curl);
	free(fetcher);
}

/* ---- one transfer -------------------------------------------------------------------------- */

struct transfer {
	CURL *curl;
	const struct http_fetch *request;
	size_t refusal_used;
};

/* Keep the beginning of what is refused. */
static size_t on_refusal(struct transfer *transfer, const char *bytes, size_t size)
{
	const struct http_fetch *request = transfer->request;
	size_t room = request->refusal_size - 1 - transfer->refusal_used;
	size_t kept = size < room ? size : room;

	memcpy(request->refusal + transfer->refusal_used, bytes, kept);
	transfer->refusal_used += kept;
	request->refusal[transfer->refusal_used] = '\0';
	return size;
}

static size_t on_bytes(char *bytes, size_t unit, size_t count, void *context)
{
	struct transfer *transfer = context;
	const struct http_fetch *request = transfer->request;
	size_t size = unit * count;
	long status = 0;

	if (request->refusal)
		library.easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
	if (request->refusal && status / 100 != 2)
		return on_refusal(transfer, bytes, size);
	return request->on_bytes(request->context, bytes, size) ? 0 : size;
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total,
		       curl_off_t up_now)
{
	const struct http_fetch *request = context;

	(void)total, (void)now, (void)up_total, (void)up_now;
	return request->is_over(request->context);
}

static int add_header(struct curl_slist **headers, const char *name, const char *value)
{
	char header[SECRET_BYTES_MAX + 64];

	snprintf(header, sizeof(header), "%s%s", name, value);
	struct curl_slist *longer = library.slist_append(*headers, header);
	secret_erase(header, sizeof(header));
	if (!longer)
		return -ENOMEM;
	*headers = longer;
	return 0;
}

static void erase_headers(struct curl_slist **headers)
{
	for (struct curl_slist *header = *headers; header; header = header->next)
		secret_erase(header->data, strlen(header->data));
	library.slist_free_all(*headers);
}

static void set_limits(CURL *curl, const struct http_fetch *request)
{
	library.easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)request->connect_timeout_s);
	library.easy_setopt(curl, CURLOPT_TIMEOUT, (long)request->timeout_s);
	library.easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request->redirections_max ? 1L : 0L);
	library.easy_setopt(curl, CURLOPT_MAXREDIRS, (long)request->redirections_max);
	library.easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
	library.easy_setopt(curl, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
	library.easy_setopt(curl, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
	if (!request->silence_timeout_s)
		return;
	library.easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	library.easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)request->silence_timeout_s);
}

static void set_body(CURL *curl, const struct http_fetch *request)
{
	if (request->json)
		library.easy_setopt(curl, CURLOPT_POSTFIELDS, request->json);
	if (!request->body)
		return;
	library.easy_setopt(curl, CURLOPT_POST, 1L);
	library.easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
	library.easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
}

static void set_up(struct http_fetcher *fetcher, const struct http_fetch *request,
		   struct transfer *transfer)
{
	CURL *curl = fetcher->curl;

	library.easy_reset(curl);
	library.easy_setopt(curl, CURLOPT_URL, request->url);
	library.easy_setopt(curl, CURLOPT_PROTOCOLS_STR, request->protocols);
	library.easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, request->protocols);
	library.easy_setopt(curl, CURLOPT_FAILONERROR, request->refusal ? 0L : 1L);
	library.easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	library.easy_setopt(curl, CURLOPT_USERAGENT, "cairn/" CAIRN_VERSION);
	library.easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
	library.easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
	library.easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	library.easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	library.easy_setopt(curl, CURLOPT_XFERINFODATA, request);
	library.easy_setopt(curl, CURLOPT_ERRORBUFFER, fetcher->words);
	if (request->ca_file) { // and no other
		library.easy_setopt(curl, CURLOPT_CAINFO, request->ca_file);
		library.easy_setopt(curl, CURLOPT_CAPATH, NULL);
	}
	if (request->is_direct)
		library.easy_setopt(curl, CURLOPT_NOPROXY, "*");
	set_body(curl, request);
	set_limits(curl, request);
}

static int add_headers(struct curl_slist **headers, const struct http_fetch *request)
{
	const struct {
		const char *name, *value;
	} wanted[] = {
		{ "Authorization: Bearer ", request->bearer_token },
		{ "Accept: ", request->accept },
		{ "X-ClickHouse-User: ", request->user },
		{ "X-ClickHouse-Key: ", request->key },
		{ "Content-Type: ", request->json ? "application/json" : request->body_type },
		// No round trip before the body.
		{ "Expect:", request->body ? "" : NULL },
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(wanted) && !rc; i++)
		if (wanted[i].value)
			rc = add_header(headers, wanted[i].name, wanted[i].value);
	return rc;
}

static int code_of(CURLcode result)
{
	switch (result) {
	case CURLE_OK:
		return 0;
	case CURLE_HTTP_RETURNED_ERROR:
		return -EREMOTEIO;
	case CURLE_WRITE_ERROR:
	case CURLE_ABORTED_BY_CALLBACK:
		return -ECANCELED;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	default:
		return -EAGAIN;
	}
}

int http_fetch(struct http_fetcher *fetcher, const struct http_fetch *request, long *ret_status,
	       struct error *err)
{
	_cleanup_(erase_headers) struct curl_slist *headers = NULL;
	struct transfer transfer = { .curl = fetcher->curl, .request = request };

	*ret_status = 0;
	fetcher->words[0] = '\0';
	if (request->refusal)
		request->refusal[0] = '\0';
	set_up(fetcher, request, &transfer);
	int rc = add_headers(&headers, request);
	if (rc)
		return error_set(err, rc, "out of memory");
	library.easy_setopt(fetcher->curl, CURLOPT_HTTPHEADER, headers);
	CURLcode result = library.easy_perform(fetcher->curl);
	library.easy_getinfo(fetcher->curl, CURLINFO_RESPONSE_CODE, ret_status);
	// The list is freed on return: the connection, which stays, must not know it.
	library.easy_setopt(fetcher->curl, CURLOPT_HTTPHEADER, NULL);
	rc = code_of(result);
	if (!rc && *ret_status / 100 != 2 && request->refusal)
		return error_set(err, -EREMOTEIO, "HTTP status %ld", *ret_status);
	return rc ? error_set(err, rc, "%s",
			      fetcher->words[0] ? fetcher->words : library.easy_strerror(result))
		  : 0;
}
