// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/symbolizer.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/symbols/demangle.h"
#include "base/symbols/source_line_cache.h"
#include "collector/symbols/debug_elf.h"
#include "collector/symbols/dwarf_process.h"

struct open_file {
	char id[DEBUG_ELF_ID_BYTES]; // "": free
	int fd;
	struct debug_elf *elf;
	struct dwarf_process *dwarf; // NULL: symbols only
	uint64_t used;               // the larger, the later
	uint32_t version;            // current_version() when it was opened
};

struct symbolizer {
	struct debug_files *files;
	struct debuginfod *debuginfod;
	struct confined_launcher *launcher;
	pthread_mutex_t lock;
	struct open_file open[SYMBOLIZER_FILES_OPEN];
	struct error failure; // of the first process that could not be started; code 0: none
	bool is_reported;
	uint64_t use;
	struct source_line_cache cache;
	char name[DEMANGLED_BYTES_MAX]; // of the current answer
};

struct symbolizer *symbolizer_new(struct debug_files *files, struct debuginfod *debuginfod,
				  struct confined_launcher *launcher)
{
	struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));

	if (!symbolizer)
		return NULL;
	symbolizer->files = files;
	symbolizer->debuginfod = debuginfod;
	symbolizer->launcher = launcher;
	pthread_mutex_init(&symbolizer->lock, NULL);
	for (uint32_t i = 0; i < SYMBOLIZER_FILES_OPEN; i++)
		symbolizer->open[i] = (struct open_file){ .fd = -1 };
	return symbolizer;
}

bool symbolizer_take_failure(struct symbolizer *symbolizer, struct error *ret_err)
{
	if (pthread_mutex_trylock(&symbolizer->lock))
		return false; // next time
	bool is_new = symbolizer->failure.code && !symbolizer->is_reported;
	symbolizer->is_reported |= is_new;
	if (is_new)
		*ret_err = symbolizer->failure;
	pthread_mutex_unlock(&symbolizer->lock);
	return is_new;
}

static void close_file(struct open_file *file)
{
	dwarf_process_close(file->dwarf);
	debug_elf_close(file->elf);
	cleanup_closep(&file->fd);
	*file = (struct open_file){ .fd = -1 };
}

void symbolizer_free(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	for (uint32_t i = 0; i < SYMBOLIZER_FILES_OPEN; i++)
		close_file(&symbolizer->open[i]);
	source_line_cache_deinit(&symbolizer->cache);
	pthread_mutex_destroy(&symbolizer->lock);
	free(symbolizer);
}

void symbolizer_forget(struct symbolizer *symbolizer)
{
	pthread_mutex_lock(&symbolizer->lock);
	for (uint32_t i = 0; i < SYMBOLIZER_FILES_OPEN; i++)
		close_file(&symbolizer->open[i]);
	source_line_cache_deinit(&symbolizer->cache);
	symbolizer->cache = (struct source_line_cache){ 0 };
	pthread_mutex_unlock(&symbolizer->lock);
}

/* ---- files --------------------------------------------------------------------------------- */

/* An uploaded file wins: somebody chose it. */
static int find_fd(struct symbolizer *symbolizer, const char *build_id)
{
	int fd = debug_files_find(symbolizer->files, build_id);

	if (fd < 0 && symbolizer->debuginfod)
		fd = debuginfod_find(symbolizer->debuginfod, build_id);
	return fd;
}

/* Changes when a debug file may have arrived: answers without a name are then looked up again. */
static uint32_t current_version(const struct symbolizer *symbolizer)
{
	uint32_t version = atomic_load(&symbolizer->files->version);

	return symbolizer->debuginfod
		       ? version + (uint32_t)debuginfod_answers(symbolizer->debuginfod)
		       : version;
}

static struct open_file *least_recently_used(struct symbolizer *symbolizer)
{
	struct open_file *oldest = &symbolizer->open[0];

	for (uint32_t i = 1; i < SYMBOLIZER_FILES_OPEN; i++)
		if (symbolizer->open[i].used < oldest->used)
			oldest = &symbolizer->open[i];
	return oldest;
}

static struct open_file *open_file(struct symbolizer *symbolizer, const char *build_id)
{
	struct open_file opened = { .fd = find_fd(symbolizer, build_id) };
	_cleanup_close_ int alt_fd = -1;
	char alt_id[DEBUG_ELF_ID_BYTES];

	if (opened.fd < 0)
		return NULL;
	if (debug_elf_open(opened.fd, &opened.elf, NULL)) {
		close_file(&opened);
		return NULL;
	}
	if (debug_elf_alt_id(opened.elf, alt_id) == 0)
		alt_fd = find_fd(symbolizer, alt_id);
	struct error *failure = symbolizer->failure.code ? NULL : &symbolizer->failure;
	dwarf_process_open(symbolizer->launcher, opened.fd, alt_fd, &opened.dwarf, failure);
	snprintf(opened.id, sizeof(opened.id), "%s", build_id);
	opened.version = current_version(symbolizer);

