// SPDX-License-Identifier: Apache-2.0
#include "collector/store/clickhouse/clickhouse_client.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define BOUNDARY "cairn-7b1d6f0e-ids"

enum {
	REFUSAL_BYTES = 2048,
	ANSWER_STEP_BYTES = 64 << 10, // rows are parsed whenever so much more has arrived
};

// ---- options --------------------------------------------------------------------------------------

static int add_server(struct clickhouse_client *client, const char *url, size_t size,
		      struct error *err)
{
	struct clickhouse_server *server = &client->servers[client->server_count];

	while (size && url[size - 1] == '/')
		size--;
	if (size >= CLICKHOUSE_URL_BYTES_MAX || client->server_count == CLICKHOUSE_SERVERS_MAX)
		return error_set(err, -EINVAL,
				 "clickhouse: at most %d URLs of %d bytes with commas between",
				 CLICKHOUSE_SERVERS_MAX, CLICKHOUSE_URL_BYTES_MAX - 1);
	memcpy(server->url, url, size);
	if ((strncmp(server->url, "http://", 7) != 0 && strncmp(server->url, "https://", 8) != 0) ||
	    strpbrk(server->url, "?#@ "))
		return error_set(err, -EINVAL, // without the URL: it may have a password in it
				 "clickhouse: expected URLs such as http://clickhouse:8123; user "
				 "and password are options of their own");
	client->server_count++;
	return 0;
}

static int add_servers(struct clickhouse_client *client, const char *urls, struct error *err)
{
	int rc = 0;

	while (*urls && !rc) {
		size_t size = strcspn(urls, ",");

		rc = add_server(client, urls, size, err);
		urls += size + (urls[size] == ',');
	}
	return rc || client->server_count ? rc
					  : error_set(err, -EINVAL,
						      "clickhouse: name a server's URL, such as "
						      "--clickhouse http://clickhouse:8123");
}

/** A name that stands in statements as it is. */
static bool is_name(const char *name)
{
	size_t size = strlen(name);

	if (!size || size >= CLICKHOUSE_NAME_BYTES_MAX || isdigit((unsigned char)*name))
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_')
			return false;
	return true;
}

int clickhouse_options_check(const struct clickhouse_options *options, struct error *err)
{
	_cleanup_free_ struct clickhouse_client *client = calloc(1, sizeof(*client));

	if (!client)
		return error_set(err, -ENOMEM, "out of memory");
	if (!is_name(options->database))
		return error_set(err, -EINVAL,
				 "clickhouse-database: \"%.80s\" is not a name of letters, digits "
				 "and _",
				 options->database);
	if (options->cluster && !is_name(options->cluster))
		return error_set(err, -EINVAL,
				 "clickhouse-cluster: \"%.80s\" is not a name of letters, digits "
				 "and _",
				 options->cluster);
	return add_servers(client, options->urls ? options->urls : "", err);
}

static int read_credential(struct clickhouse_client *client,
			   const struct clickhouse_options *options, struct error *err)
{
	int rc = 0;

	if (options->user && !(client->user = strdup(options->user)))
		return error_set(err, -ENOMEM, "out of memory");
	if (options->password_file)
		rc = secret_file_read(options->password_file, client->password, err);
	client->has_password = options->password_file && !rc;
	return rc;
}

int clickhouse_client_open(struct clickhouse_client *client,
			   const struct clickhouse_options *options, struct error *err)
{
	struct http_fetcher *fetcher = NULL; // loads libcurl, where no other thread does
	int rc = clickhouse_options_check(options, err);

	if (!rc)
		rc = add_servers(client, options->urls, err);
	if (!rc)
		rc = read_credential(client, options, err);
	if (!rc)
		rc = http_fetcher_open(&fetcher, err);
	if (rc)
		return rc;
	http_fetcher_close(fetcher);
	snprintf(client->database, sizeof(client->database), "%s", options->database);
	client->cluster = options->cluster;
	for (uint32_t i = 0; i < client->server_count; i++) {
		struct clickhouse_server *server = &client->servers[i];

		pthread_mutex_init(&server->lock, NULL);
		pthread_cond_init(&server->returned, NULL);
		server->shard = options->cluster ? CLICKHOUSE_NO_SHARD : i;
	}
	client->shard_count = options->cluster ? 0 : client->server_count;
	return 0;
}

