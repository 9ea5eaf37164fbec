// SPDX-License-Identifier: Apache-2.0
// Process tables over this machine's processes, for tests.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/proc.h"
#include "agent/process/process_table.h"
#include "agent/symbols/executable_symbols.h"
#include "tests/test.h"
#include "tests/unit/agent/process/new_process_table.h"

struct tables {
	struct executable_table *executables;
	struct process_table *processes;
};

static inline struct tables tables_new(const struct labels *extra)
{
	struct tables tables = { .executables = executable_table_new() };

	tables.processes = new_process_table(tables.executables, extra);
	assert_non_null(tables.processes);
	return tables;
}

static inline void tables_free(struct tables *tables)
{
	process_table_free(tables->processes);
	executable_table_free(tables->executables);
}

/* A key as the kernel reports it: /proc has no nanoseconds below a tick. */
static inline struct process_key key_of(pid_t pid, uint32_t exec_id)
{
	struct proc proc;

	assert_int_equal(0, proc_open(pid, &proc));
	proc_close(&proc);
	return (struct process_key){ .pid = (uint32_t)pid,
				     .exec_id = exec_id,
				     .start_ns = proc.stat.start_ticks * 10000000 + 1234567 };
}

static inline pid_t fork_and_wait(void)
{
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	assert_true(child > 0);
	return child;
}

static inline void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static inline void apply(struct tables *tables, enum process_event event, struct process_key key,
			 pid_t parent, const char *name)
{
	struct process_record record = {
		.kind = RECORD_PROCESS,
		.event = event,
		.process = key,
		.parent_pid = (uint32_t)parent,
	};

	snprintf(record.name, sizeof(record.name), "%s", name);
	process_table_apply(tables->processes, &record);
}

static inline void check_code(struct tables *tables, struct process *process, const void *function,
			      const char *name)
{
	struct symbol symbol = { .name = "(none)" };
	struct code_address code;

	if (process_find_code(tables->processes, process, (uintptr_t)function + 1, &code) == 0)
		executable_find_symbol(tables->executables, code.executable, code.offset, &symbol);
	assert_string_equal(name, symbol.name);
}

static inline void *map_code(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(MAP_FAILED, code);
	return code;
}
