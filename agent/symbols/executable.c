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
#include "agent/elf/elf.h"
#include "agent/elf/file_content.h"
#include "agent/elf/file_version.h"
#include "agent/elf/foreign_file.h"
#include "agent/guard/shares.h"
#include "agent/guard/work.h"
#include "agent/symbols/file_identity.h"
#include "agent/symbols/file_symbols.h"
#include "agent/symbols/identity_cache.h"
#include "agent/symbols/symbol_name_cache.h"
#include "base/utf8.h"

// Symbols that were not looked up for so long are freed, and read again if need be.
#define SYMBOLS_IDLE_NS (10 * 60 * NS_PER_SECOND)

// Past this many, executable_table_trim() evicts executables that no process maps.
enum { EXECUTABLES_KEPT = EXECUTABLES_MAX - EXECUTABLES_MAX / 8 };

enum {
	FILES_MAX = 2 * EXECUTABLES_MAX, // images hold copies of an executable
	FOLDER_BYTES = 64,
	HASHED_AGAIN_MAX =
		4, // a file's change time changes with its names and links; by a hostile hand, for ever
};

struct entry {
	struct executable executable; // first: the public pointer is also the entry's
	uint64_t serial;              // never used twice: key of cached names
	uint64_t used_ns;
	uint32_t holders;
	int fd;                                // -1: closed
	struct file_version version;           // of the open file, as it was hashed
	char content[FILE_CONTENT_TEXT_BYTES]; // its hash
	uint32_t hashed_again;
	bool is_stale;             // that was written since: it says nothing about the others
	bool is_system;            // root owns a file of it that nobody else may write
	char folder[FOLDER_BYTES]; // in /proc of a process whose debug file it has; "": none
	char debug_content[FILE_CONTENT_TEXT_BYTES]; // of that debug file; "": none
	struct file_symbols symbols;                 // without a table: not read
	int debug_fd;                                // from debuginfod, not read yet; -1: none
	bool awaits_debug;                           // requested from debuginfod
	bool deferred;                               // symbols: no CPU time left in this interval
	bool unreadable;                             // symbols: reading failed, not tried again
	uint64_t no_lines_until_ns; // no file with its lines was found: not looked for again
	uint32_t no_lines_version;  // of its symbols then
};

/* A file on a disk. Compared and hashed as bytes: no padding. */
struct file_place {
	struct file_version version;
	uint64_t root_device,
		root_inode; // of the processes whose own debug file it has; 0: of all others
};

/* Saves hashing it again for each process that maps it. */
struct file {
	struct file_place place;
	struct entry *entry;
};

