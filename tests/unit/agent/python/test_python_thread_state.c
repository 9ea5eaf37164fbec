// SPDX-License-Identifier: Apache-2.0
// Ways from threads to their Python states, in control blocks laid out as C libraries do. The process
// that is read is this one.

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/python/python_thread_state.h"
#include "tests/test.h"

enum {
	THREADS = 3,
	CONTROL_WORDS = 0x700 / 8,
	TABLE_WORDS = 128,
	GLIBC_FIRST_KEY = 0x310, // of x86-64: seq, value for each of 32 keys
	GLIBC_TABLES = 0x510,
	MUSL_TABLE = 0x80,
	READS_MAX =
		10000, // of any search; past it, memory ends: one without a bound is seen, not endured
};

struct state {
	uint64_t previous, next, interpreter, frame, thread;
};

static struct {
	uint64_t first;          // _PyRuntime.interpreters.head
	uint64_t interpreter[4]; // next, threads
	struct state states[THREADS];
	uint64_t controls[THREADS][CONTROL_WORDS];
	uint64_t tables[THREADS][TABLE_WORDS];
	uint64_t vectors[THREADS][TABLE_WORDS];
	uint64_t blocks[THREADS][TABLE_WORDS];
} fake;

static struct python_layout layout = {
	.offsets = { .minor = 13,
		     .interpreter_threads = 8,
		     .state_thread = offsetof(struct state, thread),
		     .state_next = offsetof(struct state, next) },
	.interpreter_next = 0,
	.state_interpreter = offsetof(struct state, interpreter),
};

/* Instead of libc's: reads are counted. */
static uint32_t reads;

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
			 const struct iovec *from, unsigned long from_count, unsigned long flags)
{
	if (++reads > READS_MAX) {
		errno = EFAULT;
		return -1;
	}
	return syscall(SYS_process_vm_readv, pid, to, to_count, from, from_count, flags);
}

static uint64_t address_of(const void *object)
{
	return (uintptr_t)object;
}

/* An interpreter with three threads, none of which points to its state. */
static void reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.first = address_of(fake.interpreter);
	fake.interpreter[1] = address_of(&fake.states[0]);
	for (uint32_t i = 0; i < THREADS; i++) {
		fake.states[i].interpreter = address_of(fake.interpreter);
		fake.states[i].next = i + 1 < THREADS ? address_of(&fake.states[i + 1]) : 0;
		fake.states[i].thread = address_of(fake.controls[i]);
	}
	layout.offsets.minor = 13;
}

static int locate(struct python_process *process)
{
	*process = (struct python_process){ .ways = PYTHON_WAY_HOLDER };
	reads = 0;
	return python_thread_state_locate(getpid(), &layout, address_of(&fake.first), process);
}

static void set_key(uint32_t thread, uint32_t key, const struct state *state)
{
	fake.controls[thread][GLIBC_FIRST_KEY / 8 + 2 * key] = 1;
	fake.controls[thread][GLIBC_FIRST_KEY / 8 + 2 * key + 1] = address_of(state);
}

TEST(finds_glibcs_key_in_the_control_block)
{
	struct python_process process;

	reset();
	for (uint32_t i = 0; i < THREADS; i++)
		set_key(i, 5, &fake.states[i]);
	assert_int_equal(0, locate(&process));
	assert_int_equal(PYTHON_WAY_KEY | PYTHON_WAY_HOLDER, process.ways);
	assert_int_equal(GLIBC_FIRST_KEY + 5 * 16 + 8, process.key_at);
}

TEST(finds_later_glibc_keys_in_a_table)
{
	struct python_process process;

	reset();
	for (uint32_t i = 0; i < THREADS; i++) {
		fake.controls[i][GLIBC_TABLES / 8 + 1] = address_of(fake.tables[i]);
		fake.tables[i][2 * 7 + 1] = address_of(&fake.states[i]);
	}
	assert_int_equal(0, locate(&process));
	assert_int_equal(PYTHON_WAY_KEY | PYTHON_WAY_KEY_INSIDE | PYTHON_WAY_HOLDER, process.ways);
	assert_int_equal(GLIBC_TABLES + 8, process.key_at);
	assert_int_equal(7 * 16 + 8, process.key_inside);
}

TEST(reads_musls_block_at_a_pages_end)
{
	struct python_process process;
	uint8_t *pages =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *control;

	assert_true(pages != MAP_FAILED);
	assert_int_equal(0, munmap(pages + 4096, 4096));
	control = (uint64_t *)(pages + 4096 - 0x100);
	reset();
	fake.states[0].next = 0;
	fake.states[0].thread = address_of(control);
	control[MUSL_TABLE / 8] = address_of(fake.tables[0]);
	fake.tables[0][3] = address_of(&fake.states[0]);
	assert_int_equal(0, locate(&process));
	assert_int_equal(MUSL_TABLE, process.key_at);
	assert_int_equal(3 * 8, process.key_inside);
	munmap(pages, 4096);
}

