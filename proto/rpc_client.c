// SPDX-License-Identifier: Apache-2.0
// The client: one channel, one blocking call at a time.
//
// A failed channel is destroyed, and the next call makes a new one: it resolves the name again and
// connects at once, so the caller's backoff is the only one. A channel with gRPC's backoff would
// fail later calls at once, with an old reason.
#include "proto/rpc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/header_file.h"
#include "base/path_state.h"
#include "base/secret_file.h"
#include "base/version.h"
#include "proto/retry_info.h"
#include "proto/rpc_library.h"

enum {
	CONNECT_MS_MAX = 5 * 1000,
	PEM_BYTES_MAX = 1 << 20, // a machine's CAs have some 200 KB
};

#define SYSTEM_CA_FILE "/etc/ssl/certs/ca-certificates.crt" // of Debian, Alpine and others

/** A file that is read again when it changes. */
struct watched {
	const char *path; // NULL: none
	struct path_state state;
};

enum { WATCHED_CA, WATCHED_CERTIFICATE, WATCHED_KEY, WATCHED_COUNT };

struct rpc_client {
	char *address;
	size_t message_bytes_max;
	struct watched files[WATCHED_COUNT]; // of the channel
	struct watched token_file;
	char token[7 + SECRET_BYTES_MAX]; // "Bearer TOKEN"
	struct watched headers_file;
	struct header_list headers;
	uint32_t pause_ms; // of the last failure
	grpc_completion_queue *queue;
	grpc_channel *channel; // the calling thread's; NULL: the next call makes it
	pthread_mutex_t mutex; // guards the fields below, which rpc_client_cancel() uses
	grpc_call *call;       // in flight, or NULL
};

enum client_call_state {
	CLIENT_CALL_NEW,
	CLIENT_CALL_STARTED,  // gRPC writes the fields below
	CLIENT_CALL_FINISHED, // they are ours to read and release
};

struct client_call {
	enum client_call_state state;
	grpc_call *call;
	grpc_byte_buffer *request;
	grpc_byte_buffer *response;
	grpc_metadata_array initial_metadata;
	grpc_metadata_array trailing_metadata;
	grpc_status_code status;
	grpc_slice details;
	grpc_metadata headers[HEADERS_MAX + 1]; // those of the file, and the token
	uint32_t header_count;
};

static grpc_arg int_arg(const char *key, int value)
{
	return (grpc_arg){ .type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value };
}

// ---- credentials ----------------------------------------------------------------------------

static int read_pem(const char *path, struct buffer *buffer, struct error *err)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	uint8_t bytes[8192];
	size_t got;

	if (!file)
		return error_errno(err, -errno, "tls: %s", path);
	buffer->size_max = PEM_BYTES_MAX;
	while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0)
		buffer_append(buffer, bytes, got);
	buffer_append_byte(buffer, 0);
	secret_erase(bytes, sizeof(bytes));
	return ferror(file) || buffer->rc ? error_set(err, -EIO, "tls: %s: cannot be read", path)
					  : 0;
}

/* gRPC would refuse every server, without a word. */
static int check_pem(const struct buffer *pem, const char *path, struct error *err)
{
	return strstr((const char *)pem->bytes, "CERTIFICATE-----")
		       ? 0
		       : error_set(err, -EINVAL, "%.200s holds no certificate (PEM)", path);
}

static void erase_buffer(struct buffer *buffer)
{
	if (buffer->bytes)
		secret_erase(buffer->bytes, buffer->size);
	buffer_deinit(buffer);
}

static int tls_credentials_new(struct rpc_client *client,
			       grpc_channel_credentials **ret_credentials, struct error *err)
{
	struct buffer files[WATCHED_COUNT] = { 0 };
	grpc_ssl_pem_key_cert_pair pair;
	int rc = 0;

	for (int i = 0; i < WATCHED_COUNT && !rc; i++) {
		client->files[i].state = path_state_of(client->files[i].path);
		if (client->files[i].path)
			rc = read_pem(client->files[i].path, &files[i], err);
		if (!rc && client->files[i].path && i != WATCHED_KEY)
			rc = check_pem(&files[i], client->files[i].path, err);
	}
	if (!rc) {
		pair.cert_chain = (const char *)files[WATCHED_CERTIFICATE].bytes;
		pair.private_key = (const char *)files[WATCHED_KEY].bytes;
		*ret_credentials = grpc_ssl_credentials_create_ex(
			(const char *)files[WATCHED_CA].bytes,
			client->files[WATCHED_CERTIFICATE].path ? &pair : NULL, NULL, NULL);
		if (!*ret_credentials)
			rc = error_set(err, -EINVAL, "tls: the certificate or its key is damaged");
	}
	for (int i = 0; i < WATCHED_COUNT; i++)
		erase_buffer(&files[i]);
	return rc;
}

