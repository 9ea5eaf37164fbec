// SPDX-License-Identifier: Apache-2.0
// The sender's OTLP side against an endpoint over real gRPC that misbehaves on request.
#include "agent/ship/protocol.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "agent/ship/sender.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/import/otlp_import.h"
#include "proto/otlp.h"
#include "proto/rpc.h"
#include "proto/wire_append.h"
#include "tests/test.h"

enum { SAMPLES = 1000, WAIT_MS = 60 * 1000 };

#define FROM_NS (1700000000 * NS_PER_SECOND)
#define SLOT_NS (20 * NS_PER_MS)

struct endpoint_double {
	struct rpc_server *server;
	int port;
	atomic_uint calls, requests;
	atomic_llong value;
	atomic_uint fail_next; // calls to answer with `status`
	enum rpc_status status;
	int code; // of the error
	uint64_t rejected;
};

static enum rpc_status take_request(void *context, const struct rpc_request *request,
				    struct buffer *response, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer success = { 0 };
	struct endpoint_double *endpoint = context;
	struct importer importer;

	endpoint->calls++;
	if (endpoint->fail_next) {
		endpoint->fail_next--;
		error_set(err, endpoint->code, "made to fail");
		return endpoint->status;
	}
	if (importer_init(&importer, FROM_NS, 1 << 20))
		return RPC_UNAVAILABLE;
	int rc = otlp_import(&importer, request->bytes, request->size, err);
	for (uint32_t i = 0; !rc && i < importer.profile->sample_count; i++)
		endpoint->value += importer.profile->samples[i].value;
	importer_deinit(&importer);
	endpoint->requests += !rc;
	wire_append_number(&success, 1, endpoint->rejected);
	wire_append_message(response, 1, &success);
	return rc ? RPC_INVALID_ARGUMENT : RPC_OK;
}

static void endpoint_start(struct endpoint_double *endpoint)
{
	const struct rpc_method method = {
		.name = OTLP_METHOD, .handle = take_request, .context = endpoint, .work_per_byte = 1
	};
	const struct rpc_server_options options = { .address = "127.0.0.1:0",
						    .message_bytes_max = 4 << 20, // gRPC's default
						    .threads = 1,
						    .methods = &method,
						    .method_count = 1 };
	struct error err = { 0 };

	EXPECT_EQ(0, rpc_server_open(&options, &endpoint->server, &endpoint->port, &err), err.text);
}

static struct sender *sender_to(const struct endpoint_double *endpoint)
{
	char address[32];
	const struct sender_options options = {
		.protocol = &otlp_protocol,
		.address = address,
		.agent = { 1, 2 },
		.boot = { 3, 4 },
		.spool_bytes = 64 << 20,
		.call_ms = WAIT_MS,
		.backoff_ms_min = 5,
		.backoff_ms_max = 20,
	};
	struct sender *sender = NULL;
	struct error err = { 0 };

	snprintf(address, sizeof(address), "127.0.0.1:%d", endpoint->port);
	EXPECT_EQ(0, sender_open(&options, &sender, &err), err.text);
	return sender;
}

/** @samples of 1, each on a stack of its own with a name of @name_bytes. */
static struct profile *profile_of(uint32_t samples, uint32_t name_bytes)
{
	struct profile *profile = profile_new(SLOT_NS);
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	_cleanup_free_ char *name = calloc(1, name_bytes + 16);
	uint32_t series = 0, location, stack;

	profile->from_ns = FROM_NS;
	profile->to_ns = FROM_NS + 5 * NS_PER_SECOND;
	labels_set(&labels, LABEL_SERVICE, "llm");
	EXPECT_EQ(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series), "series");
	memset(name, 'x', name_bytes);
	for (uint32_t i = 0; i < samples; i++) {
		struct location code = { .id = { 7, i }, .kind = FRAME_KIND_NATIVE };
		struct line line = { 0 };

		snprintf(name + name_bytes, 16, "%u", i);
		profile_add_string(profile, name, &line.name);
		EXPECT_EQ(0, profile_add_location(profile, &code, &line, 1, &location), "location");
		EXPECT_EQ(0, profile_add_stack(profile, &location, 1, STACK_END_COMPLETE, &stack),
			  "stack");
		EXPECT_EQ(0, profile_add_sample(profile, series, stack, FROM_NS / SLOT_NS, 1),
			  "sample");
	}
	return profile;
}

static struct sender_stats wait_for(struct sender *sender, uint64_t sent, uint64_t refused)
{
	uint64_t until_ns = clock_monotonic_ns() + WAIT_MS * NS_PER_MS;
	struct sender_stats stats;