static const uint32_t strides[] = { 8, 16 };

TEST(finds_variables_by_the_dtv)
{
	for EACH (stride, strides) {
		struct python_process process;

		reset();
		for (uint32_t i = 0; i < THREADS; i++) {
			fake.controls[i][1] = address_of(fake.vectors[i]);
			fake.vectors[i][4 * *stride / 8] = address_of(fake.blocks[i]);
			fake.blocks[i][9] = address_of(&fake.states[i]);
		}
		assert_int_equal(0, locate(&process));
		assert_int_equal(PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC | PYTHON_WAY_HOLDER,
				 process.ways);
		assert_int_equal(8, process.dtv_at);
		assert_int_equal(4 * *stride, process.dtv_inside);
		assert_int_equal(72, process.tls_at);
		assert_int_equal(72, process.tls_also_at);
	}
}

TEST(keeps_both_variables)
{
	struct python_process process;

	reset();
	for (uint32_t i = 0; i < THREADS; i++) {
		fake.controls[i][1] = address_of(fake.vectors[i]);
		fake.vectors[i][2] = address_of(fake.blocks[i]);
		fake.blocks[i][6] = address_of(&fake.states[i]);
	}
	fake.blocks[0][4] = address_of(&fake.states[0]); // this one has the GIL
	assert_int_equal(0, locate(&process));
	assert_int_equal(32, process.tls_at);
	assert_int_equal(48, process.tls_also_at);
}

TEST(older_versions_have_no_variable)
{
	struct python_process process;

	reset();
	for (uint32_t i = 0; i < THREADS; i++) {
		fake.controls[i][1] = address_of(fake.vectors[i]);
		fake.vectors[i][2] = address_of(fake.blocks[i]);
		fake.blocks[i][6] = address_of(&fake.states[i]);
	}
	layout.offsets.minor = 11;
	assert_int_equal(-ENOTSUP, locate(&process));
	assert_int_equal(PYTHON_WAY_HOLDER, process.ways);
}

TEST(ignores_a_way_of_one_thread)
{
	struct python_process process;

	reset();
	for (uint32_t i = 0; i < THREADS; i++)
		set_key(i, 9, &fake.states[i]);
	set_key(0, 2, &fake.states[0]);
	assert_int_equal(0, locate(&process));
	assert_int_equal(GLIBC_FIRST_KEY + 9 * 16 + 8, process.key_at);
}

TEST(survives_a_second_state_of_a_thread)
{
	struct python_process process;

	reset();
	for (uint32_t i = 1; i < THREADS; i++)
		set_key(i, 1, &fake.states[i]);
	fake.states[0].thread = fake.states[1].thread; // a subinterpreter's, up to 3.11
	assert_int_equal(0, locate(&process));
	assert_int_equal(GLIBC_FIRST_KEY + 16 + 8, process.key_at);
}

TEST(ignores_unused_keys)
{
	struct python_process process;

	reset();
	for (uint32_t i = 0; i < THREADS; i++)
		fake.controls[i][GLIBC_FIRST_KEY / 8 + 1] = address_of(&fake.states[i]);
	assert_int_equal(-ENOTSUP, locate(&process));
}

TEST(retries_a_starting_interpreter)
{
	struct python_process process;

	reset();
	fake.first = 0;
	assert_int_equal(-EAGAIN, locate(&process));
	reset();
	fake.interpreter[1] = 0; // no thread yet
	assert_int_equal(-EAGAIN, locate(&process));
	reset();
	for (uint32_t i = 0; i < THREADS; i++)
		fake.states[i].thread = 0; // none that runs
	assert_int_equal(-EAGAIN, locate(&process));
}

TEST(bounds_broken_and_circular_lists)
{
	struct python_process process;

	reset();
	fake.states[1].next = address_of(&fake.states[0]);
	fake.interpreter[0] = address_of(fake.interpreter);
	assert_int_equal(-ENOTSUP, locate(&process));
	reset();
	fake.first = 8;
	assert_int_equal(-EAGAIN, locate(&process));
	fake.first = ~0ULL - 7;
	assert_int_equal(-EAGAIN, locate(&process));
	reset();
	fake.states[0].interpreter = 0;
	assert_int_equal(-EAGAIN, locate(&process));
	reset();
	for (uint32_t i = 0; i < THREADS; i++) {
		fake.states[i].thread = ~0ULL - 7;
		fake.controls[i][1] = ~0ULL - 7;
	}
	assert_int_equal(-ENOTSUP, locate(&process));
	assert_int_equal(-ENOTSUP, python_thread_state_locate(getpid(), &layout, 16, &process));
}

