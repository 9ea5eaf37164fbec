// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/kallsyms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/string_table.h"

enum {
	KALLSYMS_SYMBOLS_MAX =
		1 << 20, // a distribution's kernel with all modules has about 250,000
	KALLSYMS_CHUNK_BYTES = 64 << 10,
	KALLSYMS_LINE_BYTES_MAX = 1024, // KSYM_NAME_LEN is 512, a module's name 56
};

// A reload costs about 50 ms of CPU time: one that found nothing doubles the time to the next.
#define KALLSYMS_RELOAD_MIN_NS (10 * NS_PER_SECOND)
#define KALLSYMS_RELOAD_MAX_NS (640 * NS_PER_SECOND)
// A BPF program may replace another at the same address, which no gap shows.
#define KALLSYMS_BPF_STALE_NS (300 * NS_PER_SECOND)

struct kernel_text {
	uint64_t address;
	uint32_t name;   // offset in names
	uint32_t module; // string
};

struct kallsyms {
	char *path;
	struct kernel_text *symbols; // sorted by address, one for each
	uint32_t count;
	uint32_t capacity;
	char *names; // with their NULs
	uint32_t names_size;
	uint32_t names_capacity;
	struct string_table modules;
	uint32_t bpf; // string: the module name of BPF programs
	uint64_t loaded_ns;
	uint64_t wait_ns; // from loaded_ns to the next reload
};

/** One line of the file. */
struct kallsyms_line {
	uint64_t address;
	char type;
	const char *name;
	const char *module; // without brackets, or NULL
};

static void clear(struct kallsyms *kallsyms)
{
	free(kallsyms->symbols);
	free(kallsyms->names);
	string_table_deinit(&kallsyms->modules);
	kallsyms->symbols = NULL;
	kallsyms->names = NULL;
	kallsyms->count = kallsyms->capacity = 0;
	kallsyms->names_size = kallsyms->names_capacity = 0;
}

/** "ffffffff81000000 T _text\t[module]": cut into words in place. */
static bool parse_line(char *line, struct kallsyms_line *ret_line)
{
	char *rest;
	uint64_t address = strtoull(line, &rest, 16);

	if (rest == line || rest[0] != ' ' || !rest[1] || rest[2] != ' ' || !rest[3])
		return false;
	ret_line->address = address;
	ret_line->type = rest[1];
	ret_line->name = rest + 3;
	ret_line->module = NULL;

	char *tab = strchr(rest + 3, '\t');
	if (tab) {
		*tab = '\0';
		char *open = strchr(tab + 1, '['), *close = strrchr(tab + 1, ']');
		if (open && close && close > open + 1) {
			*close = '\0';
			ret_line->module = open + 1;
		}
	}
	return ret_line->name[0] != '\0';
}

static int add_symbol(struct kallsyms *kallsyms, const struct kallsyms_line *line)
{
	const char *module = line->module ? line->module : "[kernel]";
	uint32_t name_size = (uint32_t)strlen(line->name) + 1, module_number;

	int rc = string_table_add(&kallsyms->modules, module, strlen(module), &module_number);
	if (!rc)
		rc = array_reserve(&kallsyms->symbols, sizeof(*kallsyms->symbols),
				   &kallsyms->capacity, kallsyms->count, 1, KALLSYMS_SYMBOLS_MAX);
	if (!rc)
		rc = array_reserve(&kallsyms->names, 1, &kallsyms->names_capacity,
				   kallsyms->names_size, name_size, UINT32_MAX);
	if (rc)
		return rc;

	kallsyms->symbols[kallsyms->count++] = (struct kernel_text){
		.address = line->address,
		.name = kallsyms->names_size,
		.module = module_number,
	};
	memcpy(kallsyms->names + kallsyms->names_size, line->name, name_size);
	kallsyms->names_size += name_size;
	return 0;
}

/** Adds functions only: t and w of nm(1). *hidden counts those whose address the kernel hides. */
static int add_line(struct kallsyms *kallsyms, char *text, uint64_t *hidden)
{
	struct kallsyms_line line;

	if (!parse_line(text, &line) || !strchr("tTwW", line.type))
		return 0;
	if (line.address)
		return add_symbol(kallsyms, &line);
	++*hidden;
	return 0;
}

