// SPDX-License-Identifier: Apache-2.0
// Any text as a request to the collector's HTTP API, over a small store: an answer with a status, JSON where it says so, and nothing
// of another tenant. The first line is the first letter of a method and the path, lines of name=value up to an empty one are
// the parameters, as they are when the server has decoded them, and the rest is the body.

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "collector/http/http_api.h"
#include "tests/fuzz/fuzzed_store.h"
#include "tests/fuzz/parameter_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PATH_BYTES = 256, ANSWER_BYTES_MAX = 16 << 20, BUDGET_BYTES = 256 << 20 };

static void check(bool holds)
{
	if (!holds)
		abort();
}

// ---- in place of what no request of a fuzzer needs --------------------------------------------

bool http_handle_asset(const struct http_request *request, struct http_response *response)
{
	(void)request, (void)response;
	return false;
}

struct symbol_space *symbol_spaces_get(struct symbol_spaces *spaces, const char *tenant,
				       struct error *err)
{
	(void)spaces, (void)tenant, (void)err;
	return NULL;
}

// ---- the request ------------------------------------------------------------------------------

static enum http_method method_of(uint8_t letter)
{
	return letter == 'P' ? HTTP_POST : letter == 'D' ? HTTP_DELETE : HTTP_GET;
}

/** Read the first line. Returns where the parameters begin. */
static size_t read_line(const uint8_t *bytes, size_t size, struct http_request *request,
			char path[PATH_BYTES])
{
	const uint8_t *end = memchr(bytes, '\n', size);
	size_t line = end ? (size_t)(end - bytes) : size;
	size_t length = line > 1 ? line - 1 : 0;

	length = length < PATH_BYTES ? length : PATH_BYTES - 1;
	memcpy(path, bytes + (length ? 1 : 0), length);
	path[length] = '\0';
	request->path = path;
	request->method = method_of(size ? bytes[0] : 0);
	return line + (end != NULL);
}

static void set_parameters(const struct parameter_lines *lines, struct http_request *request)
{
	request->parameter_count = lines->count;
	for (uint32_t i = 0; i < lines->count; i++)
		request->parameters[i] =
			(struct http_parameter){ lines->list[i].name, lines->list[i].value };
}

/** A body only where the server takes one. A block of its own size shows who reads too far. */
static void *set_body(struct http_api *api, const uint8_t *bytes, size_t size,
		      struct http_request *request)
{
	void *body = size && size <= http_api_body_max(api, request) ? malloc(size) : NULL;

	if (!body)
		return NULL;
	request->content_type = bytes[0] == '{' ? "application/json" : "application/proto";
	request->body = memcpy(body, bytes, size);
	request->body_size = size;
	return body;
}

// ---- the answer -------------------------------------------------------------------------------

static bool has_secret(const void *bytes, size_t size)
{
	return size && memmem(bytes, size, FUZZED_STORE_SECRET, strlen(FUZZED_STORE_SECRET));
}

static void check_answer(const struct http_response *response, bool is_secret_known)
{
	const struct buffer *body = &response->body;

	check(!response->status || (response->status >= 200 && response->status < 600));
	check(response->endpoint && response->media_type);
	check(is_secret_known || !has_secret(body->bytes, body->size));
	if (body->rc || !body->size || strcmp(response->media_type, "application/json") != 0)
		return;
	json_t *root = json_loadb((const char *)body->bytes, body->size, JSON_DECODE_ANY, NULL);
	check(root);
	json_decref(root);
}

static void ask(struct http_api *api, const struct http_request *request, bool is_secret_known)
{
	struct http_response response = { .endpoint = "none",
					  .media_type = "text/plain",
					  .body = { .size_max = ANSWER_BYTES_MAX } };

	http_api_is_slow(api, request);
	http_api_handle(api, request, &response);
	check_answer(&response, is_secret_known);
	http_api_done(api, request, &response, 1, response.body.size);
	http_response_deinit(&response);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct parameter_lines *lines = calloc(1, sizeof(*lines));
	struct metrics *metrics = calloc(1, sizeof(*metrics));
	struct byte_budget budget = { .bytes_max = BUDGET_BYTES };
	struct store *store = fuzzed_store_new();
	struct http_request request = {
		.credentials = { .address = "192.0.2.1" },
		.identity = { .key = "token:fuzz",
			      .tenant = FUZZED_STORE_TENANT,
			      .roles = ACCESS_READ | ACCESS_INGEST | ACCESS_UPLOAD | ACCESS_ADMIN },
	};
	char path[PATH_BYTES];

	check(lines && metrics);
	struct http_api api = { .store = store,
				.metrics = metrics,
				.receiver = receiver_new(store, metrics, NULL),
				.ready = true,
				.doors = {
					.store = store, .metrics = metrics, .budget = &budget } };
	check(api.receiver);
	size_t at = read_line(bytes, size, &request, path);
	at += parameter_lines_read(bytes + at, size - at, lines);
	set_parameters(lines, &request);
	void *body =
		set_body(&api, bytes + (at < size ? at : 0), at < size ? size - at : 0, &request);

	ask(&api, &request, has_secret(bytes, size));
	check(!atomic_load(&budget.bytes_taken));
	free(body);
	receiver_free(api.receiver);
	store_close(store);
	free(metrics);
	free(lines);
	return 0;
}
