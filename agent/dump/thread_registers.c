// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/thread_registers.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include "agent/process/process_memory.h"

enum { SYSCALL_TEXT_BYTES = 256 }; // nine numbers of 19 characters at most

#if defined(__x86_64__)

enum { SP = X86_REGISTER_SP };

enum { CS_USER32 = 0x23 }; // __USER32_CS

/* The numbers are those of the System V ABI for x86-64, figure 3.36. */
static void use_registers(const struct user_regs_struct *from, struct thread_registers *to)
{
	const uint64_t dwarf[X86_REGISTER_COUNT] = {
		from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
		from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
		from->r12, from->r13, from->r14, from->r15,
	};
	const uint64_t arguments[SYSCALL_ARGUMENTS] = { from->rdi, from->rsi, from->rdx,
							from->r10, from->r8,  from->r9 };

	memcpy(to->dwarf, dwarf, sizeof(dwarf));
	memcpy(to->arguments, arguments, sizeof(arguments));
	to->pc = from->rip;
	to->thread_pointer = from->fs_base;
	to->syscall = (int64_t)from->orig_rax;
	to->compat = (from->cs & 0xffff) == CS_USER32;
}

static int complete(pid_t tid, struct thread_registers *registers)
{
	(void)tid;
	(void)registers;
	return 0;
}

void thread_registers_restore(const struct saved_registers *saved,
			      struct thread_registers *ret_registers)
{
	struct user_regs_struct user = { 0 };

	memcpy(&user, saved->words, sizeof(saved->words));
	user.fs_base = saved->thread_pointer;
	*ret_registers = (struct thread_registers){ 0 };
	use_registers(&user, ret_registers);
}

enum {
	// Up to the list; glibc's struct pthread has it at 92, musl's at 17.
	CONTROL_BLOCK_WORDS = 512,
};

/* The x86-64 ABI wants the word at the thread pointer to point to itself. */
uint64_t thread_pointer_find(pid_t tid)
{
	uint64_t words[CONTROL_BLOCK_WORDS], list = 0;
	size_t size;

	if (syscall(SYS_get_robust_list, tid, &list, &size) || list % sizeof(*words))
		return 0;
	// What lies below the structure need not be there.
	for (uint32_t count = CONTROL_BLOCK_WORDS; count; count /= 2) {
		uint64_t start = list - count * sizeof(*words);

		if (process_memory_read(tid, start, words, count * sizeof(*words)))
			continue;
		for (uint32_t i = count; i-- > 0;)
			if (words[i] == start + i * sizeof(*words))
				return words[i];
		return 0;
	}
	return 0;
}

#elif defined(__aarch64__)

enum { SP = ARM64_REGISTER_SP };

enum { SYSCALL_REGISTER = 8 };

/* x0 to x30 and sp are numbered 0 to 31 (DWARF for the Arm 64-bit Architecture, 4.1). */
static void use_registers(const struct user_regs_struct *from, struct thread_registers *to)
{
	memcpy(to->dwarf, from->regs, sizeof(from->regs));
	memcpy(to->arguments, from->regs, sizeof(to->arguments));
	to->dwarf[ARM64_REGISTER_SP] = from->sp;
	to->pc = from->pc;
	to->syscall = (int64_t)from->regs[SYSCALL_REGISTER];
}

void thread_registers_restore(const struct saved_registers *saved,
			      struct thread_registers *ret_registers)
{
	struct user_regs_struct user;

	memcpy(&user, saved->words, sizeof(user));
	*ret_registers = (struct thread_registers){ 0 };
	use_registers(&user, ret_registers);
	ret_registers->syscall = (int32_t)saved->words[SAVED_REGISTER_WORDS - 1];
	ret_registers->arguments[0] = saved->words[SAVED_REGISTER_WORDS - 2]; // x0 has the result
	ret_registers->thread_pointer = saved->thread_pointer;
}

/* The thread pointer lies behind the structure, and nothing points there. */
uint64_t thread_pointer_find(pid_t tid)
{
	(void)tid;
	return 0;
}

/* The register set does not say whether the thread is in a system call: that has one of its own. */
static int complete(pid_t tid, struct thread_registers *registers)
{
	int number = SYSCALL_NONE;
	struct iovec set = { .iov_base = &number, .iov_len = sizeof(number) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_ARM_SYSTEM_CALL, &set) == 0)
		registers->syscall = number;
	set = (struct iovec){ &registers->thread_pointer, sizeof(registers->thread_pointer) };
	return ptrace(PTRACE_GETREGSET, tid, NT_ARM_TLS, &set) ? -errno : 0;
}

#else
#error "the registers of this processor are not known"
#endif

int thread_registers_read(pid_t tid, struct thread_registers *ret_registers)
{
	struct thread_registers registers = { 0 };
	struct user_regs_struct user;
	struct iovec set = { .iov_base = &user, .iov_len = sizeof(user) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &set))
		return -errno;
	if (set.iov_len != sizeof(user)) { // 32-bit programs have a smaller set
		registers.compat = true;
		registers.syscall = SYSCALL_NONE;
		*ret_registers = registers;
		return 0;
	}
	use_registers(&user, &registers);
	int rc = complete(tid, &registers);
	if (!rc)
		*ret_registers = registers;
	return rc;
}

/* "202 0x7f..": takes the number at *at, which must be followed by a blank or the end. */
static bool take_number(const char **at, int base, uint64_t *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtoull(*at, &end, base);
	if (errno || end == *at || (*end && *end != ' ' && *end != '\n'))
		return false;
	*at = end;
	return true;
}

/* "NUMBER ARGUMENT*6 SP PC", "-1 SP PC", or "running". */
int thread_registers_parse(const char *text, size_t size, struct thread_registers *ret_registers)
{
	struct thread_registers registers = { .partial = true };
	char line[SYSCALL_TEXT_BYTES];
	const char *at = line;
	uint64_t number;

	if (size >= sizeof(line))
		return -EBADMSG;
	memcpy(line, text, size);
	line[size] = '\0';
	if (strncmp(line, "running", 7) == 0)
		return -EBUSY;
	if (!take_number(&at, 10, &number))
		return -EBADMSG;
	registers.syscall = (int64_t)number;
	for (int i = 0; i < SYSCALL_ARGUMENTS && registers.syscall != SYSCALL_NONE; i++)
		if (!take_number(&at, 16, &registers.arguments[i]))
			return -EBADMSG;
	if (!take_number(&at, 16, &registers.dwarf[SP]) || !take_number(&at, 16, &registers.pc))
		return -EBADMSG;
	*ret_registers = registers;
	return 0;
}

uint64_t thread_registers_sp(const struct thread_registers *registers)
{
	return registers->dwarf[SP];
}
