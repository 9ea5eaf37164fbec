// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/go_pclntab.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "agent/elf/go_text.h"

/* What the table begins with (src/internal/abi/symtab.go). */
#define MAGIC_1_2  0xfffffffbU
#define MAGIC_1_16 0xfffffffaU
#define MAGIC_1_18 0xfffffff0U
#define MAGIC_1_20 0xfffffff1U

enum {
	PAGE_BITS = 14,
	PAGE_BYTES = 1 << PAGE_BITS,
	PAGES = 64, // 1 MiB; a function's tables lie close together
	HEADER_BYTES = 8,
	NAME_BYTES = 64, // enough for the runtime's names below
};

/* Of _func.flag: which bits, and since which version they are there. */
enum { FLAG_TOP_FRAME = 1, FLAG_SP_WRITE = 2 };

/* A cached page of the file. */
struct page {
	uint64_t number; // UINT64_MAX: empty
	uint32_t size;
	uint8_t bytes[PAGE_BYTES];
};

struct go_pclntab {
	const struct elf *elf;
	uint64_t offset; // in the file
	uint64_t size;
	uint32_t magic;
	uint32_t quantum; // bytes per unit of pc
	uint64_t text;    // base of function offsets since 1.18
	uint32_t count;
	uint32_t functab_field;                                   // bytes
	uint64_t functab, funcdata, names, pctab, cutab, filetab; // offsets in the table
	struct page pages[PAGES];
};

/* _func (src/runtime/runtime2.go), the fields in use. */
struct function_record {
	uint64_t entry;
	uint32_t name;
	uint32_t pcsp, pcfile, pcln;
	uint32_t cu;
	uint8_t flags;
};

/* ---- reading ------------------------------------------------------------------------------- */

static int load_page(struct go_pclntab *table, uint64_t number, struct page **ret_page)
{
	struct page *page = &table->pages[number % PAGES];
	uint64_t at = number << PAGE_BITS;

	*ret_page = page;
	if (page->number == number)
		return 0;
	if (at >= table->size)
		return -ENOEXEC;
	uint64_t size = table->size - at < PAGE_BYTES ? table->size - at : PAGE_BYTES;
	page->number = UINT64_MAX;
	int rc = elf_read(table->elf, table->offset + at, page->bytes, size);
	if (rc)
		return rc;
	page->number = number;
	page->size = (uint32_t)size;
	return 0;
}

static int read_at(struct go_pclntab *table, uint64_t at, void *bytes, size_t size)
{
	uint8_t *to = bytes;

	if (at > table->size || size > table->size - at)
		return -ENOEXEC;
	while (size) {
		struct page *page;
		int rc = load_page(table, at >> PAGE_BITS, &page);
		if (rc)
			return rc;
		uint32_t place = at & (PAGE_BYTES - 1);
		size_t part = page->size - place < size ? page->size - place : size;

		memcpy(to, page->bytes + place, part);
		to += part;
		at += part;
		size -= part;
	}
	return 0;
}

static int read_word(struct go_pclntab *table, uint64_t at, uint64_t *ret_word)
{
	return read_at(table, at, ret_word, sizeof(*ret_word));
}

/* Go's varint: 7 bits per byte, lowest first, at most 32 bits. */
static int read_varint(struct go_pclntab *table, uint64_t *at, uint32_t *ret_value)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 35; shift += 7) {
		uint8_t byte;
		int rc = read_at(table, (*at)++, &byte, 1);
		if (rc)
			return rc;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret_value = (uint32_t)value;
			return 0;
		}
	}
	return -ENOEXEC;
}

/* A string of the table, truncated to @size. */
static int read_text(struct go_pclntab *table, uint64_t at, char *ret_text, size_t size)
{
	if (at >= table->size)
		return -ENOEXEC;
	if (size > table->size - at)
		size = table->size - at;
	int rc = read_at(table, at, ret_text, size);
	if (rc)
		return rc;
	ret_text[size - 1] = '\0';
	return 0;
}

/* ---- header -------------------------------------------------------------------------------- */

static bool magic_is_known(uint32_t magic)
{
	return magic == MAGIC_1_2 || magic == MAGIC_1_16 || magic == MAGIC_1_18 ||
	       magic == MAGIC_1_20;
}

