// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_thread_state.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/guard/work.h"
#include "agent/process/process_memory.h"

enum {
	INTERPRETERS_TRIED_MAX = 4,
	THREADS_TRIED_MAX = 16, // threads whose control blocks are searched
	// Steps through the lists of thread states, whatever they hold: a list may be a ring, or without end. Few
	// states are of threads that are just starting, so the first ones are enough.
	STATES_READ_MAX = 256,
	WAYS_TRIED_MAX = 256, // up to 64 system calls each; nearly always the first one is right

	/*
	 * A thread's control block, at pthread_self(): glibc's struct pthread has 2304 bytes (2.36), its table of keys
	 * ends at 0x520; musl's has 200.
	 */
	CONTROL_BYTES = 0x600,
	CONTROL_WORDS = CONTROL_BYTES / 8,
	SMALL_CONTROL_BYTES = 0x100,
	KEY_WORDS = 2,     // glibc's struct pthread_key_data: a sequence number, then the value
	TABLE_WORDS = 128, // of a table of keys: musl's has 128, glibc's second-level ones 32 pairs
	MODULES_MAX = 64,  // entries of the DTV (dynamic thread vector): modules in load order
	MODULE_WORDS = 64, // of a module's TLS block that are read: libpython has about four
	TLS_FIRST_BYTES_MAX = 0x1000, // from the thread pointer to the first module's TLS block
	MUSL_CONTROL_BYTES = 200,     // on aarch64; the DTV pointer is its last word
	DTV_AT = 8,                   // DTV pointer in tcbhead_t and in musl's struct pthread
	MINOR_WITH_VARIABLE = 12,
	ADDRESS_MIN = 0x1000,
};

/* A thread state and the thread that must point to it. */
struct thread {
	uint64_t state;
	uint64_t control; // pthread_self(): the control block; on x86-64 also the thread pointer
};

#ifdef __aarch64__
static const bool pointer_is_above = true;
#else
static const bool pointer_is_above = false;
#endif

/* A way is tried with all threads: one that leads each to its state is no accident. */
struct search {
	pid_t pid;
	struct thread threads[THREADS_TRIED_MAX];
	uint32_t count;
	uint32_t states_read;
	uint32_t ways_tried;
	int64_t dtv_at; // of the DTV pointer, from pthread_self()
	struct python_process best;
	uint32_t best_count; // threads that it leads to their states
};

static int read_word(pid_t pid, uint64_t address, uint64_t *ret_word)
{
	if (address < ADDRESS_MIN)
		return -EFAULT;
	return process_memory_read(pid, address, ret_word, sizeof(*ret_word));
}

/* ---- trying a way ------------------------------------------------------------------------------- */

static bool follow_key(pid_t pid, const struct python_process *way, uint64_t control,
		       uint64_t *ret_word)
{
	if (read_word(pid, control + (uint64_t)(int64_t)way->key_at, ret_word))
		return false;
	return !(way->ways & PYTHON_WAY_KEY_INSIDE) ||
	       !read_word(pid, *ret_word + way->key_inside, ret_word);
}

static bool follow_variable(pid_t pid, const struct python_process *way, uint64_t control,
			    uint64_t *ret_word)
{
	uint64_t block;

	if (read_word(pid, control + (uint64_t)(int64_t)way->dtv_at, &block) ||
	    read_word(pid, block + way->dtv_inside, &block) ||
	    read_word(pid, block + (uint64_t)way->tls_at, ret_word))
		return false;
	return *ret_word || !read_word(pid, block + (uint64_t)way->tls_also_at, ret_word);
}

static bool is_direct(const struct python_process *way)
{
	return way->ways == PYTHON_WAY_KEY;
}

/* Follow @way from each thread. Returns true if it leads all to their states. */
static bool try_way(struct search *search, const struct python_process *way)
{
	uint32_t count = 0;
	uint64_t word;

	if (search->ways_tried == WAYS_TRIED_MAX)
		return false;
	search->ways_tried++;
	for (uint32_t i = 0; i < search->count; i++) {
		const struct thread *thread = &search->threads[i];
		bool is_there = way->ways & PYTHON_WAY_KEY
					? follow_key(search->pid, way, thread->control, &word)
					: follow_variable(search->pid, way, thread->control, &word);

		count += is_there && word == thread->state;
	}
	// glibc's pairs are unmistakable; elsewhere a single hit among many threads is an accident.
	if (!is_direct(way) && 2 * count < search->count)
		return false;
	if (count > search->best_count) {
		search->best = *way;
		search->best_count = count;
	}
	return count == search->count;
}

