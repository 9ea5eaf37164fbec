// SPDX-License-Identifier: Apache-2.0
// What `cairn doctor` reports of a collector that it has asked whether it accepts this agent's profiles.
#pragma once

#include <stdbool.h>

#include "proto/rpc.h"

enum { COLLECTOR_ANSWER_BYTES = 480 };

enum collector_answer {
	COLLECTOR_ACCEPTS,
	COLLECTOR_ACCEPTS_NONE_NOW,
	COLLECTOR_ACCEPTS_NONE,
};

struct collector_question {
	const char *address;
	bool has_tls, has_login; // a token or a certificate
	enum rpc_status status;  // of the request without a profile
	const char *words;       // with the status
};

/** @ret_text: a sentence, with the remedy if it takes none. */
enum collector_answer collector_answer(const struct collector_question *question,
				       char ret_text[COLLECTOR_ANSWER_BYTES]);