static int find_section(const struct elf *elf, uint64_t *ret_offset, uint64_t *ret_size,
			uint64_t *ret_address)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	Elf64_Shdr section;
	int rc = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(names) && rc == -ENOENT; i++)
		rc = elf_find_section(elf, names[i], &section);
	if (rc)
		return rc == -ENOEXEC || rc == -E2BIG ? -ENOENT : rc;
	if (section.sh_type == SHT_NOBITS || section.sh_offset > elf->size ||
	    section.sh_size > elf->size - section.sh_offset)
		return -ENOENT;
	*ret_offset = section.sh_offset;
	*ret_size = section.sh_size;
	*ret_address = section.sh_addr;
	return 0;
}

/* After the first two words: offsets of the table's parts. 1.2 has none. */
static int read_places(struct go_pclntab *table, uint32_t first_word)
{
	uint64_t *const places[] = { &table->names, &table->cutab, &table->filetab, &table->pctab,
				     &table->funcdata };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int rc = read_word(table, HEADER_BYTES + 8 * (first_word + i), places[i]);
		if (rc)
			return rc;
		if (*places[i] > table->size)
			return -ENOEXEC;
	}
	table->functab = table->funcdata;
	return 0;
}

static int place_1_2(struct go_pclntab *table)
{
	uint32_t files;

	table->functab = HEADER_BYTES + 8;
	// After the functions: their end, then the offset of file names.
	int rc = read_at(table, table->functab + 16 * (uint64_t)table->count + 8, &files,
			 sizeof(files));
	if (!rc)
		table->filetab = files;
	return rc;
}

static int read_header(struct go_pclntab *table, uint64_t address)
{
	uint8_t header[HEADER_BYTES];
	uint64_t count;

	if (read_at(table, 0, header, sizeof(header)) || read_word(table, HEADER_BYTES, &count))
		return -ENOENT;
	memcpy(&table->magic, header, sizeof(table->magic));
	table->quantum = header[6];
	if (!magic_is_known(table->magic) || header[4] || header[5] || header[7] != 8 ||
	    (table->quantum != 1 && table->quantum != 2 && table->quantum != 4))
		return -ENOENT;
	table->count = count < GO_FUNCTIONS_MAX ? (uint32_t)count : GO_FUNCTIONS_MAX;
	bool relative = table->magic == MAGIC_1_18 || table->magic == MAGIC_1_20;
	table->functab_field = relative ? 4 : 8;
	if (table->magic == MAGIC_1_2)
		return place_1_2(table);
	int rc = read_places(table, relative ? 3 : 2);
	if (!rc && relative)
		rc = go_text_find(table->elf, table->offset, address, &table->text);
	return rc;
}

int go_pclntab_open(const struct elf *elf, struct go_pclntab **ret_table)
{
	_cleanup_(go_pclntab_closep) struct go_pclntab *table = NULL;
	uint64_t offset, size, address;
	int rc = find_section(elf, &offset, &size, &address);

	if (rc)
		return rc;
	table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	table->elf = elf;
	table->offset = offset;
	table->size = size;
	for (uint32_t i = 0; i < PAGES; i++)
		table->pages[i].number = UINT64_MAX;
	rc = read_header(table, address);
	if (rc)
		return rc;
	*ret_table = take(table);
	return 0;
}

void go_pclntab_close(struct go_pclntab *table)
{
	free(table);
}

void go_pclntab_closep(struct go_pclntab **table)
{
	go_pclntab_close(*table);
}

uint32_t go_pclntab_count(const struct go_pclntab *table)
{
	return table->count;
}

