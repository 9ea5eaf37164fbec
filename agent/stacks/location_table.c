// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/location_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "agent/stacks/location_cache.h"
#include "agent/symbols/executable_symbols.h"
#include "agent/symbols/source_line_reader.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/symbols/demangle.h"
#include "base/hash_table.h"
#include "base/string_table.h"

#define KERNEL_MODULE      "[kernel]"
#define ANONYMOUS_MODULE   "[anon]"
#define JIT_MODULE         "[jit]"
#define GPU_MODULE         "[gpu]"
#define EXITED_NAME        "[exited]"
#define UNREAD_PYTHON_NAME "<unknown> (python)"

/* JIT code without a name has no known functions: its leaves are kept apart by page. */
#define ANONYMOUS_LEAF_BYTES 4096ULL

/* The release and the longest of the kernel's names (KSYM_NAME_LEN is 512). */
enum { KERNEL_ID_BYTES = 640 };

/* An unmarked location stays for so many profiles: leaves are in no stack trace. */
enum { IDLE_PROFILES_MAX = 12 };

/* Unused strings that are kept before the table of strings is rebuilt. */
enum { IDLE_STRINGS_MAX = 65536 };

struct known_location {
	struct id128 id;
	uint64_t offset;
	struct executable *executable; // held while names or lines may still come
	struct line line;              // of the function itself; strings of the table, 0: none
	struct line *inlined;          // calls inlined into it, innermost first
	uint32_t module, build_id;     // strings
	uint32_t symbols_version;      // of the executable, when the name was looked up
	uint32_t profile;              // number of the profile that `position` is in
	uint32_t position;
	uint8_t inlined_count;
	uint8_t kind; // enum frame_kind
	bool used;
	bool marked;
	bool looked_up;   // its name
	bool wants_lines; // they are not known yet
};

struct location_table {
	struct executable_table *executables;
	struct kallsyms *kallsyms;
	struct source_line_reader *lines; // NULL: functions only
	struct known_location *locations;
	uint32_t count, capacity; // of `locations`, used or not
	uint32_t *unused;         // numbers to use again
	uint32_t unused_count, unused_capacity;
	struct hash_table index; // of used ones, by id
	struct location_cache cache;
	struct string_table strings;
	uint32_t profile; // number of the profile being filled
	char kernel_release[sizeof(((struct utsname *)0)->release)];
};

// ---- life -----------------------------------------------------------------------------------

struct location_table *location_table_new(struct executable_table *executables,
					  struct kallsyms *kallsyms)
{
	struct location_table *table = calloc(1, sizeof(*table));
	struct utsname name;

	if (!table)
		return NULL;
	if (string_table_init(&table->strings) < 0) {
		free(table);
		return NULL;
	}
	table->executables = executables;
	table->kallsyms = kallsyms;
	table->profile = 1;
	if (uname(&name) == 0)
		memcpy(table->kernel_release, name.release, sizeof(table->kernel_release));
	return table;
}

void location_table_free(struct location_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->count; i++) {
		executable_release(table->locations[i].executable);
		free(table->locations[i].inlined);
	}
	free(table->locations);
	free(table->unused);
	hash_table_deinit(&table->index);
	location_cache_deinit(&table->cache);
	string_table_deinit(&table->strings);
	free(table);
}

void location_table_use_kallsyms(struct location_table *table, struct kallsyms *kallsyms)
{
	table->kallsyms = kallsyms;
}

void location_table_use_lines(struct location_table *table, struct source_line_reader *lines)
{
	table->lines = lines;
}

uint32_t location_table_count(const struct location_table *table)
{
	return table->index.item_count;
}

// ---- find or make ---------------------------------------------------------------------------

static bool location_has_id(const void *context, uint32_t item, const void *key)
{
	const struct location_table *table = context;

	return id128_equal(table->locations[item].id, *(const struct id128 *)key);
}

static uint32_t find(const struct location_table *table, struct id128 id)
{
	return hash_table_find(&table->index, id128_hash(id), location_has_id, table, &id);
}

static int add_string(struct location_table *table, const char *string, uint32_t *ret_number)
{
	return string_table_add(&table->strings, string, strlen(string), ret_number);
}

