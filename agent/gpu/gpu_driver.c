// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/elf/elf_symbols.h"
#include "agent/process/mapped_file.h"
#include "agent/process/proc.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/id128.h"

/* Between two updates: for so long a new file's first calls go unseen. */
#define UPDATE_INTERVAL_NS NS_PER_SECOND

enum {
	REFUSED_MAX = 64,   // cached files with such a name and another soname
	TRIES_MAX = 3,      // to open a process's file, which may be on a slow file server
	DYNAMIC_MAX = 1024, // entries searched for the soname; linkers write some 30
	SONAME_BYTES = 32,
};

/* Libraries by file name; the soname decides. */
static const struct library {
	const char *prefix; // of the file name
	const char *soname;
	const char *symbol; // that it must export, too; NULL: none
	enum gpu_library library;
} libraries[] = {
	{ "libcuda.so", "libcuda.so.1", NULL, GPU_LIBRARY_CUDA },
	{ "libnccl.so", "libnccl.so.2", NULL, GPU_LIBRARY_NCCL },
	{ "libcairn_cupti.so", "libcairn_cupti.so", NULL, GPU_LIBRARY_HELPER },
	{ "libtorch_cuda.so", "libtorch_cuda.so", "ncclAllReduce", GPU_LIBRARY_NCCL },
};

/* Device and inode identify a file that is held open; the rest changes when it is written to. */
struct file_key {
	uint64_t device, inode, size, changed_s, changed_ns;
};

struct file {
	struct gpu_driver driver; // first: the public pointer is also the file's
	struct file_key key;
	uint64_t gone_ns; // no process has mapped it since then; 0: some do
	bool is_reported; // to the listener
};

/* One for each process; most map none of the files. */
struct record {
	struct process_key key;
	uint64_t generation;
	uint64_t files; // bits, by position in gpu_drivers.files
	uint32_t round; // the last one that named it
	uint32_t tries;
};

_Static_assert(GPU_DRIVERS_MAX <= 64, "a bit for each in struct record");

struct gpu_drivers {
	struct gpu_driver_listener listener;
	struct file *files[GPU_DRIVERS_MAX]; // with holes
	struct file_key refused[REFUSED_MAX];
	uint32_t refused_at;
	struct record *records;
	uint32_t record_count, record_capacity;
	struct hash_table by_key;
	uint32_t round;
	uint32_t last_number;
	uint64_t updated_ns;
	uint64_t dropped; // files beyond GPU_DRIVERS_MAX
};

// ---- files ----------------------------------------------------------------------------------

static struct file_key key_of(const struct stat *status)
{
	return (struct file_key){
		.device = status->st_dev,
		.inode = status->st_ino,
		.size = (uint64_t)status->st_size,
		.changed_s = (uint64_t)status->st_mtim.tv_sec,
		.changed_ns = (uint64_t)status->st_mtim.tv_nsec,
	};
}

static int find_file(const struct gpu_drivers *drivers, const struct file_key *key)
{
	for (int i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (drivers->files[i] && drivers->files[i]->key.device == key->device &&
		    drivers->files[i]->key.inode == key->inode)
			return i;
	}
	return -1;
}

static bool is_refused(const struct gpu_drivers *drivers, const struct file_key *key)
{
	for (int i = 0; i < REFUSED_MAX; i++) {
		if (memcmp(&drivers->refused[i], key, sizeof(*key)) == 0)
			return true;
	}
	return false;
}

static const struct library *library_by_path(const char *path)
{
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; slash && i < ARRAY_SIZE(libraries); i++) {
		if (strncmp(slash + 1, libraries[i].prefix, strlen(libraries[i].prefix)) == 0)
			return &libraries[i];
	}
	return NULL;
}

