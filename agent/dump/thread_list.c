// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/thread_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/utf8.h"

enum {
	STAT_BYTES = 1024,
	STATUS_BYTES = 8192,
	SYSCALL_BYTES = 256,
};

/* ---- one thread ---------------------------------------------------------------------------- */

/* A small file of @folder as a string; "" if it cannot be read. */
static size_t read_text(int folder, const char *name, char *ret_text, size_t size)
{
	_cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, ret_text, size - 1);

	ret_text[length < 0 ? 0 : length] = '\0';
	return length < 0 ? 0 : (size_t)length;
}

pid_t thread_status_namespace_tid(const char *text, uint32_t *ret_levels)
{
	const char *at = strstr(text, "\nNSpid:");
	long id = 0;

	*ret_levels = 0;
	if (!at)
		return 0;
	for (at += strlen("\nNSpid:"); *at == '\t' || *at == ' ';) {
		char *end;

		id = strtol(at, &end, 10);
		if (end == at)
			break;
		++*ret_levels;
		at = end;
	}
	return id > 0 && id <= INT32_MAX ? (pid_t)id : 0;
}

void kernel_stack_clean(char *text)
{
	char *to = text;

	for (char *line = text, *next; *line; line = next) {
		char *end = strchrnul(line, '\n');

		next = *end ? end + 1 : end;
		*end = '\0';
		char *name = strstr(line, "] ");
		name = name ? name + 2 : line;
		size_t length = strcspn(name, "/ ");
		if (!length || strncmp(name, "0xffff", 6) == 0) // how old kernels ended it
			continue;
		memmove(to, name, length);
		to += length;
		*to++ = '\n';
	}
	*to = '\0';
}

static char *read_kernel_stack(int folder)
{
	char text[KERNEL_STACK_BYTES];

	if (!read_text(folder, "stack", text, sizeof(text)))
		return NULL;
	kernel_stack_clean(text);
	return text[0] ? strdup(text) : NULL;
}

uint64_t thread_status_switches(const char *text)
{
	const char *slept = strstr(text, "\nvoluntary_ctxt_switches:");
	const char *preempted = strstr(text, "\nnonvoluntary_ctxt_switches:");
	uint64_t switches = 0;

	if (slept)
		switches += strtoull(strchr(slept, ':') + 1, NULL, 10);
	if (preempted)
		switches += strtoull(strchr(preempted, ':') + 1, NULL, 10);
	return switches;
}

/* *ret_levels: how deep the process's pid namespace is below the one that /proc shows; 1: the same. */
static void read_status(int folder, struct thread *thread, uint32_t *ret_levels)
{
	char text[STATUS_BYTES];

	read_text(folder, "status", text, sizeof(text));
	thread->namespace_tid = thread_status_namespace_tid(text, ret_levels);
	if (!thread->namespace_tid)
		thread->namespace_tid = thread->tid;
	thread->switches = thread_status_switches(text);
}

static int open_thread(int tasks, pid_t tid)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", tid);
	return openat(tasks, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Returns false if it has exited. */
static bool read_thread(int tasks, pid_t tid, bool want_kernel_stack, struct thread *ret_thread,
			uint32_t *ret_levels)
{
	struct thread thread = { .tid = tid };
	char text[STAT_BYTES];
	struct proc_stat stat;

	_cleanup_close_ int folder = open_thread(tasks, tid);
	if (folder < 0)
		return false;
	size_t size = read_text(folder, "stat", text, sizeof(text));
	if (proc_stat_parse(text, size, &stat))
		return false;
	memcpy(thread.name, stat.name, sizeof(thread.name));
	utf8_clean(thread.name);
	thread.state = stat.state;
	read_status(folder, &thread, ret_levels);

	size = read_text(folder, "syscall", text, SYSCALL_BYTES);
	thread.has_registers = thread_registers_parse(text, size, &thread.registers) == 0;
	read_text(folder, "wchan", thread.wait_channel, sizeof(thread.wait_channel));
	if (strcmp(thread.wait_channel, "0") == 0)
		thread.wait_channel[0] = '\0';
	if (want_kernel_stack)
		thread.kernel_stack = read_kernel_stack(folder);
	*ret_thread = thread;
	return true;
}

static int open_tasks(const struct proc *proc)
{
	return openat(proc->fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool thread_has_slept(const struct proc *proc, const struct thread *thread)
{
	_cleanup_close_ int tasks = open_tasks(proc);
	struct thread now;
	uint32_t levels;

	return tasks >= 0 && read_thread(tasks, thread->tid, false, &now, &levels) &&
	       now.state == thread->state && now.switches == thread->switches && now.has_registers;
}

void thread_list_refresh(const struct proc *proc, bool want_kernel_stacks, struct thread_list *list)
{
	_cleanup_close_ int tasks = open_tasks(proc);

	for (uint32_t i = 0; i < list->count; i++) {
		struct thread *thread = &list->threads[i];
		char *former_stack = thread->kernel_stack;
		uint32_t levels;

		if (tasks < 0 ||
		    !read_thread(tasks, thread->tid, want_kernel_stacks, thread, &levels)) {
			thread->state = 'X';
			thread->has_registers = false;
			continue;
		}
		free(former_stack);
	}
}

/* ---- all threads --------------------------------------------------------------------------- */

static int by_tid(const void *a, const void *b)
{
	const struct thread *left = a, *right = b;

	return (left->tid > right->tid) - (left->tid < right->tid);
}

static int read_all(DIR *tasks, bool want_kernel_stacks, struct thread_list *list)
{
	uint32_t capacity = 0, levels;
	struct dirent *entry;
	int rc = 0;

	while (!rc && (entry = readdir(tasks))) {
		long tid = strtol(entry->d_name, NULL, 10);

		if (tid <= 0 || tid > INT32_MAX)
			continue;
		if (list->count == THREADS_MAX) {
			list->left_out++;
			continue;
		}
		rc = array_reserve(&list->threads, sizeof(*list->threads), &capacity, list->count,
				   1, UINT32_MAX);
		if (!rc && read_thread(dirfd(tasks), (pid_t)tid, want_kernel_stacks,
				       &list->threads[list->count], &levels)) {
			list->in_namespace |= levels > 1;
			list->count++;
		}
	}
	return rc;
}

int thread_list_read(const struct proc *proc, bool want_kernel_stacks, struct thread_list *ret_list)
{
	_cleanup_(thread_list_deinit) struct thread_list list = { 0 };
	int fd = open_tasks(proc);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	DIR *tasks = fdopendir(fd);
	if (!tasks) {
		close(fd);
		return -ENOMEM;
	}
	int rc = read_all(tasks, want_kernel_stacks, &list);
	closedir(tasks);
	if (!rc && !list.count)
		rc = -ESRCH;
	if (rc)
		return rc;
	qsort(list.threads, list.count, sizeof(*list.threads), by_tid);
	*ret_list = list;
	list = (struct thread_list){ 0 };
	return 0;
}

void thread_list_deinit(struct thread_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		free(list->threads[i].kernel_stack);
	free(list->threads);
	*list = (struct thread_list){ 0 };
}

struct thread *thread_list_find(const struct thread_list *list, pid_t tid)
{
	const struct thread wanted = { .tid = tid };

	if (!list->count)
		return NULL;
	return bsearch(&wanted, list->threads, list->count, sizeof(*list->threads), by_tid);
}

struct thread *thread_list_find_in_namespace(const struct thread_list *list, pid_t namespace_tid)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->threads[i].namespace_tid == namespace_tid)
			return &list->threads[i];
	return NULL;
}
