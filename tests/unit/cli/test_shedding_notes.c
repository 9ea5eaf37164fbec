// SPDX-License-Identifier: Apache-2.0
#include "cli/shedding_notes.h"

#include "tests/test.h"

#define STEP(node, knob, step, more, total)                                               \
	"{\"labels\": {\"node\": \"" node "\", \"knob\": \"" knob "\", \"step\": \"" step \
	"\"" more "}, \"total\": " total "}"
#define OF_A STEP("a", "off_cpu_unwind", "1/16", "", "9")

static const struct {
	const char *what, *series, *nodes, *note; // the last note; NULL: none
} rows[] = {
	{ "one step", "[" OF_A "]", "[\"a\", \"b\"]",
	  "node a shed load in this range: off-CPU stacks at 1/16; sums stay right" },
	{ "a process's",
	  "[" STEP("a", "process_off_cpu", "off", ", \"pid\": \"47\", \"comm\": \"nginx\"",
		   "9") "]",
	  "[\"a\"]",
	  "node a shed load in this range: off-CPU stacks of nginx (47) off; the profile has "
	  "gaps" },
	{ "many steps", "[" OF_A "," OF_A "," OF_A "," OF_A "," OF_A "]", "[\"a\"]",
	  "node a shed load in this range: off-CPU stacks at 1/16, off-CPU stacks at 1/16, "
	  "off-CPU stacks at 1/16 and 2 more; sums stay right" },
	{ "another node", "[" OF_A "]", "[\"b\"]", NULL },
	{ "not in the range", "[" STEP("a", "off_cpu_unwind", "1/16", "", "0") "]", "[\"a\"]",
	  NULL },
	{ "a later knob", "[" STEP("a", "later", "1/16", "", "9") "]", "[\"a\"]", NULL },
	{ "hostile names", "[" STEP("\\u001b", "off_cpu_unwind", "\\u001b", "", "9") "]",
	  "[\"\\u001b\"]", "node ? shed load in this range: off-CPU stacks at ?; sums stay right" },
	{ "no series", "7", "[\"a\", 7]", NULL },
	{ "no nodes", "[" OF_A "]", "{}", NULL },
};

TEST(notes_what_nodes_shed)
{
	for EACH (row, rows) {
		json_t *series = json_object();
		json_t *nodes = json_loads(row->nodes, 0, NULL);

		json_object_set_new(series, "series",
				    json_loads(row->series, JSON_DECODE_ANY, NULL));
		json_t *notes = shedding_notes_of(series, nodes);

		EXPECT_EQ(row->note ? 1 : 0, json_array_size(notes), row->what);
		if (row->note)
			EXPECT_STR(row->note, json_string_value(json_array_get(notes, 0)),
				   row->what);
		json_decref(series);
		json_decref(nodes);
		json_decref(notes);
	}
}

RUN_TESTS(cmocka_unit_test(notes_what_nodes_shed))