static bool has_soname(const struct elf_symbols *symbols, const char *soname)
{
	const Elf64_Shdr *section = elf_symbols_find_section(symbols, ".dynamic");
	const Elf64_Shdr *strings = elf_symbols_find_section(symbols, ".dynstr");
	char found[SONAME_BYTES];
	size_t size = strlen(soname) + 1;
	Elf64_Dyn entry;

	for (uint64_t i = 0; section && strings && i < DYNAMIC_MAX; i++) {
		if (i >= section->sh_size / sizeof(entry) ||
		    elf_read(symbols->elf, section->sh_offset + i * sizeof(entry), &entry,
			     sizeof(entry)) ||
		    entry.d_tag == DT_NULL)
			return false;
		if (entry.d_tag != DT_SONAME)
			continue;
		return entry.d_un.d_val < strings->sh_size &&
		       !elf_read(symbols->elf, strings->sh_offset + entry.d_un.d_val, found,
				 size) &&
		       memcmp(found, soname, size) == 0;
	}
	return false;
}

/* Does the file have the soname and the symbol? @ret_id is "" if it has no build id. */
static bool is_library(int fd, const struct stat *status, const struct library *library,
		       char ret_id[BUILD_ID_TEXT_BYTES])
{
	struct elf_symbols symbols;
	struct error err;
	Elf64_Sym symbol;
	struct elf elf;

	if (elf_read_headers(fd, status, &elf, &err) || elf_symbols_init(&symbols, &elf))
		return false;
	bool is = has_soname(&symbols, library->soname) &&
		  (!library->symbol ||
		   !elf_symbols_find_exported(&symbols, library->symbol, &symbol));
	elf_symbols_deinit(&symbols);
	ret_id[0] = '\0';
	if (is)
		build_id_of_elf(&elf, ret_id);
	return is;
}

static int find_hole(const struct gpu_drivers *drivers)
{
	for (int i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (!drivers->files[i])
			return i;
	}
	return -ENOSPC;
}

/* Takes over @fd. Returns the file's position; -ENOEXEC if it is another library; -errno. */
static int add_file(struct gpu_drivers *drivers, int fd, const struct library *library,
		    const char *path)
{
	_cleanup_close_ int owned = fd;
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	struct file_key key = key_of(&status);
	int at = find_file(drivers, &key);
	if (at >= 0) // known by another path
		return at;
	_cleanup_free_ struct file *file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->key = key;
	if (!is_library(fd, &status, library, file->driver.build_id)) {
		drivers->refused[drivers->refused_at++ % REFUSED_MAX] = key;
		return -ENOEXEC;
	}
	at = find_hole(drivers);
	if (at < 0) {
		drivers->dropped++;
		return at;
	}
	file->driver.number = ++drivers->last_number;
	file->driver.library = library->library;
	file->driver.fd = take_fd(owned);
	snprintf(file->driver.path, sizeof(file->driver.path), "%s", path);
	drivers->files[at] = take(file);
	return at;
}

static void drop_file(struct gpu_drivers *drivers, int at)
{
	struct file *file = take(drivers->files[at]);

	if (file->is_reported)
		drivers->listener.gone(drivers->listener.context, &file->driver);
	close(file->driver.fd);
	free(file);
	for (uint32_t i = 0; i < drivers->record_count; i++) {
		// Processes that still map it are looked through again.
		if (drivers->records[i].files & 1ULL << at)
			drivers->records[i].generation = 0;
		drivers->records[i].files &= ~(1ULL << at);
	}
}

/*
 * Was the file overwritten in place? Then the probes would be breakpoints in the midst of new code: remove them, and
 * find sites anew.
 */
static bool is_written(const struct file *file)
{
	struct statx now;

	// DONT_SYNC: a file server may hang.
	if (statx(file->driver.fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &now))
		return false;
	return now.stx_size != file->key.size ||
	       (uint64_t)now.stx_mtime.tv_sec != file->key.changed_s ||
	       now.stx_mtime.tv_nsec != file->key.changed_ns;
}

// ---- processes ------------------------------------------------------------------------------

static bool record_equals(const void *context, uint32_t item, const void *key)
{
	const struct gpu_drivers *drivers = context;

	return memcmp(&drivers->records[item].key, key, sizeof(struct process_key)) == 0;
}

static struct record *find_record(const struct gpu_drivers *drivers, const struct process_key *key)
{
	uint32_t item = hash_table_find(&drivers->by_key, hash64_of(key, sizeof(*key)),
					record_equals, drivers, key);

	return item == HASH_TABLE_NONE ? NULL : &drivers->records[item];
}

