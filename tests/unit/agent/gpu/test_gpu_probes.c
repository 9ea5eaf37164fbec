// SPDX-License-Identifier: Apache-2.0
// Real probes in copies of the double that child processes map and call.
#include "agent/gpu/gpu_probes.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>

#include <bpf/bpf.h>

#include "agent/process/proc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/gpu/cuda_double.h"
#include "tests/unit/agent/gpu/gpu_children.h"
#include "tests/unit/agent/event_texts.h"

// ---- a program that counts --------------------------------------------------------------------

enum { ENTRIES = 0, DUTY_CYCLED = 128, RETURNS = 256, NUMBERS = 512 };

/* Counters by kind of call: entries, returns, and the duty-cycled ones of both. */
static int load_counter(enum probe_way way, int map_fd, uint32_t first)
{
	const struct bpf_insn code[] = {
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_attach_cookie },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_0, 0, 0 },
		// Duty-cycled probes count 128 further on.
		{ BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_1, 0, 0, 20 - 7 },
		{ BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_1, 0, 0, DUTY_CYCLED },
		{ BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_0, 0, 0, DUTY_CYCLED - 1 },
		{ BPF_ALU64 | BPF_OR | BPF_X, BPF_REG_0, BPF_REG_1, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_0, 0, 0, (int)first },
		{ BPF_STX | BPF_W | BPF_MEM, BPF_REG_10, BPF_REG_0, -4, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0 },
		{ BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4 },
		{ BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map_fd },
		{ 0 },
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem },
		{ BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1 },
		{ BPF_STX | BPF_DW | BPF_ATOMIC, BPF_REG_0, BPF_REG_1, 0, BPF_ADD },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options,
		    .expected_attach_type = (enum bpf_attach_type)probe_way_attach_type(way));

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "count", "GPL", code, ARRAY_SIZE(code),
			     &options);
}

struct probing {
	enum probe_way way;
	int map_fd, entry_fd, return_fd;
	struct gpu_probes *probes;
	struct event_log *events;
	struct gpu_drivers *drivers;
	struct gpu_on_phase phase; // the last one
	uint64_t generation;
};

static uint64_t read_number(const struct probing *probing, uint32_t number)
{
	uint64_t value = 0;

	assert_int_equal(0, bpf_map_lookup_elem(probing->map_fd, &number, &value));
	return value;
}

static uint64_t entries(const struct probing *probing, enum gpu_call call)
{
	return read_number(probing, ENTRIES + call);
}

static int read_hits(void *context, uint64_t ret_hits[GPU_CALL_COUNT])
{
	static const uint32_t parts[] = { ENTRIES, RETURNS, ENTRIES + DUTY_CYCLED,
					  RETURNS + DUTY_CYCLED };
	const struct probing *probing = context;

	memset(ret_hits, 0, GPU_CALL_COUNT * sizeof(*ret_hits));
	for (uint32_t call = 0; call < GPU_CALL_COUNT; call++) {
		for EACH (part, parts)
			ret_hits[call] += read_number(probing, *part + call);
	}
	return 0;
}

static void set_on_phase(void *context, const struct gpu_on_phase *phase)
{
	((struct probing *)context)->phase = *phase;
}

/* False: the reason was printed. */
static bool probing_open(struct probing *probing, enum probe_way way, double budget)
{
	struct gpu_probes_options options = {
		.budget = budget,
		.read_hits = read_hits,
		.set_on_phase = set_on_phase,
		.context = probing,
		.events = event_log_new(),
		.files.cost = { .cheap_ns = 450, .stepped_ns = 15000, .return_ns = 450 },
	};
	static struct gpu_call_symbol few[2];
	struct error err = { 0 };

	*probing = (struct probing){ .way = way ? way : probe_link_choose(&err),
				     .events = options.events };
	if (probing->way == PROBE_WAY_NONE) {
		event_log_free(options.events);
		print_message("# %s\n", err.text);
		return false;
	}
	probing->map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "numbers", 4, 8, NUMBERS, NULL);
	assert_true(probing->map_fd >= 0);
	probing->entry_fd = load_counter(probing->way, probing->map_fd, ENTRIES);
	probing->return_fd = load_counter(probing->way, probing->map_fd, RETURNS);
	assert_true(probing->entry_fd >= 0 && probing->return_fd >= 0);
	options.files.way = probing->way;
	options.files.calls = gpu_calls(&options.files.call_count);
	// Each perf event takes 20 ms and more to close.
	if (probing->way == PROBE_WAY_PERF) {
		few[0] = *gpu_calls_find("cuLaunchKernel");
		few[1] = *gpu_calls_find("cuStreamSynchronize");
		options.files.calls = few;
		options.files.call_count = ARRAY_SIZE(few);
	}
	for (uint32_t call = 0; call < GPU_CALL_COUNT; call++) {
		options.files.programs.entry_fds[call] = probing->entry_fd;
		options.files.programs.return_fds[call] = probing->return_fd;
	}
	assert_int_equal(0, gpu_probes_open(&options, &probing->probes, &err));
	const struct gpu_driver_listener listener = { gpu_probes_add, gpu_probes_remove,
						      probing->probes };
	probing->drivers = gpu_drivers_new(&listener);
	assert_non_null(probing->drivers);
	return true;
}

