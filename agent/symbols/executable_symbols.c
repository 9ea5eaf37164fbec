// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/executable_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/elf/elf.h"
#include "agent/guard/work.h"
#include "agent/symbols/debug_file.h"
#include "agent/symbols/executable_entry.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/symbols/debuginfod.h"
#include "base/symbols/demangle.h"

void executable_table_use_debuginfod(struct executable_table *table, struct debuginfod *debuginfod)
{
	table->debuginfod = debuginfod;
}

bool executable_may_learn_names(const struct executable *executable)
{
	const struct executable_entry *entry = (const struct executable_entry *)executable;

	return entry->awaits_debug || entry->deferred;
}

void executable_entry_free_symbols(struct executable_table *table, struct executable_entry *entry)
{
	if (!entry->symbols.table)
		return;
	table->symbol_bytes -= file_symbols_bytes(&entry->symbols);
	table->open_count -= entry->symbols.debug_fd >= 0;
	file_symbols_deinit(&entry->symbols);
	entry->serial = table->next_serial++; // the next table may number symbols otherwise
}

static void free_least_recently_used(struct executable_table *table,
				     const struct executable_entry *but)
{
	struct executable_entry *oldest = NULL;

	for (uint32_t i = 0; i < table->slot_count; i++) {
		struct executable_entry *entry = table->entries[i];

		if (entry && entry != but && entry->symbols.table &&
		    (!oldest || entry->used_ns < oldest->used_ns))
			oldest = entry;
	}
	if (oldest)
		executable_entry_free_symbols(table, oldest);
}

/* Request a stripped file's debug file. Returns its descriptor, or -1: not there now. */
static int fetch_debug(struct executable_table *table, struct executable_entry *entry)
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
static struct debug_file_search open_search(const struct executable_entry *entry)
{
	return (struct debug_file_search){
		.build_id = entry->executable.has_build_id ? entry->executable.id : NULL,
		.path = entry->executable.path,
		.folders = { entry->folder[0] ? open_folder(entry->folder) : -1,
			     open_folder("/proc/1"), open_folder("/proc/self") },
	};
}

/* The debug file of the container, if it still is what the file was identified with; -1: none. */
static int open_own_debug(const struct executable_entry *entry, const struct elf *elf,
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

static int read_elf(const struct executable_entry *entry, struct elf *ret_elf)
{
	struct stat status;

	return fstat(entry->fd, &status) ? -errno
					 : elf_read_headers(entry->fd, &status, ret_elf, NULL);
}

static int read_with(struct executable_entry *entry, int debug_fd)
{
	_cleanup_(close_search) struct debug_file_search search = open_search(entry);
	struct elf elf;

	if (debug_fd < 0 && read_elf(entry, &elf) == 0)
		debug_fd = open_own_debug(entry, &elf, &search);
	cleanup_closep(&search.folders[0]);
	return file_symbols_read(entry->fd, &search, debug_fd, &entry->symbols);
}

static void charge_reading(struct executable_table *table, const struct executable_entry *entry,
			   uint64_t ns)
{
	table->reading_ns += ns;
	shares_take(&table->reading, entry->executable.payer, ns);
}

static bool may_read_symbols(const struct executable_table *table,
			     const struct executable_entry *entry)
{
	return shares_may_take(&table->reading, entry->executable.payer, table->reading_ns,
			       EXECUTABLE_SYMBOLS_NS_MAX);
}

static int read_symbols(struct executable_table *table, struct executable_entry *entry)
{
	uint64_t begin_ns = clock_thread_cpu_ns();
	int rc = read_with(entry, take_fd(entry->debug_fd));

	if (!rc && file_symbols_want_more(&entry->symbols)) {
		int debug_fd = fetch_debug(table, entry);

		if (debug_fd >= 0) {
			file_symbols_deinit(&entry->symbols);
			rc = read_with(entry, debug_fd);
		}
	}
	charge_reading(table, entry, clock_thread_cpu_ns() - begin_ns);
	if (!executable_entry_has_file(entry)) {
		file_symbols_deinit(&entry->symbols);
		return 0;
	}
	if (rc)
		return rc;

	table->symbol_bytes += file_symbols_bytes(&entry->symbols);
	table->open_count += entry->symbols.debug_fd >= 0;
	if (table->open_count > EXECUTABLE_FILES_OPEN_MAX)
		executable_table_close_oldest(table);
	uint64_t before = UINT64_MAX;
	while (table->symbol_bytes > EXECUTABLE_SYMBOL_MEMORY_MAX && table->symbol_bytes < before) {
		before = table->symbol_bytes;
		free_least_recently_used(table, entry);
	}
	return 0;
}

/* A symbol's demangled name, cached or read; NULL if it cannot be read. */
static const char *name_of(struct executable_table *table, struct executable_entry *entry,
			   uint32_t symbol)
{
	const char *cached = symbol_name_cache_find(&table->names, entry->serial, symbol);
	char mangled[SYMBOL_NAME_BYTES];
	char name[DEMANGLED_BYTES_MAX];

	if (cached || entry->fd < 0)
		return cached;
	if (file_symbols_read_name(&entry->symbols, entry->fd, symbol, mangled) ||
	    !executable_entry_has_file(entry))
		return NULL;
	demangle(mangled, name);
	return symbol_name_cache_add(&table->names, entry->serial, symbol, name);
}

int executable_find_symbol(struct executable_table *table, struct executable *executable,
			   uint64_t offset, struct symbol *ret_symbol)
{
	struct executable_entry *entry = executable_entry_of(executable);
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

static int open_debug(const struct executable_entry *entry, const struct debug_file_search *search)
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

static bool is_known_without_lines(const struct executable_entry *entry)
{
	return entry->no_lines_version == entry->executable.symbols_version &&
	       clock_monotonic_ns() < entry->no_lines_until_ns;
}

static void note_without_lines(struct executable_entry *entry)
{
	entry->no_lines_version = entry->executable.symbols_version;
	entry->no_lines_until_ns = clock_monotonic_ns() + NO_LINES_S * NS_PER_SECOND;
}

int executable_open_lines(struct executable_table *table, struct executable *executable,
			  struct line_files *ret_files)
{
	struct executable_entry *entry = executable_entry_of(executable);
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
		struct executable_entry *entry = table->entries[i];

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
		struct executable_entry *entry = table->entries[i];

		if (!entry || !entry->awaits_debug)
			continue;
		int fd = fetch_debug(table, entry);
		if (fd < 0)
			continue;
		cleanup_closep(&entry->debug_fd);
		entry->debug_fd = fd;
		executable_entry_free_symbols(table, entry);
		entry->executable.symbols_version++;
	}
}

uint64_t executable_table_symbol_bytes(const struct executable_table *table)
{
	return table->symbol_bytes + symbol_name_cache_bytes(&table->names);
}