struct executable_table {
	struct entry **entries; // NULL where evicted
	uint32_t slot_count, capacity, count;
	struct hash_table by_key;
	struct hash_table by_id; // several may have one id
	struct file *files;
	uint32_t file_count, file_capacity;
	struct hash_table by_file;
	struct symbol_name_cache names;
	uint64_t next_serial;
	uint64_t symbol_bytes;
	uint32_t open_count;               // of files and debug files
	struct identity_cache *identities; // NULL: all files are hashed
	struct debuginfod *debuginfod;
	uint64_t debuginfod_answers; // seen so far
	struct shares held;          // executables, by payer
	struct shares reading;       // CPU time spent, by payer; past intervals' in part
	uint64_t reading_ns;         // in this export interval, by all
	bool any_deferred;
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
	free(entry->executable.key);
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

void executable_table_use_identities(struct executable_table *table,
				     struct identity_cache *identities)
{
	table->identities = identities;
}

void executable_table_free(struct executable_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->slot_count; i++)
		free_entry(table, table->entries[i]);
	free(table->entries);
	free(table->files);
	hash_table_deinit(&table->by_key);
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
static void note_folder(struct entry *entry, int folder)
{
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
	const struct entry *entry = (const struct entry *)executable;

	return entry->fd < 0 || entry->is_stale;
}

/* Who deletes or renames a file changes its version, not its content. */
static bool has_same_content(struct entry *entry)
{
	char content[FILE_CONTENT_TEXT_BYTES];

	return entry->hashed_again++ < HASHED_AGAIN_MAX &&
	       file_content_of(entry->fd, &entry->version, content) == 0 &&
	       strcmp(content, entry->content) == 0;
}

/* Is the open file still the one that was hashed? Else another file of the same content must take its place. */
static bool has_file(struct entry *entry)
{
	if (entry->fd < 0 || entry->is_stale)
		return false;
	entry->is_stale =
		!file_version_is_of(&entry->version, entry->fd) && !has_same_content(entry);
	return !entry->is_stale;
}

int executable_open_file(struct executable *executable, struct file_version *ret_version)
{
	struct entry *entry = entry_of(executable);

	if (!has_file(entry))
		return -ENOENT;
	int fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	*ret_version = entry->version;
	return fd;
}

/* ---- by identity and by file --------------------------------------------------------------- */

static uint64_t hash_of_text(const char *text)
{
	return hash64_of(text, strlen(text));
}

static bool key_equals(const void *context, uint32_t item, const void *key)
{
	const struct executable_table *table = context;

	return strcmp(table->entries[item]->executable.key, key) == 0;
}

static struct entry *find_key(const struct executable_table *table, const char *key)
{
	uint32_t item = hash_table_find(&table->by_key, hash_of_text(key), key_equals, table, key);

	return item == HASH_TABLE_NONE ? NULL : table->entries[item];
}

/* The system's files with a build id, but one. */
struct system_file {
	const char *id;
	const struct entry *but;
};

static bool is_system_file(const void *context, uint32_t item, const void *key)
{
	const struct executable_table *table = context;
	const struct entry *entry = table->entries[item];
	const struct system_file *wanted = key;

	return entry->is_system && entry != wanted->but &&
	       strcmp(entry->executable.id, wanted->id) == 0;
}

static struct entry *find_system_file(const struct executable_table *table,
				      const struct system_file *wanted)
{
	uint32_t item = hash_table_find(&table->by_id, hash_of_text(wanted->id), is_system_file,
					table, wanted);

	return item == HASH_TABLE_NONE ? NULL : table->entries[item];
}

struct executable *executable_table_find_system_file(const struct executable_table *table,
						     const char *id)
{
	struct entry *first = find_system_file(table, &(struct system_file){ id, NULL });

	if (!first || find_system_file(table, &(struct system_file){ id, first }))
		return NULL;
	return &first->executable;
}

static bool file_equals(const void *context, uint32_t item, const void *key)
{
	const struct executable_table *table = context;

	return memcmp(&table->files[item].place, key, sizeof(struct file_place)) == 0;
}

static struct entry *find_file(const struct executable_table *table, const struct file_place *place)
{
	uint32_t item = hash_table_find(&table->by_file, hash64_of(place, sizeof(*place)),
					file_equals, table, place);

