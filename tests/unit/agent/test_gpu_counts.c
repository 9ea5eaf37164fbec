// SPDX-License-Identifier: Apache-2.0
// What the kernel programs count of the driver's calls: names of kernels, kinds of copies, whose a graph's launches are.
#include "agent/gpu_programs.h"

#include "tests/unit/agent/gpu_setting.h"

static struct {
	CUresult (*host_alloc)(void **, size_t, unsigned int);
	CUresult (*host_register)(void *, size_t, unsigned int);
	CUresult (*load)(CUmodule *, const void *);
	CUresult (*unload)(CUmodule);
	CUresult (*get)(CUfunction *, CUmodule, const char *);
	CUresult (*load_library)(CUlibrary *, const void *, int *, void **, unsigned int, int *,
				 void **, unsigned int);
	CUresult (*get_kernel)(CUkernel *, CUlibrary, const char *);
	CUresult (*function_of)(CUfunction *, CUkernel);
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **);
	CUresult (*launch_own)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			       unsigned int, unsigned int, unsigned int, CUstream, void **,
			       void **);
	CUresult (*launch_together)(CUfunction, unsigned int, unsigned int, unsigned int,
				    unsigned int, unsigned int, unsigned int, unsigned int,
				    CUstream, void **);
	CUresult (*launch_ex)(const CUlaunchConfig *, CUfunction, void **, void **);
	CUresult (*stream)(CUstream *, unsigned int);
	CUresult (*event)(CUevent *, unsigned int);
	CUresult (*record)(CUevent, CUstream);
	CUresult (*wait_event)(CUstream, CUevent, unsigned int);
	CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t);
	CUresult (*copy_within)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
	CUresult (*copy_in)(CUdeviceptr, const void *, size_t, CUstream);
	CUresult (*copy_out)(void *, CUdeviceptr, size_t, CUstream);
	CUresult (*copy_peer)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
	CUresult (*copy_batch)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *,
			       size_t, size_t *, CUstream);
	CUresult (*copy_2d)(const CUDA_MEMCPY2D *, CUstream);
	CUresult (*copy_3d)(const CUDA_MEMCPY3D *, CUstream);
	CUresult (*set)(CUdeviceptr, unsigned char, size_t);
	CUresult (*set_words)(CUdeviceptr, unsigned int, size_t, CUstream);
	CUresult (*begin)(CUstream, int);
	CUresult (*end)(CUstream, CUgraph *);
	CUresult (*make_graph)(CUgraph *, unsigned int);
	CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long);
	CUresult (*replay)(CUgraphExec, CUstream);
	CUresult (*end_graph)(CUgraph);
	CUresult (*end_exec)(CUgraphExec);
} call;

static void load_calls(void)
{
	static const struct {
		const char *name;
		void *place;
	} names[] = {
		{ "cuMemHostAlloc", &call.host_alloc },
		{ "cuMemHostRegister_v2", &call.host_register },
		{ "cuModuleLoadData", &call.load },
		{ "cuModuleUnload", &call.unload },
		{ "cuModuleGetFunction", &call.get },
		{ "cuLibraryLoadData", &call.load_library },
		{ "cuLibraryGetKernel", &call.get_kernel },
		{ "cuKernelGetFunction", &call.function_of },
		{ "cuLaunchKernel", &call.launch },
		{ "cuLaunchKernel_ptsz", &call.launch_own },
		{ "cuLaunchCooperativeKernel", &call.launch_together },
		{ "cuLaunchKernelEx", &call.launch_ex },
		{ "cuStreamCreate", &call.stream },
		{ "cuEventCreate", &call.event },
		{ "cuEventRecord", &call.record },
		{ "cuStreamWaitEvent", &call.wait_event },
		{ "cuMemcpy", &call.copy },
		{ "cuMemcpyDtoDAsync_v2", &call.copy_within },
		{ "cuMemcpyHtoDAsync_v2", &call.copy_in },
		{ "cuMemcpyDtoHAsync_v2", &call.copy_out },
		{ "cuMemcpyPeer", &call.copy_peer },
		{ "cuMemcpyBatchAsync", &call.copy_batch },
		{ "cuMemcpy2DAsync_v2", &call.copy_2d },
		{ "cuMemcpy3DAsync_v2", &call.copy_3d },
		{ "cuMemsetD8_v2", &call.set },
		{ "cuMemsetD32Async", &call.set_words },
		{ "cuStreamBeginCapture_v2", &call.begin },
		{ "cuStreamEndCapture", &call.end },
		{ "cuGraphCreate", &call.make_graph },
		{ "cuGraphInstantiateWithFlags", &call.instantiate },
		{ "cuGraphLaunch", &call.replay },
		{ "cuGraphDestroy", &call.end_graph },
		{ "cuGraphExecDestroy", &call.end_exec },
	};

	for EACH (one, names) {
		void *function = dlsym(driver_library, one->name);

		if (!function)
			fail_msg("%s", one->name);
		memcpy(one->place, &function, sizeof(function));
	}
}

