// SPDX-License-Identifier: Apache-2.0
// What the BPF programs count of driver calls: names of GPU kernels, kinds of copies, waits.
// Subject: bpf/gpu/gpu.bpf.c
#include "tests/unit/agent/gpu/gpu_counts.h"

// ---- names ------------------------------------------------------------------------------------

TEST(names_a_kernel_by_any_handle)
{
	static const char *const names[] = { "of_library", "of_kernel", "of_module",
					     "own_stream", "together",  "extended" };
	CUlibrary library = NULL;
	CUkernel kernel = NULL;
	CUfunction function = NULL;
	CUlaunchConfig config = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	// As cudart 12 and newer does.
	assert_int_equal(0, call.load_library(&library, "code", NULL, NULL, 0, NULL, NULL, 0));
	assert_int_equal(0, call.get_kernel(&kernel, library, "of_library"));
	launch(kernel, NULL);
	assert_int_equal(0, call.get_kernel(&kernel, library, "of_kernel"));
	assert_int_equal(0, call.function_of(&function, kernel));
	launch(function, NULL);
	function = get_function("of_module");
	launch(function, NULL);
	assert_int_equal(0, call.launch_own(get_function("own_stream"), 1, 1, 1, 1, 1, 1, 0, NULL,
					    NULL, NULL));
	assert_int_equal(
		0, call.launch_together(get_function("together"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL));
	assert_int_equal(0, call.launch_ex(&config, get_function("extended"), NULL, NULL));
	read_counts(&setting);
	for EACH (name, names)
		EXPECT_EQ(1, launches_of(&setting, *name), *name);
	EXPECT_EQ(0, launches_of(&setting, NULL), "without a name");
	close_setting(&setting);
}

TEST(launch_has_its_grid_class)
{
	static const struct {
		unsigned int grid[3];
		uint64_t class;
	} rows[] = {
		{ { 1, 1, 1 }, 1 },         { { 2, 1, 1 }, 2 },     { { 3, 1, 1 }, 2 },
		{ { 2, 2, 1 }, 3 },         { { 1, 7, 1 }, 3 },     { { 1, 1, 8 }, 4 },
		{ { 1023, 1, 1 }, 10 },     { { 1024, 1, 1 }, 11 }, { { 65535, 16, 1 }, 20 },
		{ { 1u << 31, 8, 1 }, 35 },
	};
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	CUfunction function = get_function("grid");
	read_counts(&setting); // drop counts of loading the module
	for EACH (row, rows) {
		assert_int_equal(0, call.launch(function, row->grid[0], row->grid[1], row->grid[2],
						1, 1, 1, 0, NULL, NULL, NULL));
		read_counts(&setting);
		EXPECT_EQ(1, counted.count, "one");
		EXPECT_EQ(row->class, counted.rows[0].key.kernel_leaf, "its class");
	}
	close_setting(&setting);
}

TEST(unloading_a_module_drops_its_kernels_names)
{
	CUmodule module = NULL;
	CUfunction first = NULL, second = NULL, third = NULL;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	assert_int_equal(0, call.load(&module, "image"));
	assert_int_equal(0, call.get(&first, module, "first"));
	launch(first, NULL);
	assert_int_equal(0, call.unload(module));
	stop_looking(&setting); // the handle's reuse must go unseen
	assert_int_equal(0, call.load(&module, "image"));
	assert_int_equal(0, call.get(&second, module, "second"));
	assert_ptr_equal(first, second);
	look_again(&setting);
	launch(second, NULL);
	read_counts(&setting);
	EXPECT_EQ(1, launches_of(&setting, "first"), "before");
	EXPECT_EQ(1, launches_of(&setting, NULL), "unknown");
	assert_int_equal(0, call.get(&third, module, "second"));
	launch(third, NULL);
	read_counts(&setting);
	EXPECT_EQ(1, launches_of(&setting, "second"), "named again");
	close_setting(&setting);
}

TEST(sweeps_names_without_a_handle)
{
	CUmodule module = NULL;
	CUfunction short_lived = NULL;
	struct draining draining;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	assert_int_equal(0, call.load(&module, "image"));
	assert_int_equal(0, call.get(&short_lived, module, "short_lived"));
	read_counts(&setting); // drop counts of loading the module
	launch(short_lived, NULL);
	read_counts(&setting);
	assert_int_equal(1, counted.count);
	uint64_t hash = counted.rows[0].key.user_leaf.address;
	begin_draining(&draining);
	for (int i = 0; i < 3; i++)
		drain(&setting, &draining);
	EXPECT_STR("short_lived", gpu_programs_name(setting.programs, hash), "known");
	assert_int_equal(0, call.unload(module));
	drain(&setting, &draining);
	EXPECT_STR("short_lived", gpu_programs_name(setting.programs, hash),
		   "kept for one more sweep");
	drain(&setting, &draining);
	EXPECT_EQ(1, gpu_programs_name(setting.programs, hash) == NULL, "swept");
	end_draining(&draining);
	close_setting(&setting);
}

// ---- copies -----------------------------------------------------------------------------------

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address = 0;

	assert_int_equal(0, cuda.alloc(&address, bytes));
	return address;
}

static void expect_copies(enum sample_kind kind, uint64_t bytes, uint64_t copies, const char *what)
{
	struct count sum = sum_of(kind);

	EXPECT_EQ(bytes, sum.value, what);
	EXPECT_EQ(copies, sum.samples, what);
}

