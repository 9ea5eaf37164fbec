// SPDX-License-Identifier: Apache-2.0
#include "agent/probes/probe_link.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/cleanup.h"
#include "agent/probes/probe_page.h"

enum {
	FD_PATH_BYTES = 32,
	MULTI_RETURN = 1, // BPF_F_UPROBE_MULTI_RETURN
	PERF_RETURN = 1,  // bit 0 of config: .../devices/uprobe/format/retprobe
};

#define PERF_TYPE_FILE "/sys/bus/event_source/devices/uprobe/type"

struct probe_link {
	struct probe_link *next; // in closer.links
	uint32_t count;
	int fds[];
};

/* The thread that closes detached links: the kernel waits 20 to 100 ms in each close(). */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t idle;
	struct probe_link *links;
	bool runs;
} closer = { .lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER };

/* The kernel takes a path; this one reaches the file whatever its name is by now. */
static void path_of(int fd, char path[FD_PATH_BYTES])
{
	snprintf(path, FD_PATH_BYTES, "/proc/self/fd/%d", fd);
}

// ---- one link for all places ------------------------------------------------------------------

/* link_create of union bpf_attr in <linux/bpf.h> 6.6. */
struct multi_attributes {
	uint32_t program_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, semaphore_offsets, cookies;
	uint32_t count, multi_flags, pid, reserved;
};

static int attach_multi(int program_fd, int fd, const struct probe_place *places, uint32_t count,
			bool at_return, struct probe_link *link)
{
	_cleanup_free_ uint64_t *numbers = calloc(2 * (size_t)count, sizeof(*numbers));
	char path[FD_PATH_BYTES];

	if (!numbers)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		numbers[i] = places[i].offset;
		numbers[count + i] = places[i].cookie;
	}
	path_of(fd, path);
	struct multi_attributes attributes = {
		.program_fd = (uint32_t)program_fd,
		.attach_type = PROBE_ATTACH_TYPE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)numbers,
		.cookies = (uintptr_t)(numbers + count),
		.count = count,
		.multi_flags = at_return ? MULTI_RETURN : 0,
	};
	int link_fd =
		(int)syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, (uint32_t)sizeof(attributes));
	if (link_fd < 0)
		return -errno;
	link->fds[link->count++] = link_fd;
	return 0;
}

// ---- a perf event for each place --------------------------------------------------------------

static int read_perf_type(void)
{
	_cleanup_fclose_ FILE *file = fopen(PERF_TYPE_FILE, "re");
	int type;

	if (!file)
		return -errno;
	return fscanf(file, "%d", &type) == 1 ? type : -EINVAL;
}

static int open_event(int type, const char *path, uint64_t offset, bool at_return)
{
	struct perf_event_attr attributes = {
		.size = sizeof(attributes),
		.type = (uint32_t)type,
		.config = at_return ? PERF_RETURN : 0,
		.config1 = (uintptr_t)path,
		.config2 = offset,
	};
	// CPU 0: the program runs on all CPUs, whichever one the event is opened for.
	int fd = (int)syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int attach_event(int program_fd, int event_fd, uint64_t cookie)
{
	DECLARE_LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event.bpf_cookie = cookie);

	return bpf_link_create(program_fd, event_fd, BPF_PERF_EVENT, &options);
}

static int attach_perf(int program_fd, int fd, const struct probe_place *places, uint32_t count,
		       bool at_return, struct probe_link *link)
{
	int type = read_perf_type();
	char path[FD_PATH_BYTES];

	probe_link_settle(); // else a place could have two probes for a while
	if (type < 0)
		return type;
	path_of(fd, path);
	for (uint32_t i = 0; i < count; i++) {
		_cleanup_close_ int event_fd = open_event(type, path, places[i].offset, at_return);
		if (event_fd < 0)
			return event_fd;
		int link_fd = attach_event(program_fd, event_fd, places[i].cookie);
		if (link_fd < 0)
			return link_fd;
		// The link holds the event.
		link->fds[link->count++] = link_fd;
	}
	return 0;
}

// ---- public -----------------------------------------------------------------------------------