// `unused` has room for every number, so that freeing a location cannot fail.
static uint32_t next_number(struct location_table *table)
{
	if (table->unused_count)
		return table->unused[--table->unused_count];
	if (array_reserve(&table->locations, sizeof(*table->locations), &table->capacity,
			  table->count, 1, LOCATIONS_MAX) ||
	    array_reserve(&table->unused, sizeof(*table->unused), &table->unused_capacity,
			  table->count, 1, LOCATIONS_MAX))
		return HASH_TABLE_NONE;
	return table->count++;
}

static uint32_t add(struct location_table *table, const struct known_location *location)
{
	uint32_t number = next_number(table);

	if (number == HASH_TABLE_NONE)
		return number;
	table->locations[number] = *location;
	if (hash_table_add(&table->index, id128_hash(location->id), number) < 0) {
		table->locations[number] = (struct known_location){ 0 };
		table->unused[table->unused_count++] = number;
		return HASH_TABLE_NONE;
	}
	table->locations[number].used = true;
	executable_hold(location->executable);
	return number;
}

// @symbols_of is held until name and lines are known. NULL: there will be no more than @name.
static uint32_t add_native(struct location_table *table, const struct executable *executable,
			   uint64_t offset, struct executable *symbols_of, const char *name)
{
	struct known_location location = {
		.id = location_id_of_offset(FRAME_KIND_NATIVE, executable->key, offset),
		.offset = offset,
		.executable = symbols_of,
		.kind = FRAME_KIND_NATIVE,
		.wants_lines = symbols_of && table->lines,
	};
	uint32_t number = find(table, location.id);

	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, executable->path, &location.module) < 0 ||
	    add_string(table, executable->id, &location.build_id) < 0 ||
	    add_string(table, name, &location.line.name) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

// A leaf's location changes with the symbols that are known.
static struct location_key key_of_native(const struct executable *executable, uint64_t offset,
					 bool leaf)
{
	return (struct location_key){
		.owner = { executable->number,
			   leaf ? 1 + (uint64_t)executable->symbols_version : 0 },
		.address = offset,
		.detail = FRAME_KIND_NATIVE,
	};
}

uint32_t location_table_add_call(struct location_table *table, struct executable *executable,
				 uint64_t offset)
{
	struct location_key key = key_of_native(executable, offset, false);
	uint32_t number = location_cache_find(&table->cache, &key);

	if (number != HASH_TABLE_NONE)
		return number;
	number = add_native(table, executable, offset, executable, "");
	location_cache_add(&table->cache, &key, number);
	return number;
}

// With known lines a leaf is reduced to its line, so that inlined calls stay apart.
static uint32_t add_leaf_with_lines(struct location_table *table, struct executable *executable,
				    uint64_t offset)
{
	struct source_lines place;

	if (!table->lines || source_line_reader_find(table->lines, executable, offset, &place))
		return HASH_TABLE_NONE;
	return add_native(table, executable, place.start_offset, executable, "");
}

// Only a leaf whose function is known is cached: for others symbols may come.
uint32_t location_table_add_leaf(struct location_table *table, struct executable *executable,
				 uint64_t offset)
{
	struct location_key key = key_of_native(executable, offset, true);
	uint32_t number = add_leaf_with_lines(table, executable, offset);
	struct symbol symbol;

	if (number == HASH_TABLE_NONE)
		number = location_cache_find(&table->cache, &key);
	if (number != HASH_TABLE_NONE)
		return number;
	if (executable_find_symbol(table->executables, executable, offset, &symbol) < 0)
		return add_native(table, executable, offset, executable, "");
	number = add_native(table, executable, symbol.start_offset, NULL, symbol.name);
	location_cache_add(&table->cache, &key, number);
	return number;
}

