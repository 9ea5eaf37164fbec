// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/executable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/symbols/debuginfod.h"
#include "base/symbols/demangle.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "base/last_use.h"
#include "agent/elf/build_id.h"
#include "agent/elf/elf.h"
#include "agent/symbols/file_symbols.h"
#include "agent/symbols/symbol_name_cache.h"
#include "base/utf8.h"

// Symbols that were not looked up for so long are freed, and read again if need be.
#define SYMBOLS_IDLE_NS (10 * 60 * NS_PER_SECOND)

// Past this many, executable_table_trim() evicts executables that no process maps.
enum { EXECUTABLES_KEPT = EXECUTABLES_MAX - EXECUTABLES_MAX / 8 };

enum {
	FILES_MAX = 2 * EXECUTABLES_MAX, // images hold copies of an executable
	FOLDER_BYTES = 64,
};

struct entry {
	struct executable executable; // first: the public pointer is also the entry's
	uint64_t serial;              // never used twice: key of cached names
	uint64_t used_ns;
	uint32_t holders;
	int fd;                      // -1: closed
	char folder[FOLDER_BYTES];   // in /proc of a process that maps it; "": unknown
	struct file_symbols symbols; // without a table: not read
	int debug_fd;                // from debuginfod, not read yet; -1: none
	bool awaits_debug;           // requested from debuginfod
	bool deferred;               // symbols: no CPU time left in this interval
	bool unreadable;             // symbols: reading failed, not tried again
};

/* A file on a disk: saves reading the identity again for each process that maps it. */
struct file_key {
	uint64_t device;
	uint64_t inode;
	uint64_t size;
	int64_t changed_seconds;
	int64_t changed_ns;
};

struct file {
	struct file_key key;
	struct entry *entry;
};

struct executable_table {
	struct entry **entries; // NULL where evicted
	uint32_t slot_count, capacity, count;
	struct hash_table by_id;
	struct file *files;
	uint32_t file_count, file_capacity;
	struct hash_table by_file;
	struct symbol_name_cache names;
	uint64_t next_serial;
	uint64_t symbol_bytes;
	uint32_t open_count; // of files and debug files
	struct debuginfod *debuginfod;
	uint64_t debuginfod_answers; // seen so far
	uint64_t reading_ns;         // CPU time spent in this export interval
};

static struct entry *entry_of(struct executable *executable)
{
	return (struct entry *)executable;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void close_file(struct executable_table *table, struct entry *entry)
{
	if (entry->fd < 0)
		return;
	close(entry->fd);
	entry->fd = -1;
	table->open_count--;
}

static void free_symbols(struct executable_table *table, struct entry *entry)
{
	if (!entry->symbols.table)
		return;
	table->symbol_bytes -= file_symbols_bytes(&entry->symbols);
	table->open_count -= entry->symbols.debug_fd >= 0;
	file_symbols_deinit(&entry->symbols);
	entry->serial = table->next_serial++; // the next table may number symbols otherwise
}

static void free_entry(struct executable_table *table, struct entry *entry)
{
	if (!entry)
		return;
	free_symbols(table, entry);
	close_file(table, entry);
	cleanup_closep(&entry->debug_fd);
	free(entry->executable.id);
	free(entry->executable.path);
	free(entry);
}

struct executable_table *executable_table_new(void)
{
	return calloc(1, sizeof(struct executable_table));
}

void executable_table_use_debuginfod(struct executable_table *table, struct debuginfod *debuginfod)
{
	table->debuginfod = debuginfod;
}

void executable_table_free(struct executable_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->slot_count; i++)
		free_entry(table, table->entries[i]);
	free(table->entries);
	free(table->files);
	hash_table_deinit(&table->by_id);
	hash_table_deinit(&table->by_file);
	symbol_name_cache_deinit(&table->names);
	free(table);
}

struct executable *executable_hold(struct executable *executable)
{
	if (executable)
		entry_of(executable)->holders++;
	return executable;
}

void executable_release(struct executable *executable)
{
	if (executable)
		entry_of(executable)->holders--;
}

/* By name: an open folder would keep its process's entry in /proc. */
void executable_note_folder(struct executable *executable, int folder)
{
	struct entry *entry = entry_of(executable);
	char link[FOLDER_BYTES];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
	ssize_t size = readlink(link, entry->folder, sizeof(entry->folder));
	// A cut name is no name.
	entry->folder[size > 0 && size < (ssize_t)sizeof(entry->folder) ? size : 0] = '\0';
}

