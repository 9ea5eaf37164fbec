// SPDX-License-Identifier: Apache-2.0
// The table of probed functions.
#include <string.h>

#include "agent/gpu/gpu_calls.h"
#include "tests/test.h"

TEST(each_symbol_has_one_row)
{
	size_t count;
	const struct gpu_call_symbol *symbols = gpu_calls(&count);

	for (size_t i = 0; i < count; i++)
		EXPECT_EQ(i, gpu_calls_find(symbols[i].symbol) - symbols, symbols[i].symbol);
	EXPECT_EQ(1, gpu_calls_find("cuMemcpyHtoD") == NULL, "the 32-bit one");
}

TEST(waits_have_return_probes_and_launches_none)
{
	size_t count;
	const struct gpu_call_symbol *symbols = gpu_calls(&count);

	for (size_t i = 0; i < count; i++) {
		const struct gpu_call_symbol *one = &symbols[i];

		if (one->tier == GPU_TIER_LAUNCHES)
			EXPECT_EQ(0, one->wants_exit, one->symbol);
		if (one->tier == GPU_TIER_WAITS)
			EXPECT_EQ(1, one->wants_exit, one->symbol);
	}
}

TEST(cookie_returns_its_fields)
{
	__u64 cookie = GPU_COOKIE(GPU_CALL_MEMSET, GPU_CALL_ASYNC | GPU_CALL_SIZE_SHIFT_2, 2, 3);

	EXPECT_EQ(GPU_CALL_MEMSET, gpu_cookie_call(cookie), "call");
	EXPECT_EQ(GPU_CALL_ASYNC | GPU_CALL_SIZE_SHIFT_2, gpu_cookie_flags(cookie), "flags");
	EXPECT_EQ(2, gpu_cookie_size_at(cookie), "size");
	EXPECT_EQ(3, gpu_cookie_stream_at(cookie), "stream");
	EXPECT_EQ(2, gpu_cookie_size_shift(cookie), "cuMemsetD32 counts words of 4 bytes");
}

TEST(per_thread_variants_have_their_flag)
{
	size_t count;
	const struct gpu_call_symbol *symbols = gpu_calls(&count);

	for (size_t i = 0; i < count; i++) {
		bool own = strstr(symbols[i].symbol, "_pts") || strstr(symbols[i].symbol, "_ptd");

		EXPECT_EQ(own, !!(gpu_cookie_flags(symbols[i].cookie) & GPU_CALL_PER_THREAD),
			  symbols[i].symbol);
	}
}

RUN_TESTS(cmocka_unit_test(each_symbol_has_one_row),
	  cmocka_unit_test(waits_have_return_probes_and_launches_none),
	  cmocka_unit_test(cookie_returns_its_fields),
	  cmocka_unit_test(per_thread_variants_have_their_flag))