static uint32_t add_kernel(struct location_table *table, uint64_t address, bool leaf,
			   bool *ret_is_fixed)
{
	struct known_location location = { .offset = address, .kind = FRAME_KIND_KERNEL };
	struct kernel_symbol symbol = { .name = "", .module = KERNEL_MODULE };
	char module_id[KERNEL_ID_BYTES];

	if (table->kallsyms && kallsyms_find(table->kallsyms, address, &symbol) == 0)
		location.offset = leaf ? 0 : address - symbol.start;
	*ret_is_fixed = *symbol.name && strcmp(symbol.module, KERNEL_MODULE) == 0;
	snprintf(module_id, sizeof(module_id), "%s:%s", table->kernel_release, symbol.name);
	location.id = location_id_of_offset(FRAME_KIND_KERNEL, module_id, location.offset);

	uint32_t number = find(table, location.id);
	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, symbol.module, &location.module) < 0 ||
	    add_string(table, symbol.name, &location.line.name) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

// Modules and BPF programs come and go; the rest of the kernel stays where it is.
uint32_t location_table_add_kernel(struct location_table *table, uint64_t address, bool leaf)
{
	const struct location_key key = {
		.owner = { UINT64_MAX, leaf },
		.address = address,
		.detail = FRAME_KIND_KERNEL,
	};
	uint32_t number = location_cache_find(&table->cache, &key);
	bool is_fixed;

	if (number != HASH_TABLE_NONE)
		return number;
	number = add_kernel(table, address, leaf, &is_fixed);
	if (is_fixed)
		location_cache_add(&table->cache, &key, number);
	return number;
}

uint32_t location_table_add_anonymous(struct location_table *table, uint64_t address, bool leaf)
{
	struct known_location location = { .kind = FRAME_KIND_JIT };

	location.offset = leaf ? address - address % ANONYMOUS_LEAF_BYTES : address;
	location.id = location_id_of_offset(FRAME_KIND_JIT, ANONYMOUS_MODULE, location.offset);

	uint32_t number = find(table, location.id);
	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, ANONYMOUS_MODULE, &location.module) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

uint32_t location_table_add_python(struct location_table *table, const char *name, const char *file,
				   uint32_t line)
{
	struct known_location location = {
		.id = location_id_of_line(FRAME_KIND_PYTHON, name, file, line),
		.kind = FRAME_KIND_PYTHON,
		.line.number = line,
	};
	uint32_t number = find(table, location.id);

	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, name, &location.line.name) < 0 ||
	    add_string(table, file, &location.line.file) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

uint32_t location_table_add_unread_python(struct location_table *table)
{
	return location_table_add_python(table, UNREAD_PYTHON_NAME, "", 0);
}

bool location_table_is_unread_python(const struct location_table *table, uint32_t number)
{
	const struct known_location *location = &table->locations[number];

	// Code that was read has a file: CPython's own "<string>" if it has none.
	return location->kind == FRAME_KIND_PYTHON && !location->line.file &&
	       !location->line.number;
}

bool location_table_is_anonymous(const struct location_table *table, uint32_t number)
{
	const struct known_location *location = &table->locations[number];

	return location->kind == FRAME_KIND_JIT && !location->line.name;
}

static uint32_t add_named(struct location_table *table, const char *module, const char *name)
{
	struct known_location location = { .kind = FRAME_KIND_JIT };
	char module_id[sizeof(JIT_MODULE) + DEMANGLED_BYTES_MAX + 1];

	snprintf(module_id, sizeof(module_id), "%s:%s", module, name);
	location.id = location_id_of_offset(FRAME_KIND_JIT, module_id, 0);

	uint32_t number = find(table, location.id);
	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, module, &location.module) < 0 ||
	    add_string(table, name, &location.line.name) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

uint32_t location_table_add_jit(struct location_table *table, const char *name)
{
	return add_named(table, JIT_MODULE, name);
}

uint32_t location_table_add_gpu(struct location_table *table, const char *name)
{
	char demangled[DEMANGLED_BYTES_MAX];

	demangle(name, demangled);
	frame_name_clean(demangled);
	return add_named(table, GPU_MODULE, demangled);
}

uint32_t location_table_add_marker(struct location_table *table, const char *name)
{
	struct known_location location = { .kind = FRAME_KIND_UNKNOWN };

	location.id = location_id_of_offset(FRAME_KIND_UNKNOWN, name, 0);

	uint32_t number = find(table, location.id);
	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, name, &location.line.name) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