static int read_lines(struct kallsyms *kallsyms, int fd, uint64_t *hidden)
{
	_cleanup_free_ char *chunk = malloc(KALLSYMS_CHUNK_BYTES + 1);
	size_t held = 0;
	ssize_t size;

	if (!chunk)
		return -ENOMEM;
	while ((size = read(fd, chunk + held, KALLSYMS_CHUNK_BYTES - held)) > 0) {
		held += size;
		chunk[held] = '\0';

		char *line = chunk, *end;
		for (; (end = memchr(line, '\n', chunk + held - line)); line = end + 1) {
			*end = '\0';
			int rc = add_line(kallsyms, line, hidden);
			if (rc)
				return rc == -E2BIG ? 0 : rc;
		}
		held = chunk + held - line;
		if (held > KALLSYMS_LINE_BYTES_MAX)
			held = 0; // not a line of the kernel's: skipped
		memmove(chunk, line, held);
	}
	return size < 0 ? -errno : 0;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct kernel_text *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->name < right->name ? -1 : left->name > right->name;
}

/** Sort, keep one name per address (the file's first, in the linker's order), free spare memory. */
static void finish(struct kallsyms *kallsyms)
{
	uint32_t kept = 0;

	if (!kallsyms->count)
		return;
	qsort(kallsyms->symbols, kallsyms->count, sizeof(*kallsyms->symbols), compare_addresses);
	for (uint32_t i = 1; i < kallsyms->count; i++) {
		if (kallsyms->symbols[i].address != kallsyms->symbols[kept].address)
			kallsyms->symbols[++kept] = kallsyms->symbols[i];
	}
	kallsyms->count = kept + 1;

	void *symbols = realloc(kallsyms->symbols, kallsyms->count * sizeof(*kallsyms->symbols));
	if (symbols) {
		kallsyms->symbols = symbols;
		kallsyms->capacity = kallsyms->count;
	}
	void *names = realloc(kallsyms->names, kallsyms->names_size);
	if (names) {
		kallsyms->names = names;
		kallsyms->names_capacity = kallsyms->names_size;
	}
}

static int read_file(struct kallsyms *kallsyms, const char *path, struct error *err)
{
	uint64_t hidden = 0;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return error_errno(err, -errno, "kernel symbols: open %s", path);
	int rc = string_table_init(&kallsyms->modules);
	if (!rc)
		rc = string_table_add(&kallsyms->modules, "bpf", strlen("bpf"), &kallsyms->bpf);
	if (!rc)
		rc = read_lines(kallsyms, fd, &hidden);
	if (rc)
		return error_errno(err, rc, "kernel symbols: read %s", path);
	finish(kallsyms);
	// The kernel's kallsyms_show_value().
	if (!kallsyms->count && hidden)
		return error_set(err, -EPERM,
				 "kernel symbols: all addresses in %s are hidden: give the agent "
				 "CAP_SYSLOG (or set kernel.kptr_restrict to 0 and "
				 "kernel.perf_event_paranoid to 1)",
				 path);
	if (!kallsyms->count)
		return error_set(err, -ENOENT, "kernel symbols: no functions in %s", path);
	return 0;
}

/** Replace the symbols; a failure keeps the old ones. */
static int load(struct kallsyms *kallsyms, struct error *err)
{
	struct kallsyms fresh = { .path = kallsyms->path, .wait_ns = kallsyms->wait_ns };

	fresh.loaded_ns = kallsyms->loaded_ns = clock_monotonic_ns();
	int rc = read_file(&fresh, kallsyms->path, err);
	if (rc) {
		clear(&fresh);
		return rc;
	}
	clear(kallsyms);
	*kallsyms = fresh;
	return 0;
}

