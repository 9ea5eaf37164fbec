// SPDX-License-Identifier: Apache-2.0
#include "agent/location_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/string_table.h"

#define KERNEL_MODULE    "[kernel]"
#define ANONYMOUS_MODULE "[anon]"
#define EXITED_NAME      "[exited]"

/* Generated code has no functions that we know: its leaves are told apart by page. */
#define ANONYMOUS_LEAF_BYTES 4096ULL

/* The release and the longest of the kernel's names (KSYM_NAME_LEN is 512). */
enum { KERNEL_ID_BYTES = 640 };

/* A location nobody marks stays for so many profiles: leaves are in no stack's body. */
enum { IDLE_PROFILES_MAX = 12 };

/* Slack before strings that no location uses any more are let go. */
enum { IDLE_STRINGS_MAX = 65536 };

struct known_location {
	struct id128 id;
	uint64_t offset;
	struct executable *executable;   // held until the name was looked for
	uint32_t name, module, build_id; // strings; 0: none
	uint32_t file;                   // string: source file
	uint32_t line;                   // in it; 0: unknown
	uint32_t profile;                // number of the profile that `position` is in
	uint32_t position;
	uint8_t kind; // enum frame_kind
	bool used;
	bool marked;
};

struct location_table {
	struct executable_table *executables;
	struct kallsyms *kallsyms;
	struct known_location *locations;
	uint32_t count, capacity; // of places in `locations`, used or not
	uint32_t *unused;         // numbers to use again
	uint32_t unused_count;
	struct hash_table index; // of used ones, by id
	struct string_table strings;
	uint32_t profile; // number of the profile in the making
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
	for (uint32_t i = 0; i < table->count; i++)
		executable_release(table->locations[i].executable);
	free(table->locations);
	free(table->unused);
	hash_table_deinit(&table->index);
	string_table_deinit(&table->strings);
	free(table);
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

// `unused` has room for every number, so that dropping a location cannot fail.
static int grow(struct location_table *table)
{
	uint32_t capacity = table->capacity ? table->capacity * 2 : 1024;
	struct known_location *locations =
		reallocarray(table->locations, capacity, sizeof(*locations));

	if (!locations)
		return -ENOMEM;
	table->locations = locations;

	uint32_t *unused = reallocarray(table->unused, capacity, sizeof(*unused));
	if (!unused)
		return -ENOMEM;
	table->unused = unused;
	table->capacity = capacity;
	return 0;
}

static uint32_t next_number(struct location_table *table)
{
	if (table->unused_count)
		return table->unused[--table->unused_count];
	if (table->count == LOCATIONS_MAX || (table->count == table->capacity && grow(table) < 0))
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

// @executable is held until its symbol was looked for, NULL: @name is all there will be.
static uint32_t add_native(struct location_table *table, const struct executable *executable,
			   uint64_t offset, struct executable *symbols_of, const char *name)
{
	struct known_location location = {
		.id = location_id_of_offset(FRAME_KIND_NATIVE, executable->id, offset),
		.offset = offset,
		.executable = symbols_of,
		.kind = FRAME_KIND_NATIVE,
	};
	uint32_t number = find(table, location.id);

	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, executable->path, &location.module) < 0 ||
	    add_string(table, executable->id, &location.build_id) < 0 ||
	    add_string(table, name, &location.name) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

uint32_t location_table_add_call(struct location_table *table, struct executable *executable,
				 uint64_t offset)
{
	return add_native(table, executable, offset, executable, "");
}

uint32_t location_table_add_leaf(struct location_table *table, struct executable *executable,
				 uint64_t offset)
{
	struct symbol symbol;

	if (executable_find_symbol(table->executables, executable, offset, &symbol) < 0)
		return add_native(table, executable, offset, NULL, "");
	return add_native(table, executable, symbol.start_offset, NULL, symbol.name);
}

uint32_t location_table_add_kernel(struct location_table *table, uint64_t address, bool leaf)
{
	struct known_location location = { .offset = address, .kind = FRAME_KIND_KERNEL };
	struct kernel_symbol symbol = { .name = "", .module = KERNEL_MODULE };
	char module_id[KERNEL_ID_BYTES];

	if (table->kallsyms && kallsyms_find(table->kallsyms, address, &symbol) == 0)
		location.offset = leaf ? 0 : address - symbol.start;
	snprintf(module_id, sizeof(module_id), "%s:%s", table->kernel_release, symbol.name);
	location.id = location_id_of_offset(FRAME_KIND_KERNEL, module_id, location.offset);

	uint32_t number = find(table, location.id);
	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, symbol.module, &location.module) < 0 ||
	    add_string(table, symbol.name, &location.name) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
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
		.line = line,
	};
	uint32_t number = find(table, location.id);

	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, name, &location.name) < 0 ||
	    add_string(table, file, &location.file) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

