// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/dwarf_lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>

#include "base/array.h"
#include "base/cleanup.h"

enum {
	SCOPES_DEPTH_MAX = 64,  // namespaces, types and blocks within each other
	BLOCKS_DEPTH_MAX = 256, // blocks and inlined calls within each other
};

/* Code of a unit, or of a function in the unit at hand. */
struct range {
	uint64_t low, high;
	Dwarf_Off die;
};

struct ranges {
	struct range *ranges;
	uint32_t count, capacity;
	uint32_t count_max;
};

struct dwarf_lines {
	Dwarf *dwarf;
	Dwarf *alt; // shared parts of it, or NULL
	struct ranges units;
	Dwarf_Off unit;          // whose functions are below; 0: none yet
	struct ranges functions; // of that unit
	bool deep;               // those within others, too
};

/* ---- ranges -------------------------------------------------------------------------------- */

static int add_range(struct ranges *ranges, uint64_t low, uint64_t high, Dwarf_Off die)
{
	// Functions that the linker dropped are left at address 0.
	if (low >= high || !low || ranges->count == ranges->count_max)
		return 0;
	if (array_reserve(&ranges->ranges, sizeof(*ranges->ranges), &ranges->capacity,
			  ranges->count, 1, ranges->count_max))
		return -ENOMEM;
	ranges->ranges[ranges->count++] = (struct range){ low, high, die };
	return 0;
}

static int add_ranges_of(struct ranges *ranges, Dwarf_Die *die)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;
	int rc = 0;

	while (!rc && ranges->count < ranges->count_max &&
	       (at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
		rc = add_range(ranges, low, high, dwarf_dieoffset(die));
	return rc;
}

static int compare_ranges(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	return (a->high > b->high) - (a->high < b->high);
}

static void sort_ranges(struct ranges *ranges)
{
	if (ranges->count)
		qsort(ranges->ranges, ranges->count, sizeof(*ranges->ranges), compare_ranges);
}

/* The last range that begins at or before @address, if it covers it. */
static const struct range *find_range(const struct ranges *ranges, uint64_t address)
{
	uint32_t low = 0, high = ranges->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges->ranges[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address >= ranges->ranges[low - 1].high)
		return NULL;
	return &ranges->ranges[low - 1];
}

/* ---- units --------------------------------------------------------------------------------- */

static int add_units(struct dwarf_lines *lines)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t type;
	int rc = 0;

	while (!rc && dwarf_get_units(lines->dwarf, unit, &unit, NULL, &type, &die, NULL) == 0)
		if (type == DW_UT_compile || type == DW_UT_skeleton)
			rc = add_ranges_of(&lines->units, &die);
	sort_ranges(&lines->units);
	return rc;
}

/*
 * The shared parts are set or the file is not read: libdw would look for them by itself, under any
 * path that the file names.
 */
static bool open_alt(struct dwarf_lines *lines, int alt_fd)
{
	const char *name;
	const void *id;

	if (dwelf_dwarf_gnu_debugaltlink(lines->dwarf, &name, &id) <= 0)
		return true;
	lines->alt = alt_fd < 0 ? NULL : dwarf_begin(alt_fd, DWARF_C_READ);
	if (lines->alt)
		dwarf_setalt(lines->dwarf, lines->alt);
	return lines->alt != NULL;
}

int dwarf_lines_open(int fd, int alt_fd, struct dwarf_lines **ret_lines)
{
	struct dwarf_lines *lines = calloc(1, sizeof(*lines));
	int rc = -ENOENT;

	if (!lines)
		return -ENOMEM;
	lines->units.count_max = DWARF_RANGES_MAX;
	lines->functions.count_max = DWARF_FUNCTIONS_MAX;
	lines->dwarf = dwarf_begin(fd, DWARF_C_READ);
	if (lines->dwarf && open_alt(lines, alt_fd))
		rc = add_units(lines);
	if (!rc && !lines->units.count)
		rc = -ENOENT;
	if (rc) {
		dwarf_lines_close(lines);
		return rc;
	}
	*ret_lines = lines;
	return 0;
}

void dwarf_lines_close(struct dwarf_lines *lines)
{
	if (!lines)
		return;
	if (lines->dwarf)
		dwarf_end(lines->dwarf);
	if (lines->alt)
		dwarf_end(lines->alt);
	free(lines->units.ranges);
	free(lines->functions.ranges);
	free(lines);
}

/* ---- functions ----------------------------------------------------------------------------- */

/* What functions are defined in: Rust writes them into namespaces, C++ sometimes into classes. */
static bool is_scope(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
	       tag == DW_TAG_enumeration_type;
}

/* @deep: those that are defined within functions, too: lambdas, and functions of local classes. */
static int add_functions(struct ranges *functions, Dwarf_Die *parent, bool deep, uint32_t depth)
{
	Dwarf_Die die;
	int rc = 0;

	if (depth == SCOPES_DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return 0;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram)
			rc = add_ranges_of(functions, &die);
		if (!rc && (is_scope(tag) || deep))
			rc = add_functions(functions, &die, deep, depth + 1);
	} while (!rc && functions->count < functions->count_max &&
		 dwarf_siblingof(&die, &die) == 0);
	return rc;
}