// By frame pointers, for nobody tells the kernel's side of our tables.
static bool open_calls(struct setting *setting)
{
	if (!open_setting_at(setting, LOADER_LEVEL_FRAME_POINTER))
		return false;
	load_calls();
	open_window(setting);
	return true;
}

// ---- counts -----------------------------------------------------------------------------------

enum { ROWS_MAX = 256 };

struct row {
	struct count_key key;
	struct count count;
};

static struct {
	struct row rows[ROWS_MAX];
	uint32_t count;
} counted;

static int take_count(void *context, const struct count_key *key, const struct count *count)
{
	(void)context;
	assert_true(counted.count < ROWS_MAX);
	counted.rows[counted.count++] = (struct row){ *key, *count };
	return 0;
}

// All that was counted since the last time.
static void read_counts(const struct setting *setting)
{
	struct error err = { 0 };

	counted.count = 0;
	assert_int_equal(0, loader_swap_counts(setting->loader, &err));
	assert_int_equal(0, loader_drain_counts(setting->loader, take_count, NULL, &err));
}

static struct count sum_of(enum sample_kind kind)
{
	struct count sum = { 0 };

	for (uint32_t i = 0; i < counted.count; i++) {
		if (counted.rows[i].key.kind != kind)
			continue;
		sum.value += counted.rows[i].count.value;
		sum.samples += counted.rows[i].count.samples;
	}
	return sum;
}

// Launches of the kernel of that name; NULL: of kernels without one.
static uint64_t launches_of(const struct setting *setting, const char *name)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < counted.count; i++) {
		const struct count_key *key = &counted.rows[i].key;

		if (key->kind != SAMPLE_KIND_GPU_LAUNCH)
			continue;
		EXPECT_EQ(FRAME_TAG_GPU, key->user_leaf.tag, "a kernel is the leaf");
		const char *known =
			key->user_leaf.detail
				? NULL
				: gpu_programs_name(setting->programs, key->user_leaf.address);
		if (name ? known && strcmp(known, name) == 0 : !known)
			sum += counted.rows[i].count.value;
	}
	return sum;
}

// ---- names ------------------------------------------------------------------------------------

static CUfunction get_function(const char *name)
{
	CUmodule module = NULL;
	CUfunction function = NULL;

	assert_int_equal(0, call.load(&module, "image"));
	assert_int_equal(0, call.get(&function, module, name));
	return function;
}

