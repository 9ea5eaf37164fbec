// SPDX-License-Identifier: Apache-2.0
#include "collector/doors/otlp_door.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/import/otlp_import.h"
#include "base/import/wire.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "collector/access/access.h"
#include "collector/doors/json_message.h"

// Of opentelemetry-proto 1.10 and 1.11; what is not read is not here.
static const struct json_field any_fields[] = { { "stringValue", 1, JSON_TEXT, NULL },
						{ "boolValue", 2, JSON_BOOL, NULL },
						{ "intValue", 3, JSON_INTEGER, NULL },
						{ "doubleValue", 4, JSON_DOUBLE, NULL },
						{ "stringValueStrindex", 8, JSON_INTEGER, NULL },
						{ 0 } };
static const struct json_field key_fields[] = { { "key", 1, JSON_TEXT, NULL },
						{ "value", 2, JSON_OBJECT, any_fields },
						{ "keyStrindex", 3, JSON_INTEGER, NULL },
						{ 0 } };
static const struct json_field resource_fields[] = { { "attributes", 1, JSON_OBJECT, key_fields },
						     { 0 } };
static const struct json_field type_fields[] = { { "typeStrindex", 1, JSON_INTEGER, NULL },
						 { "unitStrindex", 2, JSON_INTEGER, NULL },
						 { 0 } };
static const struct json_field sample_fields[] = { { "stackIndex", 1, JSON_INTEGER, NULL },
						   { "attributeIndices", 2, JSON_INTEGER, NULL },
						   { "values", 4, JSON_INTEGER, NULL },
						   { "timestampsUnixNano", 5, JSON_FIXED64, NULL },
						   { 0 } };
static const struct json_field profile_fields[] = { { "sampleType", 1, JSON_OBJECT, type_fields },
						    { "samples", 2, JSON_OBJECT, sample_fields },
						    { "timeUnixNano", 3, JSON_FIXED64, NULL },
						    { "durationNano", 4, JSON_INTEGER, NULL },
						    { "periodType", 5, JSON_OBJECT, type_fields },
						    { "period", 6, JSON_INTEGER, NULL },
						    { 0 } };
static const struct json_field scope_fields[] = { { "profiles", 2, JSON_OBJECT, profile_fields },
						  { 0 } };
static const struct json_field resource_profiles_fields[] = {
	{ "resource", 1, JSON_OBJECT, resource_fields },
	{ "scopeProfiles", 2, JSON_OBJECT, scope_fields },
	{ 0 }
};
static const struct json_field mapping_fields[] = { { "memoryStart", 1, JSON_INTEGER, NULL },
						    { "memoryLimit", 2, JSON_INTEGER, NULL },
						    { "fileOffset", 3, JSON_INTEGER, NULL },
						    { "filenameStrindex", 4, JSON_INTEGER, NULL },
						    { "attributeIndices", 5, JSON_INTEGER, NULL },
						    { 0 } };
static const struct json_field line_fields[] = { { "functionIndex", 1, JSON_INTEGER, NULL },
						 { "line", 2, JSON_INTEGER, NULL },
						 { 0 } };
static const struct json_field location_fields[] = { { "mappingIndex", 1, JSON_INTEGER, NULL },
						     { "address", 2, JSON_INTEGER, NULL },
						     { "lines", 3, JSON_OBJECT, line_fields },
						     { "attributeIndices", 4, JSON_INTEGER, NULL },
						     { 0 } };
static const struct json_field function_fields[] = { { "nameStrindex", 1, JSON_INTEGER, NULL },
						     { "systemNameStrindex", 2, JSON_INTEGER,
						       NULL },
						     { "filenameStrindex", 3, JSON_INTEGER, NULL },
						     { 0 } };
static const struct json_field attribute_fields[] = { { "keyStrindex", 1, JSON_INTEGER, NULL },
						      { "value", 2, JSON_OBJECT, any_fields },
						      { 0 } };
