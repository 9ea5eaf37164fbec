// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "base/contract/knobs.h"

static const struct {
	struct knob_setting setting;
	const char *sentence;
} cases[] = {
	{ { KNOB_OFF_CPU_UNWIND, "1/16", 0, "" }, "off-CPU stacks at 1/16" },
	{ { KNOB_OFF_CPU_UNWIND, "1/1", 0, "" }, "off-CPU stacks at 1/1" },
	{ { KNOB_PAGE_FAULTS_UNWIND, "1/64", 0, "" }, "page-fault stacks at 1/64" },
	{ { KNOB_CPU_FREQUENCY, "19Hz", 0, "" }, "CPU sampling at 19Hz" },
	{ { KNOB_PROCESS_OFF_CPU, STEP_OFF, 7, "a" }, "off-CPU stacks of a (7) off" },
	{ { KNOB_PROCESS_OFF_CPU, STEP_OFF, 7, "" }, "off-CPU stacks of process 7 off" },
	{ { KNOB_PROCESS_OFF_CPU, STEP_ON, 7, "\xff\n" }, "off-CPU stacks of process 7 on" },
	{ { KNOB_PROCESS_OFF_CPU, STEP_ON, 7, "a\nb" }, "off-CPU stacks of a?b (7) on" },
	{ { KNOB_PROCESS_OFF_CPU, STEP_ON, 7, "sixteen_letters_" },
	  "off-CPU stacks of sixteen_letters_ (7) on" },
	{ { KNOB_WAKERS, STEP_OFF, 0, "" }, "wakers off" },
	{ { KNOB_PAGE_FAULTS, STEP_ON, 0, "" }, "page faults on" },
	{ { KNOB_OFF_CPU, STEP_OFF, 0, "" }, "off-CPU, run queue and wall clock off" },
	{ { KNOB_GPU_MEMORY, STEP_OFF, 0, "" }, "GPU memory in use off" },
	{ { KNOB_OVERHEAD_BUDGET, STEP_EXCEEDED, 0, "" }, "overhead budget exceeded" },
	{ { KNOB_COUNT, STEP_OFF, 0, "" }, "" },
};

TEST(settings_have_sentences)
{
	for EACH (c, cases) {
		char text[KNOB_SENTENCE_BYTES];

		EXPECT_STR(c->sentence, knob_sentence(&c->setting, text), c->sentence);
	}
}

TEST(tokens_are_unique)
{
	for (int i = 0; i < KNOB_COUNT; i++) {
		for (int j = 0; j < i; j++)
			assert_string_not_equal(knob_spec(i)->token, knob_spec(j)->token);
	}
}

RUN_TESTS(cmocka_unit_test(settings_have_sentences), cmocka_unit_test(tokens_are_unique))