/* ---- finding ways ------------------------------------------------------------------------------- */

/* glibc keeps the first 32 keys in the control block. A used pair's sequence number is odd. */
static bool find_key(struct search *search, const struct thread *thread)
{
	struct python_process way = { .ways = PYTHON_WAY_KEY };
	uint64_t words[CONTROL_WORDS];

	if (process_memory_read(search->pid, thread->control, words, sizeof(words)))
		return false;
	for (uint32_t i = 1; i < CONTROL_WORDS; i++) {
		if (words[i] != thread->state || i % KEY_WORDS == 0 || words[i - 1] % 2 == 0 ||
		    words[i - 1] > UINT32_MAX)
			continue;
		way.key_at = (int32_t)(i * 8);
		if (try_way(search, &way))
			return true;
	}
	return false;
}

/* musl keeps all keys, and glibc those past the first 32, in tables that the control block points to. */
static bool find_key_in_table(struct search *search, const struct thread *thread)
{
	struct python_process way = { .ways = PYTHON_WAY_KEY | PYTHON_WAY_KEY_INSIDE };
	uint64_t words[CONTROL_WORDS], table[TABLE_WORDS];

	// Memory behind musl's small block may be unmapped.
	memset(words, 0, sizeof(words));
	if (process_memory_read(search->pid, thread->control, words, sizeof(words)) &&
	    process_memory_read(search->pid, thread->control, words, SMALL_CONTROL_BYTES))
		return false;
	for (uint32_t i = 1; i < CONTROL_WORDS; i++) {
		if (words[i] < ADDRESS_MIN || words[i] % 8 ||
		    process_memory_read(search->pid, words[i], table, sizeof(table)))
			continue;
		way.key_at = (int32_t)(i * 8);
		for (uint32_t k = 0; k < TABLE_WORDS; k++) {
			way.key_inside = k * 8;
			if (table[k] == thread->state && try_way(search, &way))
				return true;
		}
	}
	return false;
}

/* The words of a module's TLS block with the state: one, or two if the thread holds the GIL. */
static bool find_in_block(struct search *search, const struct thread *thread,
			  const uint64_t words[MODULE_WORDS], struct python_process *way)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < MODULE_WORDS && count < 2; i++) {
		if (words[i] != thread->state)
			continue;
		way->tls_also_at = i * 8;
		if (!count++)
			way->tls_at = i * 8;
	}
	return count && try_way(search, way);
}

/*
 * The thread-local _Py_tss_tstate, or 3.15's replacement of the key, by the DTV with entries of @stride bytes. It
 * has modules loaded at start and later ones.
 */
static bool find_variable(struct search *search, const struct thread *thread, uint32_t stride)
{
	struct python_process way = { .ways = PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC,
				      .dtv_at = (int32_t)search->dtv_at };
	uint64_t vector, block, words[MODULE_WORDS];

	if (read_word(search->pid, thread->control + (uint64_t)search->dtv_at, &vector))
		return false;
	for (uint32_t module = 1; module < MODULES_MAX; module++) {
		if (read_word(search->pid, vector + module * stride, &block))
			return false;
		if (block < ADDRESS_MIN || block % 8 ||
		    process_memory_read(search->pid, block, words, sizeof(words)))
			continue;
		way.dtv_inside = module * stride;
		if (find_in_block(search, thread, words, &way))
			return true;
	}
	return false;
}

/*
 * The key first: it stays set while a thread has released the GIL; the variable of 3.12 to 3.14 does not. glibc's
 * dtv_t has 16 bytes, musl's 8. Returns false if no way leads any thread to its state.
 */
static bool find_way(struct search *search, bool has_variable)
{
	for (uint32_t i = 0; i < search->count; i++) {
		if (find_key(search, &search->threads[i]))
			return true;
	}
	for (uint32_t i = 0; !search->best_count && i < search->count; i++) {
		if (find_key_in_table(search, &search->threads[i]))
			return true;
	}
	for (uint32_t i = 0; has_variable && !search->best_count && i < search->count; i++) {
		if (find_variable(search, &search->threads[i], 16) ||
		    find_variable(search, &search->threads[i], 8))
			return true;
	}
	return search->best_count > 0;
}

/* ---- the threads -------------------------------------------------------------------------------- */

/* The thread state at @address, if it looks like one of @interpreter. */
static bool read_thread(pid_t pid, const struct python_layout *layout, uint64_t address,
			uint64_t interpreter, struct thread *ret_thread)
{
	struct thread thread = { .state = address };
	uint64_t owner;

	if (address % 8 || read_word(pid, address + layout->state_interpreter, &owner) ||
	    owner != interpreter ||
	    read_word(pid, address + layout->offsets.state_thread, &thread.control))
		return false;
	*ret_thread = thread;
	return true;
}