static void probing_close(struct probing *probing)
{
	gpu_drivers_free(probing->drivers);
	gpu_probes_close(probing->probes);
	event_log_free(probing->events);
	close(probing->entry_fd);
	close(probing->return_fd);
	close(probing->map_fd);
}

/* Drivers of these processes only. */
static void see(struct probing *probing, const pid_t *pids, uint32_t count, uint64_t now_ns)
{
	gpu_drivers_begin(probing->drivers);
	for (uint32_t i = 0; i < count; i++) {
		const struct process_key key = { .pid = (uint32_t)pids[i], .start_ns = 1 };
		struct mapping_list *list;
		struct proc proc;

		if (gpu_drivers_knows(probing->drivers, &key, 1))
			continue;
		assert_int_equal(0, proc_open(pids[i], &proc));
		_cleanup_close_ int maps = openat(proc.files, "maps", O_RDONLY | O_CLOEXEC);
		assert_int_equal(0, mapping_list_read(maps, &list));
		gpu_drivers_note(probing->drivers, &key, 1, proc.files, list);
		mapping_list_release(list);
		proc_close(&proc);
	}
	gpu_drivers_end(probing->drivers, now_ns);
}

static struct gpu_probes_stats stats_of(const struct probing *probing)
{
	struct gpu_probes_stats stats;

	gpu_probes_read_stats(probing->probes, &stats);
	return stats;
}

// ---- who calls --------------------------------------------------------------------------------

/* A child that maps the driver, and calls each function as often as call() says. */
struct client {
	pid_t pid;
	int orders, answers;
};

struct functions {
	CUresult (*init)(unsigned int);
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **);
	CUresult (*synchronize)(CUstream);
};

static int load_functions(const char *path, struct functions *functions)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return -1;
	*(void **)&functions->init = dlsym(library, "cuInit");
	*(void **)&functions->launch = dlsym(library, "cuLaunchKernel");
	*(void **)&functions->synchronize = dlsym(library, "cuStreamSynchronize");
	return functions->init && functions->launch && functions->synchronize ? 0 : -1;
}

