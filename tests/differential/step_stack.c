// SPDX-License-Identifier: Apache-2.0
// step_stack PROGRAM [ARGUMENT...]: run a static program instruction by instruction and check at
// each that the rule of its unwind table finds what the calls so far have left: the caller's sp, the
// return address and the caller's frame pointer. Prints the first disagreements and, last, how many
// instructions were checked, and for how many there was no rule. x86-64 only.

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/unwind/unwind_table_build.h"
#include "base/cleanup.h"

enum {
	FRAMES_MAX = 4096,
	STEPS_MAX = 3000000,
	SHOWN_MAX = 20,
	INSTRUCTION_BYTES_MAX = 15,
};

/* A call that has not returned. */
struct frame {
	uint64_t cfa;
	uint64_t fp; // the caller's
	uint64_t return_address;
};

struct stepper {
	pid_t pid;
	struct unwind_table *table;
	struct frame frames[FRAMES_MAX]; // the first is of nobody
	uint32_t depth;
	uint64_t checked, without_rule, disagreements;
};

static bool peek(const struct stepper *stepper, uint64_t address, uint64_t *ret_word)
{
	errno = 0;
	*ret_word = (uint64_t)ptrace(PTRACE_PEEKDATA, stepper->pid, address, NULL);
	return errno == 0;
}

static uint64_t register_of(const struct user_regs_struct *registers, uint8_t number)
{
	const uint64_t values[X86_REGISTER_COUNT] = {
		registers->rax, registers->rdx, registers->rcx, registers->rbx,
		registers->rsi, registers->rdi, registers->rbp, registers->rsp,
		registers->r8,  registers->r9,  registers->r10, registers->r11,
		registers->r12, registers->r13, registers->r14, registers->r15,
	};

	return values[number % X86_REGISTER_COUNT];
}

static bool find_cfa(const struct stepper *stepper, const struct user_regs_struct *registers,
		     const struct unwind_rule *rule, uint64_t *ret_cfa)
{
	uint64_t base = register_of(registers, rule->cfa_register) + (uint64_t)rule->cfa_offset;

	switch (rule->cfa) {
	case CFA_PLT:
		*ret_cfa = registers->rsp + 8 +
			   ((int)(registers->rip % 16) >= rule->cfa_offset ? 8 : 0);
		return true;
	case CFA_DEREF:
		if (!peek(stepper, base, &base))
			return false;
		*ret_cfa = base + (uint64_t)rule->deref_offset;
		return true;
	}
	*ret_cfa = base;
	return rule->cfa == CFA_REGISTER;
}

/* A register of the caller, as the rule finds it. */
static bool find_saved(const struct stepper *stepper, const struct user_regs_struct *registers,
		       uint32_t saved, int32_t offset, uint64_t cfa, uint64_t same,
		       uint64_t *ret_value)
{
	switch (saved) {
	case SAVED_SAME:
		*ret_value = same;
		return true;
	case SAVED_AT_CFA:
		return peek(stepper, cfa + (uint64_t)offset, ret_value);
	case SAVED_AT_FP:
		return peek(stepper, registers->rbp + (uint64_t)offset, ret_value);
	case SAVED_IN_REGISTER:
		*ret_value = register_of(registers, (uint8_t)offset);
		return true;
	}
	return false;
}

static void disagree(struct stepper *stepper, uint64_t pc, const char *what, uint64_t found,
		     uint64_t expected)
{
	if (stepper->disagreements++ < SHOWN_MAX)
		printf("%#" PRIx64 ": %s is %#" PRIx64 ", by the table %#" PRIx64 "\n", pc, what,
		       expected, found);
}

