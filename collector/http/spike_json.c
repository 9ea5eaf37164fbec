// SPDX-License-Identifier: Apache-2.0
#include "collector/http/spike_json.h"

#include "base/cleanup.h"
#include "base/json_text.h"
#include "collector/spikes/spike_text.h"

static void append_made(struct buffer *body, const char *key, const struct spike *spike,
			void (*make)(struct buffer *text, const struct spike *spike))
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	make(&text, spike);
	buffer_append_string(body, key);
	json_append_string(body, buffer_string(&text));
}

void spike_json_append_words(struct buffer *body, const struct spike *spike)
{
	append_made(body, "\"title\":", spike, spike_append_title);
	append_made(body, ",\"sentence\":", spike, spike_append_sentence);
	append_made(body, ",\"path\":", spike, spike_append_path);
}
