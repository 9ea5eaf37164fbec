// SPDX-License-Identifier: Apache-2.0
// The kernel's unwinder, compiled for user space, over recorded memory.

#include <stdbool.h>

#include "tests/test.h"

#include "bpf/unwind.h"

#define STACK_BASE 0x7ffd00001000ULL

/* Memory of the recorded thread: words from STACK_BASE on. */
static struct {
	const uint64_t *words;
	size_t count;
} memory;

static long read_user(void *to, __u32 size, __u64 address)
{
	if (address < STACK_BASE || address + size > STACK_BASE + memory.count * sizeof(uint64_t))
		return -14; // -EFAULT
	memcpy(to, (const char *)memory.words + (address - STACK_BASE), size);
	return 0;
}

static struct raw_frame frames[STACK_DEPTH_MAX];

/* As the sampler does it. Returns why it ended. */
static struct unwind unwind_from(uint64_t sp, uint64_t fp)
{
	struct process_key nobody = { 0 };
	struct unwind unwind = {
		.frames = frames, .pc = 0x401000, .sp = sp, .fp = fp, .end = UNWIND_GOES_ON
	};

	stack_hash_begin(&unwind.hasher, &nobody);
	for (uint32_t i = 0; i < STACK_DEPTH_MAX && !unwind_step(i, &unwind); i++)
		;
	return unwind;
}

#define AT(word) (STACK_BASE + 8 * (word))

static const struct {
	const char *what;
	uint64_t words[12];
	uint64_t sp, fp;
	uint32_t frames;
	uint32_t end;
} cases[] = {
	{ "a good chain of three",
	  { 0, 0, AT(4), 0x401111, AT(6), 0x402222, 0, 0x403333 },
	  AT(0),
	  AT(2),
	  3,
	  END_TAG_COMPLETE },
	{ "no frame at all", { 0 }, AT(0), 0, 0, END_TAG_COMPLETE },
	{ "a return address of 0 is the start of a thread",
	  { AT(2), 0x401111, AT(4), 0 },
	  AT(0),
	  AT(0),
	  1,
	  END_TAG_COMPLETE },
	{ "a frame that points to itself",
	  { AT(2), 0x401111, AT(2), 0x402222 },
	  AT(0),
	  AT(0),
	  2,
	  END_TAG_NO_FRAME_POINTER },
	{ "a cycle of two",
	  { AT(2), 0x401111, AT(0), 0x402222 },
	  AT(0),
	  AT(0),
	  2,
	  END_TAG_NO_FRAME_POINTER },
	{ "a frame below the one before",
	  { 0, 0x409999, AT(0), 0x401111 },
	  AT(2),
	  AT(2),
	  1,
	  END_TAG_NO_FRAME_POINTER },
	{ "a frame that overlaps the one before",
	  { AT(1), 0x401111, 0x402222 },
	  AT(0),
	  AT(0),
	  1,
	  END_TAG_NO_FRAME_POINTER },
	{ "a frame pointer below the stack pointer",
	  { AT(2), 0x401111 },
	  AT(4),
	  AT(0),
	  0,
	  END_TAG_NO_FRAME_POINTER },
	{ "an unaligned frame pointer", { 0 }, AT(0), AT(0) + 4, 0, END_TAG_NO_FRAME_POINTER },
	{ "the register holds a number", { 0 }, AT(0), 1, 0, END_TAG_NO_FRAME_POINTER },
	{ "the register holds a kernel address",
	  { 0 },
	  AT(0),
	  0xffffffff81000000,
	  0,
	  END_TAG_NO_FRAME_POINTER },
	{ "a frame further away than a stack is large",
	  { 0 },
	  AT(0),
	  AT(0) + FRAME_BYTES_MAX + 8,
	  0,
	  END_TAG_NO_FRAME_POINTER },
	{ "memory that cannot be read", { 0 }, AT(0), AT(4096), 0, END_TAG_FAULT },
	{ "the last word of memory", { 0 }, AT(0), AT(11), 0, END_TAG_FAULT },
	{ "a return address in the first page",
	  { AT(2), 0x401111, AT(4), 0x123 },
	  AT(0),
	  AT(0),
	  1,
	  END_TAG_NO_FRAME_POINTER },
	{ "a return address in the kernel",
	  { AT(2), 0xffffffff81000000 },
	  AT(0),
	  AT(0),
	  0,
	  END_TAG_NO_FRAME_POINTER },
};

