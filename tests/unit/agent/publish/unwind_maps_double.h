// SPDX-License-Identifier: Apache-2.0
// The unwinder's maps in memory, instead of the kernel's, for tests without root: they remember what
// was put, and refuse on request. Linking takes these functions and leaves agent/bpf/unwind_maps.c out.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/bpf/unwind_maps.h"
#include "tests/test.h"

enum { DOUBLE_PAGES_MAX = 4096, DOUBLE_PROCESSES_MAX = 64 };

struct page_of_double {
	struct mapping_page_key key;
	struct mapping_page page;
	bool used;
};

/* One for the whole program: the functions have no other way to it. */
static struct {
	pthread_mutex_t lock;
	struct unwind_rule rules[UNWIND_RULES_MAX];
	struct table_page *tables[UNWIND_TABLES_MAX]; // NULL: none
	uint32_t table_pages[UNWIND_TABLES_MAX];
	uint32_t installs; // calls
	struct page_of_double pages[DOUBLE_PAGES_MAX];
	uint32_t page_count, page_count_max;
	struct process_unwind processes[DOUBLE_PROCESSES_MAX];
	uint32_t process_puts;
	uint32_t runtimes; // put
	// What to refuse.
	int install_rc;
	int create_rc;
	uint32_t pages_to_put; // so many are accepted, if pages_rc is not 0
	int pages_rc;
	int process_rc;
} maps_double = { .lock = PTHREAD_MUTEX_INITIALIZER };

static inline void maps_double_clear(void)
{
	for (uint32_t i = 0; i < UNWIND_TABLES_MAX; i++)
		if (maps_double.tables[i])
			munmap(maps_double.tables[i],
			       maps_double.table_pages[i] * sizeof(struct table_page));
	pthread_mutex_t lock = maps_double.lock;
	memset(&maps_double, 0, sizeof(maps_double));
	maps_double.lock = lock;
}

int unwind_maps_create_table(uint32_t page_count, struct table_page **ret_pages)
{
	size_t size = page_count * sizeof(struct table_page);
	int fd = maps_double.create_rc ? -1 : memfd_create("table", MFD_CLOEXEC);

	if (fd < 0)
		return maps_double.create_rc;
	assert_int_equal(0, ftruncate(fd, (off_t)size));
	*ret_pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return fd;
}

void unwind_maps_unmap_table(struct table_page *pages, uint32_t page_count)
{
	munmap(pages, page_count * sizeof(*pages));
}

uint64_t unwind_maps_table_bytes(uint32_t page_count)
{
	return page_count * sizeof(struct table_page);
}

int unwind_maps_install_tables(const struct unwind_maps *maps, const uint32_t *numbers,
			       const int *fds, uint32_t count)
{
	(void)maps;
	if (maps_double.install_rc)
		return maps_double.install_rc;
	pthread_mutex_lock(&maps_double.lock);
	for (uint32_t i = 0; i < count; i++) {
		off_t size = lseek(fds[i], 0, SEEK_END);
		void *pages = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fds[i], 0);

		maps_double.tables[numbers[i]] = pages;
		maps_double.table_pages[numbers[i]] =
			(uint32_t)((size_t)size / sizeof(struct table_page));
	}
	maps_double.installs += count != 0;
	pthread_mutex_unlock(&maps_double.lock);
	return 0;
}

int unwind_maps_remove_table(const struct unwind_maps *maps, uint32_t number)
{
	(void)maps;
	pthread_mutex_lock(&maps_double.lock);
	if (maps_double.tables[number])
		munmap(maps_double.tables[number],
		       maps_double.table_pages[number] * sizeof(struct table_page));
	maps_double.tables[number] = NULL;
	pthread_mutex_unlock(&maps_double.lock);
	return 0;
}

struct unwind_rule *unwind_maps_map_rules(const struct unwind_maps *maps)
{
	(void)maps;
	return maps_double.rules;
}

void unwind_maps_unmap_rules(struct unwind_rule *rules)
{
	(void)rules;
}

static inline struct page_of_double *maps_double_page(const struct mapping_page_key *key)
{
	for (uint32_t i = 0; i < DOUBLE_PAGES_MAX; i++)
		if (maps_double.pages[i].used &&
		    memcmp(&maps_double.pages[i].key, key, sizeof(*key)) == 0)
			return &maps_double.pages[i];
	return NULL;
}

int unwind_maps_put_page(const struct unwind_maps *maps, const struct mapping_page_key *key,
			 const struct mapping_page *page)
{
	(void)maps;
	if (maps_double.pages_rc && !maps_double.pages_to_put)
		return maps_double.pages_rc;
	if (maps_double.pages_rc)
		maps_double.pages_to_put--;
	assert_null(maps_double_page(key)); // never under the eyes of who reads them
	for (uint32_t i = 0; i < DOUBLE_PAGES_MAX; i++) {
		if (maps_double.pages[i].used)
			continue;
		maps_double.pages[i] = (struct page_of_double){ *key, *page, true };
		if (++maps_double.page_count > maps_double.page_count_max)
			maps_double.page_count_max = maps_double.page_count;
		return 0;
	}
	return -E2BIG;
}

static inline struct process_unwind *maps_double_process(uint32_t pid)
{
	for (uint32_t i = 0; pid && i < DOUBLE_PROCESSES_MAX; i++)
		if (maps_double.processes[i].key.pid == pid)
			return &maps_double.processes[i];
	return NULL;
}

int unwind_maps_remove_page(const struct unwind_maps *maps, const struct mapping_page_key *key)
{
	struct page_of_double *page = maps_double_page(key);
	const struct process_unwind *process = maps_double_process(key->pid);

	(void)maps;
	assert_true(!process || process->generation != key->generation); // not what is in use
	if (page) {
		page->used = false;
		maps_double.page_count--;
	}
	return 0;
}

int unwind_maps_put_process(const struct unwind_maps *maps, uint32_t pid,
			    const struct process_unwind *process)
{
	struct process_unwind *known = maps_double_process(pid);

	(void)maps;
	if (maps_double.process_rc)
		return maps_double.process_rc;
	assert_int_equal(pid, process->key.pid);
	for (uint32_t i = 0; !known && i < DOUBLE_PROCESSES_MAX; i++)
		if (!maps_double.processes[i].key.pid)
			known = &maps_double.processes[i];
	if (!known)
		return -E2BIG;
	*known = *process;
	maps_double.process_puts++;
	return 0;
}

int unwind_maps_remove_process(const struct unwind_maps *maps, uint32_t pid)
{
	struct process_unwind *known = maps_double_process(pid);

	(void)maps;
	if (known)
		*known = (struct process_unwind){ 0 };
	return 0;
}

int unwind_maps_put_runtime(const struct unwind_maps *maps, uint32_t runtime,
			    const struct python_offsets *offsets)
{
	(void)maps;
	(void)runtime;
	(void)offsets;
	maps_double.runtimes++;
	return 0;
}
