// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/thread_registers.h"

#include <errno.h>

#include "tests/test.h"

static const struct {
	const char *what;
	const char *text;
	int rc;
	int64_t syscall;
	uint64_t first, sixth, sp, pc;
} cases[] = {
	{ "a thread in a system call",
	  "230 0x1 0x0 0x7fff3322ddf0 0x7fff3322de30 0x0 0x9 0x7fff3322ddd8 0x7f034c68f503\n", 0,
	  230, 1, 9, 0x7fff3322ddd8, 0x7f034c68f503 },
	{ "one that is blocked outside of any", "-1 0x7ffc57ed7b98 0x7f75880282ad\n", 0,
	  SYSCALL_NONE, 0, 0, 0x7ffc57ed7b98, 0x7f75880282ad },
	{ "one that runs", "running\n", -EBUSY, 0, 0, 0, 0, 0 },
	{ "nothing", "", -EBADMSG, 0, 0, 0, 0, 0 },
	{ "a call without arguments", "230\n", -EBADMSG, 0, 0, 0, 0, 0 },
	{ "a call without pc", "230 0x1 0x0 0x1 0x2 0x0 0x9 0x7fff3322ddd8\n", -EBADMSG, 0, 0, 0, 0,
	  0 },
	{ "no number", "x 0x1 0x0 0x1 0x2 0x0 0x9 0x7 0x8\n", -EBADMSG, 0, 0, 0, 0, 0 },
	{ "a number beyond 64 bits", "-1 0x10000000000000000 0x8\n", -EBADMSG, 0, 0, 0, 0, 0 },
	{ "a number with something behind it", "-1 0x1z 0x8\n", -EBADMSG, 0, 0, 0, 0, 0 },
};

TEST(parses_proc_syscall_lines)
{
	for EACH (c, cases) {
		struct thread_registers registers = { .syscall = 77 };

		EXPECT_EQ(c->rc, thread_registers_parse(c->text, strlen(c->text), &registers),
			  c->what);
		EXPECT_EQ(c->rc ? 77 : c->syscall, registers.syscall, c->what);
		EXPECT_EQ(c->first, registers.arguments[0], c->what);
		EXPECT_EQ(c->sixth, registers.arguments[5], c->what);
		EXPECT_EQ(c->sp, thread_registers_sp(&registers), c->what);
		EXPECT_EQ(c->pc, registers.pc, c->what);
		EXPECT_EQ(!c->rc, registers.partial, c->what);
	}
}

TEST(refuses_overlong_text)
{
	struct thread_registers registers;
	char text[4096];

	memset(text, '1', sizeof(text));
	EXPECT_EQ(-EBADMSG, thread_registers_parse(text, sizeof(text), &registers), "4096 digits");
}

RUN_TESTS(cmocka_unit_test(parses_proc_syscall_lines), cmocka_unit_test(refuses_overlong_text))
