// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/running_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "agent/bpf/loader.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "running_threads.skel.h"

enum { READ_BYTES = 64 << 10 };

struct running_threads {
	struct running_threads_bpf *programs;
	struct bpf_link *link;
};

int running_threads_open(struct running_threads **ret_threads, struct error *err)
{
	struct running_threads *threads = calloc(1, sizeof(*threads));

	if (!threads)
		return error_set(err, -ENOMEM, "out of memory");
	loader_take_error();
	threads->programs = running_threads_bpf__open_and_load();
	if (threads->programs)
		threads->link = bpf_program__attach_iter(
			threads->programs->progs.list_running_threads, NULL);
	if (!threads->link) {
		int rc = -errno;

		running_threads_close(threads);
		return error_errno(err, rc, "the kernel said \"%.160s\"", loader_take_error());
	}
	*ret_threads = threads;
	return 0;
}

void running_threads_close(struct running_threads *threads)
{
	if (!threads)
		return;
	bpf_link__destroy(threads->link);
	running_threads_bpf__destroy(threads->programs);
	free(threads);
}

static int read_all(int fd, struct buffer *list)
{
	for (;;) {
		uint8_t *end = buffer_extend(list, READ_BYTES);
		ssize_t size = end ? read(fd, end, READ_BYTES) : 0;

		if (!end)
			return list->rc == -EFBIG ? 0 : list->rc;
		list->size -= READ_BYTES - (size_t)(size > 0 ? size : 0);
		if (size < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (size == 0)
			return 0;
	}
}

int running_threads_list(struct running_threads *threads, struct running_thread **ret_list,
			 uint32_t *ret_count)
{
	_cleanup_(buffer_deinit) struct buffer list = { .size_max = RUNNING_THREADS_MAX *
								    sizeof(struct running_thread) };
	_cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(threads->link));
	int rc = fd < 0 ? -errno : read_all(fd, &list);

	if (rc)
		return rc;
	*ret_count = (uint32_t)(list.size / sizeof(struct running_thread));
	*ret_list = (struct running_thread *)take(list.bytes);
	list.size = 0;
	return 0;
}