static int read_token(struct rpc_client *client, struct error *err)
{
	char secret[SECRET_BYTES_MAX];

	client->token_file.state = path_state_of(client->token_file.path);
	int rc = secret_file_read(client->token_file.path, secret, err);
	if (!rc)
		snprintf(client->token, sizeof(client->token), "Bearer %s", secret);
	secret_erase(secret, sizeof(secret));
	return rc;
}

static int read_headers(struct rpc_client *client, struct error *err)
{
	struct header_list list;

	client->headers_file.state = path_state_of(client->headers_file.path);
	int rc = header_file_read(client->headers_file.path, &list, err);
	if (rc)
		return rc;
	header_list_deinit(&client->headers);
	client->headers = list;
	return 0;
}

static bool has_changed(const struct watched *file)
{
	return file->path && !path_state_equal(file->state, path_state_of(file->path));
}

/**
 * Before a call: read what has changed. A damaged file of the token or of headers leaves the old ones; damaged certificates
 * fail the calls until they are mended.
 */
static void refresh(struct rpc_client *client)
{
	bool changed = false;

	for (int i = 0; i < WATCHED_COUNT; i++)
		changed |= has_changed(&client->files[i]);
	if (changed && client->channel)
		grpc_channel_destroy(take(client->channel));
	if (has_changed(&client->token_file))
		read_token(client, NULL);
	if (has_changed(&client->headers_file))
		read_headers(client, NULL);
}

static int set_security(struct rpc_client *client, const struct rpc_security *security,
			struct error *err)
{
	grpc_channel_credentials *credentials = NULL;
	int rc = 0;

	if (!security)
		return 0;
	if (!security->ca_file && security->certificate_file)
		return error_set(
			err, -EINVAL,
			"--tls-cert: needs --tls-ca, the collector's CA in PEM, or system");
	if (!security->certificate_file != !security->key_file)
		return error_set(err, -EINVAL, "--tls-cert and --tls-key belong together");
	if (security->ca_file) {
		bool is_system = strcmp(security->ca_file, RPC_SYSTEM_CAS) == 0;

		client->files[WATCHED_CA].path = is_system ? SYSTEM_CA_FILE : security->ca_file;
		client->files[WATCHED_CERTIFICATE].path = security->certificate_file;
		client->files[WATCHED_KEY].path = security->key_file;
		rc = tls_credentials_new(client, &credentials, err);
		if (!rc)
			grpc_channel_credentials_release(credentials);
	}
	client->token_file.path = security->token_file;
	client->headers_file.path = security->headers_file;
	if (!rc && security->token_file)
		rc = read_token(client, err);
	return !rc && security->headers_file ? read_headers(client, err) : rc;
}

// ---- channels -------------------------------------------------------------------------------

static int channel_new(struct rpc_client *client, struct error *err)
{
	grpc_arg args[] = {
		int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)client->message_bytes_max),
		int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, (int)client->message_bytes_max),
		int_arg(GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM, GRPC_COMPRESS_GZIP),
		int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0), // rpc_message_read() does it
		int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, RPC_KEEPALIVE_MS),
		int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, RPC_KEEPALIVE_TIMEOUT_MS),
		int_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_MS_MAX),
		int_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 1000),
		int_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, CONNECT_MS_MAX),
		int_arg(GRPC_ARG_ENABLE_RETRIES, 0),    // the caller retries
		int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0), // profiles do not pass through a web proxy
		int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), // no backoff of earlier channels
		int_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
		int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
		{ .type = GRPC_ARG_STRING,
		  .key = (char *)GRPC_ARG_PRIMARY_USER_AGENT_STRING,
		  .value.string = (char *)"cairn/" CAIRN_VERSION },
	};
	const grpc_channel_args all = { .num_args = ARRAY_SIZE(args), .args = args };
	grpc_channel_credentials *credentials = NULL;
	int rc = 0;

	if (client->files[WATCHED_CA].path)
		rc = tls_credentials_new(client, &credentials, err);
	else
		credentials = grpc_insecure_credentials_create();
	if (rc)
		return rc;
	client->channel = grpc_channel_create(client->address, credentials, &all);
	grpc_channel_credentials_release(credentials);
	return 0;
}

int rpc_client_open(const char *address, size_t message_bytes_max,
		    const struct rpc_security *security, struct rpc_client **ret_client,
		    struct error *err)
{
	int rc = rpc_address_check(address, 1, err);
	if (rc)
		return rc;