int kallsyms_open(const char *path, struct kallsyms **ret_kallsyms, struct error *err)
{
	struct kallsyms *kallsyms = calloc(1, sizeof(*kallsyms));

	if (kallsyms)
		kallsyms->path = strdup(path ? path : "/proc/kallsyms");
	if (!kallsyms || !kallsyms->path) {
		kallsyms_close(kallsyms);
		return error_errno(err, -ENOMEM, "kernel symbols");
	}
	kallsyms->wait_ns = KALLSYMS_RELOAD_MIN_NS;
	int rc = load(kallsyms, err);
	if (rc) {
		kallsyms_close(kallsyms);
		return rc;
	}
	*ret_kallsyms = kallsyms;
	return 0;
}

void kallsyms_close(struct kallsyms *kallsyms)
{
	if (!kallsyms)
		return;
	clear(kallsyms);
	free(kallsyms->path);
	free(kallsyms);
}

/** Index of the last symbol at or before @address; count when there is none. */
static uint32_t find_before(const struct kallsyms *kallsyms, uint64_t address)
{
	uint32_t low = 0, high = kallsyms->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (kallsyms->symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : kallsyms->count;
}

/** The linker's marks at the end of code: no symbol covers what follows. */
static bool is_end_of_text(const char *name)
{
	return !strcmp(name, "_etext") || !strcmp(name, "_einittext");
}

/**
 * Code before the first symbol, or far behind the last one, was loaded since: BPF programs, modules. 16 MiB is
 * more than any function has.
 */
static bool is_unknown(const struct kallsyms *kallsyms, uint32_t position, uint64_t address)
{
	return position == kallsyms->count ||
	       address - kallsyms->symbols[position].address > (16 << 20) ||
	       is_end_of_text(kallsyms->names + kallsyms->symbols[position].name);
}

static bool is_stale(const struct kallsyms *kallsyms, uint32_t position)
{
	return position < kallsyms->count && kallsyms->symbols[position].module == kallsyms->bpf &&
	       clock_monotonic_ns() - kallsyms->loaded_ns > KALLSYMS_BPF_STALE_NS;
}

static uint32_t find_after_reload(struct kallsyms *kallsyms, uint64_t address)
{
	uint64_t wait = kallsyms->wait_ns;

	load(kallsyms, NULL);
	uint32_t position = find_before(kallsyms, address);
	if (!is_unknown(kallsyms, position, address))
		wait = 0;
	wait *= 2;
	if (wait < KALLSYMS_RELOAD_MIN_NS)
		wait = KALLSYMS_RELOAD_MIN_NS;
	kallsyms->wait_ns = wait < KALLSYMS_RELOAD_MAX_NS ? wait : KALLSYMS_RELOAD_MAX_NS;
	return position;
}

int kallsyms_find(struct kallsyms *kallsyms, uint64_t address, struct kernel_symbol *ret_symbol)
{
	uint32_t position = find_before(kallsyms, address);
	bool unknown = is_unknown(kallsyms, position, address);

	if (is_stale(kallsyms, position) ||
	    (unknown && clock_monotonic_ns() - kallsyms->loaded_ns >= kallsyms->wait_ns)) {
		position = find_after_reload(kallsyms, address);
		unknown = is_unknown(kallsyms, position, address);
	}
	if (unknown)
		return -ENOENT;
	const struct kernel_text *text = &kallsyms->symbols[position];
	*ret_symbol = (struct kernel_symbol){
		.name = kallsyms->names + text->name,
		.module = string_table_get(&kallsyms->modules, text->module),
		.start = text->address,
	};
	return 0;
}

int kallsyms_find_name(const struct kallsyms *kallsyms, const char *name, uint64_t *ret_start,
		       uint64_t *ret_size)
{
	// The last symbol has no end.
	for (uint32_t i = 0; i + 1 < kallsyms->count; i++) {
		if (strcmp(kallsyms->names + kallsyms->symbols[i].name, name) != 0)
			continue;
		*ret_start = kallsyms->symbols[i].address;
		*ret_size = kallsyms->symbols[i + 1].address - *ret_start;
		return 0;
	}
	return -ENOENT;
}

void kallsyms_reload_at_next_miss(struct kallsyms *kallsyms)
{
	kallsyms->wait_ns = 0;
}

uint64_t kallsyms_bytes(const struct kallsyms *kallsyms)
{
	return sizeof(*kallsyms) + kallsyms->capacity * sizeof(*kallsyms->symbols) +
	       kallsyms->names_capacity;
}
