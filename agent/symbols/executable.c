// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/executable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id128.h"
#include "base/last_use.h"
#include "agent/elf/file_version.h"
#include "agent/elf/foreign_file.h"
#include "agent/guard/work.h"
#include "agent/symbols/executable_entry.h"
#include "agent/symbols/file_identity.h"
#include "agent/symbols/identity_cache.h"
#include "base/utf8.h"

// Symbols that were not looked up for so long are freed, and read again if need be.
#define SYMBOLS_IDLE_NS (10 * 60 * NS_PER_SECOND)

// Past this many, executable_table_trim() evicts executables that no process maps.
enum { EXECUTABLES_KEPT = EXECUTABLES_MAX - EXECUTABLES_MAX / 8 };

enum {
	FILES_MAX = 2 * EXECUTABLES_MAX, // images hold copies of an executable
	HASHED_AGAIN_MAX =
		4, // a file's change time changes with its names and links; by a hostile hand, for ever
};

/* A file on a disk. Compared and hashed as bytes: no padding. */
struct executable_place {
	struct file_version version;
	uint64_t root_device,
		root_inode; // of the processes whose own debug file it has; 0: of all others
};

/* Saves hashing it again for each process that maps it. */
struct executable_file {
	struct executable_place place;
	struct executable_entry *entry;
};

/* ---- life ---------------------------------------------------------------------------------- */

static void close_file(struct executable_table *table, struct executable_entry *entry)
{
	if (entry->fd < 0)
		return;
	close(entry->fd);
	entry->fd = -1;
	table->open_count--;
}

static void free_entry(struct executable_table *table, struct executable_entry *entry)
{
	if (!entry)
		return;
	executable_entry_free_symbols(table, entry);
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
		executable_entry_of(executable)->holders++;
	return executable;
}

void executable_release(struct executable *executable)
{
	if (executable)
		executable_entry_of(executable)->holders--;
}

/* By name: an open folder would keep its process's entry in /proc. */
static void note_folder(struct executable_entry *entry, int folder)
{
	char link[EXECUTABLE_FOLDER_BYTES];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
	ssize_t size = readlink(link, entry->folder, sizeof(entry->folder));
	// A cut name is no name.
	entry->folder[size > 0 && size < (ssize_t)sizeof(entry->folder) ? size : 0] = '\0';
}

bool executable_wants_file(const struct executable *executable)
{
	const struct executable_entry *entry = (const struct executable_entry *)executable;

	return entry->fd < 0 || entry->is_stale;
}

/* Who deletes or renames a file changes its version, not its content. */
static bool has_same_content(struct executable_entry *entry)
{
	char content[FILE_CONTENT_TEXT_BYTES];

	return entry->hashed_again++ < HASHED_AGAIN_MAX &&
	       file_content_of(entry->fd, &entry->version, content) == 0 &&
	       strcmp(content, entry->content) == 0;
}

bool executable_entry_has_file(struct executable_entry *entry)
{
	if (entry->fd < 0 || entry->is_stale)
		return false;
	entry->is_stale =
		!file_version_is_of(&entry->version, entry->fd) && !has_same_content(entry);
	return !entry->is_stale;
}

