// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/unwind_maps.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>

// Elements come from a small per-CPU reserve that is refilled at once: -ENOMEM is worth another try.
enum { PUT_TRIES_MAX = 4 };

/* Threads that install tables where the kernel waits for each. */
enum { WAITERS_MAX = 16 };

// ---- tables ---------------------------------------------------------------------------------

int unwind_maps_create_table(uint32_t page_count, struct table_page **ret_pages)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_INNER_MAP | BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_table", sizeof(uint32_t),
				sizeof(struct table_page), page_count, &options);

	if (fd < 0)
		return fd;
	void *pages = mmap(NULL, (size_t)page_count * sizeof(struct table_page),
			   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pages == MAP_FAILED) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	*ret_pages = pages;
	return fd;
}

void unwind_maps_unmap_table(struct table_page *pages, uint32_t page_count)
{
	munmap(pages, (size_t)page_count * sizeof(*pages));
}

uint64_t unwind_maps_table_bytes(uint32_t page_count)
{
	return ((uint64_t)page_count + 1) * sizeof(struct table_page); // array_map_alloc()
}

// A thread's part of the tables: every step-th from the first on.
struct share {
	const struct unwind_maps *maps;
	const uint32_t *numbers;
	const int *fds;
	uint32_t first, step, count;
	int rc;
	pthread_t thread;
	bool started;
};

static void *install_share(void *context)
{
	struct share *share = context;

	for (uint32_t i = share->first; i < share->count && !share->rc; i += share->step)
		if (bpf_map_update_elem(share->maps->tables_fd, &share->numbers[i], &share->fds[i],
					BPF_ANY))
			share->rc = -errno;
	return NULL;
}

// Threads that wait for a grace period at the same time share it.
static int install_side_by_side(const struct unwind_maps *maps, const uint32_t *numbers,
				const int *fds, uint32_t count)
{
	uint32_t step = count < WAITERS_MAX ? count : WAITERS_MAX;
	struct share shares[WAITERS_MAX];
	int rc = 0;

	for (uint32_t i = 0; i < step; i++) {
		shares[i] = (struct share){ maps, numbers, fds, i, step, count, .rc = 0 };
		shares[i].started = i + 1 < step && !pthread_create(&shares[i].thread, NULL,
								    install_share, &shares[i]);
		if (!shares[i].started)
			install_share(&shares[i]);
	}
	for (uint32_t i = 0; i < step; i++) {
		if (shares[i].started)
			pthread_join(shares[i].thread, NULL);
		if (shares[i].rc)
			rc = shares[i].rc;
	}
	return rc;
}

// Since 6.8 the kernel waits once per batch, before that per map: commit "bpf: Call maybe_wait_bpf_programs()
// only once for generic_map_update_batch()".
static bool waits_once(void)
{
	struct utsname kernel;
	unsigned int major = 0, minor = 0;

	return uname(&kernel) == 0 && sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 8));
}

int unwind_maps_install_tables(const struct unwind_maps *maps, const uint32_t *numbers,
			       const int *fds, uint32_t count)
{
	uint32_t done = count;

	if (!count)
		return 0;
	if (waits_once() && bpf_map_update_batch(maps->tables_fd, numbers, fds, &done, NULL) == 0)
		return 0;
	return install_side_by_side(maps, numbers, fds, count);
}

int unwind_maps_remove_table(const struct unwind_maps *maps, uint32_t number)
{
	// The kernel waits for running programs (maybe_wait_bpf_programs()).
	if (bpf_map_delete_elem(maps->tables_fd, &number) && errno != ENOENT)
		return -errno;
	return 0;
}

// ---- rules ----------------------------------------------------------------------------------

enum { RULES_BYTES = UNWIND_RULES_MAX * sizeof(struct unwind_rule) };

struct unwind_rule *unwind_maps_map_rules(const struct unwind_maps *maps)
{
	void *rules =
		mmap(NULL, RULES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, maps->rules_fd, 0);

	return rules == MAP_FAILED ? NULL : rules;
}

void unwind_maps_unmap_rules(struct unwind_rule *rules)
{
	if (rules)
		munmap(rules, RULES_BYTES);
}

// ---- processes ------------------------------------------------------------------------------

static int put(int fd, const void *key, const void *value)
{
	for (int i = 0; i < PUT_TRIES_MAX; i++) {
		if (bpf_map_update_elem(fd, key, value, BPF_ANY) == 0)
			return 0;
		if (errno != ENOMEM)
			break;
	}
	return -errno;
}

static int remove_key(int fd, const void *key)
{
	return bpf_map_delete_elem(fd, key) && errno != ENOENT ? -errno : 0;
}

int unwind_maps_put_page(const struct unwind_maps *maps, const struct mapping_page_key *key,
			 const struct mapping_page *page)
{
	return put(maps->pages_fd, key, page);
}

int unwind_maps_remove_page(const struct unwind_maps *maps, const struct mapping_page_key *key)
{
	return remove_key(maps->pages_fd, key);
}

int unwind_maps_put_process(const struct unwind_maps *maps, uint32_t pid,
			    const struct process_unwind *process)
{
	return put(maps->processes_fd, &pid, process);
}

int unwind_maps_remove_process(const struct unwind_maps *maps, uint32_t pid)
{
	return remove_key(maps->processes_fd, &pid);
}

int unwind_maps_put_runtime(const struct unwind_maps *maps, uint32_t runtime,
			    const struct python_offsets *offsets)
{
	return put(maps->python_fd, &runtime, offsets);
}