int probe_link_attach(enum probe_way way, int program_fd, int fd, const struct probe_place *places,
		      uint32_t count, bool at_return, struct probe_link **ret_link)
{
	struct probe_link *link;
	int rc;

	if (!count || count > PROBE_PLACES_MAX)
		return count ? -E2BIG : -EINVAL;
	link = calloc(1, sizeof(*link) + count * sizeof(link->fds[0]));
	if (!link)
		return -ENOMEM;
	switch (way) {
	case PROBE_WAY_MULTI:
		rc = attach_multi(program_fd, fd, places, count, at_return, link);
		break;
	case PROBE_WAY_PERF:
		rc = attach_perf(program_fd, fd, places, count, at_return, link);
		break;
	default:
		rc = -EOPNOTSUPP;
	}
	if (rc) {
		probe_link_detach(link);
		return rc;
	}
	*ret_link = link;
	return 0;
}

static void close_link(struct probe_link *link)
{
	for (uint32_t i = 0; i < link->count; i++)
		close(link->fds[i]);
	free(link);
}

static void *close_links(void *nothing)
{
	(void)nothing;
	pthread_mutex_lock(&closer.lock);
	while (closer.links) {
		struct probe_link *link = closer.links;

		closer.links = link->next;
		pthread_mutex_unlock(&closer.lock);
		close_link(link);
		pthread_mutex_lock(&closer.lock);
	}
	closer.runs = false;
	pthread_cond_broadcast(&closer.idle);
	pthread_mutex_unlock(&closer.lock);
	return NULL;
}

/* False: no thread could be started. */
static bool close_later(struct probe_link *link)
{
	pthread_t thread;

	pthread_mutex_lock(&closer.lock);
	link->next = closer.links;
	closer.links = link;
	if (!closer.runs && !pthread_create(&thread, NULL, close_links, NULL)) {
		pthread_detach(thread);
		closer.runs = true;
	}
	bool runs = closer.runs;
	if (!runs)
		closer.links = link->next;
	pthread_mutex_unlock(&closer.lock);
	return runs;
}

void probe_link_detach(struct probe_link *link)
{
	if (link && !close_later(link))
		close_link(link);
}

void probe_link_settle(void)
{
	pthread_mutex_lock(&closer.lock);
	while (closer.runs)
		pthread_cond_wait(&closer.idle, &closer.lock);
	pthread_mutex_unlock(&closer.lock);
}

bool probe_link_is_settled(void)
{
	pthread_mutex_lock(&closer.lock);
	bool is_settled = !closer.runs;
	pthread_mutex_unlock(&closer.lock);
	return is_settled;
}

int probe_link_load_empty(enum probe_way way)
{
	static const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options,
		    .expected_attach_type = (enum bpf_attach_type)probe_way_attach_type(way));

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "probe_try", "GPL", nothing, ARRAY_SIZE(nothing),
			     &options);
}

static int try(enum probe_way way, const struct probe_page *page)
{
	const struct probe_place place = { .offset = PROBE_PAGE_CHEAP_AT };
	_cleanup_close_ int program_fd = probe_link_load_empty(way);
	struct probe_link *link;

	if (program_fd < 0)
		return program_fd;
	int rc = probe_link_attach(way, program_fd, page->fd, &place, 1, false, &link);
	if (!rc)
		probe_link_detach(link);
	return rc;
}

enum probe_way probe_link_choose(struct error *err)
{
	struct probe_page page;
	int rc = probe_page_open(&page);

	if (rc) {
		error_errno(err, rc, "uprobes: cannot make a page to try them on");
		return PROBE_WAY_NONE;
	}
	int multi_rc = try(PROBE_WAY_MULTI, &page);
	int perf_rc = multi_rc ? try(PROBE_WAY_PERF, &page) : 0;
	probe_page_close(&page);
	if (!multi_rc)
		return PROBE_WAY_MULTI;
	if (!perf_rc)
		return PROBE_WAY_PERF;
	error_set(err, perf_rc,
		  "uprobes: refused by the kernel: uprobe_multi link: %s (needs Linux 6.6, CAP_BPF "
		  "and CAP_PERFMON); perf events: %s (need CAP_SYS_ADMIN)",
		  strerror(-multi_rc), strerror(-perf_rc));
	return PROBE_WAY_NONE;
}