static struct record *add_record(struct gpu_drivers *drivers, const struct process_key *key)
{
	uint32_t item = drivers->record_count;

	if (array_reserve(&drivers->records, sizeof(*drivers->records), &drivers->record_capacity,
			  item, 1, UINT32_MAX))
		return NULL;
	drivers->records[item] = (struct record){ .key = *key, .round = drivers->round };
	if (hash_table_add(&drivers->by_key, hash64_of(key, sizeof(*key)), item))
		return NULL;
	drivers->record_count++;
	return &drivers->records[item];
}

static void drop_record(struct gpu_drivers *drivers, uint32_t item)
{
	uint32_t last = drivers->record_count - 1;
	const struct process_key *key = &drivers->records[item].key;

	hash_table_remove(&drivers->by_key, hash64_of(key, sizeof(*key)), item);
	if (item != last) {
		key = &drivers->records[last].key;
		hash_table_remove(&drivers->by_key, hash64_of(key, sizeof(*key)), last);
		drivers->records[item] = drivers->records[last];
		// Cannot fail: it was in the table until a line ago.
		hash_table_add(&drivers->by_key, hash64_of(key, sizeof(*key)), item);
	}
	drivers->record_count--;
}

/* The position of the mapping's file, which is added if new; -ENOEXEC if it is another library; -errno. */
static int file_of_mapping(struct gpu_drivers *drivers, const struct library *library, int folder,
			   const struct mapping_list *list, const struct mapping *mapping)
{
	struct stat status;

	if (!mapped_file_stat(folder, mapping, &status)) {
		struct file_key key = key_of(&status);
		int at = find_file(drivers, &key);

		if (at >= 0 || is_refused(drivers, &key))
			return at >= 0 ? at : -ENOEXEC;
	}
	int fd = mapped_file_open(folder, list, mapping);
	return fd < 0 ? fd : add_file(drivers, fd, library, mapping_path(list, mapping));
}

static bool may_be_opened_later(int rc)
{
	return rc == -ETIMEDOUT || rc == -EBUSY || rc == -EMFILE || rc == -ENOMEM;
}

// ---- public ---------------------------------------------------------------------------------

struct gpu_drivers *gpu_drivers_new(const struct gpu_driver_listener *listener)
{
	struct gpu_drivers *drivers = calloc(1, sizeof(*drivers));

	if (drivers)
		drivers->listener = *listener;
	return drivers;
}

void gpu_drivers_free(struct gpu_drivers *drivers)
{
	if (!drivers)
		return;
	for (int i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (drivers->files[i])
			drop_file(drivers, i);
	}
	free(drivers->records);
	hash_table_deinit(&drivers->by_key);
	free(drivers);
}

void gpu_drivers_begin(struct gpu_drivers *drivers)
{
	drivers->round++;
	for (int i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (drivers->files[i] && is_written(drivers->files[i]))
			drop_file(drivers, i);
	}
}

bool gpu_drivers_knows(struct gpu_drivers *drivers, const struct process_key *key,
		       uint64_t generation)
{
	struct record *record = find_record(drivers, key);

	if (record)
		record->round = drivers->round;
	// An unknown generation: keep what was known.
	return !generation || (record && record->generation == generation);
}

void gpu_drivers_note(struct gpu_drivers *drivers, const struct process_key *key,
		      uint64_t generation, int folder, const struct mapping_list *list)
{
	struct record *record = find_record(drivers, key);
	bool again = false;

	if (!record)
		record = add_record(drivers, key);
	if (!record)
		return;
	record->round = drivers->round;
	record->files = 0;
	for (uint32_t i = 0; i < list->count; i++) {
		const struct library *library =
			library_by_path(mapping_path(list, &list->mappings[i]));
		int at = library ? file_of_mapping(drivers, library, folder, list,
						   &list->mappings[i])
				 : -ENOEXEC;

		if (at >= 0)
			record->files |= 1ULL << at;
		again |= may_be_opened_later(at);
	}
	record->tries = again ? record->tries + 1 : 0;
	record->generation = again && record->tries < TRIES_MAX ? 0 : generation;
}