static void serve(const char *path, int orders, int answers)
{
	struct functions functions;
	uint32_t count;

	if (load_functions(path, &functions) || write(answers, "x", 1) != 1)
		_exit(1);
	while (read(orders, &count, sizeof(count)) == sizeof(count)) {
		// Fails without a context, but is called.
		for (uint32_t i = 0; i < count; i++) {
			functions.launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
			functions.synchronize(NULL);
		}
		if (write(answers, "x", 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static void wait_for(const struct client *client)
{
	char byte;

	assert_int_equal(1, read(client->answers, &byte, 1));
}

static struct client client_start(const char *path)
{
	int orders[2], answers[2];

	assert_int_equal(0, pipe2(orders, O_CLOEXEC));
	assert_int_equal(0, pipe2(answers, O_CLOEXEC));
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(path, orders[0], answers[1]);
	}
	assert_true(child > 0);
	close(orders[0]);
	close(answers[1]);
	const struct client client = { child, orders[1], answers[0] };
	wait_for(&client);
	return client;
}

static void call(const struct client *client, uint32_t count)
{
	assert_int_equal(sizeof(count), write(client->orders, &count, sizeof(count)));
	wait_for(client);
}

static void client_end(struct client *client)
{
	close(client->orders);
	close(client->answers);
	end_child(client->pid); // its siblings hold its pipes open
}

/* Tick until an on phase begins or ends. */
static void tick_until(struct probing *probing, bool open)
{
	uint64_t end_ns = clock_monotonic_ns() + 60 * NS_PER_SECOND;
	uint64_t begin_ns = probing->phase.begin_ns;

	while (clock_monotonic_ns() < end_ns) {
		gpu_probes_tick(probing->probes, clock_monotonic_ns());
		if (open ? probing->phase.begin_ns != begin_ns
			 : clock_monotonic_ns() > probing->phase.end_ns)
			break;
		poll(NULL, 0, 2);
	}
	gpu_probes_tick(probing->probes, clock_monotonic_ns());
	if (!open)
		probe_link_settle(); // unlike the real programs, those of this test ignore the on phase
}

// ---- claims -----------------------------------------------------------------------------------

TEST(sees_each_call_once_for_each_shape)
{
	static const char *const doubles[] = { "libcuda.so.1", "shape1/libcuda.so.1",
					       "shape2/libcuda.so.1" };
	static const enum probe_way ways[] = { PROBE_WAY_MULTI, PROBE_WAY_PERF };

	for EACH (way, ways) {
		// Before 6.6 there are no links, though programs for them load.
		if (*way == PROBE_WAY_MULTI && probe_link_choose(NULL) != PROBE_WAY_MULTI)
			continue;
		for EACH (name, doubles) {
			char path[PATH_MAX];
			struct probing probing;

			if (!probing_open(&probing, *way, 0))
				SKIP("uprobes are refused here");
			copy_double(*name, in_folder("libcuda.so.1", path));
			struct client client = client_start(path);
			call(&client, 10); // not probed yet
			see(&probing, &client.pid, 1, 0);
			call(&client, 1000);
			EXPECT_EQ(1000, entries(&probing, GPU_CALL_SYNC_STREAM), *name);
			EXPECT_EQ(1000, read_number(&probing, RETURNS + GPU_CALL_SYNC_STREAM),
				  *name);
			EXPECT_EQ(0, entries(&probing, GPU_CALL_LAUNCH), *name);
			EXPECT_EQ(0, stats_of(&probing).expensive, *name);
			EXPECT_EQ(0, stats_of(&probing).refused, *name);
			EXPECT_EQ(1, stats_of(&probing).functions >= 2, *name);
			client_end(&client);
			probing_close(&probing);
		}
	}
}

TEST(sees_each_call_of_the_real_driver)
{
	const char *path = getenv("CAIRN_LIBCUDA");
	struct probing probing;

	if (!path)
		SKIP("CAIRN_LIBCUDA names no driver library: `make test-libcuda` fetches one");
	if (!probing_open(&probing, 0, 0))
		SKIP("uprobes are refused here");
	struct client client = client_start(path);
	see(&probing, &client.pid, 1, 0);
	call(&client, 1000);
	struct gpu_probes_stats stats = stats_of(&probing);
	print_message("%u functions, %u of them expensive\n", stats.functions, stats.expensive);
	assert_int_equal(1000, entries(&probing, GPU_CALL_SYNC_STREAM));
	assert_int_equal(1000, read_number(&probing, RETURNS + GPU_CALL_SYNC_STREAM));
	assert_true(stats.functions > 80);
	assert_int_equal(0, stats.refused);
	tick_until(&probing, true);
	call(&client, 1000);
	assert_int_equal(1000, read_number(&probing, DUTY_CYCLED + GPU_CALL_LAUNCH));
	client_end(&client);
	probing_close(&probing);
}

TEST(sees_launches_in_on_phases_once)
{
	char path[PATH_MAX];
	struct probing probing;

	if (!probing_open(&probing, 0, 0))
		SKIP("uprobes are refused here");
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	struct client client = client_start(path);
	see(&probing, &client.pid, 1, 0);
	call(&client, 100);
	assert_int_equal(0, read_number(&probing, DUTY_CYCLED + GPU_CALL_LAUNCH));
	tick_until(&probing, true);
	assert_int_equal(20, probing.phase.weight);
	call(&client, 100);
	assert_int_equal(100, read_number(&probing, DUTY_CYCLED + GPU_CALL_LAUNCH));
	tick_until(&probing, false);
	call(&client, 100);
	assert_int_equal(100, read_number(&probing, DUTY_CYCLED + GPU_CALL_LAUNCH));
	// Always attached probes saw all calls.
	assert_int_equal(300, entries(&probing, GPU_CALL_SYNC_STREAM));
	assert_int_equal(0, read_number(&probing, DUTY_CYCLED + GPU_CALL_SYNC_STREAM));
	assert_int_equal(1, stats_of(&probing).on_phases);
	assert_true(stats_of(&probing).cost_ns >= 100 * 450);
	client_end(&client);
	probing_close(&probing);
}

TEST(probes_fire_in_all_processes_of_a_file)
{
	enum { CLIENTS = 64 };
	struct client clients[CLIENTS];
	pid_t pids[CLIENTS];
	char path[PATH_MAX];
	struct probing probing;

	if (!probing_open(&probing, 0, 0))
		SKIP("uprobes are refused here");
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	for (int i = 0; i < CLIENTS / 2; i++)
		clients[i] = client_start(path);
	for (int i = 0; i < CLIENTS / 2; i++)
		pids[i] = clients[i].pid;
	see(&probing, pids, CLIENTS / 2, 0);
	for (int i = CLIENTS / 2; i < CLIENTS; i++) // processes that start later
		clients[i] = client_start(path);
	for (int i = 0; i < CLIENTS; i++)
		call(&clients[i], 10);
	assert_int_equal(1, stats_of(&probing).files);
	assert_int_equal(640, entries(&probing, GPU_CALL_SYNC_STREAM));
	for EACH (client, clients)
		client_end(client);
	probing_close(&probing);
}

/* Does a new mapping of the file have breakpoints? */
static bool has_breakpoints(const char *path)
{
	size_t size = 0;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;

	assert_int_equal(0, fstat(fd, &status));
	size = (size_t)status.st_size;
	_cleanup_free_ char *bytes = malloc(size);
	char *code = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(bytes && code != MAP_FAILED);
	assert_int_equal(size, read(fd, bytes, size));
	bool has = memcmp(bytes, code, size) != 0;
	munmap(code, size);
	return has;
}

TEST(detaches_all_after_the_last_process)
{
	char path[PATH_MAX];
	struct probing probing;

	if (!probing_open(&probing, 0, 0))
		SKIP("uprobes are refused here");
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	struct client client = client_start(path);
	see(&probing, &client.pid, 1, 0);
	assert_true(has_breakpoints(path));
	call(&client, 5);
	client_end(&client);
	see(&probing, NULL, 0, 1);
	see(&probing, NULL, 0, 1 + GPU_DRIVER_LINGER_NS);
	assert_int_equal(0, stats_of(&probing).files);
	// Another agent on this machine detaches some seconds later.
	probe_link_settle();
	for (int tries = 0; has_breakpoints(path) && tries < 600; tries++)
		poll(NULL, 0, 100);
	assert_false(has_breakpoints(path));
	client = client_start(path);
	call(&client, 5);
	assert_int_equal(5, entries(&probing, GPU_CALL_SYNC_STREAM));
	assert_int_equal(5, read_number(&probing, RETURNS + GPU_CALL_SYNC_STREAM));
	client_end(&client);
	probing_close(&probing);
}

TEST(probes_both_copies_of_a_driver)
{
	char first[PATH_MAX], second[PATH_MAX];
	struct probing probing, agent;

	if (!probing_open(&probing, 0, 0))
		SKIP("uprobes are refused here");
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", first));
	copy_double("libcuda.so.1", in_folder("libcuda.so.535", second));
	struct client clients[] = { client_start(first), client_start(second) };
	const pid_t pids[] = { clients[0].pid, clients[1].pid };
	// Another agent has probes in one of them.
	assert_true(probing_open(&agent, 0, 0));
	see(&agent, pids + 1, 1, 0);
	see(&probing, pids, 2, 0);
	assert_int_equal(2, stats_of(&probing).files);
	call(&clients[0], 3);
	call(&clients[1], 4);
	assert_int_equal(7, entries(&probing, GPU_CALL_SYNC_STREAM));
	client_end(&clients[0]);
	client_end(&clients[1]);
	probing_close(&probing);
	probing_close(&agent);
}

/* Two overlays over one folder, like two containers of one image. */
static bool mount_overlays(void)
{
	char command[1024];

	snprintf(command, sizeof(command),
		 "cd %s && mkdir -p space && mount -t tmpfs none space && cd space && "
		 "mkdir lower u1 w1 m1 u2 w2 m2 && cp ../libcuda.so.1 lower/ && "
		 "mount -t overlay -o lowerdir=lower,upperdir=u1,workdir=w1 none m1 && "
		 "mount -t overlay -o lowerdir=lower,upperdir=u2,workdir=w2 none m2",
		 folder);
	return system(command) == 0;
}

static void unmount_overlays(void)
{
	char command[512];

	snprintf(command, sizeof(command), "cd %s && umount -l space/m1 space/m2 space 2>/dev/null",
		 folder);
	if (system(command))
		print_message("# some mounts remain\n");
}

TEST(probes_a_shared_overlay_file_once)
{
	char path[PATH_MAX], first[PATH_MAX], second[PATH_MAX];
	struct probing probing;

	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	if (!mount_overlays()) {
		unmount_overlays();
		SKIP("overlays cannot be mounted here");
	}
	if (!probing_open(&probing, 0, 0))
		SKIP("uprobes are refused here");
	struct client clients[] = { client_start(in_folder("space/m1/libcuda.so.1", first)),
				    client_start(in_folder("space/m2/libcuda.so.1", second)) };
	const pid_t pids[] = { clients[0].pid, clients[1].pid };
	see(&probing, pids, 2, 0);
	print_message("files %u, shared %u\n", stats_of(&probing).files, stats_of(&probing).shared);
	call(&clients[0], 3);
	call(&clients[1], 4);
	assert_int_equal(7, entries(&probing, GPU_CALL_SYNC_STREAM));
	// The probed file disappears; the other one gets the probes.
	client_end(&clients[0]);
	see(&probing, pids + 1, 1, 1);
	see(&probing, pids + 1, 1, 1 + GPU_DRIVER_LINGER_NS);
	call(&clients[1], 5);
	assert_int_equal(12, entries(&probing, GPU_CALL_SYNC_STREAM));
	client_end(&clients[1]);
	probing_close(&probing);
	unmount_overlays();
}

TEST(duty_cycles_a_frequent_probe)
{
	char path[PATH_MAX];
	struct probing probing;

	// A budget that the calls below exceed on any machine.
	if (!probing_open(&probing, 0, 1e-7))
		SKIP("uprobes are refused here");
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	struct client client = client_start(path);
	see(&probing, &client.pid, 1, 0);
	call(&client, 10000);
	// Measurements are due every ten seconds of the time that is passed in.
	gpu_probes_tick(probing.probes, clock_monotonic_ns() + 11 * NS_PER_SECOND);
	gpu_probes_tick(probing.probes, clock_monotonic_ns() + 22 * NS_PER_SECOND);
	assert_int_equal(1, stats_of(&probing).duty_cycled + stats_of(&probing).off);
	probe_link_settle();
	uint64_t seen = entries(&probing, GPU_CALL_SYNC_STREAM);
	call(&client, 100);
	assert_int_equal(seen, entries(&probing, GPU_CALL_SYNC_STREAM));
	assert_true(any_event_has(probing.events, "cuStreamSynchronize"));
	client_end(&client);
	probing_close(&probing);
}

TEST(logs_files_that_cannot_be_probed)
{
	char path[PATH_MAX];
	struct probing probing;

	if (!probing_open(&probing, 0, 0))
		SKIP("uprobes are refused here");
	// An ELF file that exports no known function: this test itself.
	in_folder("libcuda.so.1", path);
	const struct gpu_driver driver = { .number = 1,
					   .fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
					   .path = "libcuda.so.1" };
	gpu_probes_add(probing.probes, &driver);
	assert_int_equal(0, stats_of(&probing).files);
	assert_non_null(next_event_text(probing.events));
	fail_on_event(probing.events);
	gpu_probes_remove(probing.probes, &driver);
	// No function of NCCL either. By perf events none of its calls are wanted: see probing_open().
	const struct gpu_driver nccl = { .number = 2,
					 .library = GPU_LIBRARY_NCCL,
					 .fd = driver.fd };
	gpu_probes_add(probing.probes, &nccl);
	assert_int_equal(probing.way == PROBE_WAY_MULTI, next_event_text(probing.events) != NULL);
	gpu_probes_remove(probing.probes, &nccl);
	close(driver.fd);
	probing_close(&probing);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

RUN_TESTS(IN_FOLDER(sees_each_call_once_for_each_shape),
	  cmocka_unit_test(sees_each_call_of_the_real_driver),
	  IN_FOLDER(sees_launches_in_on_phases_once),
	  IN_FOLDER(probes_fire_in_all_processes_of_a_file),
	  IN_FOLDER(detaches_all_after_the_last_process), IN_FOLDER(probes_both_copies_of_a_driver),
	  IN_FOLDER(probes_a_shared_overlay_file_once), IN_FOLDER(duty_cycles_a_frequent_probe),
	  IN_FOLDER(logs_files_that_cannot_be_probed))
