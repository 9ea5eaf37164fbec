// SPDX-License-Identifier: Apache-2.0
// Hashes of stacks: which stacks they distinguish.

#include "tests/unit/bpf/unwind/unwind_memory.h"

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

TEST(different_stacks_have_different_hashes)
{
	const struct process_key a = { .pid = 1, .start_ns = 1 }, b = { .pid = 2, .start_ns = 1 };
	const struct process_key c = { .pid = 1, .exec_id = 1, .start_ns = 1 };
	struct stack_hash hash = hash_of(&a, 0x401000, 3, STACK_END_COMPLETE);

	assert_true(same(hash, hash_of(&a, 0x401000, 3, STACK_END_COMPLETE)));
	assert_false(same(hash, hash_of(&a, 0x401001, 3, STACK_END_COMPLETE)));
	assert_false(same(hash, hash_of(&a, 0x401000, 2, STACK_END_COMPLETE)));
	assert_false(same(hash, hash_of(&a, 0x401000, 3, STACK_END_DEPTH)));
	assert_false(same(hash, hash_of(&b, 0x401000, 3, STACK_END_COMPLETE)));
	assert_false(same(hash, hash_of(&c, 0x401000, 3, STACK_END_COMPLETE)));
}

TEST(a_stack_hash_is_never_zero)
{
	const struct process_key none = { 0 };
	struct stack_hash hash = hash_of(&none, 0, 0, STACK_END_COMPLETE);

	assert_true(hash.high || hash.low);
}

RUN_TESTS(cmocka_unit_test(different_stacks_have_different_hashes),
	  cmocka_unit_test(a_stack_hash_is_never_zero))