static const struct json_field stack_fields[] = { { "locationIndices", 1, JSON_INTEGER, NULL },
						  { 0 } };
static const struct json_field dictionary_fields[] = {
	{ "mappingTable", 1, JSON_OBJECT, mapping_fields },
	{ "locationTable", 2, JSON_OBJECT, location_fields },
	{ "functionTable", 3, JSON_OBJECT, function_fields },
	{ "stringTable", 5, JSON_TEXT, NULL },
	{ "attributeTable", 6, JSON_OBJECT, attribute_fields },
	{ "stackTable", 7, JSON_OBJECT, stack_fields },
	{ 0 }
};
static const struct json_field request_fields[] = {
	{ "resourceProfiles", 1, JSON_OBJECT, resource_profiles_fields },
	{ "dictionary", 2, JSON_OBJECT, dictionary_fields },
	{ 0 }
};

static int import_json(struct door_work *work, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer message = { .size_max = DOOR_BYTES_MAX,
							   .budget = work->doors->budget };
	int rc = json_message_encode(request_fields, work->bytes, work->size, &message, err);

	return rc ? rc : otlp_import(&work->importer, message.bytes, message.size, err);
}

int otlp_push(struct doors *doors, const struct door_request *request,
	      struct door_outcome *ret_outcome, struct error *err)
{
	_cleanup_(door_work_end) struct door_work work = { .doors = doors };
	int rc = door_work_begin(&work, doors, request->identity, request->bytes, request->size,
				 err);

	if (!rc)
		rc = json_is_type(request->content_type)
			     ? import_json(&work, err)
			     : otlp_import(&work.importer, work.bytes, work.size, err);
	return rc ? rc : door_store(&work, request, "", ret_outcome, err);
}

/** Field 1, partial_success: rejected_profiles (1) stays 0, for profiles are never refused whole; error_message (2). */
void otlp_respond(const struct door_outcome *outcome, bool is_json, struct buffer *response)
{
	_cleanup_(buffer_deinit) struct buffer message = { 0 };
	char words[DOOR_WORDS_BYTES];

	door_outcome_words(outcome, words, sizeof(words));
	if (is_json) {
		if (!*words) {
			buffer_append_string(response, "{}");
			return;
		}
		buffer_append_string(response, "{\"partialSuccess\":{\"errorMessage\":");
		json_append_string(response, words);
		buffer_append_string(response, "}}");
		return;
	}
	if (!*words)
		return;
	buffer_append_varint(&message, 2 << 3 | WIRE_BYTES);
	buffer_append_varint(&message, strlen(words));
	buffer_append_string(&message, words);
	buffer_append_varint(response, 1 << 3 | WIRE_BYTES);
	buffer_append_varint(response, message.size);
	buffer_append(response, message.bytes, message.size);
}

static enum rpc_status status_of(int rc)
{
	switch (rc) {
	case -EBADMSG:
	case -EINVAL:
	case -ERANGE:
		return RPC_INVALID_ARGUMENT;
	case -E2BIG:
	case -EFBIG:
	case TENANT_LATER:
		return RPC_RESOURCE_EXHAUSTED;
	default: // OpenTelemetry's exporters try again
		return RPC_UNAVAILABLE;
	}
}

enum rpc_status otlp_export(void *context, const struct rpc_request *request,
			    struct buffer *response, struct error *err)
{
	const struct identity local = access_local();
	const struct door_request pushed = {
		.identity = request->caller ? request->caller : &local,
		.address = request->peer,
		.bytes = request->bytes,
		.size = request->size,
	};
	struct door_outcome outcome;
	int rc = otlp_push(context, &pushed, &outcome, err);

	if (rc) {
		doors_count_failure(context, err);
		if (rc == TENANT_LATER && request->ret_pause_ms)
			*request->ret_pause_ms = tenant_ingest_pause_ms(
				doors_tenant(context, pushed.identity), clock_monotonic_ns());
		return status_of(rc);
	}
	otlp_respond(&outcome, false, response);
	return RPC_OK;
}