	struct rpc_client *client = calloc(1, sizeof(*client));
	char *copy = strdup(address);
	if (!client || !copy) {
		free(client);
		free(copy);
		return error_set(err, -ENOMEM, "rpc: out of memory for a client");
	}
	client->address = copy;
	client->message_bytes_max = message_bytes_max;
	pthread_mutex_init(&client->mutex, NULL);
	rpc_library_open();
	client->queue = grpc_completion_queue_create_for_next(NULL);
	rc = set_security(client, security, err);
	if (rc) {
		rpc_client_close(client);
		return rc;
	}
	*ret_client = client;
	return 0;
}

void rpc_client_close(struct rpc_client *client)
{
	if (!client)
		return;
	if (client->channel)
		grpc_channel_destroy(client->channel);
	grpc_completion_queue_shutdown(client->queue);
	while (grpc_completion_queue_next(client->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL)
		       .type != GRPC_QUEUE_SHUTDOWN)
		;
	grpc_completion_queue_destroy(client->queue);
	rpc_library_close();
	pthread_mutex_destroy(&client->mutex);
	secret_erase(client->token, sizeof(client->token));
	header_list_deinit(&client->headers);
	free(client->address);
	free(client);
}

static void client_call_init(struct client_call *call)
{
	memset(call, 0, sizeof(*call));
	grpc_metadata_array_init(&call->initial_metadata);
	grpc_metadata_array_init(&call->trailing_metadata);
	call->details = grpc_empty_slice();
}

static void client_call_deinit(struct client_call *call)
{
	if (call->request)
		grpc_byte_buffer_destroy(call->request);
	if (call->response)
		grpc_byte_buffer_destroy(call->response);
	grpc_metadata_array_destroy(&call->initial_metadata);
	grpc_metadata_array_destroy(&call->trailing_metadata);
	grpc_slice_unref(call->details);
	for (uint32_t i = 0; i < call->header_count; i++) {
		grpc_slice_unref(call->headers[i].key);
		grpc_slice_unref(call->headers[i].value);
	}
}

static void add_header(struct client_call *call, const char *name, const char *value)
{
	call->headers[call->header_count++] = (grpc_metadata){
		.key = grpc_slice_from_copied_string(name),
		.value = grpc_slice_from_copied_string(value),
	};
}

static void add_headers(struct client_call *call, const struct rpc_client *client)
{
	if (client->token[0])
		add_header(call, "authorization", client->token);
	for (uint32_t i = 0; i < client->headers.count; i++)
		add_header(call, client->headers.headers[i].name, client->headers.headers[i].value);
}

static int client_call_start(struct client_call *call)
{
	grpc_op ops[6] = {
		{ .op = GRPC_OP_SEND_INITIAL_METADATA,
		  .data.send_initial_metadata = { .count = call->header_count,
						  .metadata = call->headers } },
		{ .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = call->request },
		{ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
		{ .op = GRPC_OP_RECV_INITIAL_METADATA,
		  .data.recv_initial_metadata.recv_initial_metadata = &call->initial_metadata },
		{ .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->response },
		{ .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		  .data.recv_status_on_client = { .trailing_metadata = &call->trailing_metadata,
						  .status = &call->status,
						  .status_details = &call->details } },
	};

	if (grpc_call_start_batch(call->call, ops, ARRAY_SIZE(ops), call, NULL) != GRPC_CALL_OK)
		return -EIO;
	call->state = CLIENT_CALL_STARTED;
	return 0;
}

// Set the call that rpc_client_cancel() cancels; NULL: none.
static void publish_call(struct rpc_client *client, grpc_call *call)
{
	pthread_mutex_lock(&client->mutex);
	client->call = call;
	pthread_mutex_unlock(&client->mutex);
}

static int client_call_run(struct client_call *call, struct rpc_client *client, const char *method,
			   uint32_t deadline_ms)
{
	grpc_slice name = grpc_slice_from_copied_string(method);
	gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
					     gpr_time_from_millis(deadline_ms, GPR_TIMESPAN));

	call->call = grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
					      client->queue, name, NULL, deadline, NULL);
	grpc_slice_unref(name);
	int rc = client_call_start(call);
	if (!rc) {
		publish_call(client, call->call);
		// The deadline and cancellation end the call: waiting needs no limit.
		grpc_completion_queue_next(client->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
		publish_call(client, NULL);
		call->state = CLIENT_CALL_FINISHED;
	}
	grpc_call_unref(call->call);
	return rc;
}