TEST(a_chain_ends_with_its_reason)
{
	for EACH (c, cases) {
		memory.words = c->words;
		memory.count = 12;

		struct unwind unwind = unwind_from(c->sp, c->fp);

		EXPECT_EQ(c->end, unwind.end, c->what);
		EXPECT_EQ(c->frames, unwind.frame_count, c->what);
	}
}

TEST(return_addresses_are_kept_in_order)
{
	memory.words = cases[0].words;
	memory.count = 12;
	unwind_from(cases[0].sp, cases[0].fp);
	EXPECT_EQ(0x401111, frames[0].address, "the leaf's caller first");
	EXPECT_EQ(0x402222, frames[1].address, "then its caller");
	EXPECT_EQ(0x403333, frames[2].address, "the first function last");
	EXPECT_EQ(FRAME_TAG_NATIVE, frames[0].tag, "native code");
}

static uint64_t deep[2 * (STACK_DEPTH_MAX + 8)];

/* @depth frames above each other, the last one with a frame pointer of 0. */
static struct unwind unwind_deep(uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++) {
		deep[2 * i] = i + 1 < depth ? AT(2 * (i + 1)) : 0;
		deep[2 * i + 1] = 0x400000 + 16 * i;
	}
	memory.words = deep;
	memory.count = sizeof(deep) / sizeof(*deep);
	return unwind_from(AT(0), AT(0));
}

TEST(a_stack_is_complete_up_to_the_depth_limit_and_no_further)
{
	struct unwind unwind = unwind_deep(STACK_DEPTH_MAX - 1);

	EXPECT_EQ(STACK_DEPTH_MAX - 1, unwind.frame_count, "as deep as it goes");
	EXPECT_EQ(END_TAG_COMPLETE, unwind.end, "as deep as it goes");

	unwind = unwind_deep(STACK_DEPTH_MAX);
	EXPECT_EQ(STACK_DEPTH_MAX - 1, unwind.frame_count, "one too deep");
	EXPECT_EQ(END_TAG_DEPTH, unwind.end, "one too deep");
}

static struct stack_hash hash_of(const struct process_key *process, uint64_t address,
				 uint32_t count, uint32_t end)
{
	struct stack_hasher hasher;

	stack_hash_begin(&hasher, process);
	for (uint32_t i = 0; i < count; i++)
		stack_hash_add(&hasher, address + i, FRAME_TAG_NATIVE, 0);
	return stack_hash_finish(&hasher, count, end);
}

static bool same(struct stack_hash a, struct stack_hash b)
{
	return a.high == b.high && a.low == b.low;
}

TEST(a_hash_tells_stacks_apart)
{
	const struct process_key a = { .pid = 1, .start_ns = 1 }, b = { .pid = 2, .start_ns = 1 };
	const struct process_key c = { .pid = 1, .exec_id = 1, .start_ns = 1 };
	struct stack_hash hash = hash_of(&a, 0x401000, 3, END_TAG_COMPLETE);

	assert_true(same(hash, hash_of(&a, 0x401000, 3, END_TAG_COMPLETE)));
	assert_false(same(hash, hash_of(&a, 0x401001, 3, END_TAG_COMPLETE)));
	assert_false(same(hash, hash_of(&a, 0x401000, 2, END_TAG_COMPLETE)));
	assert_false(same(hash, hash_of(&a, 0x401000, 3, END_TAG_DEPTH)));
	assert_false(same(hash, hash_of(&b, 0x401000, 3, END_TAG_COMPLETE)));
	assert_false(same(hash, hash_of(&c, 0x401000, 3, END_TAG_COMPLETE)));
}

TEST(a_hash_is_never_the_one_of_no_stack)
{
	const struct process_key nobody = { 0 };
	struct stack_hash hash = hash_of(&nobody, 0, 0, END_TAG_COMPLETE);

	assert_true(hash.high || hash.low);
}

RUN_TESTS(cmocka_unit_test(a_chain_ends_with_its_reason),
	  cmocka_unit_test(return_addresses_are_kept_in_order),
	  cmocka_unit_test(a_stack_is_complete_up_to_the_depth_limit_and_no_further),
	  cmocka_unit_test(a_hash_tells_stacks_apart),
	  cmocka_unit_test(a_hash_is_never_the_one_of_no_stack))