static void count_processes(struct gpu_drivers *drivers, uint32_t counts[GPU_DRIVERS_MAX])
{
	for (uint32_t i = drivers->record_count; i-- > 0;) {
		if (drivers->records[i].round != drivers->round) {
			drop_record(drivers, i);
			continue;
		}
		for (uint64_t left = drivers->records[i].files; left; left &= left - 1)
			counts[__builtin_ctzll(left)]++;
	}
}

static bool has_driver(const struct gpu_drivers *drivers)
{
	for (int i = 0; i < GPU_DRIVERS_MAX; i++)
		if (drivers->files[i] && drivers->files[i]->driver.library == GPU_LIBRARY_CUDA)
			return true;
	return false;
}

void gpu_drivers_end(struct gpu_drivers *drivers, uint64_t now_ns)
{
	bool is_gpu_used = has_driver(drivers);
	uint32_t counts[GPU_DRIVERS_MAX] = { 0 };

	count_processes(drivers, counts);
	for (int i = 0; i < GPU_DRIVERS_MAX; i++) {
		struct file *file = drivers->files[i];

		if (!file)
			continue;
		file->driver.processes = counts[i];
		if (counts[i])
			file->gone_ns = 0;
		else if (!file->gone_ns)
			file->gone_ns = now_ns;
		// PyTorch maps NCCL on nodes without a GPU, too: no probes there.
		if (!file->is_reported &&
		    (is_gpu_used || file->driver.library != GPU_LIBRARY_NCCL)) {
			file->is_reported = true;
			drivers->listener.come(drivers->listener.context, &file->driver);
		}
		if (file->gone_ns && now_ns - file->gone_ns >= GPU_DRIVER_LINGER_NS)
			drop_file(drivers, i);
	}
}

/* Processes whose mappings changed. */
struct search {
	struct gpu_drivers *drivers;
	struct process_key *keys;
	uint32_t count, capacity;
};

static void collect_process(void *context, const struct process *process)
{
	struct search *search = context;

	if (gpu_drivers_knows(search->drivers, &process->key, process_mappings_generation(process)))
		return;
	if (!array_reserve(&search->keys, sizeof(*search->keys), &search->capacity, search->count,
			   1, UINT32_MAX)) // out of memory: in the next round
		search->keys[search->count++] = process->key;
}

static void note_process(struct gpu_drivers *drivers, struct process_table *table,
			 const struct process_key *key)
{
	struct process *process = process_table_find(table, key);
	const struct mapping_list *list = process ? process_mappings(table, process) : NULL;
	struct proc proc;

	if (!list || proc_open((pid_t)key->pid, &proc))
		return;
	gpu_drivers_note(drivers, key, process_mappings_generation(process), proc.files, list);
	proc_close(&proc);
}

void gpu_drivers_update(struct gpu_drivers *drivers, struct process_table *table, uint64_t now_ns)
{
	struct search search = { .drivers = drivers };

	if (now_ns - drivers->updated_ns < UPDATE_INTERVAL_NS)
		return;
	drivers->updated_ns = now_ns;
	gpu_drivers_begin(drivers);
	process_table_each_sampled(table, collect_process, &search);
	for (uint32_t i = 0; i < search.count; i++)
		note_process(drivers, table, &search.keys[i]);
	free(search.keys);
	gpu_drivers_end(drivers, now_ns);
}

void gpu_drivers_each_process(const struct gpu_drivers *drivers, enum gpu_library library,
			      void (*fn)(void *context, const struct process_key *key),
			      void *context)
{
	uint64_t files = 0;

	for (int i = 0; i < GPU_DRIVERS_MAX; i++)
		files |= (uint64_t)(drivers->files[i] &&
				    drivers->files[i]->driver.library == library)
			 << i;
	for (uint32_t i = 0; files && i < drivers->record_count; i++) {
		if (drivers->records[i].files & files)
			fn(context, &drivers->records[i].key);
	}
}

uint32_t gpu_drivers_count(const struct gpu_drivers *drivers)
{
	uint32_t count = 0;

	for (int i = 0; i < GPU_DRIVERS_MAX; i++)
		count += drivers->files[i] != NULL;
	return count;
}

uint64_t gpu_drivers_dropped(const struct gpu_drivers *drivers)
{
	return drivers->dropped;
}
