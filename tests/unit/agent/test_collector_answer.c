// SPDX-License-Identifier: Apache-2.0
// What the doctor reports of a collector's answer.

#include "tests/test.h"

#include "agent/collector_answer.h"
#include "proto/export_message.h"

#define AWAY                                                                               \
	"; is cairn-collector running there? --collector names another address, --tls-ca " \
	"says that it is encrypted"

static const struct {
	enum rpc_status status;
	const char *words;
	bool has_tls, has_login;
	enum collector_answer answer;
	const char *text;
} answers[] = {
	{ RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT: " EXPORT_EMPTY, true, true, COLLECTOR_ACCEPTS,
	  "c:7171 accepts this agent's profiles, by TLS" },
	{ RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT: " EXPORT_EMPTY_NO_LOGIN, false, true,
	  COLLECTOR_ACCEPTS, "c:7171 accepts this agent's profiles; it asks for no login" },
	{ RPC_INVALID_ARGUMENT, "INVALID_ARGUMENT: " EXPORT_EMPTY_NO_LOGIN, false, false,
	  COLLECTOR_ACCEPTS, "c:7171 accepts this agent's profiles" },
	{ RPC_RESOURCE_EXHAUSTED, "disk full", false, false, COLLECTOR_ACCEPTS_NONE_NOW,
	  "c:7171 accepts none now: disk full" },
	{ RPC_UNAVAILABLE, "UNAVAILABLE: connect to ipv4:1: Connection refused", false, false,
	  COLLECTOR_ACCEPTS_NONE, "c:7171 does not answer: Connection refused" AWAY },
	{ RPC_UNAVAILABLE, "UNAVAILABLE: handshake: ", false, false, COLLECTOR_ACCEPTS_NONE,
	  "c:7171 does not answer: UNAVAILABLE: handshake: " AWAY },
	{ RPC_UNAVAILABLE, "UNAVAILABLE: Trying to connect an http1.x server", false, false,
	  COLLECTOR_ACCEPTS_NONE, "c:7171 is an HTTP port; agents send to the gRPC port (7171)" },
	{ RPC_UNAUTHENTICATED, "UNAUTHENTICATED: unknown token", false, true,
	  COLLECTOR_ACCEPTS_NONE,
	  "c:7171 refuses profiles of this agent: UNAUTHENTICATED: unknown token" },
	{ RPC_PERMISSION_DENIED, "PERMISSION_DENIED: \x1b[2J\xc2\x9b\xff", false, false,
	  COLLECTOR_ACCEPTS_NONE,
	  "c:7171 refuses profiles of this agent: PERMISSION_DENIED: ?[2J???" },
};

TEST(names_why_profiles_are_refused)
{
	for EACH (row, answers) {
		const struct collector_question question = { .address = "c:7171",
							     .has_tls = row->has_tls,
							     .has_login = row->has_login,
							     .status = row->status,
							     .words = row->words };
		char text[COLLECTOR_ANSWER_BYTES];

		EXPECT_EQ(row->answer, collector_answer(&question, text), row->words);
		EXPECT_STR(row->text, text, row->words);
	}
}

RUN_TESTS(cmocka_unit_test(names_why_profiles_are_refused))