uint32_t location_table_add_exited(struct location_table *table)
{
	return location_table_add_marker(table, EXITED_NAME);
}

// ---- into a profile -------------------------------------------------------------------------

static void look_up_name(struct location_table *table, struct known_location *location)
{
	const struct executable *executable = location->executable;
	struct symbol symbol;

	if (location->looked_up && location->symbols_version == executable->symbols_version)
		return;
	location->looked_up = true;
	location->symbols_version = executable->symbols_version;
	if (executable_find_symbol(table->executables, location->executable, location->offset,
				   &symbol) == 0)
		add_string(table, symbol.name, &location->line.name); // no memory: stays unnamed
}

// Without memory the location keeps the function's name only.
static void set_lines(struct location_table *table, struct known_location *location,
		      const struct source_lines *place)
{
	struct line lines[SOURCE_LINES_MAX];
	uint32_t outermost = place->count - 1;
	struct line *inlined = NULL;

	for (uint32_t i = 0; i <= outermost; i++) {
		lines[i].number = place->lines[i].number;
		if (add_string(table, place->lines[i].name, &lines[i].name) < 0 ||
		    add_string(table, place->lines[i].file, &lines[i].file) < 0)
			return;
	}
	if (outermost) {
		inlined = malloc(outermost * sizeof(*inlined));
		if (!inlined)
			return;
		memcpy(inlined, lines, outermost * sizeof(*inlined));
	}
	free(location->inlined);
	location->inlined = inlined;
	location->inlined_count = (uint8_t)outermost;
	// One name per function, with lines and without: its symbol's, if it has one.
	if (location->line.name)
		lines[outermost].name = location->line.name;
	location->line = lines[outermost];
}

static void look_up_lines(struct location_table *table, struct known_location *location)
{
	struct source_lines place;
	int rc = source_line_reader_find(table->lines, location->executable, location->offset,
					 &place);

	if (rc == 0)
		set_lines(table, location, &place);
	location->wants_lines = rc == -EAGAIN;
}

// Look up name and lines, and release the file once no more can come.
static void look_up(struct location_table *table, struct known_location *location)
{
	if (!location->line.name)
		look_up_name(table, location);
	if (location->wants_lines)
		look_up_lines(table, location);
	if (location->wants_lines ||
	    (executable_may_learn_names(location->executable) &&
	     (!location->line.name || (table->lines && !location->line.file))))
		return;
	executable_release(location->executable);
	location->executable = NULL;
}

static int copy_string(struct location_table *table, uint32_t number, struct profile *profile,
		       uint32_t *ret_number)
{
	return profile_add_string(profile, string_table_get(&table->strings, number), ret_number);
}

static int copy_lines(struct location_table *table, const struct known_location *known,
		      struct profile *profile, struct line *ret_lines, uint32_t *ret_count)
{
	uint32_t count = known->inlined_count;
	int rc = 0;

	for (uint32_t i = 0; i < count; i++)
		ret_lines[i] = known->inlined[i];
	if (known->line.name || known->line.file)
		ret_lines[count++] = known->line;
	for (uint32_t i = 0; i < count && !rc; i++) {
		rc = copy_string(table, ret_lines[i].name, profile, &ret_lines[i].name);
		if (!rc)
			rc = copy_string(table, ret_lines[i].file, profile, &ret_lines[i].file);
	}
	*ret_count = count;
	return rc;
}

void location_table_begin_profile(struct location_table *table)
{
	table->profile++;
	executable_table_poll(table->executables);
	if (table->lines)
		source_line_reader_poll(table->lines);
}

int location_table_put(struct location_table *table, uint32_t number, struct profile *profile,
		       uint32_t *ret_position)
{
	struct known_location *known = &table->locations[number];
	struct location location = { .id = known->id,
				     .kind = known->kind,
				     .offset = known->offset };
	struct line lines[SOURCE_LINES_MAX];
	uint32_t line_count;

	if (known->profile == table->profile) {
		*ret_position = known->position;
		return 0;
	}
	if (known->executable)
		look_up(table, known);

	int rc = copy_string(table, known->module, profile, &location.module);
	if (!rc)
		rc = copy_string(table, known->build_id, profile, &location.build_id);
	if (!rc)
		rc = copy_lines(table, known, profile, lines, &line_count);
	if (!rc)
		rc = profile_add_location(profile, &location, lines, line_count, &known->position);
	if (rc)
		return rc;
	known->profile = table->profile;
	*ret_position = known->position;
	return 0;
}