void clickhouse_client_close(struct clickhouse_client *client)
{
	for (uint32_t i = 0; i < client->server_count; i++)
		for (uint32_t j = 0; j < client->servers[i].idle_count; j++)
			http_fetcher_close(client->servers[i].idle[j]);
	secret_erase(client->password, sizeof(client->password));
	free(client->user);
}

// ---- connections ----------------------------------------------------------------------------------

/** Wait for one of the server's connections: for no longer than a poll of the deadline at a time. */
static int take_connection(struct clickhouse_server *server, struct deadline *deadline,
			   struct http_fetcher **ret_fetcher, struct error *err)
{
	int rc = 0;

	pthread_mutex_lock(&server->lock);
	while (!server->idle_count && server->open_count == CLICKHOUSE_CONNECTIONS_MAX && !rc) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&server->returned, &server->lock, &until);
		rc = deadline_check(deadline, err);
	}
	if (!rc && server->idle_count) {
		*ret_fetcher = server->idle[--server->idle_count];
	} else if (!rc) {
		rc = http_fetcher_open(ret_fetcher, err);
		server->open_count += !rc;
	}
	pthread_mutex_unlock(&server->lock);
	return rc;
}

static void return_connection(struct clickhouse_server *server, struct http_fetcher *fetcher)
{
	pthread_mutex_lock(&server->lock);
	server->idle[server->idle_count++] = fetcher;
	pthread_cond_signal(&server->returned);
	pthread_mutex_unlock(&server->lock);
}

// ---- one statement --------------------------------------------------------------------------------

/** An answer on its way. */
struct answer {
	const struct clickhouse_request *request;
	struct buffer bytes;
	uint64_t total;
	size_t retry_at; // parse again when so much is there: the last row was not whole
	bool any;        // of it has been taken
	int rc;
};

/** Take the whole rows that have arrived. @is_end: all of the answer has. */
static int take_rows(struct answer *answer, bool is_end)
{
	struct buffer *bytes = &answer->bytes;
	struct reader reader = { .at = bytes->bytes, .end = bytes->bytes + bytes->size };
	size_t taken = 0;
	int rc = 0;

	while (!rc && taken < bytes->size) {
		rc = answer->request->row(answer->request->context, &reader);
		if (reader.failed)
			break;
		answer->any = true;
		if (!rc && reader.at == bytes->bytes + taken)
			return -EBADMSG; // a row without bytes
		taken = (size_t)(reader.at - bytes->bytes);
	}
	if (taken)
		memmove(bytes->bytes, bytes->bytes + taken, bytes->size - taken);
	bytes->size -= taken;
	// A row that is not whole is parsed again when twice as much of it is there.
	answer->retry_at = 2 * bytes->size > bytes->size + ANSWER_STEP_BYTES
				   ? 2 * bytes->size
				   : bytes->size + ANSWER_STEP_BYTES;
	return !rc && is_end && bytes->size ? -EBADMSG : rc;
}

static int on_answer(void *context, const void *bytes, size_t size)
{
	struct answer *answer = context;
	const struct clickhouse_request *request = answer->request;

	answer->total += size;
	if (!request->row)
		return 0; // nothing is expected
	if (request->answer_bytes_max && answer->total > request->answer_bytes_max)
		answer->rc = -EFBIG;
	buffer_append(&answer->bytes, bytes, size);
	if (!answer->rc)
		answer->rc = answer->bytes.rc;
	if (!answer->rc && answer->bytes.size >= answer->retry_at)
		answer->rc = take_rows(answer, false);
	return answer->rc;
}

static bool is_over(void *context)
{
	const struct answer *answer = context;

	return deadline_check(answer->request->deadline, NULL) != 0;
}

