// SPDX-License-Identifier: Apache-2.0
#include "agent/collector_answer.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "proto/export_message.h"

/* gRPC's words are long; the last ones are the system's. */
static const char *reason_of(const char *words)
{
	const char *colon = strrchr(words, ':');

	return colon && colon[1] == ' ' && colon[2] ? colon + 2 : words;
}

static void say_accepts(const struct collector_question *question,
			char text[COLLECTOR_ANSWER_BYTES])
{
	bool is_open = strstr(question->words, EXPORT_EMPTY_NO_LOGIN);

	snprintf(text, COLLECTOR_ANSWER_BYTES, "%.200s accepts this agent's profiles%s%s",
		 question->address, question->has_tls ? ", by TLS" : "",
		 is_open && question->has_login ? "; it asks for no login" : "");
}

static void say_away(const struct collector_question *question, char text[COLLECTOR_ANSWER_BYTES])
{
	// gRPC's words for the first line of an answer in HTTP/1.
	if (strstr(question->words, "http1.x"))
		snprintf(text, COLLECTOR_ANSWER_BYTES,
			 "%.200s is an HTTP port; agents send to the gRPC port (7171)",
			 question->address);
	else
		snprintf(text, COLLECTOR_ANSWER_BYTES,
			 "%.200s does not answer: %.100s; is cairn-collector running there? "
			 "--collector names another address, --tls-ca says that it is encrypted",
			 question->address, reason_of(question->words));
}

static enum collector_answer answer_of(const struct collector_question *question,
				       char ret_text[COLLECTOR_ANSWER_BYTES])
{
	switch (question->status) {
	case RPC_OK:
	case RPC_INVALID_ARGUMENT:
		say_accepts(question, ret_text);
		return COLLECTOR_ACCEPTS;
	case RPC_RESOURCE_EXHAUSTED:
		snprintf(ret_text, COLLECTOR_ANSWER_BYTES, "%.200s accepts none now: %.200s",
			 question->address, question->words);
		return COLLECTOR_ACCEPTS_NONE_NOW;
	case RPC_UNAVAILABLE:
	case RPC_DEADLINE_EXCEEDED:
		say_away(question, ret_text);
		return COLLECTOR_ACCEPTS_NONE;
	default:
		snprintf(ret_text, COLLECTOR_ANSWER_BYTES,
			 "%.200s refuses profiles of this agent: %.200s", question->address,
			 question->words);
		return COLLECTOR_ACCEPTS_NONE;
	}
}

enum collector_answer collector_answer(const struct collector_question *question,
				       char ret_text[COLLECTOR_ANSWER_BYTES])
{
	enum collector_answer answer = answer_of(question, ret_text);

	utf8_clean(ret_text); // the words are a server's, and a terminal's next
	return answer;
}
