// SPDX-License-Identifier: Apache-2.0
#include "base/confined/seccomp_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { NUMBERS_END = 0x40000000 }; // x32's begin here
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
enum { NUMBERS_END = 0x40000000 };
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "name the architecture for seccomp(2)"
#endif

enum { RULE_INSTRUCTIONS = 9, FRAME_INSTRUCTIONS = 6 };

struct program {
	struct sock_filter code[FRAME_INSTRUCTIONS + SECCOMP_RULES_MAX * RULE_INSTRUCTIONS];
	uint16_t size;
};

static void emit(struct program *program, uint16_t code, uint32_t operand, uint8_t if_true,
		 uint8_t if_false)
{
	program->code[program->size++] = (struct sock_filter){ code, if_true, if_false, operand };
}

static void load(struct program *program, size_t offset)
{
	emit(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Half of an argument; skips @rest more instructions where it does not fit. */
static void compare_half(struct program *program, size_t offset, uint32_t mask, uint32_t value,
			 uint8_t rest)
{
	load(program, offset);
	emit(program, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	emit(program, BPF_JMP | BPF_JEQ | BPF_K, value, 0, rest);
}

static void add_rule(struct program *program, const struct seccomp_rule *rule, uint32_t action)
{
	size_t argument = offsetof(struct seccomp_data, args) + rule->argument * sizeof(uint64_t);

	load(program, offsetof(struct seccomp_data, nr));
	emit(program, BPF_JMP | BPF_JEQ | BPF_K, rule->number, 0, rule->mask ? 7 : 1);
	if (rule->mask) { // little endian
		compare_half(program, argument, (uint32_t)rule->mask, (uint32_t)rule->value, 4);
		compare_half(program, argument + sizeof(uint32_t), (uint32_t)(rule->mask >> 32),
			     (uint32_t)(rule->value >> 32), 1);
	}
	emit(program, BPF_RET | BPF_K, action, 0, 0);
}

static void compile(const struct seccomp_filter *filter, struct program *program)
{
	program->size = 0;
	load(program, offsetof(struct seccomp_data, arch));
	emit(program, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, 2);
	load(program, offsetof(struct seccomp_data, nr));
	emit(program, BPF_JMP | BPF_JGE | BPF_K, NUMBERS_END, 0, 1);
	emit(program, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
	for (uint32_t i = 0; i < filter->count; i++)
		add_rule(program, &filter->rules[i],
			 filter->rules[i].action ? filter->rules[i].action : filter->fits);
	emit(program, BPF_RET | BPF_K, filter->otherwise, 0, 0);
}

int seccomp_filter_install(const struct seccomp_filter *filter, struct error *err)
{
	struct program program;

	if (filter->count > SECCOMP_RULES_MAX)
		return error_set(err, -E2BIG, "seccomp: %u rules (limit %d)", filter->count,
				 SECCOMP_RULES_MAX);
	compile(filter, &program);
	const struct sock_fprog code = { .len = program.size, .filter = program.code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return error_errno(err, -errno, "seccomp: no_new_privs");
	long rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, filter->flags, &code);
	return rc < 0 ? error_errno(err, -errno, "seccomp") : (int)rc;
}
