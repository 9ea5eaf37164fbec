// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/blocked_registers.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "bpf/process/saved_registers.h"
#include "thread_registers.skel.h"

enum { READ_BYTES = 64 << 10, LIST_BYTES_MAX = 16 << 20 };

static void destroy(struct thread_registers_bpf **programs)
{
	thread_registers_bpf__destroy(*programs);
}

static void detach(struct bpf_link **link)
{
	bpf_link__destroy(*link);
}

/* Reads of @fd return one record after the other. */
static int read_list(int fd, struct buffer *list)
{
	list->size_max = LIST_BYTES_MAX;
	for (;;) {
		_cleanup_free_ uint8_t *bytes = malloc(READ_BYTES);
		ssize_t size = bytes ? read(fd, bytes, READ_BYTES) : -1;

		if (size < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (size <= 0)
			return size ? -errno : list->rc;
		buffer_append(list, bytes, (size_t)size);
	}
}

static int list_threads(const struct thread_registers_bpf *programs, pid_t pid, struct buffer *list)
{
	union bpf_iter_link_info info = { .task.pid = (uint32_t)pid };
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info,
		    .link_info_len = sizeof(info));
	_cleanup_(detach) struct bpf_link *link =
		bpf_program__attach_iter(programs->progs.list_thread_registers, &options);

	if (!link)
		return -errno;
	_cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(link));
	return fd < 0 ? fd : read_list(fd, list);
}

/* Silences libbpf on standard error: the caller has a fallback. */
static int load_and_list(pid_t pid, struct buffer *list)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	_cleanup_(destroy) struct thread_registers_bpf *programs =
		thread_registers_bpf__open_and_load();
	int rc = programs ? list_threads(programs, pid, list) : -errno;

	libbpf_set_print(print);
	return rc;
}

int blocked_registers_read(pid_t pid, struct blocked_registers *ret_registers)
{
	_cleanup_(buffer_deinit) struct buffer list = { 0 };
	struct blocked_registers registers = { 0 };
	int rc = load_and_list(pid, &list);

	if (rc)
		return rc;
	registers.count = (uint32_t)(list.size / sizeof(struct saved_registers));
	registers.threads = calloc(registers.count + 1, sizeof(*registers.threads));
	if (!registers.threads)
		return -ENOMEM;
	const struct saved_registers *saved = (const void *)list.bytes;
	for (uint32_t i = 0; i < registers.count; i++)
		thread_registers_restore(&saved[i], &registers.threads[i]);
	*ret_registers = registers;
	return 0;
}

void blocked_registers_deinit(struct blocked_registers *registers)
{
	free(registers->threads);
	*registers = (struct blocked_registers){ 0 };
}

const struct thread_registers *blocked_registers_find(const struct blocked_registers *registers,
						      const struct thread_registers *partial)
{
	for (uint32_t i = 0; i < registers->count; i++)
		if (registers->threads[i].pc == partial->pc &&
		    thread_registers_sp(&registers->threads[i]) == thread_registers_sp(partial))
			return &registers->threads[i];
	return NULL;
}