	do {
		sender_read_stats(sender, &stats);
		if (stats.batches_sent == sent && stats.batches_refused == refused)
			return stats;
		usleep(2000);
	} while (clock_monotonic_ns() < until_ns);
	fail_msg("%llu batches sent, %llu refused", (unsigned long long)stats.batches_sent,
		 (unsigned long long)stats.batches_refused);
	return stats;
}

TEST(sends_profiles_that_others_read_too)
{
	struct endpoint_double endpoint = { .rejected = 2 };
	endpoint_start(&endpoint);
	struct sender *sender = sender_to(&endpoint);
	struct profile *profile = profile_of(SAMPLES, 1);

	sender_push(sender, profile_share(profile));
	struct sender_stats stats = wait_for(sender, 1, 0);
	EXPECT_EQ(SAMPLES, endpoint.value, "value");
	EXPECT_EQ(SAMPLES, stats.samples_sent, "samples");
	EXPECT_EQ(2, stats.profiles_rejected, "partial success");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	EXPECT_EQ(SAMPLES, profile->sample_count, "the other owner has it still");
	profile_free(profile);
	rpc_server_close(endpoint.server, 0);
}

TEST(large_batches_are_several_requests)
{
	struct endpoint_double endpoint = { 0 };
	endpoint_start(&endpoint);
	struct sender *sender = sender_to(&endpoint);

	sender_push(sender, profile_of(2000, 4000)); // 8 MB of names
	wait_for(sender, 1, 0);
	EXPECT_EQ(2000, endpoint.value, "value");
	EXPECT_EQ(3, endpoint.requests, "requests");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	rpc_server_close(endpoint.server, 0);
}

static const struct {
	const char *what;
	enum rpc_status status;
	int code;
	bool is_retried;
} failures[] = {
	{ "cancelled", RPC_CANCELLED, -EIO, true },
	{ "late", RPC_DEADLINE_EXCEEDED, -EIO, true },
	{ "aborted", RPC_ABORTED, -EIO, true },
	{ "unavailable", RPC_UNAVAILABLE, -EIO, true },
	{ "a full disk", RPC_RESOURCE_EXHAUSTED, -ENOSPC, true },
	{ "a quota without a pause", RPC_RESOURCE_EXHAUSTED, -EIO, false },
	{ "too large", RPC_RESOURCE_EXHAUSTED, -EMSGSIZE, false },
	{ "damaged", RPC_INVALID_ARGUMENT, -EIO, false },
	{ "no such service", RPC_UNIMPLEMENTED, -EIO, false },
	{ "another token", RPC_UNAUTHENTICATED, -EIO, false },
};

TEST(tries_again_as_otlp_says)
{
	for EACH (row, failures) {
		struct endpoint_double endpoint = { .fail_next = 2,
						    .status = row->status,
						    .code = row->code };
		endpoint_start(&endpoint);
		struct sender *sender = sender_to(&endpoint);

		sender_push(sender, profile_of(3, 1));
		struct sender_stats stats = wait_for(sender, row->is_retried, !row->is_retried);
		EXPECT_EQ(row->is_retried ? 3 : 1, endpoint.calls, row->what);
		EXPECT_EQ(row->is_retried ? 2 : 0, stats.retries, row->what);
		EXPECT_EQ(row->is_retried ? 0 : 3, stats.samples_refused, row->what);
		EXPECT_EQ(row->is_retried ? 3 : 0, endpoint.value, row->what);
		EXPECT_EQ(0, sender_close(sender, 1000, NULL), row->what);
		rpc_server_close(endpoint.server, 0);
	}
}

TEST(sends_acknowledged_requests_once)
{
	struct endpoint_double endpoint = { .status = RPC_UNAVAILABLE, .code = -EIO };
	endpoint_start(&endpoint);
	struct sender *sender = sender_to(&endpoint);

	endpoint.fail_next = 1;
	sender_push(sender, profile_of(2000, 4000));
	wait_for(sender, 1, 0);
	EXPECT_EQ(3 + 1, endpoint.calls, "only the one that failed came twice");
	EXPECT_EQ(2000, endpoint.value, "value");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	rpc_server_close(endpoint.server, 0);
}

RUN_TESTS(cmocka_unit_test(sends_profiles_that_others_read_too),
	  cmocka_unit_test(large_batches_are_several_requests),
	  cmocka_unit_test(tries_again_as_otlp_says),
	  cmocka_unit_test(sends_acknowledged_requests_once))
