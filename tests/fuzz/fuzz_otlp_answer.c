// SPDX-License-Identifier: Apache-2.0
// Any bytes as what an OTLP endpoint answers: a response, or the details of a status.

#include <stdlib.h>
#include <string.h>

#include "proto/otlp.h"
#include "proto/retry_info.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct otlp_answer answer;
	struct error err = { 0 };
	int rc = otlp_answer_read(bytes, size, &answer, &err);

	if (rc != err.code || strnlen(answer.message, sizeof(answer.message)) == ERROR_TEXT_BYTES ||
	    retry_info_pause_ms(bytes, size) > RETRY_PAUSE_MS_MAX)
		abort();
	return 0;
}