static void launch(CUfunction function, CUstream stream)
{
	assert_int_equal(0, call.launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

TEST(a_kernel_is_named_whichever_way_its_handle_came)
{
	CUlibrary library = NULL;
	CUkernel kernel = NULL;
	CUfunction function = NULL;
	CUlaunchConfig config = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
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
	for EACH (name, ((const char *const[]){ "of_library", "of_kernel", "of_module",
						"own_stream", "together", "extended" }))
		EXPECT_EQ(1, launches_of(&setting, *name), *name);
	EXPECT_EQ(0, launches_of(&setting, NULL), "without a name");
	close_setting(&setting);
}

TEST(a_launch_has_the_class_of_its_number_of_blocks)
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
		SKIP("needs root, BTF and a link of many uprobes");
	CUfunction function = get_function("grid");
	read_counts(&setting); // of loading it
	for EACH (row, rows) {
		assert_int_equal(0, call.launch(function, row->grid[0], row->grid[1], row->grid[2],
						1, 1, 1, 0, NULL, NULL, NULL));
		read_counts(&setting);
		EXPECT_EQ(1, counted.count, "one");
		EXPECT_EQ(row->class, counted.rows[0].key.kernel_leaf, "its class");
	}
	close_setting(&setting);
}

TEST(a_handle_of_an_unloaded_module_has_no_name_until_it_is_named_again)
{
	CUmodule module = NULL;
	CUfunction first = NULL, second = NULL, third = NULL;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	assert_int_equal(0, call.load(&module, "image"));
	assert_int_equal(0, call.get(&first, module, "first"));
	launch(first, NULL);
	assert_int_equal(0, call.unload(module));
	stop_looking(&setting); // so that nobody sees the handle being given to another function
	assert_int_equal(0, call.load(&module, "image"));
	assert_int_equal(0, call.get(&second, module, "second"));
	assert_ptr_equal(first, second);
	look_again(&setting);
	launch(second, NULL);
	read_counts(&setting);
	EXPECT_EQ(1, launches_of(&setting, "first"), "before");
	EXPECT_EQ(1, launches_of(&setting, NULL), "nobody knows whose");
	assert_int_equal(0, call.get(&third, module, "second"));
	launch(third, NULL);
	read_counts(&setting);
	EXPECT_EQ(1, launches_of(&setting, "second"), "named again");
	close_setting(&setting);
}

TEST(names_that_no_handle_has_any_more_are_let_go)
{
	CUmodule module = NULL;
	CUfunction short_lived = NULL;
	struct draining draining;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	assert_int_equal(0, call.load(&module, "image"));
	assert_int_equal(0, call.get(&short_lived, module, "short_lived"));
	read_counts(&setting); // of loading it
	launch(short_lived, NULL);
	read_counts(&setting);
	assert_int_equal(1, counted.count);
	uint64_t hash = counted.rows[0].key.user_leaf.address;
	begin_draining(&draining);
	for (int i = 0; i < 3; i++)
		drain(&setting, &draining);
	EXPECT_STR("short_lived", gpu_programs_name(setting.programs, hash), "it is there");
	assert_int_equal(0, call.unload(module));
	drain(&setting, &draining);
	EXPECT_STR("short_lived", gpu_programs_name(setting.programs, hash), "some may be to name");
	drain(&setting, &draining);
	EXPECT_EQ(1, gpu_programs_name(setting.programs, hash) == NULL, "it has gone");
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

TEST(copies_are_of_the_kind_that_their_memory_is)
{
	static char pageable[MIB], registered[4096];
	CUstream stream = NULL;
	void *pinned = NULL;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	CUdeviceptr one = allocate(MIB), two = allocate(MIB);
	assert_int_equal(0, call.stream(&stream, CU_STREAM_NON_BLOCKING));
	assert_int_equal(0, call.host_alloc(&pinned, MIB, 0));
	assert_int_equal(0, call.host_register(registered, sizeof(registered), 0));

	// It was there before anybody looked: what is not pinned may have been, then.
	assert_int_equal(0, call.copy_in(one, pageable, 11, stream));
	assert_int_equal(0, call.copy_in(one, pinned, 101, stream));
	assert_int_equal(0, call.copy_out(registered, one, 1001, stream));
	assert_int_equal(0, call.copy_out(pageable, one, 13, stream));
	assert_int_equal(0, call.copy_within(one, two, 17, stream));
	assert_int_equal(0, call.copy_peer(one, our_context, two, our_context, 170));
	assert_int_equal(0, call.copy(one, two, 1700)); // told by its addresses
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
	expect_copies(SAMPLE_KIND_GPU_COPY_UNKNOWN, 0, 0, "not told");
	close_setting(&setting);
}

TEST(what_an_asynchronous_copy_waits_is_told_and_what_it_does_not_is_not)
{
	static char pageable[64];
	CUstream stream = NULL;
	void *pinned = NULL;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	CUdeviceptr device = allocate(MIB);
	CUfunction function = get_function("long");
	assert_int_equal(0, call.stream(&stream, CU_STREAM_NON_BLOCKING));
	assert_int_equal(0, call.host_alloc(&pinned, 64, 0));
	assert_int_equal(0,
			 call.launch(function, 500, 1, 1, 1, 1, 1, 0, stream, NULL, NULL)); // 5 ms
	assert_int_equal(0, call.copy_out(pinned, device, 64, stream));
	read_counts(&setting);
	EXPECT_EQ(0, sum_of(SAMPLE_KIND_GPU_WAIT).value, "to memory that is pinned");
	assert_int_equal(0, call.copy_out(pageable, device, 64, stream));
	read_counts(&setting);
	EXPECT_EQ(1, sum_of(SAMPLE_KIND_GPU_WAIT).value > 1000000, "to memory that is not");
	EXPECT_EQ(1, sum_of(SAMPLE_KIND_GPU_WAIT).samples, "one wait");
	close_setting(&setting);
}

// ---- graphs -----------------------------------------------------------------------------------

// Whose a graph is is told by the function of the driver that is the leaf.
static uint64_t graphs_of(const struct setting *setting, const char *function)
{
	const struct gpu_call_symbol *row = gpu_calls_find(function);
	void *address = dlsym(driver_library, function);
	uint64_t sum = 0;

	(void)setting;
	assert_non_null(row);
	assert_non_null(address);
	for (uint32_t i = 0; i < counted.count; i++) {
		const struct row *one = &counted.rows[i];

		if (one->key.kind == SAMPLE_KIND_GPU_GRAPH &&
		    one->key.user_leaf.address - (uint64_t)address < 32)
			sum += one->count.value;
	}
	return sum;
}

TEST(a_graph_s_handle_that_comes_again_is_another_graph_s)
{
	CUstream stream = NULL;
	CUgraph captured = NULL, made = NULL;
	CUgraphExec first = NULL, second = NULL;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	assert_int_equal(0, call.stream(&stream, 0));
	CUfunction function = get_function("captured");
	assert_int_equal(0, call.begin(stream, 0));
	launch(function, stream);
	assert_int_equal(0, call.end(stream, &captured));
	assert_int_equal(0, call.instantiate(&first, captured, 0));
	assert_int_equal(0, call.end_graph(captured));
	assert_int_equal(0, call.replay(first, stream));
	assert_int_equal(0, call.replay(first, stream));
	read_counts(&setting);
	EXPECT_EQ(2, graphs_of(&setting, "cuStreamEndCapture"), "of who captured it");

	// One that was put together node by node, where the other's handle was.
	assert_int_equal(0, call.make_graph(&made, 0));
	assert_ptr_equal(captured, made);
	assert_int_equal(0, call.instantiate(&second, made, 0));
	assert_int_equal(0, call.replay(second, stream));
	assert_int_equal(0, call.replay(first, stream));
	read_counts(&setting);
	EXPECT_EQ(1, graphs_of(&setting, "cuGraphInstantiateWithFlags"), "of who instantiated it");
	EXPECT_EQ(1, graphs_of(&setting, "cuStreamEndCapture"), "the first one's, as before");

	// And of an executable one.
	assert_int_equal(0, call.end_exec(first));
	stop_looking(&setting);
	assert_int_equal(0, call.instantiate(&second, made, 0));
	assert_ptr_equal(first, second);
	look_again(&setting);
	assert_int_equal(0, call.replay(second, stream));
	read_counts(&setting);
	EXPECT_EQ(1, graphs_of(&setting, "cuGraphLaunch"), "nobody knows whose");
	assert_int_equal(0, call.end_exec(second));
	close_setting(&setting);
}

// Kernels that graphs have launched, as the agent tells them: of this window, with @frame as the leaf's.
static uint64_t kernels_of(const struct setting *setting, struct draining *draining)
{
	uint64_t sum = 0;

	assert_int_equal(0, gpu_programs_after_drain(setting->programs,
						     draining->sources.frames.processes,
						     &draining->window));
	const struct profile *profile = draining->window.profile;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (strcmp(profile_string(profile, profile->series[sample->series].type),
			   PROFILE_TYPE_GPU_GRAPH_KERNELS) == 0)
			sum += (uint64_t)sample->value;
	}
	return sum;
}

static void tick(struct setting *setting)
{
	probe_link_settle(); // of probes that have just gone
	setting->now_ns += 20 * NS_PER_MS;
	gpu_probes_tick(setting->probes, setting->now_ns);
}

// Nothing but a capture.
static void begin_and_end(CUstream stream)
{
	CUgraph graph = NULL;

	assert_int_equal(0, call.begin(stream, 0));
	assert_int_equal(0, call.end(stream, &graph));
	assert_int_equal(0, call.end_graph(graph));
}

static CUgraphExec capture(CUfunction function, CUstream stream, uint32_t launches)
{
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;

	assert_int_equal(0, call.begin(stream, 0));
	for (uint32_t i = 0; i < launches; i++)
		launch(function, stream);
	assert_int_equal(0, call.end(stream, &graph));
	assert_int_equal(0, call.instantiate(&exec, graph, 0));
	assert_int_equal(0, call.end_graph(graph));
	return exec;
}

TEST(what_is_captured_is_launched_when_its_graph_is)
{
	CUstream stream = NULL, joined = NULL;
	CUevent forks = NULL, joins = NULL;
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	struct draining draining;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	assert_int_equal(0, call.stream(&stream, 0));
	assert_int_equal(0, call.stream(&joined, 0));
	assert_int_equal(0, call.event(&forks, 0));
	assert_int_equal(0, call.event(&joins, 0));
	CUfunction function = get_function("captured");
	begin_draining(&draining);

	// The first one says that there are captures: what it launches is not seen.
	CUgraphExec unseen = capture(function, stream, 7);
	tick(&setting);
	assert_int_equal(0, call.replay(unseen, stream));
	EXPECT_EQ(0, kernels_of(&setting, &draining), "not told, for not all was seen");

	assert_int_equal(0, call.begin(stream, 0));
	for (int i = 0; i < 3; i++)
		launch(function, stream);
	assert_int_equal(0, call.record(forks, stream));
	assert_int_equal(0, call.wait_event(joined, forks, 0));
	for (int i = 0; i < 2; i++)
		launch(get_function("forked"), joined);
	assert_int_equal(0, call.record(joins, joined));
	assert_int_equal(0, call.wait_event(stream, joins, 0));
	assert_int_equal(0, call.end(stream, &graph));
	assert_int_equal(0, call.instantiate(&exec, graph, 0));
	assert_int_equal(0, call.end_graph(graph));
	read_counts(&setting);
	EXPECT_EQ(0, sum_of(SAMPLE_KIND_GPU_LAUNCH).value, "captured is not launched");
	EXPECT_EQ(0, kernels_of(&setting, &draining), "nor is the graph");

	launch(function, stream);
	launch(function, joined);
	for (int i = 0; i < 4; i++)
		assert_int_equal(0, call.replay(exec, stream));
	read_counts(&setting);
	EXPECT_EQ(2, sum_of(SAMPLE_KIND_GPU_LAUNCH).value, "after the capture");
	EXPECT_EQ(4, sum_of(SAMPLE_KIND_GPU_GRAPH).value, "graphs");
	EXPECT_EQ(4 * (3 + 2), kernels_of(&setting, &draining), "each with its five kernels");
	assert_int_equal(0, call.replay(exec, stream));
	EXPECT_EQ(5 * (3 + 2), kernels_of(&setting, &draining), "and once more");

	// As long as there is a graph it is known, and not for longer.
	drain(&setting, &draining);
	drain(&setting, &draining);
	drain(&setting, &draining);
	assert_int_equal(0, call.replay(exec, stream));
	EXPECT_EQ(6 * (3 + 2), kernels_of(&setting, &draining), "later");
	end_draining(&draining);
	close_setting(&setting);
}

TEST(captured_launches_are_looked_for_while_there_are_captures)
{
	CUstream stream = NULL;
	struct draining draining;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	assert_int_equal(0, call.stream(&stream, 0));
	CUfunction function = get_function("captured");
	begin_draining(&draining);
	begin_and_end(stream);
	tick(&setting);
	assert_int_equal(0, call.replay(capture(function, stream, 3), stream));
	EXPECT_EQ(3, kernels_of(&setting, &draining), "seen");
	tick(&setting);
	setting.now_ns += 6 * NS_PER_SECOND; // none in all that time
	tick(&setting);
	probe_link_settle();
	assert_int_equal(0, call.replay(capture(function, stream, 100), stream));
	EXPECT_EQ(3, kernels_of(&setting, &draining), "not seen");
	end_draining(&draining);
	close_setting(&setting);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

RUN_TESTS(IN_FOLDER(a_kernel_is_named_whichever_way_its_handle_came),
	  IN_FOLDER(a_launch_has_the_class_of_its_number_of_blocks),
	  IN_FOLDER(a_handle_of_an_unloaded_module_has_no_name_until_it_is_named_again),
	  IN_FOLDER(names_that_no_handle_has_any_more_are_let_go),
	  IN_FOLDER(copies_are_of_the_kind_that_their_memory_is),
	  IN_FOLDER(what_an_asynchronous_copy_waits_is_told_and_what_it_does_not_is_not),
	  IN_FOLDER(a_graph_s_handle_that_comes_again_is_another_graph_s),
	  IN_FOLDER(what_is_captured_is_launched_when_its_graph_is),
	  IN_FOLDER(captured_launches_are_looked_for_while_there_are_captures))