	return item == HASH_TABLE_NONE ? NULL : table->files[item].entry;
}

struct executable *executable_table_find_file(const struct executable_table *table,
					      const struct stat *status)
{
	struct file_place place = { .version = file_version_of(status) };
	struct entry *entry = find_file(table, &place);

	return entry ? &entry->executable : NULL;
}

static void clear_files(struct executable_table *table)
{
	hash_table_clear(&table->by_file);
	table->file_count = 0;
}

/* Without memory the file is identified again next time. */
static void add_file(struct executable_table *table, const struct file_place *place,
		     struct entry *entry)
{
	if (find_file(table, place))
		return;
	if (table->file_count == FILES_MAX)
		clear_files(table);
	if (array_reserve(&table->files, sizeof(*table->files), &table->file_capacity,
			  table->file_count, 1, FILES_MAX) ||
	    hash_table_add(&table->by_file, hash64_of(place, sizeof(*place)), table->file_count))
		return;
	table->files[table->file_count++] = (struct file){ *place, entry };
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
static void keep_file(struct executable_table *table, struct entry *entry, int fd,
		      const struct file_version *version)
{
	close_file(table, entry);
	if (table->open_count >= EXECUTABLE_FILES_OPEN_MAX)
		close_least_recently_used(table);
	entry->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	entry->version = *version;
	entry->is_stale = false;
	if (entry->fd >= 0)
		table->open_count++;
}

static int add_slot(struct executable_table *table, struct entry *entry, uint32_t *ret_item)
{
	uint32_t item = table->slot_count;

	if (table->count < table->slot_count) // some were evicted
		for (item = 0; table->entries[item]; item++)
			;
	const char *id = entry->executable.id, *key = entry->executable.key;
	int rc = array_reserve(&table->entries, sizeof(struct entry *), &table->capacity, item, 1,
			       EXECUTABLES_MAX);
	if (!rc)
		rc = hash_table_add(&table->by_key, hash_of_text(key), item);
	if (rc)
		return rc;
	rc = hash_table_add(&table->by_id, hash_of_text(id), item);
	if (rc) {
		hash_table_remove(&table->by_key, hash_of_text(key), item);
		return rc;
	}
	if (item == table->slot_count)
		table->slot_count++;
	table->entries[item] = entry;
	table->count++;
	*ret_item = item;
	return 0;
}

static int add_entry(struct executable_table *table, const struct file_identity *identity,
		     const char *path, struct entry **ret_entry, struct error *err)
{
	if (table->count >= EXECUTABLES_MAX)
		return error_set(err, -ENOSPC, "%s: executable not read: table full (limit %u)",
				 path, table->count);
	if (!shares_may_take(&table->held, work_payer(), table->count, EXECUTABLES_MAX))
		return error_set(err, -ENOSPC,
				 "%s: executable not read: as many are left for other containers",
				 path);

	struct entry *entry = calloc(1, sizeof(*entry));
	uint32_t item;
	if (!entry)
		return error_set(err, -ENOMEM, "%s: out of memory", path);
	entry->fd = -1;
	entry->debug_fd = -1;
	entry->symbols.debug_fd = -1;
	entry->serial = table->next_serial++;
	entry->executable.has_build_id = identity->id[0] != 'h';
	entry->executable.id = strdup(identity->id);
	entry->executable.key = strdup(identity->key);
	entry->executable.path = strdup(path);
	memcpy(entry->content, identity->content, sizeof(entry->content));
	memcpy(entry->debug_content, identity->debug_content, sizeof(entry->debug_content));
	if (!entry->executable.id || !entry->executable.key || !entry->executable.path ||
	    add_slot(table, entry, &item)) {
		free_entry(table, entry);
		return error_set(err, -ENOMEM, "%s: out of memory", path);
	}
	utf8_clean(entry->executable.path);
	entry->executable.payer = work_payer();
	shares_take(&table->held, entry->executable.payer, 1);
	*ret_entry = entry;
	return 0;
}

struct executable *executable_table_add_id(struct executable_table *table, const char *id,
					   const char *path)
{
	struct entry *entry = find_key(table, id);
	struct file_identity identity = { 0 };

	snprintf(identity.id, sizeof(identity.id), "%s", id);
	snprintf(identity.key, sizeof(identity.key), "%s", id);
	if (!entry && add_entry(table, &identity, path, &entry, NULL))
		return NULL;
	return &entry->executable;
}

static int find_or_add(struct executable_table *table, const struct opened_file *file,
		       const struct file_identity *identity, struct entry **ret_entry,
		       struct error *err)
{
	struct entry *entry = find_key(table, identity->key);

	if (entry && entry->unreadable) { // this copy may be readable
		entry->unreadable = false;
		close_file(table, entry);
	}
	if (!entry) {
		int rc = add_entry(table, identity, file->path, &entry, err);
		if (rc)
			return rc;
	}
	if (identity->debug_content[0])
		note_folder(entry, file->folder);
	*ret_entry = entry;
	return 0;
}

static int identify(struct executable_table *table, const struct opened_file *file,
		    struct file_identity *ret_identity, struct error *err)
{
	uint64_t now_ns = clock_realtime_ns();

