// SPDX-License-Identifier: Apache-2.0
// JIT functions in this process: the rules of a sampled one, of similar ones, and of
// one that is written over.

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/guard/work.h"
#include "agent/publish/jit_code.h"

enum { SLOT_BYTES = 256 << 10, SLOTS = 3, FUNCTION_BYTES = 64 };

/* As oneDNN begins its functions: rbp is saved, and then a number. */
static const uint8_t prologue[] = {
	0x55,                               // push %rbp
	0x48, 0x89, 0xe5,                   // mov %rsp, %rbp
	0x53,                               // push %rbx
	0x41, 0x54,                         // push %r12
	0xbd, 0x00, 0x02, 0x00, 0x00,       // mov $0x200, %ebp
	0x48, 0x81, 0xec, 0x00, 0x01, 0, 0, // sub $256, %rsp
};
static const uint8_t epilogue[] = {
	0x48, 0x81, 0xc4, 0x00, 0x01, 0, 0, // add $256, %rsp
	0x41, 0x5c,                         // pop %r12
	0x5b,                               // pop %rbx
	0x5d,                               // pop %rbp
	0xc3,
};

static uint8_t *memory;
static struct mapping_list *list;

static void write_function(uint32_t slot)
{
	uint8_t *to = memory + (size_t)slot * SLOT_BYTES;

	memcpy(to, prologue, sizeof(prologue));
	memset(to + sizeof(prologue), 0x90, FUNCTION_BYTES);
	memcpy(to + sizeof(prologue) + FUNCTION_BYTES, epilogue, sizeof(epilogue));
}

static uint64_t function_at(uint32_t slot)
{
	return (uint64_t)(uintptr_t)memory + (uint64_t)slot * SLOT_BYTES + sizeof(prologue) + 8;
}

static int map_code(void **state)
{
	char line[128];

	(void)state;
	memory = mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	snprintf(line, sizeof(line), "%lx-%lx rwxp 00000000 00:00 0", (unsigned long)memory,
		 (unsigned long)memory + SLOTS * SLOT_BYTES);
	list = mapping_list_new();
	return list ? mapping_list_add_line(list, line, strlen(line)) : -1;
}

static int unmap_code(void **state)
{
	(void)state;
	mapping_list_release(list);
	return munmap(memory, SLOTS * SLOT_BYTES);
}

/* As the unwinder searches: the last range that begins at or below the address. */
static uint64_t rule_at(const struct jit_code *code, uint64_t address)
{
	struct mapping_pages pages = { 0 };
	uint64_t rule = 0;

	assert_int_equal(0, jit_code_add(code, &list->mappings[0], &pages));
	assert_true(pages.count > 0 && pages.ranges[0].start == list->mappings[0].start);
	for (uint32_t i = 0; i < pages.count; i++) {
		assert_true(!i || pages.ranges[i].start > pages.ranges[i - 1].start);
		if (pages.ranges[i].start <= address)
			rule = pages.ranges[i].code.code == MAPPING_CODE_RULE
				       ? pages.ranges[i].code.bias
				       : 0;
	}
	mapping_pages_deinit(&pages);
	return rule;
}

static bool analyze(struct jit_code *code, uint64_t pc)
{
	return jit_code_analyze(code, getpid(), &list->mappings[0], pc);
}

// rbp, rbx, r12, 256 bytes and the return address.
#define FUNCTION_RULE MAPPING_RULE(false, 8 + 3 * 8 + 256, -16)

TEST(a_sampled_function_alone_gets_rules)
{
	struct jit_code *code = jit_code_new();

	write_function(0);
	assert_true(analyze(code, function_at(0)));
	assert_false(analyze(code, function_at(0) + 1)); // known
	assert_int_equal(1, jit_code_count(code));
	EXPECT_EQ(FUNCTION_RULE, rule_at(code, function_at(0)), "the function");
	EXPECT_EQ(0, rule_at(code, function_at(0) + SLOT_BYTES), "the next slot");
	EXPECT_EQ(0, rule_at(code, function_at(0) + FUNCTION_BYTES + sizeof(epilogue)),
		  "behind it");
	jit_code_free(code);
}