static int use_unit(struct dwarf_lines *lines, Dwarf_Off offset, Dwarf_Die *ret_unit)
{
	if (!dwarf_offdie(lines->dwarf, offset, ret_unit))
		return -ENOENT;
	if (lines->unit == offset)
		return 0;
	lines->unit = offset;
	lines->deep = false;
	lines->functions.count = 0;
	int rc = add_functions(&lines->functions, ret_unit, false, 0);
	sort_ranges(&lines->functions);
	return rc;
}

/* Most functions are found without looking at what is within others, which is most of a unit. */
static const struct range *find_function(struct dwarf_lines *lines, Dwarf_Die *unit,
					 uint64_t address)
{
	const struct range *function = find_range(&lines->functions, address);

	if (function || lines->deep)
		return function;
	lines->deep = true;
	lines->functions.count = 0;
	if (add_functions(&lines->functions, unit, true, 0))
		lines->functions.count = 0;
	sort_ranges(&lines->functions);
	return find_range(&lines->functions, address);
}

static const char *string_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

static const char *name_of(Dwarf_Die *die)
{
	const char *name = string_of(die, DW_AT_linkage_name);

	if (!name)
		name = string_of(die, DW_AT_MIPS_linkage_name);
	return name ? name : string_of(die, DW_AT_name);
}

/* ---- places -------------------------------------------------------------------------------- */

/* The function and the calls inlined into it at one address, outermost first. */
struct chain {
	Dwarf_Die dies[DWARF_INLINED_MAX + 1];
	uint32_t count;
};

/* Among the children of the chain's last: what holds @address. True: something was added. */
static bool descend(struct chain *chain, Dwarf_Die *from, uint64_t address, Dwarf_Die *ret_next)
{
	Dwarf_Die die;

	if (dwarf_child(from, &die) != 0)
		return false;
	do {
		int tag = dwarf_tag(&die);

		if ((tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) ||
		    dwarf_haspc(&die, address) != 1)
			continue;
		if (tag == DW_TAG_inlined_subroutine) {
			if (chain->count > DWARF_INLINED_MAX)
				return false;
			chain->dies[chain->count++] = die;
		}
		*ret_next = die;
		return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static void find_chain(struct dwarf_lines *lines, Dwarf_Die *unit, uint64_t address,
		       struct chain *chain)
{
	const struct range *function = find_function(lines, unit, address);
	Dwarf_Die die;

	chain->count = 0;
	if (!function || !dwarf_offdie(lines->dwarf, function->die, &die))
		return;
	chain->dies[chain->count++] = die;
	for (uint32_t i = 0; i < BLOCKS_DEPTH_MAX && descend(chain, &die, address, &die); i++)
		;
}

/* Where an inlined call was written. */
static void find_call(Dwarf_Die *unit, Dwarf_Die *inlined, struct dwarf_line *ret_line)
{
	Dwarf_Attribute attribute;
	Dwarf_Word file, number;
	Dwarf_Files *files;
	size_t count;

	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &number) == 0 &&
	    number <= UINT32_MAX)
		ret_line->number = (uint32_t)number;
	if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) == 0 &&
	    dwarf_getsrcfiles(unit, &files, &count) == 0 && file < count)
		ret_line->file = dwarf_filesrc(files, file, NULL, NULL);
}

static bool find_row(Dwarf_Die *unit, uint64_t address, struct dwarf_position *place)
{
	Dwarf_Line *row = dwarf_getsrc_die(unit, address);
	Dwarf_Addr start;
	int number;

	if (!row || dwarf_lineaddr(row, &start) != 0 || dwarf_lineno(row, &number) != 0 ||
	    start > address)
		return false;
	place->start = start;
	place->lines[0].file = dwarf_linesrc(row, NULL, NULL);
	place->lines[0].number = number > 0 ? (uint32_t)number : 0;
	return true;
}

/* An inlined call of which not even the name is known says nothing; the function stays. */
static void leave_out_nameless(struct dwarf_position *place)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < place->count; i++)
		if (place->lines[i].name || i + 1 == place->count)
			place->lines[kept++] = place->lines[i];
	place->count = kept;
}

int dwarf_lines_find(struct dwarf_lines *lines, uint64_t address, struct dwarf_position *ret_place)
{
	const struct range *unit_range = find_range(&lines->units, address);
	struct chain chain;
	Dwarf_Die unit;

	if (!unit_range || use_unit(lines, unit_range->die, &unit))
		return -ENOENT;
	find_chain(lines, &unit, address, &chain);
	*ret_place = (struct dwarf_position){ .start = address, .count = 1 };
	bool has_row = find_row(&unit, address, ret_place);
	if (!has_row && !chain.count)
		return -ENOENT;
	if (chain.count)
		ret_place->count = chain.count;
	for (uint32_t i = 0; i < chain.count; i++) {
		Dwarf_Die *die = &chain.dies[chain.count - 1 - i];

		ret_place->lines[i].name = name_of(die);
		if (i + 1 < chain.count)
			find_call(&unit, die, &ret_place->lines[i + 1]);
	}
	leave_out_nameless(ret_place);
	return 0;
}