	if (table->identities && identity_cache_find(table->identities, file, ret_identity))
		return 0;
	int rc = file_identity_read(file, ret_identity, err);
	if (!rc && table->identities)
		identity_cache_add(table->identities, file, ret_identity, now_ns);
	return rc;
}

/* The entry of a file. Only its own container knows it by the container's debug file. */
static int find_entry(struct executable_table *table, struct opened_file *file,
		      struct entry **ret_entry, struct error *err)
{
	struct file_place place = { .version = file->version }, own = place;
	struct file_identity identity = { 0 };

	*ret_entry = find_file(table, &place);
	if (*ret_entry)
		return 0;
	opened_file_find_root(file);
	if (file->has_own_root) {
		own.root_device = file->root.st_dev;
		own.root_inode = file->root.st_ino;
		*ret_entry = find_file(table, &own);
	}
	if (*ret_entry)
		return 0;
	int rc = identify(table, file, &identity, err);
	if (!rc)
		rc = find_or_add(table, file, &identity, ret_entry, err);
	if (!rc)
		add_file(table, identity.debug_content[0] ? &own : &place, *ret_entry);
	return rc;
}

int executable_table_open_of(struct executable_table *table, int fd, int folder, const char *path,
			     struct executable **ret_executable, struct error *err)
{
	struct opened_file file = { .fd = fd, .folder = folder, .path = path };
	struct entry *entry;