bool executable_may_learn_names(const struct executable *executable)
{
	const struct entry *entry = (const struct entry *)executable;

	return entry->awaits_debug || entry->deferred;
}

bool executable_wants_file(const struct executable *executable)
{
	return ((const struct entry *)executable)->fd < 0;
}

int executable_open_file(const struct executable *executable)
{
	const struct entry *entry = (const struct entry *)executable;

	if (entry->fd < 0)
		return -ENOENT;
	int fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

/* ---- by identity and by file --------------------------------------------------------------- */

static bool id_equals(const void *context, uint32_t item, const void *key)
{
	const struct executable_table *table = context;

	return strcmp(table->entries[item]->executable.id, key) == 0;
}

static struct entry *find_id(const struct executable_table *table, const char *id)
{
	uint32_t item =
		hash_table_find(&table->by_id, hash64_of(id, strlen(id)), id_equals, table, id);

	return item == HASH_TABLE_NONE ? NULL : table->entries[item];
}

struct executable *executable_table_find_id(const struct executable_table *table, const char *id)
{
	struct entry *entry = find_id(table, id);

	return entry ? &entry->executable : NULL;
}

static struct file_key file_key_of(const struct stat *status)
{
	return (struct file_key){
		.device = status->st_dev,
		.inode = status->st_ino,
		.size = (uint64_t)status->st_size,
		.changed_seconds = status->st_mtim.tv_sec,
		.changed_ns = status->st_mtim.tv_nsec,
	};
}

static bool file_equals(const void *context, uint32_t item, const void *key)
{
	const struct executable_table *table = context;

	return memcmp(&table->files[item].key, key, sizeof(struct file_key)) == 0;
}

static struct entry *find_file(const struct executable_table *table, const struct file_key *key)
{
	uint32_t item = hash_table_find(&table->by_file, hash64_of(key, sizeof(*key)), file_equals,
					table, key);

	return item == HASH_TABLE_NONE ? NULL : table->files[item].entry;
}

struct executable *executable_table_find_file(const struct executable_table *table,
					      const struct stat *status)
{
	struct file_key key = file_key_of(status);
	struct entry *entry = find_file(table, &key);

	return entry ? &entry->executable : NULL;
}

static void clear_files(struct executable_table *table)
{
	hash_table_clear(&table->by_file);
	table->file_count = 0;
}

/* Without memory the file is identified again next time. */
static void add_file(struct executable_table *table, const struct file_key *key,
		     struct entry *entry)
{
	if (find_file(table, key))
		return;
	if (table->file_count == FILES_MAX)
		clear_files(table);
	if (array_reserve(&table->files, sizeof(*table->files), &table->file_capacity,
			  table->file_count, 1, FILES_MAX) ||
	    hash_table_add(&table->by_file, hash64_of(key, sizeof(*key)), table->file_count))
		return;
	table->files[table->file_count++] = (struct file){ *key, entry };
}

/* ---- opening ------------------------------------------------------------------------------- */

static void close_least_recently_used(struct executable_table *table)
{
	struct entry *oldest = NULL;

	for (uint32_t i = 0; i < table->slot_count; i++) {
		struct entry *entry = table->entries[i];

		if (entry && (entry->fd >= 0 || entry->symbols.debug_fd >= 0) &&
		    (!oldest || entry->used_ns < oldest->used_ns))
			oldest = entry;
	}
	if (!oldest)
		return;
	close_file(table, oldest);
	if (oldest->symbols.debug_fd >= 0)
		free_symbols(table, oldest);
}

/* Without a descriptor to spare the executable only has its identity. */
static void keep_file(struct executable_table *table, struct entry *entry, int fd)
{
	close_file(table, entry);
	if (table->open_count >= EXECUTABLE_FILES_OPEN_MAX)
		close_least_recently_used(table);
	entry->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (entry->fd >= 0)
		table->open_count++;
}

static int add_slot(struct executable_table *table, struct entry *entry, uint32_t *ret_item)
{
	uint32_t item = table->slot_count;

	if (table->count < table->slot_count) // some were evicted
		for (item = 0; table->entries[item]; item++)
			;
	const char *id = entry->executable.id;
	int rc = array_reserve(&table->entries, sizeof(struct entry *), &table->capacity, item, 1,
			       EXECUTABLES_MAX);
	if (!rc)
		rc = hash_table_add(&table->by_id, hash64_of(id, strlen(id)), item);
	if (rc)
		return rc;
	if (item == table->slot_count)
		table->slot_count++;
	table->entries[item] = entry;
	table->count++;
	*ret_item = item;
	return 0;
}

static int add_entry(struct executable_table *table, const char *id, const char *path,
		     struct entry **ret_entry, struct error *err)
{
	if (table->count >= EXECUTABLES_MAX)
		return error_set(err, -ENOSPC, "%s: executable not read: table full (limit %u)",
				 path, table->count);

	struct entry *entry = calloc(1, sizeof(*entry));
	uint32_t item;
	if (!entry)
		return error_set(err, -ENOMEM, "%s: out of memory", path);
	entry->fd = -1;
	entry->debug_fd = -1;
	entry->symbols.debug_fd = -1;
	entry->serial = table->next_serial++;
	entry->executable.has_build_id = id[0] != 'h';
	entry->executable.id = strdup(id);
	entry->executable.path = strdup(path);
	if (!entry->executable.id || !entry->executable.path || add_slot(table, entry, &item)) {
		free_entry(table, entry);
		return error_set(err, -ENOMEM, "%s: out of memory", path);
	}
	utf8_clean(entry->executable.path);
	*ret_entry = entry;
	return 0;
}

struct executable *executable_table_add_id(struct executable_table *table, const char *id,
					   const char *path)
{
	struct entry *entry = find_id(table, id);

	if (!entry && add_entry(table, id, path, &entry, NULL))
		return NULL;
	return &entry->executable;
}

static int read_identity(int fd, const struct stat *status, const char *path,
			 char ret_id[BUILD_ID_TEXT_BYTES], struct error *err)
{
	struct error cause = { 0 };
	struct elf elf;

	int rc = elf_read_headers(fd, status, &elf, &cause);
	if (rc)
		return error_set(err, rc, "%s: %s", path, cause.text);
	if (build_id_of_elf(&elf, ret_id) == 0)
		return 0;
	rc = file_hash_of_elf(&elf, ret_id);
	return rc ? error_errno(err, rc, "%s: read to hash it", path) : 0;
}

int executable_table_open(struct executable_table *table, int fd, const char *path,
			  struct executable **ret_executable, struct error *err)
{
	struct stat status;
	char id[BUILD_ID_TEXT_BYTES];

	if (fstat(fd, &status))
		return error_errno(err, -errno, "%s: fstat", path);

	struct file_key key = file_key_of(&status);
	struct entry *entry = find_file(table, &key);
	if (!entry) {
		int rc = read_identity(fd, &status, path, id, err);
		if (rc)
			return rc;
		entry = find_id(table, id);
		// The stripped copy came first, this one may have symbols.
		if (entry && entry->symbols.table &&
		    symbol_table_count(entry->symbols.table) == 0) {
			free_symbols(table, entry);
			close_file(table, entry);
		}
		if (entry && entry->unreadable) {
			entry->unreadable = false;
			close_file(table, entry);
		}
		if (!entry) {
			rc = add_entry(table, id, path, &entry, err);
			if (rc)
				return rc;
		}
		add_file(table, &key, entry);
	}
	entry->used_ns = clock_monotonic_ns();
	if (entry->fd < 0)
		keep_file(table, entry, fd);
	*ret_executable = &entry->executable;
	return 0;
}

/* ---- symbols ------------------------------------------------------------------------------- */

static void free_least_recently_used(struct executable_table *table, const struct entry *but)
{
	struct entry *oldest = NULL;

	for (uint32_t i = 0; i < table->slot_count; i++) {
		struct entry *entry = table->entries[i];

		if (entry && entry != but && entry->symbols.table &&
		    (!oldest || entry->used_ns < oldest->used_ns))
			oldest = entry;
	}
	if (oldest)
		free_symbols(table, oldest);
}

/* Request a stripped file's debug file. Returns its descriptor, or -1: not there now. */
static int fetch_debug(struct executable_table *table, struct entry *entry)
{
	if (!table->debuginfod || !entry->executable.has_build_id)
		return -1;
	int fd = debuginfod_find(table->debuginfod, entry->executable.id);
	entry->awaits_debug = fd == -EAGAIN;
	return fd < 0 ? -1 : fd;
}

static int open_folder(const char *path)
{
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void close_search(struct debug_file_search *search)
{
	for (size_t i = 0; i < ARRAY_SIZE(search->folders); i++)
		cleanup_closep(&search->folders[i]);
}

/* A container's debug files may lie in its image, on the host, or in the agent's image. */
static struct debug_file_search open_search(const struct entry *entry)
{
	return (struct debug_file_search){
		.build_id = entry->executable.has_build_id ? entry->executable.id : NULL,
		.path = entry->executable.path,
		.folders = { entry->folder[0] ? open_folder(entry->folder) : -1,
			     open_folder("/proc/1"), open_folder("/proc/self") },
	};
}

static int read_with(struct entry *entry, int debug_fd)
{
	_cleanup_(close_search) struct debug_file_search search = open_search(entry);

	return file_symbols_read(entry->fd, &search, debug_fd, &entry->symbols);
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static int read_symbols(struct executable_table *table, struct entry *entry)
{
	uint64_t begin_ns = thread_cpu_ns();
	int rc = read_with(entry, take_fd(entry->debug_fd));

	if (!rc && file_symbols_want_more(&entry->symbols)) {
		int debug_fd = fetch_debug(table, entry);

		if (debug_fd >= 0) {
			file_symbols_deinit(&entry->symbols);
			rc = read_with(entry, debug_fd);
		}
	}
	table->reading_ns += thread_cpu_ns() - begin_ns;
	if (rc)
		return rc;

	table->symbol_bytes += file_symbols_bytes(&entry->symbols);
	table->open_count += entry->symbols.debug_fd >= 0;
	if (table->open_count > EXECUTABLE_FILES_OPEN_MAX)
		close_least_recently_used(table);
	uint64_t before = UINT64_MAX;
	while (table->symbol_bytes > EXECUTABLE_SYMBOL_MEMORY_MAX && table->symbol_bytes < before) {
		before = table->symbol_bytes;
		free_least_recently_used(table, entry);
	}
	return 0;
}

/* A symbol's demangled name, cached or read; NULL if it cannot be read. */
static const char *name_of(struct executable_table *table, struct entry *entry, uint32_t symbol)
{
	const char *cached = symbol_name_cache_find(&table->names, entry->serial, symbol);
	char mangled[SYMBOL_NAME_BYTES];
	char name[DEMANGLED_BYTES_MAX];

	if (cached || entry->fd < 0)
		return cached;
	if (file_symbols_read_name(&entry->symbols, entry->fd, symbol, mangled))
		return NULL;
	demangle(mangled, name);
	return symbol_name_cache_add(&table->names, entry->serial, symbol, name);
}

int executable_find_symbol(struct executable_table *table, struct executable *executable,
			   uint64_t offset, struct symbol *ret_symbol)
{
	struct entry *entry = entry_of(executable);
	struct symbol_range range;

	entry->used_ns = clock_monotonic_ns();
	if (!entry->symbols.table && (entry->unreadable || entry->fd < 0))
		return -ENOENT;
	if (!entry->symbols.table && table->reading_ns >= EXECUTABLE_SYMBOLS_NS_MAX) {
		entry->deferred = true;
		return -EAGAIN;
	}
	if (!entry->symbols.table && read_symbols(table, entry)) {
		entry->unreadable = true;
		return -ENOENT;
	}
	if (symbol_table_find(entry->symbols.table, offset, &range))
		return -ENOENT;
	const char *name = name_of(table, entry, range.index);
	if (!name)
		return -ENOENT;
	*ret_symbol = (struct symbol){
		.name = name,
		.start_offset = range.start_offset,
		.size = range.size,
	};
	return 0;
}

static int open_debug(const struct entry *entry, const struct debug_file_search *search)
{
	struct stat status;
	struct elf elf;

	if (fstat(entry->fd, &status) || elf_read_headers(entry->fd, &status, &elf, NULL))
		return -1;
	int fd = debug_file_open(&elf, search);
	return fd < 0 ? -1 : fd;
}

int executable_open_lines(struct executable_table *table, struct executable *executable,
			  struct line_files *ret_files)
{
	struct entry *entry = entry_of(executable);
	struct line_files files = { .debug_fd = -1 };
	struct symbol symbol;

	// Reading symbols finds the debug file, or requests it from a server.
	executable_find_symbol(table, executable, 0, &symbol);
	files.fd = executable_open_file(executable);
	if (files.fd < 0)
		return files.fd;
	_cleanup_(close_search) struct debug_file_search search = open_search(entry);
	if (file_symbols_have_debug_file(&entry->symbols))
		files.debug_fd = fcntl(entry->symbols.debug_fd, F_DUPFD_CLOEXEC, 3);
	else if (!file_has_lines(files.fd))
		files.debug_fd = open_debug(entry, &search);
	files.alt_fd =
		debug_file_open_alt(files.debug_fd >= 0 ? files.debug_fd : files.fd, &search);
	*ret_files = files;
	return 0;
}

void line_files_close(struct line_files *files)
{
	cleanup_closep(&files->fd);
	cleanup_closep(&files->debug_fd);
	cleanup_closep(&files->alt_fd);
	*files = (struct line_files){ -1, -1, -1 };
}

static void allow_deferred(struct executable_table *table)
{
	bool any = table->reading_ns >= EXECUTABLE_SYMBOLS_NS_MAX;

	table->reading_ns = 0;
	for (uint32_t i = 0; any && i < table->slot_count; i++) {
		struct entry *entry = table->entries[i];

		if (!entry || !entry->deferred)
			continue;
		entry->deferred = false;
		entry->executable.symbols_version++;
	}
}

void executable_table_poll(struct executable_table *table)
{
	allow_deferred(table);
	if (!table->debuginfod ||
	    debuginfod_answers(table->debuginfod) == table->debuginfod_answers)
		return;
	table->debuginfod_answers = debuginfod_answers(table->debuginfod);
	for (uint32_t i = 0; i < table->slot_count; i++) {
		struct entry *entry = table->entries[i];

		if (!entry || !entry->awaits_debug)
			continue;
		int fd = fetch_debug(table, entry);
		if (fd < 0)
			continue;
		cleanup_closep(&entry->debug_fd);
		entry->debug_fd = fd;
		free_symbols(table, entry);
		entry->executable.symbols_version++;
	}
}

/* ---- trimming ------------------------------------------------------------------------------ */

static void evict_entry(struct executable_table *table, uint32_t item)
{
	const char *id = table->entries[item]->executable.id;

	hash_table_remove(&table->by_id, hash64_of(id, strlen(id)), item);
	free_entry(table, table->entries[item]);
	table->entries[item] = NULL;
	table->count--;
}

static void evict_least_recently_used(struct executable_table *table, uint32_t excess)
{
	_cleanup_free_ struct last_use *candidates = calloc(table->slot_count, sizeof(*candidates));
	uint32_t count = 0;

	if (!candidates)
		return; // in the next interval
	for (uint32_t i = 0; i < table->slot_count; i++)
		if (table->entries[i] && !table->entries[i]->holders)
			candidates[count++] = (struct last_use){ table->entries[i]->used_ns, i };
	qsort(candidates, count, sizeof(*candidates), last_use_compare);
	for (uint32_t i = 0; i < count && i < excess; i++)
		evict_entry(table, candidates[i].item);
	if (count) // files may point to evicted entries; processes bring them back
		clear_files(table);
}

void executable_table_trim(struct executable_table *table)
{
	uint64_t now = clock_monotonic_ns();

	for (uint32_t i = 0; i < table->slot_count; i++) {
		struct entry *entry = table->entries[i];

		if (!entry)
			continue;
		if (!entry->holders)
			close_file(table, entry);
		if (entry->symbols.table && now - entry->used_ns > SYMBOLS_IDLE_NS)
			free_symbols(table, entry);
	}
	if (table->count > EXECUTABLES_KEPT)
		evict_least_recently_used(table, table->count - EXECUTABLES_KEPT);
}

uint64_t executable_table_count(const struct executable_table *table)
{
	return table->count;
}

uint64_t executable_table_symbol_bytes(const struct executable_table *table)
{
	return table->symbol_bytes + symbol_name_cache_bytes(&table->names);
}
