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
#include "base/symbols/source_line_cache.h"
#include "collector/symbols/debug_elf.h"
#include "collector/symbols/file_process.h"

struct open_file {
	char id[DEBUG_ELF_ID_BYTES]; // "": free
	int fd;
	struct file_process *symbols;
	struct file_process *dwarf; // NULL: not started yet, or symbols only
	bool dwarf_is_started;
	uint64_t used;    // the larger, the later
	uint32_t version; // current_version() when it was opened
};

struct symbolizer {
	struct debug_files *files;
	struct debuginfod *debuginfod;
	struct confined_launcher *launcher;
	pthread_mutex_t lock;
	struct open_file open[SYMBOLIZER_FILES_OPEN];
	struct error failure; // the last of `failures`
	uint32_t failures;    // since they were taken
	uint64_t use;
	struct source_line_cache cache;
	char name[SOURCE_NAME_BYTES]; // of the current answer
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

uint32_t symbolizer_take_failures(struct symbolizer *symbolizer, struct error *ret_err)
{
	if (pthread_mutex_trylock(&symbolizer->lock))
		return 0; // next time
	uint32_t failures = symbolizer->failures;
	symbolizer->failures = 0;
	if (failures)
		*ret_err = symbolizer->failure;
	pthread_mutex_unlock(&symbolizer->lock);
	return failures;
}

static void add_failure(struct symbolizer *symbolizer, const char *build_id,
			const struct error *cause)
{
	symbolizer->failures++;
	error_set(&symbolizer->failure, cause->code, "debug file %s: %.90s", build_id, cause->text);
}

static void close_file(struct open_file *file)
{
	file_process_close(file->symbols);
	file_process_close(file->dwarf);
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

void symbolizer_clear_cache(struct symbolizer *symbolizer)
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

/*
 * Changes when a debug file may have arrived, or when what reads them was started again: answers without a name are
 * then looked up again.
 */
static uint32_t current_version(const struct symbolizer *symbolizer)
{
	uint32_t version = atomic_load(&symbolizer->files->version) +
			   confined_launcher_restarts(symbolizer->launcher);

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
	struct error err = { 0 };

	if (opened.fd < 0)
		return NULL;
	if (file_process_open(symbolizer->launcher, &symbol_task, opened.fd, -1, &opened.symbols,
			      &err)) {
		add_failure(symbolizer, build_id, &err);
		close_file(&opened);
		return NULL;
	}
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

/* Returns as file_process_find(), but that a process that has ended knows nothing. */
static int ask(struct symbolizer *symbolizer, const struct open_file *file,
	       struct file_process *process, uint64_t key, uint64_t until_ns,
	       const struct source_lines **ret_lines)
{
	struct error err = { 0 };
	int rc = process ? file_process_find(process, key, until_ns, ret_lines, &err) : -ENOENT;

	if (rc != -EIO)
		return rc;
	add_failure(symbolizer, file->id, &err);
	return -ENOENT;
}

/* Start what reads its DWARF, which may be in two files. Returns 0 or -EAGAIN. */
static int start_dwarf(struct symbolizer *symbolizer, struct open_file *file, uint64_t until_ns)
{
	_cleanup_close_ int alt_fd = -1;
	const struct source_lines *alt;
	struct error err = { 0 };
	int rc = ask(symbolizer, file, file->symbols, FILE_TASK_ALT_ID, until_ns, &alt);

	if (rc == -EAGAIN)
		return rc;
	if (!rc && alt->lines[0].name[0])
		alt_fd = find_fd(symbolizer, alt->lines[0].name);
	if (file_process_open(symbolizer->launcher, &dwarf_task, file->fd, alt_fd, &file->dwarf,
			      &err))
		add_failure(symbolizer, file->id, &err);
	file->dwarf_is_started = true;
	return 0;
}

/* Returns 0; -ENOENT; -EAGAIN (not done in time). */
static int read_dwarf(struct symbolizer *symbolizer, struct open_file *file, uint64_t address,
		      uint64_t until_ns, struct source_lines *lines)
{
	const struct source_lines *found;
	int rc = file->dwarf_is_started ? 0 : start_dwarf(symbolizer, file, until_ns);

	if (!rc)
		rc = ask(symbolizer, file, file->dwarf, address, until_ns, &found);
	if (rc)
		return rc;
	lines->count = found->count;
	memcpy(lines->lines, found->lines, found->count * sizeof(*found->lines));
	return 0;
}

/* The symbol's name replaces DWARF's for the outermost function. Returns as read_dwarf(). */
static int read_lines(struct symbolizer *symbolizer, struct open_file *file, uint64_t offset,
		      uint64_t until_ns, struct source_lines *lines)
{
	const struct source_lines *function;
	int rc = ask(symbolizer, file, file->symbols, offset, until_ns, &function);

	if (rc)
		return rc;
	snprintf(symbolizer->name, sizeof(symbolizer->name), "%s", function->lines[0].name);
	*lines = (struct source_lines){ .start_offset = offset };
	rc = read_dwarf(symbolizer, file, function->start_offset, until_ns, lines);
	if (rc == -EAGAIN)
		return rc;
	if (rc) {
		lines->count = 1;
		lines->lines[0] = (struct source_line){ .name = "", .file = "" };
	}
	struct source_line *outermost = &lines->lines[lines->count - 1];
	if (symbolizer->name[0])
		outermost->name = symbolizer->name;
	return outermost->name[0] ? 0 : -ENOENT;
}

static void read_location(struct symbolizer *symbolizer, const char *build_id,
			  const struct location *location, uint32_t version, uint64_t until_ns)
{
	struct open_file *file = use_file(symbolizer, build_id);
	struct source_lines lines;
	int rc = file ? read_lines(symbolizer, file, location->offset, until_ns, &lines) : -ENOENT;

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
