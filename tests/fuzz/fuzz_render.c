// SPDX-License-Identifier: Apache-2.0
// Any text as the parameters of Pyroscope's /render and /render-diff: refused with a word, or JSON that has nothing of another
// tenant. The first byte chooses the call.

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "collector/pyroscope/render.h"
#include "tests/fuzz/fuzzed_store.h"
#include "tests/fuzz/parameter_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { NOW_S = FUZZED_STORE_FROM_S + 5 };

static void check(bool holds)
{
	if (!holds)
		abort();
}

static bool has_secret(const void *bytes, size_t size)
{
	return size && memmem(bytes, size, FUZZED_STORE_SECRET, strlen(FUZZED_STORE_SECRET));
}

static void check_answer(const struct buffer *answer, bool is_secret_known)
{
	json_t *root = json_loadb((const char *)answer->bytes, answer->size, 0, NULL);

	check(json_is_object(json_object_get(root, "flamebearer")));
	check(is_secret_known || !has_secret(answer->bytes, answer->size));
	json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct store *store;
	struct parameter_lines *parameters = calloc(1, sizeof(*parameters));
	struct buffer answer = { .size_max = 16 << 20 };
	struct error err = { 0 };

	check(parameters);
	if (!store)
		store = fuzzed_store_new();
	const struct querier_call call = { .store = store,
					   .tenant = FUZZED_STORE_TENANT,
					   .now_ns = NOW_S * NS_PER_SECOND,
					   .answer = &answer };
	if (size) {
		parameter_lines_read(bytes + 1, size - 1, parameters);
		int rc = (bytes[0] % 2 ? pyroscope_render_diff : pyroscope_render)(
			&call, parameter_lines_get, parameters, &err);

		check(!rc || err.text[0]);
		if (!rc && !answer.rc)
			check_answer(&answer, has_secret(bytes, size));
	}
	buffer_deinit(&answer);
	free(parameters);
	return 0;
}