/** The external table as a part of a form. */
static void put_ids(struct buffer *body, const struct clickhouse_request *request)
{
	buffer_append_string(body,
			     "--" BOUNDARY "\r\n"
			     "Content-Disposition: form-data; name=\"ids\"; filename=\"ids\"\r\n"
			     "Content-Type: application/octet-stream\r\n\r\n");
	uint8_t *bytes = buffer_extend(body, (size_t)request->id_count * ID128_BYTES);
	for (uint32_t i = 0; bytes && i < request->id_count; i++)
		id128_encode(request->ids[i], bytes + (size_t)i * ID128_BYTES);
	buffer_append_string(body, "\r\n--" BOUNDARY "--\r\n");
}

static void put_escaped(struct buffer *url, const char *text)
{
	for (; *text; text++) {
		if (isalnum((unsigned char)*text))
			buffer_append_byte(url, (uint8_t)*text);
		else
			buffer_printf(url, "%%%02X", (unsigned char)*text);
	}
}

static uint32_t seconds_left(const struct clickhouse_request *request)
{
	uint64_t now_ns = clock_monotonic_ns(),
		 at_ns = request->deadline ? request->deadline->at_ns : 0;

	if (request->rows)
		return CLICKHOUSE_WRITE_S;
	if (!at_ns)
		return CLICKHOUSE_READ_S;
	return at_ns > now_ns ? (uint32_t)((at_ns - now_ns) / NS_PER_SECOND) + 1 : 1;
}

static void put_url(const struct clickhouse_client *client, const struct clickhouse_server *server,
		    const struct clickhouse_request *request, struct buffer *url)
{
	// An answer that fails after its first bytes would have status 200 and the failure among its
	// rows: let it wait for its end.
	buffer_printf(url, "%s/?wait_end_of_query=1&buffer_size=4194304&max_execution_time=%u",
		      server->url, seconds_left(request));
	if (!request->in_no_database)
		buffer_printf(url, "&database=%s", client->database);
	if (request->rows) {
		// All rows are one block, so that a batch's are one part: whole, or not there.
		buffer_append_string(url, "&max_insert_block_size=16777216");
		if (server->version >= 2108)
			buffer_append_string(url, "&async_insert=0&wait_for_async_insert=1");
	}
	if (request->ids)
		buffer_append_string(url,
				     "&ids_format=RowBinary&ids_structure=id%20FixedString(16)");
	buffer_append_string(url, "&query=");
	put_escaped(url, request->sql);
}

/** The server's words on one line, without the version and stack trace after them. */
static void clean_refusal(char *text)
{
	char *end = strstr(text, ", e.what()");

	if (!end)
		end = strstr(text, " (version ");
	if (end)
		*end = '\0';
	for (; *text; text++)
		if ((unsigned char)*text < ' ')
			*text = ' ';
}

/** What a failure means to who asked. */
static int explain(const struct clickhouse_server *server, const struct clickhouse_request *request,
		   const struct answer *answer, int rc, const char *words, const char *refusal,
		   struct error *err)
{
	int over = deadline_check(request->deadline, err);

	if (over)
		return over;
	if (answer->rc == -EBADMSG)
		return error_set(
			err, -EBADMSG,
			"ClickHouse at %s sent a malformed answer; is it a ClickHouse server?",
			server->url);
	if (answer->rc == -EFBIG)
		return error_set(err, -EFBIG,
				 "ClickHouse at %s: answer above the limit of %llu MiB; ask for a "
				 "shorter range or fewer series",
				 server->url, (unsigned long long)request->answer_bytes_max >> 20);
	if (answer->rc)
		return err && err->code == answer->rc
			       ? answer->rc
			       : error_set(err, answer->rc, "store: %s", strerror(-answer->rc));
	if (rc == -EREMOTEIO)
		return error_set(err, rc, "ClickHouse at %s refuses: %.220s", server->url,
				 *refusal ? refusal : words);
	return error_set(err, rc == -ENOMEM ? rc : -EAGAIN, "ClickHouse at %s does not answer: %s",
			 server->url, words);
}

