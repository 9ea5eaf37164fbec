// SPDX-License-Identifier: Apache-2.0
// Any bytes as a push of another profiler, with its URL's parameters, as a form, in JSON and in protobuf: refused with a word, or
// a batch of the credential's tenant, and all memory is given back. The first byte chooses the door; lines of name=value up to
// an empty one are the parameters.

#include <stdlib.h>
#include <string.h>

#include "base/contract/label_names.h"
#include "collector/doors/otlp_door.h"
#include "collector/doors/push_door.h"
#include "collector/store/store_ops.h"
#include "tests/fuzz/parameter_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { BUDGET_BYTES = 256 << 20 };

static void check(bool condition)
{
	if (!condition)
		abort();
}

// ---- the store: a double ----------------------------------------------------------------------

static int append(struct store *store, const struct store_batch_id *batch,
		  const struct profile *profile, struct store_append_result *ret_result,
		  struct error *err)
{
	(void)store;
	(void)batch;
	(void)err;
	*ret_result = (struct store_append_result){ 0 };
	check(profile->sample_count > 0);
	for (uint32_t i = 0; i < profile->series_count; i++) {
		const char *tenant = labels_get(&profile->series[i].labels, LABEL_TENANT);

		check(tenant && strcmp(tenant, "shop") == 0);
		check(profile->series[i].labels.count <= LABELS_MAX);
	}
	for (uint32_t i = 0; i < profile->sample_count; i++)
		check(profile->samples[i].series < profile->series_count &&
		      profile->samples[i].stack < profile->stack_count);
	return 0;
}

// ---- the request ------------------------------------------------------------------------------

static void each_parameter(const void *context,
			   void (*read)(void *reading, const char *name, const char *value),
			   void *reading)
{
	const struct parameter_lines *lines = context;

	for (uint32_t i = 0; i < lines->count; i++)
		read(reading, lines->list[i].name, lines->list[i].value);
}

static int push(uint8_t way, struct doors *doors, const struct door_request *request,
		struct door_outcome *outcome, struct error *err)
{
	switch (way % 4) {
	case 0:
		return push_ingest(doors, request, outcome, err);
	case 1:
		return push_pprof(doors, request, outcome, err);
	case 2:
		return push_series(doors, request, outcome, err);
	default:
		return otlp_push(doors, request, outcome, err);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char *const types[] = { "multipart/form-data; boundary=b",
					     "multipart/form-data; boundary=\"a b\"",
					     "application/json", "application/x-protobuf" };
	const struct store_ops ops = { .append = append };
	const struct identity identity = { .key = "token:fuzz",
					   .tenant = "shop",
					   .roles = ACCESS_INGEST };
	struct byte_budget budget = { .bytes_max = BUDGET_BYTES };
	struct metrics metrics = { 0 };
	struct store store = { &ops };
	struct doors doors = { .store = &store, .metrics = &metrics, .budget = &budget };
	struct parameter_lines *parameters = calloc(1, sizeof(*parameters));
	struct door_outcome outcome = { 0 };
	struct error err = { 0 };
	char words[1024];

	check(parameters);
	if (size > 1) {
		size_t body = 1 + parameter_lines_read(bytes + 1, size - 1, parameters);
		size_t body_size = size - (body < size ? body : size);
		// A block of its own size shows who reads too far.
		uint8_t *content = malloc(body_size + !body_size);
		const struct door_request request = { .identity = &identity,
						      .address = "192.0.2.1",
						      .bytes = content,
						      .size = body_size,
						      .content_type = types[bytes[0] / 4 % 4],
						      .parameter = parameter_lines_get,
						      .each_parameter = each_parameter,
						      .context = parameters };

		check(content);
		memcpy(content, bytes + size - body_size, body_size);
		int rc = push(bytes[0], &doors, &request, &outcome, &err);
		check(!rc || err.text[0]);
		if (rc)
			doors_count_failure(&doors, &err);
		else
			door_outcome_words(&outcome, words, sizeof(words));
		free(content);
	}
	check(atomic_load(&budget.bytes_taken) == 0);
	free(parameters);
	return 0;
}