static void check(struct stepper *stepper, const struct user_regs_struct *registers)
{
	const struct unwind_rule *rule = unwind_table_find(stepper->table, registers->rip);
	const struct frame *frame = &stepper->frames[stepper->depth];
	uint64_t pc = registers->rip, cfa = 0, value = 0;

	if (!rule || rule->cfa == CFA_NO_TABLE || rule->cfa == CFA_UNSUPPORTED) {
		stepper->without_rule++;
		return;
	}
	if (rule->cfa == CFA_END) {
		if (stepper->depth)
			disagree(stepper, pc, "calls below the first function", 0, stepper->depth);
		return;
	}
	if (!stepper->depth)
		return;
	stepper->checked++;
	if (!find_cfa(stepper, registers, rule, &cfa) || cfa != frame->cfa)
		disagree(stepper, pc, "the CFA", cfa, frame->cfa);
	else if (find_saved(stepper, registers, rule->saved >> 4, rule->return_offset, cfa, 0,
			    &value) &&
		 value != frame->return_address)
		disagree(stepper, pc, "the return address", value, frame->return_address);
	else if (find_saved(stepper, registers, rule->saved & 15, rule->fp_offset, cfa,
			    registers->rbp, &value) &&
		 value != frame->fp)
		disagree(stepper, pc, "the frame pointer", value, frame->fp);
}

/* Did the instruction push the address behind itself, and go elsewhere? */
static bool is_call(const struct stepper *stepper, const struct user_regs_struct *before,
		    const struct user_regs_struct *after, uint64_t *ret_return_address)
{
	return after->rsp == before->rsp - 8 && peek(stepper, after->rsp, ret_return_address) &&
	       *ret_return_address > before->rip &&
	       *ret_return_address - before->rip <= INSTRUCTION_BYTES_MAX &&
	       after->rip != *ret_return_address;
}

/* What the instruction at @before has done to the calls. */
static void follow(struct stepper *stepper, const struct user_regs_struct *before,
		   const struct user_regs_struct *after)
{
	uint64_t return_address;

	if (is_call(stepper, before, after, &return_address) && stepper->depth + 1 < FRAMES_MAX)
		stepper->frames[++stepper->depth] = (struct frame){
			.cfa = before->rsp,
			.fp = before->rbp,
			.return_address = return_address,
		};
	// Returns, and longjmp().
	while (stepper->depth && after->rsp >= stepper->frames[stepper->depth].cfa)
		stepper->depth--;
}

/* Returns the number of instructions, or -1. */
static int64_t step_through(struct stepper *stepper)
{
	struct user_regs_struct before, after;
	int64_t steps = 0;
	int status;

	if (ptrace(PTRACE_GETREGS, stepper->pid, NULL, &before))
		return -1;
	for (; steps < STEPS_MAX; steps++) {
		check(stepper, &before);
		if (ptrace(PTRACE_SINGLESTEP, stepper->pid, NULL, NULL) ||
		    waitpid(stepper->pid, &status, 0) < 0)
			return -1;
		if (!WIFSTOPPED(status))
			break;
		if (ptrace(PTRACE_GETREGS, stepper->pid, NULL, &after))
			return -1;
		follow(stepper, &before, &after);
		before = after;
	}
	return steps;
}

static struct unwind_table *read_table(const char *path)
{
	struct unwind_table *table = NULL;
	struct stat status;
	struct error err = { 0 };
	struct elf elf;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &status) || elf_read_headers(fd, &status, &elf, &err) ||
	    unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &table, &err))
		fprintf(stderr, "%s: %s\n", path, err.code ? err.text : strerror(errno));
	return table;
}

static pid_t start(char **arguments)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(arguments[0], arguments);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) ? pid : -1;
}

int main(int count, char **arguments)
{
	static struct stepper stepper;

	if (count < 2) {
		fprintf(stderr, "usage: step_stack PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	stepper.table = read_table(arguments[1]);
	if (!stepper.table)
		return 1;
	stepper.pid = start(arguments + 1);
	if (stepper.pid < 0) {
		perror(arguments[1]);
		return 1;
	}

	int64_t steps = step_through(&stepper);
	if (steps < 0 || steps == STEPS_MAX)
		kill(stepper.pid, SIGKILL);
	printf("steps %" PRId64 " checked %" PRIu64 " without_rule %" PRIu64
	       " disagreements %" PRIu64 "\n",
	       steps, stepper.checked, stepper.without_rule, stepper.disagreements);
	unwind_table_free(stepper.table);
	return steps < 0 || stepper.disagreements ? 1 : 0;
}