// The code of a failure: the limit that the server named, else -EIO.
static int failure_code(const struct client_call *call)
{
	int code = 0;

	for (size_t i = 0; i < call->trailing_metadata.count && !code; i++) {
		const grpc_metadata *header = &call->trailing_metadata.metadata[i];

		if (call->status != GRPC_STATUS_RESOURCE_EXHAUSTED ||
		    grpc_slice_str_cmp(header->key, RPC_LIMIT_HEADER))
			continue;
		char *name = grpc_slice_to_c_string(header->value);
		code = rpc_limit_code(name);
		gpr_free(name);
	}
	return code ? code : -EIO;
}

static enum rpc_status read_response(struct client_call *call, const struct rpc_client *client,
				     struct buffer *response, struct error *err)
{
	if (call->status != GRPC_STATUS_OK) {
		char *words = grpc_slice_to_c_string(call->details);

		error_set(err, failure_code(call), "%s: %s",
			  rpc_status_name((enum rpc_status)call->status),
			  *words ? words : "no reason given");
		gpr_free(words);
		return (enum rpc_status)call->status;
	}

	int rc = call->response
			 ? rpc_message_read(call->response, client->message_bytes_max, response)
			 : -EBADMSG;
	if (rc == -EMSGSIZE) {
		error_set(err, rc, "the response is larger than %zu bytes",
			  client->message_bytes_max);
		return RPC_RESOURCE_EXHAUSTED;
	}
	if (rc) {
		error_errno(err, rc, "cannot read the response");
		return RPC_INTERNAL;
	}
	return RPC_OK;
}

static uint32_t pause_of(const struct client_call *call)
{
	for (size_t i = 0; i < call->trailing_metadata.count; i++) {
		const grpc_metadata *header = &call->trailing_metadata.metadata[i];

		if (!grpc_slice_str_cmp(header->key, "grpc-status-details-bin"))
			return retry_info_pause_ms(GRPC_SLICE_START_PTR(header->value),
						   GRPC_SLICE_LENGTH(header->value));
	}
	return 0;
}

// Did the server say it, or gRPC of a connection that broke?
static bool has_answer(const struct client_call *call)
{
	for (size_t i = 0; i < call->trailing_metadata.count; i++)
		if (!grpc_slice_str_cmp(call->trailing_metadata.metadata[i].key,
					RPC_ANSWERED_HEADER))
			return true;
	return false;
}

static enum rpc_status call_once(struct rpc_client *client, const char *method,
				 const struct buffer *request, uint32_t deadline_ms,
				 struct buffer *response, bool *ret_answered, struct error *err)
{
	struct client_call call;
	enum rpc_status status;

	*ret_answered = false;
	client->pause_ms = 0;
	refresh(client);
	if (!client->channel && channel_new(client, err))
		return RPC_UNAVAILABLE; // the files are read again at the next call
	client_call_init(&call);
	add_headers(&call, client);
	call.request = rpc_message_new(request->bytes, request->size);
	if (client_call_run(&call, client, method, deadline_ms)) {
		error_set(err, -EIO, "rpc: the call could not be started");
		status = RPC_INTERNAL;
	} else {
		status = read_response(&call, client, response, err);
		*ret_answered = has_answer(&call);
		client->pause_ms = pause_of(&call);
	}
	client_call_deinit(&call);
	if (status == RPC_UNAVAILABLE || status == RPC_DEADLINE_EXCEEDED) {
		grpc_channel_destroy(client->channel);
		client->channel = NULL;
	}
	return status;
}

enum rpc_status rpc_client_call(struct rpc_client *client, const char *method,
				const struct buffer *request, uint32_t deadline_ms,
				struct buffer *response, struct error *err)
{
	uint64_t start_ns = clock_monotonic_ns();
	bool is_connected = client->channel, is_answered;
	enum rpc_status status =
		call_once(client, method, request, deadline_ms, response, &is_answered, err);
	uint64_t took_ms = ns_between(start_ns, clock_monotonic_ns()) / NS_PER_MS;

	// The server may have closed a connection of earlier calls, because it restarted or because the connection was old,
	// and this call is the first to see it. That says nothing of now.
	if (status != RPC_UNAVAILABLE || is_answered || !is_connected || took_ms >= deadline_ms)
		return status;
	return call_once(client, method, request, deadline_ms - (uint32_t)took_ms, response,
			 &is_answered, err);
}

uint32_t rpc_client_pause_ms(const struct rpc_client *client)
{
	return client->pause_ms;
}

void rpc_client_cancel(struct rpc_client *client)
{
	pthread_mutex_lock(&client->mutex);
	if (client->call)
		grpc_call_cancel(client->call, NULL);
	pthread_mutex_unlock(&client->mutex);
}
