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
#include "base/version.h"
#include "proto/rpc_library.h"

enum { CONNECT_MS_MAX = 5 * 1000 };

struct rpc_client {
	char *address;
	size_t message_bytes_max;
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
};

static grpc_arg int_arg(const char *key, int value)
{
	return (grpc_arg){ .type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value };
}

static grpc_channel *channel_new(const char *address, size_t message_bytes_max)
{
	grpc_arg args[] = {
		int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)message_bytes_max),
		int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, (int)message_bytes_max),
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
	grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
	grpc_channel *channel = grpc_channel_create(address, credentials, &all);

	grpc_channel_credentials_release(credentials);
	return channel;
}

int rpc_client_open(const char *address, size_t message_bytes_max, struct rpc_client **ret_client,
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
}

static int client_call_start(struct client_call *call)
{
	grpc_op ops[6] = {
		{ .op = GRPC_OP_SEND_INITIAL_METADATA },
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

static enum rpc_status read_response(struct client_call *call, const struct rpc_client *client,
				     struct buffer *response, struct error *err)
{
	if (call->status != GRPC_STATUS_OK) {
		char *words = grpc_slice_to_c_string(call->details);

		error_set(err, -EIO, "%s: %s", rpc_status_name((enum rpc_status)call->status),
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

static enum rpc_status call_once(struct rpc_client *client, const char *method,
				 const struct buffer *request, uint32_t deadline_ms,
				 struct buffer *response, struct error *err)
{
	struct client_call call;
	enum rpc_status status;

	if (!client->channel)
		client->channel = channel_new(client->address, client->message_bytes_max);
	client_call_init(&call);
	call.request = rpc_message_new(request->bytes, request->size);
	if (client_call_run(&call, client, method, deadline_ms)) {
		error_set(err, -EIO, "rpc: the call could not be started");
		status = RPC_INTERNAL;
	} else {
		status = read_response(&call, client, response, err);
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
	bool is_connected = client->channel;
	enum rpc_status status = call_once(client, method, request, deadline_ms, response, err);
	uint64_t took_ms = ns_between(start_ns, clock_monotonic_ns()) / NS_PER_MS;

	// The server may have closed a connection of earlier calls, because it restarted or because the connection was old,
	// and this call is the first to see it. That says nothing of now.
	if (status != RPC_UNAVAILABLE || !is_connected || took_ms >= deadline_ms)
		return status;
	return call_once(client, method, request, deadline_ms - (uint32_t)took_ms, response, err);
}

void rpc_client_cancel(struct rpc_client *client)
{
	pthread_mutex_lock(&client->mutex);
	if (client->call)
		grpc_call_cancel(client->call, NULL);
	pthread_mutex_unlock(&client->mutex);
}