uint32_t location_table_add_exited(struct location_table *table)
{
	struct known_location location = { .kind = FRAME_KIND_UNKNOWN };

	location.id = location_id_of_offset(FRAME_KIND_UNKNOWN, EXITED_NAME, 0);

	uint32_t number = find(table, location.id);
	if (number != HASH_TABLE_NONE)
		return number;
	if (add_string(table, EXITED_NAME, &location.name) < 0)
		return HASH_TABLE_NONE;
	return add(table, &location);
}

// ---- into a profile -------------------------------------------------------------------------

static void look_for_name(struct location_table *table, struct known_location *location)
{
	struct symbol symbol;

	if (executable_find_symbol(table->executables, location->executable, location->offset,
				   &symbol) == 0)
		add_string(table, symbol.name, &location->name); // no memory: stays unnamed
	executable_release(location->executable);
	location->executable = NULL;
}

static int copy_string(struct location_table *table, uint32_t number, struct profile *profile,
		       uint32_t *ret_number)
{
	return profile_add_string(profile, string_table_get(&table->strings, number), ret_number);
}

void location_table_begin_profile(struct location_table *table)
{
	table->profile++;
}

int location_table_put(struct location_table *table, uint32_t number, struct profile *profile,
		       uint32_t *ret_position)
{
	struct known_location *known = &table->locations[number];
	struct location location = { .id = known->id,
				     .kind = known->kind,
				     .offset = known->offset };
	struct line line = { .number = known->line };

	if (known->profile == table->profile) {
		*ret_position = known->position;
		return 0;
	}
	if (known->executable)
		look_for_name(table, known);

	int rc = copy_string(table, known->module, profile, &location.module);
	if (!rc)
		rc = copy_string(table, known->build_id, profile, &location.build_id);
	if (!rc)
		rc = copy_string(table, known->name, profile, &line.name);
	if (!rc)
		rc = copy_string(table, known->file, profile, &line.file);
	if (!rc)
		rc = profile_add_location(profile, &location, &line, known->name ? 1 : 0,
					  &known->position);
	if (rc)
		return rc;
	known->profile = table->profile;
	*ret_position = known->position;
	return 0;
}

// ---- sweep ----------------------------------------------------------------------------------

void location_table_mark(struct location_table *table, uint32_t number)
{
	table->locations[number].marked = true;
}

// Intern again what is still in use. Out of memory: the old strings stay until the next sweep.
static void renew_strings(struct location_table *table)
{
	struct string_table renewed;
	uint32_t *numbers = calloc(table->strings.count, sizeof(*numbers));
	int rc = numbers ? string_table_init(&renewed) : -ENOMEM;

	if (rc < 0) {
		free(numbers);
		return;
	}
	for (uint32_t i = 0; i < table->count && !rc; i++) {
		const struct known_location *location = &table->locations[i];
		const uint32_t used[] = { location->name, location->module, location->build_id,
					  location->file };

		for (uint32_t j = 0; location->used && j < ARRAY_SIZE(used) && !rc; j++) {
			const char *string = string_table_get(&table->strings, used[j]);

			rc = string_table_add(&renewed, string, strlen(string), &numbers[used[j]]);
		}
	}
	if (rc < 0) {
		string_table_deinit(&renewed);
	} else {
		for (uint32_t i = 0; i < table->count; i++) {
			struct known_location *location = &table->locations[i];

			location->name = numbers[location->name];
			location->module = numbers[location->module];
			location->build_id = numbers[location->build_id];
			location->file = numbers[location->file];
		}
		string_table_deinit(&table->strings);
		table->strings = renewed;
	}
	free(numbers);
}

static void drop(struct location_table *table, uint32_t number)
{
	struct known_location *location = &table->locations[number];

	hash_table_remove(&table->index, id128_hash(location->id), number);
	executable_release(location->executable);
	*location = (struct known_location){ 0 };
	table->unused[table->unused_count++] = number;
}

void location_table_sweep(struct location_table *table)
{
	for (uint32_t i = 0; i < table->count; i++) {
		struct known_location *location = &table->locations[i];

		if (location->used && !location->marked &&
		    table->profile - location->profile > IDLE_PROFILES_MAX)
			drop(table, i);
		location->marked = false;
	}
	if (table->strings.count > 2 * location_table_count(table) + IDLE_STRINGS_MAX)
		renew_strings(table);
}