/* As LLVM's: each begins at a multiple of 16 bytes, behind a no-operation. */
static uint32_t write_following(uint32_t offset, const uint8_t *nop, size_t nop_size)
{
	uint8_t *to = memory + offset;

	memcpy(to, prologue, sizeof(prologue));
	memset(to + sizeof(prologue), 0x90, FUNCTION_BYTES);
	memcpy(to + sizeof(prologue) + FUNCTION_BYTES, epilogue, sizeof(epilogue));
	offset += sizeof(prologue) + FUNCTION_BYTES + sizeof(epilogue);
	memcpy(memory + offset, nop, nop_size);
	return offset + (uint32_t)nop_size;
}

TEST(functions_follow_each_other)
{
	// A function has 95 bytes: 17 more make seven times 16.
	static const uint8_t nops[][17] = {
		// nopw 0(%rax, %rax), nopl 0(%rax, %rax)
		{ 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 },
		// nopw %cs:0(%rax, %rax), nopl 0(%rax), nopl (%rax)
		{ 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x40, 0, 0x0f, 0x1f, 0 },
		{ [0 ... 16] = 0xcc },
		// nopl 0(%rax), twice, xchg %ax, %ax, nop
		{ 0x0f, 0x1f, 0x80, 0, 0, 0, 0, 0x0f, 0x1f, 0x80, 0, 0, 0, 0, 0x66, 0x90, 0x90 },
		{ 0 },
	};
	struct jit_code *code = jit_code_new();
	uint32_t starts[sizeof(nops) / sizeof(nops[0])], at = 0;

	for (uint32_t i = 0; i < sizeof(nops) / sizeof(nops[0]); i++) {
		starts[i] = at;
		at = write_following(at, nops[i], sizeof(nops[i]));
	}
	assert_true(analyze(code, function_at(0) + starts[3]));
	EXPECT_EQ(4, jit_code_count(code), "up to the sampled one");
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_EQ(FUNCTION_RULE, rule_at(code, function_at(0) + starts[i]), "each");
	assert_true(analyze(code, function_at(0) + starts[4]));
	EXPECT_EQ(5, jit_code_count(code), "and the next");
	jit_code_free(code);
}

TEST(rejects_unaligned_successor)
{
	struct jit_code *code = jit_code_new();
	uint32_t second = write_following(0, (const uint8_t[]){ 0x66, 0x90 }, 2);

	write_following(second, (const uint8_t[]){ 0 }, 0);
	assert_false(analyze(code, function_at(0) + second));
	EXPECT_EQ(0, rule_at(code, function_at(0) + second), "by frame pointer");
	jit_code_free(code);
}

TEST(finds_similar_functions_before_they_are_sampled)
{
	struct jit_code *code = jit_code_new();

	write_function(0);
	write_function(2);
	assert_true(analyze(code, function_at(0)));
	assert_true(jit_code_scan(code, getpid(), list));
	assert_int_equal(2, jit_code_count(code));
	EXPECT_EQ(FUNCTION_RULE, rule_at(code, function_at(2)), "the third slot");
	EXPECT_EQ(0, rule_at(code, function_at(1)), "an empty slot");
	assert_false(jit_code_scan(code, getpid(), list));
	jit_code_free(code);
}

/* Instead of libc's: reads are counted. */
static uint32_t reads;

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
			 const struct iovec *from, unsigned long from_count, unsigned long flags)
{
	if (++reads > 100000)
		fail_msg("a scan without a bound");
	return syscall(SYS_process_vm_readv, pid, to, to_count, from, from_count, flags);
}

/* A mapping of terabytes, none of it used. */
TEST(bounds_a_scan_of_a_large_mapping)
{
	static const char line[] = "100000000000-600000000000 rwxp 00000000 00:00 0";
	struct jit_code *code = jit_code_new();
	struct mapping_list *large = mapping_list_new();

	assert_int_equal(0, mapping_list_add_line(large, line, strlen(line)));
	write_function(0);
	assert_true(analyze(code, function_at(0)));
	reads = 0;
	jit_code_scan(code, getpid(), large);
	assert_in_range(reads, 1000, 10000);
	reads = 0;
	jit_code_scan(code, getpid(), large); // goes on behind it
	assert_in_range(reads, 1000, 10000);
	mapping_list_release(large);
	jit_code_free(code);
}

