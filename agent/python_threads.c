// SPDX-License-Identifier: Apache-2.0
#include "agent/python_threads.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/process_memory.h"

enum {
	INTERPRETERS_TRIED_MAX = 4,
	THREADS_TRIED_MAX = 16, // thread states looked at in each

	/*
	 * A thread's control block: glibc's struct pthread has 2304 bytes (2.36), of which the first
	 * 0x520 are up to the table of keys; musl's 200. pthread_self() points to its start.
	 */
	CONTROL_BYTES = 0x600,
	CONTROL_WORDS = CONTROL_BYTES / 8,
	KEY_WORDS = 2,     // glibc's struct pthread_key_data: a sequence number, then the value
	TABLE_WORDS = 128, // of a table of keys: musl's has 128, glibc's second ones 32 pairs
	MODULES_MAX = 64,  // with thread-local variables, in the order they were loaded
	MODULE_WORDS = 64, // of a module's variables: libpython has four or so
	DTV_AT = 8,        // pointer to the vector of modules: tcbhead_t, and musl's struct pthread
	MINOR_WITH_VARIABLE = 12,
	ADDRESS_MIN = 0x1000,
};

/* A thread and what it must point to. */
struct thread {
	uint64_t state;
	uint64_t control; // pthread_self(): the control block, and on x86-64 the thread pointer
};

static int read_word(pid_t pid, uint64_t address, uint64_t *ret_word)
{
	if (address < ADDRESS_MIN)
		return -EFAULT;
	return process_memory_read(pid, address, ret_word, sizeof(*ret_word));
}

/* glibc keeps the first 32 keys in the control block: a used pair's sequence number is odd. */
static bool find_key(pid_t pid, const struct thread *thread, struct python_process *process)
{
	uint64_t words[CONTROL_WORDS];

	if (process_memory_read(pid, thread->control, words, sizeof(words)))
		return false;
	for (uint32_t i = 1; i < CONTROL_WORDS; i++) {
		if (words[i] != thread->state || i % KEY_WORDS == 0 || words[i - 1] % 2 == 0 ||
		    words[i - 1] > UINT32_MAX)
			continue;
		process->key_at = (int32_t)(i * 8);
		process->ways |= PYTHON_WAY_KEY;
		return true;
	}
	return false;
}

/* musl keeps all keys, and glibc those beyond the first 32, in tables that the block points to. */
static bool find_key_in_table(pid_t pid, const struct thread *thread,
			      struct python_process *process)
{
	uint64_t words[CONTROL_WORDS], table[TABLE_WORDS];

	// musl's block is small, and little need lie behind it.
	memset(words, 0, sizeof(words));
	if (process_memory_read(pid, thread->control, words, sizeof(words)) &&
	    process_memory_read(pid, thread->control, words, 0x100))
		return false;
	for (uint32_t i = 1; i < CONTROL_WORDS; i++) {
		if (words[i] < ADDRESS_MIN || words[i] % 8 ||
		    process_memory_read(pid, words[i], table, sizeof(table)))
			continue;
		for (uint32_t k = 0; k < TABLE_WORDS; k++) {
			if (table[k] != thread->state)
				continue;
			process->key_at = (int32_t)(i * 8);
			process->key_inside = k * 8;
			process->ways |= PYTHON_WAY_KEY | PYTHON_WAY_KEY_INSIDE;
			return true;
		}
	}
	return false;
}

/*
 * _Py_tss_tstate, by the vector of modules' thread-local variables, @stride bytes each. Modules loaded at
 * start are in it as well as later ones.
 */
static bool find_variable(pid_t pid, const struct thread *thread, uint32_t stride,
			  struct python_process *process)
{
	uint64_t vector, block, words[MODULE_WORDS];

	if (read_word(pid, thread->control + DTV_AT, &vector))
		return false;
	for (uint32_t module = 1; module < MODULES_MAX; module++) {
		if (read_word(pid, vector + module * stride, &block))
			return false;
		if (block < ADDRESS_MIN || block % 8 ||
		    process_memory_read(pid, block, words, sizeof(words)))
			continue;
		for (uint32_t i = 0; i < MODULE_WORDS; i++) {
			if (words[i] != thread->state)
				continue;
			process->dtv_at = DTV_AT;
			process->dtv_inside = module * stride;
			process->tls_at = i * 8;
			process->ways |= PYTHON_WAY_TLS | PYTHON_WAY_TLS_DYNAMIC;
			return true;
		}
	}
	return false;
}

static bool find_way(pid_t pid, const struct python_layout *layout, const struct thread *thread,
		     struct python_process *process)
{
	if (find_key(pid, thread, process) || find_key_in_table(pid, thread, process))
		return true;
	// glibc's dtv_t has 16 bytes, musl's 8.
	return layout->offsets.minor >= MINOR_WITH_VARIABLE &&
	       (find_variable(pid, thread, 16, process) || find_variable(pid, thread, 8, process));
}

/* The thread state at @address, if it looks like one of @interpreter that runs in a thread. */
static bool read_thread(pid_t pid, const struct python_layout *layout, uint64_t address,
			uint64_t interpreter, struct thread *ret_thread)
{
	struct thread thread = { .state = address };
	uint64_t owner;

	if (address % 8 || read_word(pid, address + layout->state_interpreter, &owner) ||
	    owner != interpreter ||
	    read_word(pid, address + layout->offsets.state_thread, &thread.control) ||
	    thread.control < ADDRESS_MIN || thread.control % 8)
		return false;
	*ret_thread = thread;
	return true;
}

/*
 * Up to 3.11 a thread's second state (of a subinterpreter) is in no key, so a thread that leads
 * elsewhere says nothing; one that leads to its state says all. Returns as python_threads_locate().
 */
static int locate_in(pid_t pid, const struct python_layout *layout, uint64_t interpreter,
		     struct python_process *process)
{
	struct thread thread;
	uint64_t state;
	int rc = -EAGAIN;

	if (read_word(pid, interpreter + layout->interpreter_threads, &state))
		return -ENOTSUP;
	for (uint32_t i = 0; state && i < THREADS_TRIED_MAX; i++) {
		struct python_process found = *process;

		rc = -ENOTSUP;
		if (!read_thread(pid, layout, state, interpreter, &thread))
			break; // the list changes while it is read, or is none
		if (find_way(pid, layout, &thread, &found)) {
			*process = found;
			return 0;
		}
		if (read_word(pid, state + layout->state_next, &state))
			break;
	}
	return rc;
}

int python_threads_locate(pid_t pid, const struct python_layout *layout, uint64_t interpreters,
			  struct python_process *process)
{
	uint64_t interpreter;
	int rc = -EAGAIN, read_rc = read_word(pid, interpreters, &interpreter);

	if (read_rc)
		return read_rc == -EFAULT ? -ENOTSUP : read_rc;
	for (uint32_t i = 0; interpreter && i < INTERPRETERS_TRIED_MAX; i++) {
		rc = locate_in(pid, layout, interpreter, process);
		if (!rc || read_word(pid, interpreter + layout->interpreter_next, &interpreter))
			break;
	}
	return rc;
}
