// SPDX-License-Identifier: Apache-2.0
// The command that shows a spike: it can be pasted, whatever a process calls itself.
#include "cli/spike_command.h"

#include <jansson.h>

#include "base/cleanup.h"
#include "base/contract/profile_types.h"
#include "cli/api_request.h"
#include "tests/test.h"

#define BETWEEN " --from F --to T"

static const struct {
	const char *what, *service, *type, *wait, *collector, *expected;
} rows[] = {
	{ "CPU time", "shop", PROFILE_TYPE_CPU, NULL, API_REQUEST_COLLECTOR,
	  "cairn query '{service=\"shop\"}' --type cpu" BETWEEN },
	{ "blocked", "shop", PROFILE_TYPE_OFF_CPU, "lock", API_REQUEST_COLLECTOR,
	  "cairn query '{service=\"shop\", wait=\"lock\"}' --type off-cpu" BETWEEN },
	{ "throttled: what used the quota up", "shop", PROFILE_TYPE_THROTTLED, NULL,
	  API_REQUEST_COLLECTOR, "cairn query '{service=\"shop\"}' --type cpu" BETWEEN },
	{ "a hostile name", "a'; rm \"\\", PROFILE_TYPE_CPU, NULL, API_REQUEST_COLLECTOR,
	  "cairn query '{service=\"a'\\''; rm \\\"\\\\\"}' --type cpu" BETWEEN },
	{ "another collector", "shop", PROFILE_TYPE_CPU, NULL, "https://c:7070",
	  "cairn query '{service=\"shop\"}' --type cpu" BETWEEN
	  " --collector-http https://c:7070" },
	{ "an unknown type", "shop", "a:b:c:d:e", NULL, API_REQUEST_COLLECTOR,
	  "cairn query '{service=\"shop\"}' --type a:b:c:d:e" BETWEEN },
};

TEST(a_spikes_command_can_be_pasted)
{
	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer text = { 0 };
		json_t *spike = json_pack("{s:s, s:s, s:s?}", "service", row->service, "type",
					  row->type, "wait", row->wait);

		spike_command_append(&text, spike, "F", "T", row->collector);
		EXPECT_STR(row->expected, buffer_string(&text), row->what);
		json_decref(spike);
	}
}

RUN_TESTS(cmocka_unit_test(a_spikes_command_can_be_pasted))