TEST(bounds_steps_through_states_without_threads)
{
	struct python_process process;

	reset();
	fake.states[0].next = address_of(&fake.states[0]);
	fake.states[0].thread = 0;
	assert_int_equal(-EAGAIN, locate(&process));
	assert_in_range(reads, 1, READS_MAX);
	reset();
	for (uint32_t i = 0; i < THREADS; i++)
		fake.states[i].thread = 0;
	fake.states[THREADS - 1].next = address_of(&fake.states[0]);
	fake.interpreter[0] = address_of(fake.interpreter); // and a ring of interpreters
	assert_int_equal(-EAGAIN, locate(&process));
	assert_in_range(reads, 1, READS_MAX);
}

TEST(bounds_the_search_in_hostile_memory)
{
	struct python_process process;

	reset();
	for (uint32_t i = 0; i < TABLE_WORDS; i++)
		fake.tables[0][i] = address_of(&fake.states[0]);
	for (uint32_t i = 0; i < THREADS; i++)
		for (uint32_t k = 0; k < CONTROL_WORDS; k++)
			fake.controls[i][k] = address_of(fake.tables[0]);
	assert_int_equal(-ENOTSUP, locate(&process));
	assert_in_range(reads, 1, READS_MAX);
}

TEST(x86_64_thread_pointer_is_pthread_self)
{
	uint64_t pointer = 0;

	assert_int_equal(0, python_thread_state_find_pointer(getpid(), 0x1234, false, &pointer));
	assert_int_equal(0x1234, pointer);
}

TEST(aarch64_thread_pointer_follows_the_control_block)
{
	static uint64_t control[0x2000 / 8], vector[8];
	const uint64_t tcb = 0x740;
	uint64_t pointer = 0;

	// Something that leads somewhere, but not to variables right behind it.
	control[0x500 / 8] = address_of(vector + 2);
	control[tcb / 8] = address_of(vector);
	vector[2] = address_of(control) + tcb + 16;
	assert_int_equal(
		0, python_thread_state_find_pointer(getpid(), address_of(control), true, &pointer));
	assert_int_equal(address_of(control) + tcb, pointer);
	vector[2] = address_of(control); // below
	assert_int_equal(-ENOTSUP, python_thread_state_find_pointer(getpid(), address_of(control),
								    true, &pointer));
}

TEST(finds_musls_thread_pointer_on_aarch64)
{
	static uint64_t control[0x2000 / 8];
	uint64_t pointer = 0;

	control[0] = address_of(control);
	assert_int_equal(
		0, python_thread_state_find_pointer(getpid(), address_of(control), true, &pointer));
	assert_int_equal(address_of(control) + 200, pointer);
	assert_int_equal(-ENOTSUP, python_thread_state_find_pointer(getpid(), 64, true, &pointer));
}

TEST(reports_an_exited_process)
{
	struct python_process process = { 0 };
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(pid, waitpid(pid, NULL, 0));
	assert_int_equal(-ESRCH,
			 python_thread_state_locate(pid, &layout, address_of(&fake), &process));
}

RUN_TESTS(cmocka_unit_test(finds_glibcs_key_in_the_control_block),
	  cmocka_unit_test(finds_later_glibc_keys_in_a_table),
	  cmocka_unit_test(reads_musls_block_at_a_pages_end),
	  cmocka_unit_test(finds_variables_by_the_dtv), cmocka_unit_test(keeps_both_variables),
	  cmocka_unit_test(older_versions_have_no_variable),
	  cmocka_unit_test(ignores_a_way_of_one_thread),
	  cmocka_unit_test(survives_a_second_state_of_a_thread),
	  cmocka_unit_test(ignores_unused_keys), cmocka_unit_test(retries_a_starting_interpreter),
	  cmocka_unit_test(bounds_broken_and_circular_lists),
	  cmocka_unit_test(bounds_steps_through_states_without_threads),
	  cmocka_unit_test(bounds_the_search_in_hostile_memory),
	  cmocka_unit_test(x86_64_thread_pointer_is_pthread_self),
	  cmocka_unit_test(aarch64_thread_pointer_follows_the_control_block),
	  cmocka_unit_test(finds_musls_thread_pointer_on_aarch64),
	  cmocka_unit_test(reports_an_exited_process))