uint64_t go_pclntab_names_offset(const struct go_pclntab *table)
{
	return table->offset + table->names;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* Entry @index of the function table; entry `count` is the end of the last one. */
static int read_entry(struct go_pclntab *table, uint32_t index, uint64_t *ret_address,
		      uint64_t *ret_record)
{
	uint64_t at = table->functab + (uint64_t)index * 2 * table->functab_field;
	uint64_t address = 0, record = 0;

	int rc = read_at(table, at, &address, table->functab_field);
	if (!rc && index < table->count)
		rc = read_at(table, at + table->functab_field, &record, table->functab_field);
	if (rc)
		return rc;
	*ret_address = address + table->text;
	*ret_record = record;
	return 0;
}

static uint32_t field32(const uint8_t *record, uint32_t at)
{
	uint32_t value;

	memcpy(&value, record + at, sizeof(value));
	return value;
}

/* Older entries have full addresses, which moves the other fields. */
static int read_record(struct go_pclntab *table, uint64_t place, struct function_record *ret_record)
{
	uint32_t entry_bytes = table->functab_field;
	uint8_t bytes[48] = { 0 };
	uint64_t at = table->funcdata + place;
	uint32_t flag = entry_bytes + (table->magic == MAGIC_1_20 ? 37 : 33);
	bool has_cu = table->magic != MAGIC_1_2;

	if (place > table->size)
		return -ENOEXEC;
	int rc = read_at(table, at, bytes, has_cu ? flag + 1 : entry_bytes + 28);
	if (rc)
		return rc;
	*ret_record = (struct function_record){
		.name = field32(bytes, entry_bytes),
		.pcsp = field32(bytes, entry_bytes + 12),
		.pcfile = field32(bytes, entry_bytes + 16),
		.pcln = field32(bytes, entry_bytes + 20),
	};
	memcpy(&ret_record->entry, bytes, entry_bytes);
	ret_record->entry += table->text;
	if (has_cu)
		ret_record->cu = field32(bytes, entry_bytes + 28);
	// 1.16 has no flags: its byte there is padding.
	if (has_cu && table->magic != MAGIC_1_16)
		ret_record->flags = bytes[flag];
	return 0;
}

int go_pclntab_function(struct go_pclntab *table, uint32_t index, struct go_function *ret_function)
{
	struct function_record record;
	uint64_t address, limit, place, unused;

	if (index >= table->count)
		return -ENOEXEC;
	int rc = read_entry(table, index, &address, &place);
	if (!rc)
		rc = read_entry(table, index + 1, &limit, &unused);
	if (!rc)
		rc = read_record(table, place, &record);
	if (rc)
		return rc;
	if (limit <= address || table->names + record.name >= table->size)
		return -ENOEXEC;
	*ret_function = (struct go_function){
		.address = address,
		.limit = limit,
		.name_offset = table->offset + table->names + record.name,
	};
	return 0;
}

/* ---- tables of values by pc ------------------------------------------------------------------ */

/* Iterates over a pc-value table: each step is a value and the address where it ends. */
struct value_walk {
	uint64_t at; // offset in the table
	uint64_t limit;
	int64_t value;
	bool begun;
};

static struct value_walk walk_begin(const struct go_pclntab *table, uint32_t place, uint64_t entry)
{
	return (struct value_walk){ .at = table->pctab + place, .limit = entry, .value = -1 };
}

/* Returns 1 with the next value, 0 at the end; or a negative errno. */
static int walk_next(struct go_pclntab *table, struct value_walk *walk)
{
	uint32_t value, bytes;

	int rc = read_varint(table, &walk->at, &value);
	if (rc)
		return rc;
	if (!value && walk->begun)
		return 0;
	walk->begun = true;
	walk->value += (int32_t)(value & 1 ? ~(value >> 1) : value >> 1);
	rc = read_varint(table, &walk->at, &bytes);
	if (rc)
		return rc;
	walk->limit += (uint64_t)bytes * table->quantum;
	return 1;
}

/* ---- lines ------------------------------------------------------------------------------------ */

static int find_index(struct go_pclntab *table, uint64_t address, uint32_t *ret_index)
{
	uint32_t low = 0, high = table->count;
	uint64_t start, unused;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int rc = read_entry(table, middle, &start, &unused);

		if (rc)
			return rc;
		if (start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return -ENOENT;
	*ret_index = low - 1;
	return 0;
}

static int find_value(struct go_pclntab *table, uint32_t place, uint64_t entry, uint64_t address,
		      int64_t *ret_value)
{
	struct value_walk walk = walk_begin(table, place, entry);
	int rc = 0;

	for (uint32_t i = 0; i < GO_FUNCTION_ROWS_MAX; i++) {
		rc = walk_next(table, &walk);
		if (rc <= 0)
			return rc ? rc : -ENOENT;
		if (address < walk.limit) {
			*ret_value = walk.value;
			return walk.value < 0 ? -ENOENT : 0;
		}
	}
	return -ENOEXEC;
}

/* Until 1.15 files are numbered per program, later per compilation unit. */
static int find_file(struct go_pclntab *table, const struct function_record *record, int64_t number,
		     char ret_file[GO_FILE_BYTES])
{
	uint32_t place;
	uint64_t at = table->magic == MAGIC_1_2
			      ? table->filetab + 4 * (uint64_t)number
			      : table->cutab + 4 * (record->cu + (uint64_t)number);
	int rc = read_at(table, at, &place, sizeof(place));

	if (rc)
		return rc;
	if (place == UINT32_MAX) // dropped by the linker
		return -ENOENT;
	return read_text(table, (table->magic == MAGIC_1_2 ? 0 : table->filetab) + place, ret_file,
			 GO_FILE_BYTES);
}

int go_pclntab_find_line(struct go_pclntab *table, uint64_t address, char ret_file[GO_FILE_BYTES],
			 uint32_t *ret_line)
{
	struct function_record record;
	struct go_function function;
	uint64_t start, place;
	int64_t file, line;
	uint32_t index;

	int rc = find_index(table, address, &index);
	if (!rc)
		rc = go_pclntab_function(table, index, &function);
	if (rc)
		return rc;
	if (address >= function.limit)
		return -ENOENT;
	rc = read_entry(table, index, &start, &place);
	if (!rc)
		rc = read_record(table, place, &record);
	if (!rc)
		rc = find_value(table, record.pcln, start, address, &line);
	if (!rc)
		rc = find_value(table, record.pcfile, start, address, &file);
	if (!rc)
		rc = find_file(table, &record, file, ret_file);
	if (!rc)
		*ret_line = (uint32_t)line;
	return rc;
}

/* ---- rows --------------------------------------------------------------------------------------- */

/* Known about a function beside its stack-pointer table. */
enum function_kind {
	FUNCTION_PLAIN,
	FUNCTION_SWITCHES,  // writes the stack pointer; its frame pointer stays its own
	FUNCTION_FIRST,     // has no caller
	FUNCTION_SIGRETURN, // where a signal handler returns to
};

struct row_walk {
	go_row_fn fn;
	void *context;
	struct go_row last;
	uint64_t function, limit; // the present function
	uint32_t steps;
};

/* The runtime's assembly that needs special rules (src/runtime/asm_amd64.s, asm_arm64.s). */
static const struct {
	const char *name;
	enum function_kind kind;
} runtime_functions[] = {
	{ "runtime.goexit", FUNCTION_FIRST },
	{ "runtime.mstart", FUNCTION_FIRST },
	{ "runtime.rt0_go", FUNCTION_FIRST },
	{ "runtime.mcall", FUNCTION_FIRST },
	{ "runtime.gogo", FUNCTION_FIRST },
	{ "runtime.morestack", FUNCTION_FIRST },
	{ "runtime.systemstack", FUNCTION_SWITCHES },
	{ "runtime.asmcgocall", FUNCTION_SWITCHES },
	{ "runtime.nanotime1", FUNCTION_SWITCHES },
	{ "runtime.walltime", FUNCTION_SWITCHES },
	{ "runtime.walltime1", FUNCTION_SWITCHES },
	{ "time.now", FUNCTION_SWITCHES },
	{ "runtime.cgocallback",
	  FUNCTION_PLAIN },                     // lays out its frame anew on the goroutine's stack
	{ "runtime.sigtramp", FUNCTION_PLAIN }, // called first by the kernel, not at all by Go
	{ "runtime.cgoSigtramp", FUNCTION_PLAIN },
	{ "runtime.sigreturn", FUNCTION_SIGRETURN },
	{ "runtime.sigreturn__sigaction", FUNCTION_SIGRETURN },
};

/* By name: before 1.16 there are no flags, and flags do not say all. */
static bool find_kind(const char *name, enum function_kind *ret_kind)
{
	size_t size = strcspn(name, "<"); // assembly may have "<ABIInternal>" added, or ".abi0"

	if (size > 5 && memcmp(name + size - 5, ".abi0", 5) == 0)
		size -= 5;
	for (size_t i = 0; i < ARRAY_SIZE(runtime_functions); i++) {
		const char *known = runtime_functions[i].name;

		if (strlen(known) == size && memcmp(known, name, size) == 0) {
			*ret_kind = runtime_functions[i].kind;
			return true;
		}
	}
	return false;
}

static int kind_of(struct go_pclntab *table, const struct function_record *record,
		   enum function_kind *ret_kind)
{
	char name[NAME_BYTES] = "";
	int rc = read_text(table, table->names + record->name, name, sizeof(name));

	if (rc && rc != -ENOEXEC) // without a name it is an ordinary function
		return rc;
	if (find_kind(name, ret_kind))
		return 0;
	if (record->flags & FLAG_TOP_FRAME)
		*ret_kind = FUNCTION_FIRST;
	else if (record->flags & FLAG_SP_WRITE)
		*ret_kind = FUNCTION_SWITCHES;
	else
		*ret_kind = FUNCTION_PLAIN;
	return 0;
}

static int give_row(struct row_walk *walk, uint64_t address, int64_t sp_delta,
		    enum go_row_kind kind)
{
	struct go_row row = {
		.address = address,
		.function = walk->function,
		.function_limit = walk->limit,
		.kind = kind,
	};

	if (kind == GO_ROW_SP) {
		// Go's stacks end at 1 GB. Below zero a function would pop its caller's arguments, which Go's do
		// not.
		if (sp_delta < 0 || sp_delta > 1 << 30)
			row.kind = GO_ROW_NONE;
		else
			row.sp_delta = (int32_t)sp_delta;
	}
	if (address != walk->function && walk->last.kind == row.kind &&
	    walk->last.sp_delta == row.sp_delta)
		return 0;
	walk->last = row;
	return walk->fn(walk->context, &row);
}

static enum go_row_kind kind_of_switching(bool frame, int64_t sp_delta)
{
#if defined(__x86_64__)
	// Until it has a frame, all is as at its entry. The oldest versions give it none: then only its caller's
	// frame is known, and it is left out.
	return frame && sp_delta == 0 ? GO_ROW_SP : GO_ROW_FP;
#else
	// Frames there are linked by their lower ends, which are not the stack pointer.
	(void)frame;
	(void)sp_delta;
	return GO_ROW_NONE;
#endif
}

/* Does the function move the stack pointer? */
static int has_frame(struct go_pclntab *table, struct row_walk *walk, uint32_t pcsp, uint64_t entry,
		     bool *ret_frame)
{
	struct value_walk values = walk_begin(table, pcsp, entry);

	*ret_frame = false;
	for (uint32_t i = 0; i < GO_FUNCTION_ROWS_MAX; i++) {
		int rc = walk->steps++ < GO_ROWS_MAX ? walk_next(table, &values) : -E2BIG;
		if (rc <= 0)
			return rc;
		if (values.value > 0)
			*ret_frame = true;
	}
	return 0;
}

static int give_values(struct go_pclntab *table, struct row_walk *walk, uint32_t pcsp,
		       uint64_t entry, uint64_t limit, enum function_kind kind)
{
	struct value_walk values = walk_begin(table, pcsp, entry);
	uint64_t address = entry;
	bool frame = false;
	int rc = kind == FUNCTION_SWITCHES ? has_frame(table, walk, pcsp, entry, &frame) : 0;

	for (uint32_t i = 0; !rc && address < limit && i < GO_FUNCTION_ROWS_MAX; i++) {
		rc = walk->steps++ < GO_ROWS_MAX ? walk_next(table, &values) : -E2BIG;
		if (rc <= 0)
			break;
		if (values.limit > address) // else two values for one address: the second wins
			rc = give_row(walk, address, values.value,
				      kind == FUNCTION_SWITCHES
					      ? kind_of_switching(frame, values.value)
					      : GO_ROW_SP);
		else
			rc = 0;
		address = values.limit;
	}
	// Padding behind the last instruction is never run.
	return rc;
}

static int give_function(struct go_pclntab *table, struct row_walk *walk, uint32_t index)
{
	uint64_t entry, place, limit, unused;
	struct function_record record;
	enum function_kind kind;

	int rc = read_entry(table, index, &entry, &place);
	if (!rc)
		rc = read_entry(table, index + 1, &limit, &unused);
	if (!rc)
		rc = read_record(table, place, &record);
	if (!rc)
		rc = kind_of(table, &record, &kind);
	if (rc)
		return rc;
	if (entry < walk->limit || limit <= entry)
		return -ENOEXEC;
	walk->function = entry;
	walk->limit = limit;
	if (kind == FUNCTION_FIRST)
		return give_row(walk, entry, 0, GO_ROW_END);
	if (kind == FUNCTION_SIGRETURN)
		return give_row(walk, entry, 0, GO_ROW_SIGNAL);
	if (!record.pcsp) // assembly without annotations
		return give_row(walk, entry, 0, GO_ROW_NONE);
	return give_values(table, walk, record.pcsp, entry, limit, kind);
}

int go_pclntab_rows(const struct elf *elf, go_row_fn fn, void *context)
{
	_cleanup_(go_pclntab_closep) struct go_pclntab *table = NULL;
	struct row_walk walk = { .fn = fn, .context = context };
	int rc = go_pclntab_open(elf, &table);

	for (uint32_t i = 0; !rc && i < table->count; i++)
		rc = give_function(table, &walk, i);
	return rc;
}