	if (fstat(fd, &file.status))
		return error_errno(err, -errno, "%s: fstat", path);
	file.version = file_version_of(&file.status);
	int rc = find_entry(table, &file, &entry, err);
	if (rc)
		return rc;
	entry->is_system |= file_only_root_writes(&file.status);
	entry->used_ns = clock_monotonic_ns();
	if (entry->fd < 0 || entry->is_stale)
		keep_file(table, entry, fd, &file.version);
	*ret_executable = &entry->executable;
	return 0;
}

int executable_table_open(struct executable_table *table, int fd, const char *path,
			  struct executable **ret_executable, struct error *err)
{
	return executable_table_open_of(table, fd, -1, path, ret_executable, err);
}

void executable_table_charge(struct executable_table *table, struct executable *executable,
			     uint64_t payer)
{
	if (!executable->payer || executable->payer == payer ||
	    executable->payer == SHARES_SEVERAL ||
	    !shares_may_take(&table->held, SHARES_SEVERAL, table->count, EXECUTABLES_MAX))
		return;
	shares_give_back(&table->held, executable->payer, 1);
	shares_take(&table->held, SHARES_SEVERAL, 1);
	executable->payer = SHARES_SEVERAL;
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

/* Debug files may lie on the host, or in the agent's image; a container's own is part of the identity. */
static struct debug_file_search open_search(const struct entry *entry)
{
	return (struct debug_file_search){
		.build_id = entry->executable.has_build_id ? entry->executable.id : NULL,
		.path = entry->executable.path,
		.folders = { entry->folder[0] ? open_folder(entry->folder) : -1,
			     open_folder("/proc/1"), open_folder("/proc/self") },
	};
}

/* The debug file of the container, if it still is what the file was identified with; -1: none. */
static int open_own_debug(const struct entry *entry, const struct elf *elf,
			  const struct debug_file_search *all)
{
	struct debug_file_search search = *all;
	char content[FILE_CONTENT_TEXT_BYTES];

	if (!entry->debug_content[0] || search.folders[0] < 0)
		return -1;
	search.folders[1] = search.folders[2] = -1;
	_cleanup_close_ int fd = debug_file_open(elf, &search);
	if (fd < 0 || file_content_of(fd, NULL, content) ||
	    strcmp(content, entry->debug_content) != 0)
		return -1;
	return take_fd(fd);
}

static int read_elf(const struct entry *entry, struct elf *ret_elf)
{
	struct stat status;

	return fstat(entry->fd, &status) ? -errno
					 : elf_read_headers(entry->fd, &status, ret_elf, NULL);
}

static int read_with(struct entry *entry, int debug_fd)
{
	_cleanup_(close_search) struct debug_file_search search = open_search(entry);
	struct elf elf;

	if (debug_fd < 0 && read_elf(entry, &elf) == 0)
		debug_fd = open_own_debug(entry, &elf, &search);
	cleanup_closep(&search.folders[0]);
	return file_symbols_read(entry->fd, &search, debug_fd, &entry->symbols);
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static void charge_reading(struct executable_table *table, const struct entry *entry, uint64_t ns)
{
	table->reading_ns += ns;
	shares_take(&table->reading, entry->executable.payer, ns);
}

static bool may_read_symbols(const struct executable_table *table, const struct entry *entry)
{
	return shares_may_take(&table->reading, entry->executable.payer, table->reading_ns,
			       EXECUTABLE_SYMBOLS_NS_MAX);
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
	charge_reading(table, entry, thread_cpu_ns() - begin_ns);
	if (!has_file(entry)) {
		file_symbols_deinit(&entry->symbols);
		return 0;
	}
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
	if (file_symbols_read_name(&entry->symbols, entry->fd, symbol, mangled) || !has_file(entry))
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
	if (!entry->symbols.table && !may_read_symbols(table, entry)) {
		entry->deferred = table->any_deferred = true;
		return -EAGAIN;
	}
	if (!entry->symbols.table && read_symbols(table, entry)) {
		entry->unreadable = true;
		return -ENOENT;
	}
	if (!entry->symbols.table) // written meanwhile: from another file
		return -ENOENT;
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
	struct debug_file_search others = *search;
	struct elf elf;

	if (read_elf(entry, &elf))
		return -1;
	int fd = open_own_debug(entry, &elf, search);
	others.folders[0] = -1;
	if (fd < 0)
		fd = debug_file_open(&elf, &others);
	return fd < 0 ? -1 : fd;
}

static bool is_known_without_lines(const struct entry *entry)
{
	return entry->no_lines_version == entry->executable.symbols_version &&
	       clock_monotonic_ns() < entry->no_lines_until_ns;
}

static void note_without_lines(struct entry *entry)
{
	entry->no_lines_version = entry->executable.symbols_version;
	entry->no_lines_until_ns = clock_monotonic_ns() + NO_LINES_S * NS_PER_SECOND;
}

int executable_open_lines(struct executable_table *table, struct executable *executable,
			  struct line_files *ret_files)
{
	struct entry *entry = entry_of(executable);
	struct line_files files = { .debug_fd = -1 };
	struct file_version version;
	struct symbol symbol;

	if (is_known_without_lines(entry))
		return -ENODATA;
	// Reading symbols finds the debug file, or requests it from a server.
	executable_find_symbol(table, executable, 0, &symbol);
	files.fd = executable_open_file(executable, &version);
	if (files.fd < 0)
		return files.fd;
	_cleanup_(close_search) struct debug_file_search search = open_search(entry);
	if (file_symbols_have_debug_file(&entry->symbols))
		files.debug_fd = fcntl(entry->symbols.debug_fd, F_DUPFD_CLOEXEC, 3);
	else if (!file_has_lines(files.fd)) {
		files.debug_fd = open_debug(entry, &search);
		if (files.debug_fd < 0) {
			note_without_lines(entry);
			close(files.fd);
			return -ENODATA;
		}
	}
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
	bool any = table->any_deferred;

	table->any_deferred = false;
	table->reading_ns = 0;
	shares_give_back_all(&table->reading, WORK_PROCESS_NS_MAX);
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
	const struct executable *executable = &table->entries[item]->executable;

	shares_give_back(&table->held, executable->payer, 1);
	hash_table_remove(&table->by_key, hash_of_text(executable->key), item);
	hash_table_remove(&table->by_id, hash_of_text(executable->id), item);
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