TEST(analyzes_an_overwritten_function_again)
{
	struct jit_code *code = jit_code_new();

	write_function(0);
	assert_true(analyze(code, function_at(0)));
	// It makes more room now.
	memory[sizeof(prologue) - 3] = memory[sizeof(prologue) + FUNCTION_BYTES + 4] = 2;
	assert_true(jit_code_scan(code, getpid(), list));
	EXPECT_EQ(0, rule_at(code, function_at(0)), "not any more");
	assert_true(analyze(code, function_at(0)));
	EXPECT_EQ(FUNCTION_RULE + 256, rule_at(code, function_at(0)), "again");
	jit_code_free(code);
}

/* A function of 256 KiB, each instruction a jump to the next: some passes over all of it. */
static void write_jumps(uint32_t slot)
{
	uint8_t *to = memory + (size_t)slot * SLOT_BYTES;

	for (size_t at = 0; at < SLOT_BYTES - 16; at += 2)
		memcpy(to + at, (const uint8_t[]){ 0xeb, 0 }, 2);
	to[SLOT_BYTES - 16] = 0xc3;
}

TEST(refuses_functions_that_take_long)
{
	struct jit_code *code = jit_code_new();

	write_jumps(0);
	assert_false(analyze(code, (uint64_t)(uintptr_t)memory));
	assert_int_equal(0, jit_code_count(code));
	jit_code_free(code);
}

static uint64_t now_ns;

/* Each look at the clock takes a third of the budget. */
static uint64_t test_clock(void)
{
	now_ns += 100;
	return now_ns;
}

TEST(stops_a_scan_when_the_budget_is_spent)
{
	struct work_pool pool = { .process_ns = 300, .total_ns = 300, .cpu_ns = test_clock };
	struct work_budget budget = { .pool = &pool, .pid = getpid() };
	struct jit_code *code = jit_code_new();
	struct work work;

	for (uint32_t slot = 0; slot < SLOTS; slot++)
		write_function(slot);
	assert_true(analyze(code, function_at(0)));
	assert_true(work_begin(&work, &budget, "testing"));
	jit_code_scan(code, getpid(), list);
	work_end(&work);
	assert_true(jit_code_count(code) < SLOTS);
	jit_code_scan(code, getpid(), list); // goes on where it stopped
	jit_code_scan(code, getpid(), list);
	assert_int_equal(SLOTS, jit_code_count(code));
	jit_code_free(code);
}

TEST(refuses_code_that_is_no_function)
{
	struct jit_code *code = jit_code_new();

	assert_false(analyze(code, function_at(0))); // nothing there
	write_function(0);
	assert_false(analyze(code, function_at(0) + SLOT_BYTES)); // nor there
	memory[0] = 0x06;                                         // no instruction
	assert_false(analyze(code, function_at(0)));
	assert_int_equal(0, jit_code_count(code));
	assert_false(jit_code_scan(code, getpid(), list));
	EXPECT_EQ(0, rule_at(code, function_at(0)), "by frame pointer");
	jit_code_free(code);
	assert_int_equal(0, jit_code_count(NULL));
}

int main(void)
{
#ifndef __x86_64__
	printf("# SKIP code is analyzed on x86-64 only\n");
	return 0;
#endif
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_sampled_function_alone_gets_rules, map_code,
						unmap_code),
		cmocka_unit_test_setup_teardown(functions_follow_each_other, map_code, unmap_code),
		cmocka_unit_test_setup_teardown(rejects_unaligned_successor, map_code, unmap_code),
		cmocka_unit_test_setup_teardown(finds_similar_functions_before_they_are_sampled,
						map_code, unmap_code),
		cmocka_unit_test_setup_teardown(bounds_a_scan_of_a_large_mapping, map_code,
						unmap_code),
		cmocka_unit_test_setup_teardown(analyzes_an_overwritten_function_again, map_code,
						unmap_code),
		cmocka_unit_test_setup_teardown(refuses_functions_that_take_long, map_code,
						unmap_code),
		cmocka_unit_test_setup_teardown(stops_a_scan_when_the_budget_is_spent, map_code,
						unmap_code),
		cmocka_unit_test_setup_teardown(refuses_code_that_is_no_function, map_code,
						unmap_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