TEST(copy_kind_follows_its_memory)
{
	static char pageable[MIB], registered[4096];
	CUstream stream = NULL;
	void *pinned = NULL;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	CUdeviceptr one = allocate(MIB), two = allocate(MIB);
	assert_int_equal(0, call.stream(&stream, CU_STREAM_NON_BLOCKING));
	assert_int_equal(0, call.host_alloc(&pinned, MIB, 0));
	assert_int_equal(0, call.host_register(registered, sizeof(registered), 0));

	// The process runs since before its probes: memory may be pinned unseen.
	assert_int_equal(0, call.copy_in(one, pageable, 11, stream));
	assert_int_equal(0, call.copy_in(one, pinned, 101, stream));
	assert_int_equal(0, call.copy_out(registered, one, 1001, stream));
	assert_int_equal(0, call.copy_out(pageable, one, 13, stream));
	assert_int_equal(0, call.copy_within(one, two, 17, stream));
	assert_int_equal(0, call.copy_peer(one, our_context, two, our_context, 170));
	assert_int_equal(0, call.copy(one, two, 1700)); // direction by addresses
	assert_int_equal(0, call.set(one, 0, 19));
	assert_int_equal(0, call.set_words(one, 0, 19, stream));
	CUDA_MEMCPY2D flat = { .from = { .type = 1, .host = pinned },
			       .to = { .type = 2, .device = one },
			       .width = 100,
			       .height = 100 };
	assert_int_equal(0, call.copy_2d(&flat, stream));
	CUDA_MEMCPY3D deep = { .from = { .type = 2, .device = one },
			       .to = { .type = 1, .host = pinned },
			       .width = 10,
			       .height = 10,
			       .depth = 20 };
	assert_int_equal(0, call.copy_3d(&deep, stream));
	CUdeviceptr to[] = { one, one + 4096 }, from[] = { two, two + 4096 };
	size_t sizes[] = { 17000, 170000 };
	assert_int_equal(0, call.copy_batch(to, from, sizes, 2, NULL, NULL, 0, NULL, stream));

	read_counts(&setting);
	expect_copies(SAMPLE_KIND_GPU_COPY_HTOD, 11, 1, "to the device, from who knows what");
	expect_copies(SAMPLE_KIND_GPU_COPY_HTOD_PINNED, 101 + 10000, 2, "to it, pinned");
	expect_copies(SAMPLE_KIND_GPU_COPY_DTOH_PINNED, 1001 + 2000, 2, "to the host, pinned");
	expect_copies(SAMPLE_KIND_GPU_COPY_DTOH, 13, 1, "to the host");
	expect_copies(SAMPLE_KIND_GPU_COPY_DTOD, 17 + 170 + 1700 + 187000, 4, "on the device");
	expect_copies(SAMPLE_KIND_GPU_SET, 19 + 4 * 19, 2, "set");
	expect_copies(SAMPLE_KIND_GPU_COPY_UNKNOWN, 0, 0, "unknown direction");
	close_setting(&setting);
}

TEST(only_blocking_async_copies_count_as_waits)
{
	static char pageable[64];
	CUstream stream = NULL;
	void *pinned = NULL;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	CUdeviceptr device = allocate(MIB);
	CUfunction function = get_function("long");
	assert_int_equal(0, call.stream(&stream, CU_STREAM_NON_BLOCKING));
	assert_int_equal(0, call.host_alloc(&pinned, 64, 0));
	assert_int_equal(0,
			 call.launch(function, 500, 1, 1, 1, 1, 1, 0, stream, NULL, NULL)); // 5 ms
	assert_int_equal(0, call.copy_out(pinned, device, 64, stream));
	read_counts(&setting);
	EXPECT_EQ(0, sum_of(SAMPLE_KIND_GPU_WAIT).value, "to pinned memory");
	assert_int_equal(0, call.copy_out(pageable, device, 64, stream));
	read_counts(&setting);
	EXPECT_EQ(1, sum_of(SAMPLE_KIND_GPU_WAIT).value > 1000000, "to pageable memory");
	EXPECT_EQ(1, sum_of(SAMPLE_KIND_GPU_WAIT).samples, "one wait");
	close_setting(&setting);
}

enum { PINNED_MANY = 300, PINNED_BYTES = 4096 }; // more than GPU_RANGES

/* Copies from memory whose pinning was dropped: GPU_RANGES were used up. */
static int pin_many_and_copy(const void *device)
{
	void *pinned = NULL;

	if (cuda.init(0))
		return -1;
	for (int i = 0; i < PINNED_MANY; i++) {
		if (call.host_alloc(&pinned, PINNED_BYTES, 0))
			return -1;
	}
	// A second cuInit must not make the ranges complete again.
	return cuda.init(0) ||
	       call.copy_in(*(const CUdeviceptr *)device, pinned, PINNED_BYTES, NULL);
}

TEST(dropped_pinned_range_is_not_pageable)
{
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	gpu_drivers_free(setting.drivers);
	gpu_probes_close(setting.probes);
	gpu_programs_close(setting.programs);
	open_programs(&setting, false);
	gpu_programs_set_attached(setting.programs);
	CUdeviceptr device = allocate(MIB);
	read_counts(&setting);
	end_child(start_child(pin_many_and_copy, &device, false)); // seen from its beginning
	read_counts(&setting);
	expect_copies(SAMPLE_KIND_GPU_COPY_HTOD_PAGEABLE, 0, 0, "it is not");
	expect_copies(SAMPLE_KIND_GPU_COPY_HTOD, PINNED_BYTES, 1, "nobody knows");
	close_setting(&setting);
}

RUN_TESTS(IN_FOLDER(names_a_kernel_by_any_handle), IN_FOLDER(launch_has_its_grid_class),
	  IN_FOLDER(unloading_a_module_drops_its_kernels_names),
	  IN_FOLDER(sweeps_names_without_a_handle), IN_FOLDER(copy_kind_follows_its_memory),
	  IN_FOLDER(only_blocking_async_copies_count_as_waits),
	  IN_FOLDER(dropped_pinned_range_is_not_pageable))
