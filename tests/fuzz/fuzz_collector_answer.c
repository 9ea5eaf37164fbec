// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a collector answers to an agent, message or status with its text: the batch is delivered, refused or sent
// again within the limits of tries, boosts stay within the agent's own limits, and a terminal sees no control character. The first two
// bytes are the status and the limit that it names; then the text up to a NUL; then the message.

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/boost/boost_mailbox.h"
#include "agent/boost/boosts.h"
#include "agent/collector_answer.h"
#include "agent/ship/protocol.h"
#include "agent/ship/sender.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/rpc.h"
#include "tests/fuzz/batch_of_one.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { HZ_MAX = 499, WORDS_BYTES = 512, STATUSES = RPC_UNAUTHENTICATED + 2, ANSWERS = 3 };

static void check(bool holds)
{
	if (!holds)
		abort();
}

// ---- doubles: gRPC's client, and the log ------------------------------------------------------

static struct {
	enum rpc_status status;
	int code; // of the error
	uint32_t pause_ms;
	char words[WORDS_BYTES];
	const uint8_t *message;
	size_t size;
} answer;

int rpc_client_open(const char *address, size_t message_bytes_max,
		    const struct rpc_security *security, struct rpc_client **ret_client,
		    struct error *err)
{
	(void)address, (void)message_bytes_max, (void)security, (void)err;
	*ret_client = NULL;
	return 0;
}

void rpc_client_close(struct rpc_client *client)
{
	(void)client;
}

void rpc_client_cancel(struct rpc_client *client)
{
	(void)client;
}

uint32_t rpc_client_pause_ms(const struct rpc_client *client)
{
	(void)client;
	return answer.pause_ms;
}

enum rpc_status rpc_client_call(struct rpc_client *client, const char *method,
				const struct buffer *request, uint32_t deadline_ms,
				struct buffer *response, struct error *err)
{
	(void)client, (void)method, (void)request, (void)deadline_ms;
	if (answer.status == RPC_OK)
		buffer_append(response, answer.message, answer.size);
	else
		error_set(err, answer.code, "%s: %s", rpc_status_name(answer.status), answer.words);
	return answer.status;
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[1024];
	va_list args;

	(void)level;
	va_start(args, format);
	check(vsnprintf(line, sizeof(line), format, args) > 0);
	va_end(args);
}

// ---- the answer -------------------------------------------------------------------------------

static void set_answer(const uint8_t *bytes, size_t size)
{
	static const char *const limits[] = { "message", "memory", "calls", "disk", "" };
	const uint8_t *end = memchr(bytes + 2, '\0', size - 2);
	size_t words = end ? (size_t)(end - bytes) - 2 : size - 2;
	size_t at = 2 + words + (end != NULL);
	int code = rpc_limit_code(limits[bytes[1] % ARRAY_SIZE(limits)]);

	answer.status = (enum rpc_status)(bytes[0] % STATUSES);
	answer.code = code ? code : -EIO;
	answer.pause_ms = bytes[1] * 1000U;
	snprintf(answer.words, sizeof(answer.words), "%.*s",
		 (int)(words < WORDS_BYTES ? words : WORDS_BYTES - 1), (const char *)bytes + 2);
	answer.message = bytes + at;
	answer.size = size - at;
}

/** What the sender does while the collector answers so. Returns how often it was asked. */
static uint32_t deliver(struct boost_mailbox *mailbox)
{
	const struct sender_options options = { .address = "collector:7171", .boosts = mailbox };
	struct batch *batch = batch_of_one();
	struct delivery delivery = { .batch = batch };
	enum ship_outcome outcome = SHIP_LATER;
	void *client = NULL;
	uint32_t tries = 0;

	check(batch && cairn_protocol.open(&options, &client, NULL) == 0);
	for (; tries < ANSWERS && outcome != SHIP_DELIVERED && outcome != SHIP_REFUSED; tries++) {
		struct ship_try one = { .deadline_ms = 1000 };
		struct error err = { 0 };

		outcome = cairn_protocol.try_once(client, &delivery, &one, &err);
		check((outcome == SHIP_DELIVERED) == !err.text[0]);
		check(outcome == SHIP_DELIVERED || !one.bytes);
		check(outcome != SHIP_AGAIN || answer.status == RPC_OK);
	}
	cairn_protocol.end(client);
	cairn_protocol.close(client);
	batch_free(batch);
	return tries;
}

static void check_boosts(struct boost_mailbox *mailbox)
{
	struct boosts boosts = { .limits = { .hz_max = HZ_MAX, .interval_ns = NS_PER_SECOND } };
	struct boost received[BOOSTS_OF_AGENT_MAX];
	struct boost_demand demand;
	struct boost_report report;
	uint64_t now_ns = 0;
	uint32_t count = 0;

	if (!boost_mailbox_take(mailbox, received, &count, &now_ns))
		return;
	check(answer.status == RPC_OK && count <= BOOSTS_OF_AGENT_MAX);
	boosts_receive(&boosts, received, count, now_ns);
	boosts_receive(&boosts, received, count, now_ns + 1); // not begun twice, nor longer
	check(boosts.begun == boosts.count);
	for (uint32_t i = 0; i < boosts.count; i++)
		check(boosts.entries[i].until_ns <= now_ns + BOOST_SECONDS_MAX * NS_PER_SECOND);
	boosts_demand(&boosts, &demand);
	check(demand.hz <= HZ_MAX && !(demand.profiles & ~(uint32_t)BOOST_PROFILES));
	check(memchr(demand.services, '\0', sizeof(demand.services)) != NULL);
	boosts_report(&boosts, demand.hz, demand.profiles, demand.stop, &report);
	check(report.count == boosts.count);
}

static void check_doctor(void)
{
	const struct collector_question question = { .address = "collector:7171",
						     .status = answer.status,
						     .words = answer.words };
	char text[COLLECTOR_ANSWER_BYTES];

	collector_answer(&question, text);
	check(text[0]);
	for (const unsigned char *at = (const unsigned char *)text; *at; at++)
		check(*at >= ' ' && *at != 0x7f &&
		      !(at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct boost_mailbox mailbox = BOOST_MAILBOX_INIT;

	if (size < 2)
		return 0;
	set_answer(bytes, size);
	uint32_t tries = deliver(&mailbox);
	check(tries <= DEFINITION_TRIES_MAX);
	check_boosts(&mailbox);
	check_doctor();
	return 0;
}
