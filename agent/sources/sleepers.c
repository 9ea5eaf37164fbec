// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/sleepers.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"
#include "bpf/shared_variables.h"
#include "sleepers.skel.h"

struct sleepers {
	struct sleepers_bpf *programs;
	struct bpf_link *link;
	uint64_t truncated_stacks; // when the last pass began
	uint32_t pass;
};

static int load(struct sleepers *sleepers, const struct loader *loader,
		const struct sleepers_options *options)
{
	struct sleepers_bpf *programs = sleepers_bpf__open();
	int rc;

	if (!programs)
		return -errno;
	sleepers->programs = programs;
	rc = loader_share_maps(loader, programs->obj);
	if (!rc)
		rc = bpf_map__reuse_fd(programs->maps.threads, options->threads_fd);
	if (rc)
		return rc;
	programs->rodata->slot_ns = options->slot_ns;
	programs->rodata->unwind_by_tables = options->level < LOADER_LEVEL_FRAME_POINTER;
	programs->rodata->unwind_python = options->level < LOADER_LEVEL_NO_PYTHON;
	programs->rodata->can_find_tasks = options->can_find_tasks;
	return sleepers_bpf__load(programs);
}

int sleepers_open(const struct loader *loader, const struct sleepers_options *options,
		  struct sleepers **ret_sleepers, struct error *err)
{
	struct sleepers *sleepers = calloc(1, sizeof(*sleepers));

	if (!sleepers)
		return error_set(err, -ENOMEM, "out of memory");
	loader_take_error();
	int rc = load(sleepers, loader, options);
	if (!rc) {
		sleepers->link =
			bpf_program__attach_iter(sleepers->programs->progs.unwind_sleepers, NULL);
		rc = sleepers->link ? 0 : -errno;
	}
	if (rc) {
		sleepers_close(sleepers);
		return error_errno(err, rc, "the kernel said \"%.160s\"", loader_take_error());
	}
	*ret_sleepers = sleepers;
	return 0;
}

void sleepers_close(struct sleepers *sleepers)
{
	if (!sleepers)
		return;
	bpf_link__destroy(sleepers->link);
	sleepers_bpf__destroy(sleepers->programs);
	free(sleepers);
}

int sleepers_look(struct sleepers *sleepers, uint64_t truncated_stacks)
{
	struct sleepers_bpf *programs = sleepers->programs;
	uint32_t pass = ++sleepers->pass, due = programs->bss->next_pass;
	char nothing;

	if (truncated_stacks == sleepers->truncated_stacks && (!due || pass < due))
		return 0;
	_cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(sleepers->link));
	if (fd < 0)
		return -errno;
	sleepers->truncated_stacks = truncated_stacks;
	programs->bss->pass = pass;
	programs->bss->next_pass = 0;
	programs->bss->pass_end_ns = clock_monotonic_ns() + SLEEPERS_PASS_NS;
	// The program writes nothing: it has visited all threads when the first read returns.
	while (read(fd, &nothing, sizeof(nothing)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return 0;
}