/* The list may change while it is read, or never end: the states found until then are good. */
static void collect_threads(struct search *search, const struct python_layout *layout,
			    uint64_t interpreter)
{
	struct thread thread;
	uint64_t state;

	if (read_word(search->pid, interpreter + layout->offsets.interpreter_threads, &state))
		return;
	while (state && search->count < THREADS_TRIED_MAX &&
	       search->states_read++ < STATES_READ_MAX &&
	       read_thread(search->pid, layout, state, interpreter, &thread)) {
		// A starting thread has a state, but no pthread_self() yet.
		if (thread.control >= ADDRESS_MIN && thread.control % 8 == 0)
			search->threads[search->count++] = thread;
		if (read_word(search->pid, state + layout->offsets.state_next, &state))
			return;
	}
}

/* ---- the thread pointer ------------------------------------------------------------------------- */

/* glibc on aarch64: tcbhead_t begins with the DTV pointer, and the first module's TLS block follows it. */
static bool is_thread_pointer(pid_t pid, uint64_t pointer, uint64_t vector)
{
	uint64_t block;

	return vector % 8 == 0 && !read_word(pid, vector + 16, &block) && block > pointer &&
	       block - pointer < TLS_FIRST_BYTES_MAX;
}

int python_thread_state_find_pointer(pid_t pid, uint64_t self, bool is_above, uint64_t *ret_pointer)
{
	uint64_t words[CONTROL_WORDS];

	if (!is_above) {
		*ret_pointer = self;
		return 0;
	}
	// struct pthread is aligned to 64 bytes and ends at the thread pointer.
	for (uint64_t at = 0x400; at < 0x1000; at += 64) {
		uint64_t vector;

		if (!read_word(pid, self + at, &vector) &&
		    is_thread_pointer(pid, self + at, vector)) {
			*ret_pointer = self + at;
			return 0;
		}
	}
	// musl's block has a fixed size and begins with a pointer to itself.
	if (process_memory_read(pid, self, words, MUSL_CONTROL_BYTES) || words[0] != self)
		return -ENOTSUP;
	*ret_pointer = self + MUSL_CONTROL_BYTES;
	return 0;
}

/* Offsets from pthread_self() become offsets from the thread pointer, where the unwinder begins. */
static int set_way(const struct search *search, struct python_process *process)
{
	const struct python_process *best = &search->best;
	uint64_t self = search->threads[0].control, pointer;
	int rc = python_thread_state_find_pointer(search->pid, self, pointer_is_above, &pointer);

	if (rc)
		return rc;
	process->ways |= best->ways;
	process->self_at = (int64_t)(self - pointer);
	process->key_at = best->key_at + (int32_t)process->self_at;
	process->key_inside = best->key_inside;
	process->tls_at = best->tls_at;
	process->tls_also_at = best->tls_also_at;
	process->dtv_at = best->dtv_at + (int32_t)process->self_at;
	process->dtv_inside = best->dtv_inside;
	return 0;
}

/* The DTV pointer is at the thread pointer on aarch64, behind pthread_self() on x86-64. */
static int64_t find_dtv(const struct search *search)
{
	uint64_t self = search->threads[0].control, pointer;

	if (!pointer_is_above)
		return DTV_AT;
	if (python_thread_state_find_pointer(search->pid, self, true, &pointer))
		return 0;
	if (pointer - self == MUSL_CONTROL_BYTES)
		return MUSL_CONTROL_BYTES - 8;
	return (int64_t)(pointer - self);
}

int python_thread_state_locate(pid_t pid, const struct python_layout *layout, uint64_t interpreters,
			       struct python_process *process)
{
	struct search search = { .pid = pid };
	uint64_t interpreter;
	int rc = read_word(pid, interpreters, &interpreter);

	if (rc)
		return rc == -EFAULT ? -ENOTSUP : rc;
	for (uint32_t i = 0; interpreter && i < INTERPRETERS_TRIED_MAX; i++) {
		collect_threads(&search, layout, interpreter);
		if (read_word(pid, interpreter + layout->interpreter_next, &interpreter))
			break;
	}
	if (!search.count)
		return work_is_spent() ? -EDQUOT : -EAGAIN;
	search.dtv_at = find_dtv(&search);
	if (!find_way(&search, layout->offsets.minor >= MINOR_WITH_VARIABLE))
		return work_is_spent() ? -EDQUOT : -ENOTSUP;
	return set_way(&search, process);
}