// ---- frames seen before ---------------------------------------------------------------------

uint32_t location_table_find_frame(const struct location_table *table,
				   const struct location_key *key)
{
	return location_cache_find(&table->cache, key);
}

void location_table_note_frame(struct location_table *table, const struct location_key *key,
			       uint32_t number)
{
	location_cache_add(&table->cache, key, number);
}

// ---- sweep ----------------------------------------------------------------------------------

void location_table_mark(struct location_table *table, uint32_t number)
{
	table->locations[number].marked = true;
}

// @numbers: the new number of each string.
static int renew_string(const struct location_table *table, uint32_t number,
			struct string_table *renewed, uint32_t *numbers)
{
	const char *string = string_table_get(&table->strings, number);

	return string_table_add(renewed, string, strlen(string), &numbers[number]);
}

static int renew_line(const struct location_table *table, const struct line *line,
		      struct string_table *renewed, uint32_t *numbers)
{
	int rc = renew_string(table, line->name, renewed, numbers);

	return rc ? rc : renew_string(table, line->file, renewed, numbers);
}

static int renew_strings_of(const struct location_table *table,
			    const struct known_location *location, struct string_table *renewed,
			    uint32_t *numbers)
{
	int rc = renew_string(table, location->module, renewed, numbers);

	if (!rc)
		rc = renew_string(table, location->build_id, renewed, numbers);
	if (!rc)
		rc = renew_line(table, &location->line, renewed, numbers);
	for (uint32_t i = 0; i < location->inlined_count && !rc; i++)
		rc = renew_line(table, &location->inlined[i], renewed, numbers);
	return rc;
}

static void renumber_line(struct line *line, const uint32_t *numbers)
{
	line->name = numbers[line->name];
	line->file = numbers[line->file];
}

static void renumber(struct known_location *location, const uint32_t *numbers)
{
	location->module = numbers[location->module];
	location->build_id = numbers[location->build_id];
	renumber_line(&location->line, numbers);
	for (uint32_t i = 0; i < location->inlined_count; i++)
		renumber_line(&location->inlined[i], numbers);
}

// Intern the strings in use again. Without memory the old ones stay until the next sweep.
static void renew_strings(struct location_table *table)
{
	_cleanup_free_ uint32_t *numbers = calloc(table->strings.count, sizeof(*numbers));
	struct string_table renewed;
	int rc = 0;

	if (!numbers || string_table_init(&renewed) < 0)
		return;
	for (uint32_t i = 0; i < table->count && !rc; i++)
		if (table->locations[i].used)
			rc = renew_strings_of(table, &table->locations[i], &renewed, numbers);
	if (rc < 0) {
		string_table_deinit(&renewed);
		return;
	}
	for (uint32_t i = 0; i < table->count; i++)
		renumber(&table->locations[i], numbers);
	string_table_deinit(&table->strings);
	table->strings = renewed;
}

static void free_location(struct location_table *table, uint32_t number)
{
	struct known_location *location = &table->locations[number];

	hash_table_remove(&table->index, id128_hash(location->id), number);
	executable_release(location->executable);
	free(location->inlined);
	*location = (struct known_location){ 0 };
	table->unused[table->unused_count++] = number;
}

void location_table_sweep(struct location_table *table)
{
	location_cache_clear(&table->cache);
	for (uint32_t i = 0; i < table->count; i++) {
		struct known_location *location = &table->locations[i];

		if (location->used && !location->marked &&
		    table->profile - location->profile > IDLE_PROFILES_MAX)
			free_location(table, i);
		location->marked = false;
	}
	if (table->strings.count > 2 * location_table_count(table) + IDLE_STRINGS_MAX)
		renew_strings(table);
}