int executable_open_file(struct executable *executable, struct file_version *ret_version)
{
	struct executable_entry *entry = executable_entry_of(executable);

	if (!executable_entry_has_file(entry))
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

static struct executable_entry *find_key(const struct executable_table *table, const char *key)
{
	uint32_t item = hash_table_find(&table->by_key, hash_of_text(key), key_equals, table, key);

	return item == HASH_TABLE_NONE ? NULL : table->entries[item];
}

/* The system's files with a build id, but one. */
struct system_file {
	const char *id;
	const struct executable_entry *but;
};

static bool is_system_file(const void *context, uint32_t item, const void *key)
{
	const struct executable_table *table = context;
	const struct executable_entry *entry = table->entries[item];
	const struct system_file *wanted = key;

	return entry->is_system && entry != wanted->but &&
	       strcmp(entry->executable.id, wanted->id) == 0;
}

static struct executable_entry *find_system_file(const struct executable_table *table,
						 const struct system_file *wanted)
{
	uint32_t item = hash_table_find(&table->by_id, hash_of_text(wanted->id), is_system_file,
					table, wanted);

	return item == HASH_TABLE_NONE ? NULL : table->entries[item];
}

struct executable *executable_table_find_system_file(const struct executable_table *table,
						     const char *id)
{
	struct executable_entry *first = find_system_file(table, &(struct system_file){ id, NULL });

	if (!first || find_system_file(table, &(struct system_file){ id, first }))
		return NULL;
	return &first->executable;
}

static bool file_equals(const void *context, uint32_t item, const void *key)
{
	const struct executable_table *table = context;

	return memcmp(&table->files[item].place, key, sizeof(struct executable_place)) == 0;
}

static struct executable_entry *find_file(const struct executable_table *table,
					  const struct executable_place *place)
{
	uint32_t item = hash_table_find(&table->by_file, hash64_of(place, sizeof(*place)),
					file_equals, table, place);

	return item == HASH_TABLE_NONE ? NULL : table->files[item].entry;
}

struct executable *executable_table_find_file(const struct executable_table *table,
					      const struct stat *status)
{
	struct executable_place place = { .version = file_version_of(status) };
	struct executable_entry *entry = find_file(table, &place);

	return entry ? &entry->executable : NULL;
}

static void clear_files(struct executable_table *table)
{
	hash_table_clear(&table->by_file);
	table->file_count = 0;
}

/* Without memory the file is identified again next time. */
static void add_file(struct executable_table *table, const struct executable_place *place,
		     struct executable_entry *entry)
{
	if (find_file(table, place))
		return;
	if (table->file_count == FILES_MAX)
		clear_files(table);
	if (array_reserve(&table->files, sizeof(*table->files), &table->file_capacity,
			  table->file_count, 1, FILES_MAX) ||
	    hash_table_add(&table->by_file, hash64_of(place, sizeof(*place)), table->file_count))
		return;
	table->files[table->file_count++] = (struct executable_file){ *place, entry };
}

/* ---- opening ------------------------------------------------------------------------------- */

void executable_table_close_oldest(struct executable_table *table)
{
	struct executable_entry *oldest = NULL;

	for (uint32_t i = 0; i < table->slot_count; i++) {
		struct executable_entry *entry = table->entries[i];

		if (entry && (entry->fd >= 0 || entry->symbols.debug_fd >= 0) &&
		    (!oldest || entry->used_ns < oldest->used_ns))
			oldest = entry;
	}
	if (!oldest)
		return;
	close_file(table, oldest);
	if (oldest->symbols.debug_fd >= 0)
		executable_entry_free_symbols(table, oldest);
}

/* Without a descriptor to spare the executable only has its identity. */
static void keep_file(struct executable_table *table, struct executable_entry *entry, int fd,
		      const struct file_version *version)
{
	close_file(table, entry);
	if (table->open_count >= EXECUTABLE_FILES_OPEN_MAX)
		executable_table_close_oldest(table);
	entry->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	entry->version = *version;
	entry->is_stale = false;
	if (entry->fd >= 0)
		table->open_count++;
}

static int add_slot(struct executable_table *table, struct executable_entry *entry,
		    uint32_t *ret_item)
{
	uint32_t item = table->slot_count;

	if (table->count < table->slot_count) // some were evicted
		for (item = 0; table->entries[item]; item++)
			;
	const char *id = entry->executable.id, *key = entry->executable.key;
	int rc = array_reserve(&table->entries, sizeof(struct executable_entry *), &table->capacity,
			       item, 1, EXECUTABLES_MAX);
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
		     const char *path, struct executable_entry **ret_entry, struct error *err)
{
	if (table->count >= EXECUTABLES_MAX)
		return error_set(err, -ENOSPC, "%s: executable not read: table full (limit %u)",
				 path, table->count);
	if (!shares_may_take(&table->held, work_payer(), table->count, EXECUTABLES_MAX))
		return error_set(err, -ENOSPC,
				 "%s: executable not read: as many are left for other containers",
				 path);

	struct executable_entry *entry = calloc(1, sizeof(*entry));
	uint32_t item;
	if (!entry)
		return error_set(err, -ENOMEM, "%s: out of memory", path);
	entry->fd = -1;
	entry->debug_fd = -1;
	entry->symbols.debug_fd = -1;
	entry->serial = table->next_serial++;
	entry->executable.number = entry->serial + 1;
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
	struct executable_entry *entry = find_key(table, id);
	struct file_identity identity = { 0 };

	snprintf(identity.id, sizeof(identity.id), "%s", id);
	snprintf(identity.key, sizeof(identity.key), "%s", id);
	if (!entry && add_entry(table, &identity, path, &entry, NULL))
		return NULL;
	return &entry->executable;
}

static int find_or_add(struct executable_table *table, const struct opened_file *file,
		       const struct file_identity *identity, struct executable_entry **ret_entry,
		       struct error *err)
{
	struct executable_entry *entry = find_key(table, identity->key);

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
		      struct executable_entry **ret_entry, struct error *err)
{
	struct executable_place place = { .version = file->version }, own = place;
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
	struct executable_entry *entry;

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
		struct executable_entry *entry = table->entries[i];

		if (!entry)
			continue;
		if (!entry->holders)
			close_file(table, entry);
		if (entry->symbols.table && now - entry->used_ns > SYMBOLS_IDLE_NS)
			executable_entry_free_symbols(table, entry);
	}
	if (table->count > EXECUTABLES_KEPT)
		evict_least_recently_used(table, table->count - EXECUTABLES_KEPT);
}

uint64_t executable_table_count(const struct executable_table *table)
{
	return table->count;
}