static int perform(struct clickhouse_client *client, struct clickhouse_server *server,
		   const struct clickhouse_request *request, struct answer *answer,
		   struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer url = { 0 }, body = { 0 };
	struct http_fetcher *fetcher = NULL;
	char refusal[REFUSAL_BYTES] = "";
	struct error words = { 0 };
	long status = 0;

	put_url(client, server, request, &url);
	if (request->ids)
		put_ids(&body, request);
	if (url.rc || body.rc)
		return error_set(err, -ENOMEM, "store: out of memory");
	int rc = take_connection(server, request->deadline, &fetcher, err);
	if (rc)
		return rc;
	const struct buffer *sent = request->rows ? request->rows : &body;
	const struct http_fetch fetch = {
		.url = buffer_string(&url),
		.protocols = "http,https",
		.connect_timeout_s = CLICKHOUSE_CONNECT_S,
		.timeout_s = seconds_left(request) + 2, // its own word comes first
		.is_direct = true,
		.user = client->user,
		.key = client->has_password ? client->password : NULL,
		.body = sent->size ? (const void *)sent->bytes : "",
		.body_size = sent->size,
		.body_type = request->ids ? "multipart/form-data; boundary=" BOUNDARY
					  : "application/octet-stream",
		.refusal = refusal,
		.refusal_size = sizeof(refusal),
		.on_bytes = on_answer,
		.is_over = is_over,
		.context = answer,
	};
	rc = http_fetch(fetcher, &fetch, &status, &words);
	return_connection(server, fetcher);
	if (!rc && request->row)
		rc = answer->rc = take_rows(answer, true);
	clean_refusal(refusal);
	return rc ? explain(server, request, answer, rc, words.text, refusal, err) : 0;
}

int clickhouse_ask_server(struct clickhouse_client *client, struct clickhouse_server *server,
			  const struct clickhouse_request *request, struct error *err)
{
	struct answer answer = { .request = request,
				 .bytes = { .size_max = CLICKHOUSE_ROW_BYTES_MAX } };

	client->requests++;
	int rc = perform(client, server, request, &answer, err);
	buffer_deinit(&answer.bytes);
	// A statement that is refused is an answer, too.
	if (rc == 0 || rc == -EREMOTEIO)
		server->answers = true;
	else if (rc == -EAGAIN)
		server->answers = false;
	client->failures += rc == -EAGAIN || rc == -EREMOTEIO;
	return rc == -EAGAIN && answer.any ? -EIO : rc;
}

/** Ask those that answered last first. */
static int ask_in_turn(struct clickhouse_client *client, uint32_t shard,
		       const struct clickhouse_request *request, bool answers, bool *asked,
		       struct error *err)
{
	int rc = -EAGAIN;

	for (uint32_t i = 0; i < client->server_count && rc == -EAGAIN; i++) {
		struct clickhouse_server *server = &client->servers[i];

		if (server->shard != shard || !server->is_ready || server->answers != answers ||
		    asked[i])
			continue;
		asked[i] = true;
		rc = clickhouse_ask_server(client, server, request, err);
	}
	return rc;
}

int clickhouse_ask(struct clickhouse_client *client, uint32_t shard,
		   const struct clickhouse_request *request, struct error *err)
{
	bool asked[CLICKHOUSE_SERVERS_MAX] = { false };
	struct error none = { 0 };

	error_set(err ? err : &none, -EIO,
		  "ClickHouse: no server of shard %u of cluster %s answers; name one in "
		  "--clickhouse, or start it",
		  shard + 1, client->cluster ? client->cluster : "(none)");
	int rc = ask_in_turn(client, shard, request, true, asked, err);
	if (rc == -EAGAIN)
		rc = ask_in_turn(client, shard, request, false, asked, err);
	if (rc == -EAGAIN && err)
		err->code = -EIO;
	return rc == -EAGAIN ? -EIO : rc;
}