	struct open_file *file = least_recently_used(symbolizer);
	close_file(file);
	*file = opened;
	return file;
}

static struct open_file *use_file(struct symbolizer *symbolizer, const char *build_id)
{
	struct open_file *file = NULL;

	if (strlen(build_id) >= DEBUG_ELF_ID_BYTES)
		return NULL;
	for (uint32_t i = 0; i < SYMBOLIZER_FILES_OPEN && !file; i++)
		if (strcmp(symbolizer->open[i].id, build_id) == 0)
			file = &symbolizer->open[i];
	if (file && file->version != current_version(symbolizer)) { // there may be a better file
		close_file(file);
		file = NULL;
	}
	if (!file)
		file = open_file(symbolizer, build_id);
	if (file)
		file->used = ++symbolizer->use;
	return file;
}

/* ---- source lines -------------------------------------------------------------------------------- */

/* Returns 0; -ENOENT; -EAGAIN (not done within the budget). */
static int read_dwarf(const struct open_file *file, uint64_t address, uint64_t budget_ns,
		      struct source_lines *lines)
{
	const struct source_lines *found;
	int rc =
		file->dwarf ? dwarf_process_find(file->dwarf, address, budget_ns, &found) : -ENOENT;

	if (rc)
		return rc;
	lines->count = found->count;
	memcpy(lines->lines, found->lines, found->count * sizeof(*found->lines));
	return 0;
}

/* The symbol's name replaces DWARF's for the outermost function. Returns as read_dwarf(). */
static int read_lines(struct symbolizer *symbolizer, const struct open_file *file, uint64_t offset,
		      uint64_t budget_ns, struct source_lines *lines)
{
	uint64_t address;

	if (debug_elf_address(file->elf, offset, &address))
		return -ENOENT;
	const char *name = debug_elf_function(file->elf, address);
	*lines = (struct source_lines){ .start_offset = offset };
	int rc = read_dwarf(file, address, budget_ns, lines);
	if (rc && (rc == -EAGAIN || !name))
		return rc;
	if (rc) {
		lines->count = 1;
		lines->lines[0] = (struct source_line){ .file = "" };
	}
	struct source_line *outermost = &lines->lines[lines->count - 1];
	if (name) {
		demangle(name, symbolizer->name);
		outermost->name = symbolizer->name;
	}
	return outermost->name[0] ? 0 : -ENOENT;
}

static void read_location(struct symbolizer *symbolizer, const char *build_id,
			  const struct location *location, uint32_t version, uint64_t until_ns)
{
	struct open_file *file = use_file(symbolizer, build_id);
	struct source_lines lines;
	uint64_t now_ns = clock_monotonic_ns();
	int rc = file ? read_lines(symbolizer, file, location->offset, ns_between(now_ns, until_ns),
				   &lines)
		      : -ENOENT;

	// Not done in time: a later query asks again.
	if (rc == -EAGAIN || source_line_cache_ask(&symbolizer->cache, location->id, version))
		return;
	source_line_cache_answer(&symbolizer->cache, location->id, rc ? NULL : &lines);
}

static bool is_to_be_read(const struct cached_lines *known, uint32_t version)
{
	return !known || (!known->count && known->version != version);
}

int symbolizer_find(struct symbolizer *symbolizer, const struct profile *locations,
		    const struct location *location, uint64_t *budget_ns, symbolizer_lines_fn fn,
		    void *context)
{
	const char *build_id = profile_string(locations, location->build_id);
	uint32_t version = current_version(symbolizer);
	struct source_lines lines;
	int rc = -ENOENT;

	if (location->kind != FRAME_KIND_NATIVE || !build_id[0])
		return rc;
	pthread_mutex_lock(&symbolizer->lock);
	const struct cached_lines *known = source_line_cache_find(&symbolizer->cache, location->id);
	if (is_to_be_read(known, version) && *budget_ns) {
		uint64_t begin_ns = clock_monotonic_ns();

		read_location(symbolizer, build_id, location, version, begin_ns + *budget_ns);
		uint64_t spent_ns = clock_monotonic_ns() - begin_ns;
		*budget_ns -= spent_ns < *budget_ns ? spent_ns : *budget_ns;
		known = source_line_cache_find(&symbolizer->cache, location->id);
	}
	if (known && known->count) {
		source_line_cache_read(&symbolizer->cache, known, &lines);
		rc = fn(context, &lines);
	}
	pthread_mutex_unlock(&symbolizer->lock);
	return rc;
}
