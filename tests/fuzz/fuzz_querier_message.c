// SPDX-License-Identifier: Apache-2.0
// Any text as a request of Pyroscope's querier in JSON, and any bytes as one in protobuf: refused with a word, or a message that
// comes back the same when it is written and read again. Selectors in it keep to their tenant.

#include <stdlib.h>
#include <string.h>

#include "base/contract/label_names.h"
#include "collector/pyroscope/label_map.h"
#include "collector/pyroscope/message_json.h"
#include "querier/v1/querier.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_again(const ProtobufCMessage *message)
{
	ProtobufCMessage *again = NULL;
	struct buffer text = { 0 }, second = { 0 };
	struct error err = { 0 };

	message_json_append(message, &text);
	// Not of numbers that JSON does not have, nor of strings that are no UTF-8.
	if (!message_json_parse(message->descriptor, buffer_string(&text), text.size, &again,
				&err)) {
		message_json_append(again, &second);
		check(strcmp(buffer_string(&text), buffer_string(&second)) == 0);
		protobuf_c_message_free_unpacked(again, NULL);
	}
	buffer_deinit(&text);
	buffer_deinit(&second);
}

static void check_selector(const Querier__V1__SelectMergeStacktracesRequest *request)
{
	struct pyroscope_selector selector;
	struct labels labels = { 0 };
	struct error err = { 0 };

	check(!labels_set(&labels, LABEL_SERVICE, "web"));
	if (!pyroscope_selector_parse(request->label_selector, "shop", &selector, &err)) {
		check(!selector_matches(&selector.selector, &labels)); // of no tenant
		pyroscope_selector_deinit(&selector);
	} else {
		check(err.text[0]);
	}
	labels_deinit(&labels);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const ProtobufCMessageDescriptor *merge =
		&querier__v1__select_merge_stacktraces_request__descriptor;
	const ProtobufCMessageDescriptor *const descriptors[] = {
		merge,
		&querier__v1__select_series_request__descriptor,
		&querier__v1__diff_request__descriptor,
		&querier__v1__series_request__descriptor,
	};
	const ProtobufCMessageDescriptor *descriptor = descriptors[size ? bytes[0] % 4 : 0];
	ProtobufCMessage *message = NULL;
	struct error err = { 0 };

	if (!size)
		return 0;
	if (message_json_parse(descriptor, (const char *)bytes + 1, size - 1, &message, &err)) {
		check(err.text[0]);
		message = protobuf_c_message_unpack(descriptor, NULL, size - 1, bytes + 1);
	}
	if (!message)
		return 0;
	check_again(message);
	if (descriptor == merge)
		check_selector((const Querier__V1__SelectMergeStacktracesRequest *)message);
	protobuf_c_message_free_unpacked(message, NULL);
	return 0;
}
