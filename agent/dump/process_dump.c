// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/process_dump.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dump/dump_symbols.h"
#include "agent/bpf/machine.h"
#include "agent/dump/process_capture.h"
#include "agent/guard/watchdog.h"
#include "agent/process/process_target.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"

/* CPU time to find the interpreter and to read its functions; large programs take a fraction of a second. */
#define DUMP_PYTHON_NS_MAX (10 * NS_PER_SECOND)

struct process_dump {
	struct process_capture capture;
	struct dump_symbols names;
};

/* ---- which process ------------------------------------------------------------------------- */

static int refuse(pid_t pid, const struct proc *proc, struct error *err)
{
	pid_t leader = process_target_leader(proc);

	if (leader > 0 && leader != pid)
		return error_set(err, -EINVAL,
				 "%d is a thread of process %d; give %d, with --thread %d to see "
				 "it alone",
				 pid, leader, leader, pid);
	return process_target_check(pid, proc, err);
}

static int open_process(struct process_dump *dump, pid_t pid, struct error *err)
{
	int rc = proc_open(pid, &dump->capture.proc);

	if (rc == -ESRCH)
		return error_set(err, rc, "there is no process %d", pid);
	if (rc)
		return error_errno(err, rc, "process %d", pid);
	rc = refuse(pid, &dump->capture.proc, err);
	if (rc)
		return rc;

	struct dump_summary *summary = &dump->capture.summary;
	summary->pid = pid;
	memcpy(summary->name, dump->capture.proc.stat.name, sizeof(summary->name));
	utf8_clean(summary->name);
	if (proc_read_link(dump->capture.proc.files, "exe", summary->executable,
			   sizeof(summary->executable)))
		summary->executable[0] = '\0';
	utf8_clean(summary->executable);
	return 0;
}

static int read_threads(struct process_dump *dump, struct error *err)
{
	pid_t pid = dump->capture.summary.pid, tid = dump->capture.options.tid;
	int rc = thread_list_read(&dump->capture.proc, !dump->capture.options.no_kernel,
				  &dump->capture.list);

	if (rc == -ESRCH)
		return error_set(err, rc, "process %d has exited", pid);
	if (rc)
		return error_errno(err, rc, "threads of process %d", pid);
	if (tid && !thread_list_find(&dump->capture.list, tid))
		return error_set(err, -EINVAL, "--thread: process %d has no thread %d", pid, tid);
	const struct thread *main_thread = thread_list_find(&dump->capture.list, pid);
	dump->capture.summary.namespace_pid = main_thread ? main_thread->namespace_tid : pid;
	dump->capture.summary.threads_left_out = dump->capture.list.left_out;
	dump->capture.threads = calloc(dump->capture.list.count, sizeof(*dump->capture.threads));
	for (uint32_t i = 0; dump->capture.threads && i < dump->capture.list.count; i++)
		dump->capture.threads[i].memory.syscall = SYSCALL_NONE; // unless it is found in one
	return dump->capture.threads ? 0 : -ENOMEM;
}

/* ---- before the pause ---------------------------------------------------------------------- */

static int explain_no_mappings(pid_t pid, struct error *err)
{
	if (kill(pid, 0) && errno == ESRCH)
		return error_set(err, -ESRCH, "process %d has exited", pid);
	if (machine_has_capability(CAP_SYS_PTRACE))
		return error_set(err, -EACCES,
				 "may not read the mappings of process %d despite CAP_SYS_PTRACE: "
				 "a security "
				 "module or another user namespace protects it",
				 pid);
	return error_set(err, -EACCES,
			 "may not read the mappings of process %d: run as root, or with "
			 "CAP_SYS_PTRACE, or as its user",
			 pid);
}

static int open_unwind(struct process_dump *dump, struct error *err)
{
	const struct live_unwind_options options = {
		.no_python = dump->capture.options.no_python,
		.cache_folder = dump->capture.options.cache_folder,
	};
	struct error python_error = { 0 };
	int rc = dump_symbols_open(&dump->names, &dump->capture);

	if (rc)
		return error_set(err, rc, "out of memory");
	process_table_work(dump->names.processes)->process_ns = DUMP_PYTHON_NS_MAX;
	process_table_work(dump->names.processes)->total_ns = DUMP_PYTHON_NS_MAX;
	watchdog_enter("reading mappings and Python thread states", dump->capture.summary.pid);
	rc = live_unwind_open(dump->names.processes, dump->names.process,
			      process_capture_living_thread(&dump->capture), &options,
			      &dump->capture.unwind, &python_error);
	if (rc == -ESRCH)
		return explain_no_mappings(dump->capture.summary.pid, err);
	if (rc)
		return error_set(err, rc, "%s", python_error.text);
	memcpy(dump->capture.summary.python_error, python_error.text, sizeof(python_error.text));
	return 0;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void freep(struct process_dump **dump)
{
	process_dump_free(*dump);
}

static void sum_up(struct process_dump *dump, uint64_t began_ns)
{
	struct live_unwind_stats stats;

	live_unwind_read_stats(dump->capture.unwind, &stats);
	dump->capture.summary.tables = stats.tables;
	dump->capture.summary.tables_ns = stats.build_ns;
	dump->capture.summary.mappings = stats.mappings;
	dump->capture.summary.total_ns = clock_monotonic_ns() - began_ns;
}

int process_dump_take(pid_t pid, const struct dump_options *options, struct process_dump **ret_dump,
		      struct error *err)
{
	_cleanup_(freep) struct process_dump *dump = calloc(1, sizeof(*dump));
	uint64_t began_ns = clock_monotonic_ns();

	if (!dump)
		return error_set(err, -ENOMEM, "out of memory");
	dump->capture.options = *options;
	dump->capture.proc.fd = dump->capture.proc.files = -1;
	int rc = open_process(dump, pid, err);
	if (!rc)
		rc = read_threads(dump, err);
	if (!rc)
		rc = open_unwind(dump, err);
	if (!rc) {
		watchdog_enter("building unwind tables", pid);
		process_capture_prepare(&dump->capture);
		watchdog_enter("unwinding stacks", pid);
		rc = process_capture_run(&dump->capture, err);
	}
	watchdog_enter("reading symbols", pid);
	if (!rc)
		rc = dump_symbols_resolve(&dump->names);
	if (rc)
		return err->code == rc ? rc : error_set(err, rc, "out of memory");
	sum_up(dump, began_ns);
	*ret_dump = take(dump);
	return 0;
}

void process_dump_free(struct process_dump *dump)
{
	if (!dump)
		return;
	process_capture_deinit(&dump->capture); // its unwinder uses the names' executables
	dump_symbols_deinit(&dump->names);
	free(dump);
}

const struct dump_summary *process_dump_summary(const struct process_dump *dump)
{
	return &dump->capture.summary;
}

const struct dump_thread *process_dump_threads(const struct process_dump *dump, uint32_t *ret_count)
{
	*ret_count = dump->names.thread_count;
	return dump->names.threads;
}
