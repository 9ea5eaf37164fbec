// SPDX-License-Identifier: Apache-2.0
#include "cli/spike_command.h"

#include <string.h>

#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "cli/api_request.h"

/** A value of a label, in a selector in single quotes of a shell. */
static void append_value(struct buffer *text, const char *value)
{
	for (; *value; value++) {
		if (*value == '\'')
			buffer_append_string(text,
					     "'\\''"); // ends the quotes, and begins them again
		else if (*value == '"' || *value == '\\')
			buffer_printf(text, "\\%c", *value);
		else
			buffer_append_byte(text, (uint8_t)*value);
	}
}

static void append_matcher(struct buffer *text, const json_t *spike, const char *label)
{
	const char *value = json_text_of(spike, label);

	if (!*value)
		return;
	buffer_printf(text, "%s%s=\"", strcmp(label, LABEL_SERVICE) ? ", " : "", label);
	append_value(text, value);
	buffer_append_byte(text, '"');
}

/** What to look at: what used a CPU quota up is CPU time. */
static const char *shown_type(const char *type)
{
	const struct profile_type_spec *spec =
		profile_type_spec(strcmp(type, PROFILE_TYPE_THROTTLED) ? type : PROFILE_TYPE_CPU);

	return spec && spec->word ? spec->word : type;
}

void spike_command_append(struct buffer *text, const json_t *spike, const char *from,
			  const char *to, const char *collector_http)
{
	buffer_append_string(text, "cairn query '{");
	append_matcher(text, spike, LABEL_SERVICE);
	append_matcher(text, spike, LABEL_WAIT);
	buffer_printf(text, "}' --type %s --from %s --to %s",
		      shown_type(json_text_of(spike, "type")), from, to);
	if (strcmp(collector_http, API_REQUEST_COLLECTOR) != 0)
		buffer_printf(text, " --collector-http %s", collector_http);
}
