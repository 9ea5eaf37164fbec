// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/cfi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "agent/unwind/cfi_pointer.h"
#include "agent/unwind/cfi_program.h"
#include "agent/elf/section_reader.h"

enum {
	CFI_COMMONS_MAX = 1 << 16,         // .debug_frame has one per compiled file
	CFI_SECTION_BYTES_MAX = 128 << 20, // also inflated; Chromium's has 30 MiB
	ENTRY_LENGTH_64 = 0xffffffff,      // a 64-bit length follows
	EH_FRAME_HEADER_VERSION = 1,
};

/* A CIE by its position in the section. */
struct common_at {
	uint64_t position;
	struct cfi_common common;
};

/* The functions to read; others are skipped. */
struct wanted_functions {
	const uint64_t *addresses; // sorted
	uint32_t count;
	uint8_t instead_of_fp; // as in struct cfi_common
};

/* A section being read. */
struct cfi_section {
	const struct elf *elf;
	struct unwind_rows *rows;
	struct section_reader *reader;
	uint64_t address; // virtual, 0 for .debug_frame
	uint64_t size;    // if known
	bool is_eh_frame;
	const struct wanted_functions *wanted; // NULL: all
	bool ends_at_zero;                     // of unknown size: an entry of length 0 ends it
	struct common_at *commons;             // sorted by position, as they are read
	uint32_t common_count, common_capacity;
	uint32_t last_common;
};

/* An entry of the section. */
struct cfi_entry {
	uint64_t position;    // of its first byte
	uint64_t id_position; // of the field that says what it is
	bool is_64;
	struct byte_cursor cursor; // after the length
	const uint8_t *bytes;
};

static void cfi_section_deinit(struct cfi_section *section)
{
	section_reader_free(section->reader);
	free(section->commons);
}

static void count_unsupported(struct cfi_section *section)
{
	section->rows->unsupported_count++;
}

/* Virtual address of the cursor. */
static uint64_t entry_address(const struct cfi_section *section, const struct cfi_entry *entry)
{
	return section->address + entry->position + (uint64_t)(entry->cursor.at - entry->bytes);
}

/* ---- what entries have in common ------------------------------------------------------------- */

static struct cfi_common *add_common(struct cfi_section *section, uint64_t position)
{
	if (section->common_count == CFI_COMMONS_MAX)
		return NULL;
	if (array_reserve(&section->commons, sizeof(*section->commons), &section->common_capacity,
			  section->common_count, 1, CFI_COMMONS_MAX)) {
		section->rows->rc = -ENOMEM;
		return NULL;
	}

	struct common_at *common = &section->commons[section->common_count++];
	memset(common, 0, sizeof(*common));
	common->position = position;
	return &common->common;
}

static const struct cfi_common *find_common(struct cfi_section *section, uint64_t position)
{
	uint32_t first = 0, limit = section->common_count;

	if (limit && section->commons[section->last_common].position == position)
		return &section->commons[section->last_common].common;
	while (first < limit) {
		uint32_t middle = first + (limit - first) / 2;

		if (section->commons[middle].position < position)
			first = middle + 1;
		else
			limit = middle;
	}
	if (first == section->common_count || section->commons[first].position != position)
		return NULL;
	section->last_common = first;
	return &section->commons[first].common;
}

/* Reads the letters of an augmentation "z...". Returns false if one is unknown. */
static bool read_augmentation(struct cfi_section *section, struct cfi_entry *entry,
			      const char *letters, struct cfi_common *common)
{
	struct byte_cursor *cursor = &entry->cursor;
	uint8_t encoding;

	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			common->pointer_encoding = byte_cursor_byte(cursor);
			break;
		case 'P': // personality routine
			encoding = byte_cursor_byte(cursor);
			if (!cfi_pointer_skip(cursor, encoding, entry_address(section, entry)))
				return false;
			break;
		case 'L': // encoding of pointers to exception tables
			byte_cursor_byte(cursor);
			break;
		case 'S':
			common->is_signal_frame = true;
			break;
		case 'B': // return addresses are signed with key B
		case 'G': // memory tagging of the stack
			break;
		default:
			return false;
		}
	}
	return true;
}

static const char *read_string(struct byte_cursor *cursor)
{
	const uint8_t *end = memchr(cursor->at, 0, byte_cursor_left(cursor));

	if (!end) {
		cursor->is_broken = true;
		return "?";
	}
	return (const char *)byte_cursor_take(cursor, (uint64_t)(end - cursor->at) + 1);
}

static bool is_known_version(const struct cfi_section *section, uint8_t version)
{
	return version == 1 || version == 3 || (version == 4 && !section->is_eh_frame);
}

/*
 * The register of the return address. On aarch64 it is a real one, and some code of glibc's loader uses another than lr.
 */
static bool is_known_return_register(uint16_t machine, uint64_t number)
{
	return machine == EM_X86_64 ? number == X86_REGISTER_PC : number <= ARM64_REGISTER_LR;
}

/* The fixed part. Returns false if the rest is unreadable; the cursor's mark counts, too. */
static bool read_common_header(struct cfi_section *section, struct cfi_entry *entry,
			       const char **ret_letters, struct cfi_common *common)
{
	struct byte_cursor *cursor = &entry->cursor;
	uint8_t version = byte_cursor_byte(cursor);
	const char *letters = read_string(cursor);

	*ret_letters = letters;
	if (!is_known_version(section, version) || (letters[0] && letters[0] != 'z'))
		return false;
	if (version == 4) {
		uint8_t address_bytes = byte_cursor_byte(cursor);
		uint8_t segment_bytes = byte_cursor_byte(cursor);

		if (address_bytes != 8 || segment_bytes != 0)
			return false;
	}
	common->code_factor = byte_cursor_uleb(cursor);
	common->data_factor = byte_cursor_sleb(cursor);
	uint64_t number = version == 1 ? byte_cursor_byte(cursor) : byte_cursor_uleb(cursor);
	common->return_register = (uint8_t)number;
	common->is_supported = is_known_return_register(common->machine, number);
	return true;
}

/* The augmentation's data, up to the instructions. Returns as read_common_header(). */
static bool read_common_augmentation(struct cfi_section *section, struct cfi_entry *entry,
				     const char *letters, struct cfi_common *common)
{
	if (!letters[0])
		return true;

	uint64_t size = byte_cursor_uleb(&entry->cursor);
	const uint8_t *begin = byte_cursor_take(&entry->cursor, size);
	if (!begin)
		return false;

	const uint8_t *instructions = entry->cursor.at;
	entry->cursor.at = begin;
	common->has_augmentation_size = true;
	if (!read_augmentation(section, entry, letters + 1, common) ||
	    entry->cursor.at > instructions)
		return false;
	entry->cursor.at = instructions;
	return true;
}

/*
 * Of an unsupported CIE keep the encoding of addresses if possible: its entries' code is then known to be unsupported.
 */
static void read_common(struct cfi_section *section, struct cfi_entry *entry)
{
	struct cfi_common *common = add_common(section, entry->position);
	const char *letters;

	if (!common)
		return;
	common->machine = section->elf->header.e_machine;
	common->instead_of_fp = section->wanted ? section->wanted->instead_of_fp : 0;
	common->pointer_encoding = CFI_POINTER_ABSOLUTE;
	if (!read_common_header(section, entry, &letters, common) ||
	    !read_common_augmentation(section, entry, letters, common) || entry->cursor.is_broken)
		common->is_supported = false;
	cfi_common_run(common, entry->cursor);
	if (!common->is_supported)
		count_unsupported(section);
}

/* ---- entries of functions -------------------------------------------------------------------- */

static void add_row(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	unwind_rows_add(context, offset, rule);
}

/* Finds the entry's code. Returns false if it cannot be known. */
static bool read_code(struct cfi_section *section, struct cfi_entry *entry,
		      struct cfi_program *program)
{
	uint8_t encoding = program->common->pointer_encoding;
	struct byte_cursor *cursor = &entry->cursor;

	if (!cfi_pointer_read(cursor, encoding, entry_address(section, entry), 0,
			      &program->start) ||
	    !cfi_pointer_read(cursor, encoding & CFI_POINTER_FORMAT, 0, 0, &program->size))
		return false;
	if (program->common->has_augmentation_size)
		byte_cursor_take(cursor, byte_cursor_uleb(cursor));
	return !cursor->is_broken;
}

static int compare_addresses(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static bool is_wanted(const struct cfi_section *section, uint64_t address)
{
	const struct wanted_functions *wanted = section->wanted;

	return !wanted || bsearch(&address, wanted->addresses, wanted->count, sizeof(address),
				  compare_addresses);
}

static void read_function(struct cfi_section *section, struct cfi_entry *entry,
			  uint64_t common_position)
{
	struct cfi_program program = { .common = find_common(section, common_position) };

	if (!program.common || !read_code(section, entry, &program)) {
		count_unsupported(section);
		return;
	}
	// Linkers leave entries of dropped functions, with address 0 or an impossible one.
	const Elf64_Phdr *load = elf_find_code(section->elf, program.start);
	if (!program.start || !load || !is_wanted(section, program.start))
		return;

	uint64_t left = load->p_vaddr + load->p_filesz - program.start;
	if (program.size > left)
		program.size = left;
	if (!program.size)
		return;
	program.address = entry_address(section, entry);
	program.instructions = entry->cursor;
	unwind_rows_begin(section->rows, program.start, program.size);
	cfi_program_run(&program, add_row, section->rows);
	unwind_rows_end(section->rows);
}

/* ---- sections -------------------------------------------------------------------------------- */

static void read_entry(struct cfi_section *section, struct cfi_entry *entry)
{
	bool is_eh_frame = section->is_eh_frame;
	// LSB: in .eh_frame this field has 4 bytes even if the length has 8.
	size_t id_bytes = entry->is_64 && !is_eh_frame ? 8 : 4;
	uint64_t id = byte_cursor_number(&entry->cursor, id_bytes);
	uint64_t common_id = is_eh_frame ? 0 : id_bytes == 8 ? UINT64_MAX : UINT32_MAX;

	if (entry->cursor.is_broken)
		count_unsupported(section);
	else if (id == common_id)
		read_common(section, entry);
	else
		read_function(section, entry, is_eh_frame ? entry->id_position - id : id);
}

/*
 * Reads the next entry's length and the length's own size. Returns 0; -ENODATA at the section's end; -EBADMSG if the entry
 * reaches past it; else as section_reader_look().
 */
static int read_length(struct cfi_section *section, uint64_t *ret_length,
		       uint32_t *ret_length_bytes)
{
	uint32_t length_bytes = 4;
	const uint8_t *bytes;
	uint32_t short_length;
	int rc = section_reader_look(section->reader, 4, &bytes);

	if (rc)
		return rc;
	memcpy(&short_length, bytes, 4);
	*ret_length = short_length;
	if (short_length == ENTRY_LENGTH_64) {
		length_bytes = 12;
		rc = section_reader_look(section->reader, length_bytes, &bytes);
		if (rc)
			return rc == -ENODATA ? -EBADMSG : rc;
		memcpy(ret_length, bytes + 4, 8);
	}
	*ret_length_bytes = length_bytes;
	return *ret_length > CFI_SECTION_BYTES_MAX ? -EBADMSG : 0;
}

/* Reads the next entry. Returns as read_length(). */
static int read_next(struct cfi_section *section)
{
	uint32_t length_bytes;
	uint64_t length;
	const uint8_t *bytes;
	int rc = read_length(section, &length, &length_bytes);

	if (rc)
		return rc;
	if (!length) // a terminator inside the section: from an object file linked in
		return section->ends_at_zero ? -ENODATA
					     : section_reader_skip(section->reader, length_bytes);

	rc = section_reader_look(section->reader, length_bytes + length, &bytes);
	if (rc == 0) {
		uint64_t position = section_reader_position(section->reader);
		struct cfi_entry entry = {
			.position = position,
			.id_position = position + length_bytes,
			.is_64 = length_bytes > 4,
			.bytes = bytes,
			.cursor = byte_cursor_over(bytes + length_bytes, length),
		};

		read_entry(section, &entry);
	} else if (rc == -EMSGSIZE) {
		count_unsupported(section); // a megabyte of instructions for one function
	} else {
		return rc == -ENODATA ? -EBADMSG : rc;
	}
	return section_reader_skip(section->reader, length_bytes + length);
}

/* Reads all entries. A truncated section is used as far as it is valid. */
static int read_entries(struct cfi_section *section, const char *name, struct error *err)
{
	int rc;

	do {
		rc = read_next(section);
	} while (rc == 0 && section->rows->rc == 0);
	if (section->rows->rc)
		return error_set(err, section->rows->rc, "%s: %s", name,
				 section->rows->rc == -E2BIG ? "too many rows" : "out of memory");
	if (rc == -EBADMSG) {
		count_unsupported(section);
		return 0;
	}
	return rc == -ENODATA ? 0 : error_set(err, rc, "%s cannot be read", name);
}

static int read_section(const struct elf *elf, const Elf64_Shdr *header, const char *name,
			const struct wanted_functions *wanted, struct unwind_rows *rows,
			struct error *err)
{
	_cleanup_(cfi_section_deinit) struct cfi_section section = { .elf = elf,
								     .rows = rows,
								     .wanted = wanted };

	if (header->sh_size > CFI_SECTION_BYTES_MAX)
		return error_set(err, -E2BIG, "%s has %llu bytes", name,
				 (unsigned long long)header->sh_size);
	section.is_eh_frame = strcmp(name, ".eh_frame") == 0;
	section.address = section.is_eh_frame ? header->sh_addr : 0;

	int rc = section_reader_open_section(elf, header, CFI_SECTION_BYTES_MAX, &section.reader);
	if (rc == -EOPNOTSUPP || rc == -EFBIG) {
		count_unsupported(&section);
		return 0;
	}
	if (rc)
		return error_set(err, rc, "%s lies outside of the file", name);
	return read_entries(&section, name, err);
}

/* ---- without section headers ----------------------------------------------------------------- */

static int find_header_segment(const struct elf *elf, Elf64_Phdr *ret_segment)
{
	uint32_t index = 0;
	int rc;

	do {
		rc = elf_read_segment(elf, index++, ret_segment);
	} while (rc == 0 && ret_segment->p_type != PT_GNU_EH_FRAME);
	return rc;
}

static const Elf64_Phdr *find_load(const struct elf *elf, uint64_t address)
{
	for (uint32_t i = 0; i < elf->load_count; i++) {
		const Elf64_Phdr *load = &elf->loads[i];

		if (address >= load->p_vaddr && address - load->p_vaddr < load->p_filesz)
			return load;
	}
	return NULL;
}

/*
 * Finds .eh_frame by .eh_frame_hdr, which a segment points to. Its search table is not used: entries are read in order, to
 * the terminator.
 */
static int read_by_segment(const struct elf *elf, const struct wanted_functions *wanted,
			   struct unwind_rows *rows, struct error *err)
{
	_cleanup_(cfi_section_deinit) struct cfi_section section = {
		.elf = elf, .rows = rows, .wanted = wanted, .is_eh_frame = true
	};
	uint8_t header[12];
	Elf64_Phdr segment;

	int rc = find_header_segment(elf, &segment);
	if (rc)
		return rc == -ENOENT
			       ? 0
			       : error_set(err, rc, "program headers lie outside of the file");
	rc = elf_read(elf, segment.p_offset, header, sizeof(header));
	if (rc)
		return error_set(err, rc, ".eh_frame_hdr does not lie in the file");

	struct byte_cursor cursor = byte_cursor_over(header + 4, sizeof(header) - 4);
	if (header[0] != EH_FRAME_HEADER_VERSION ||
	    !cfi_pointer_read(&cursor, header[1], segment.p_vaddr + 4, segment.p_vaddr,
			      &section.address) ||
	    cursor.is_broken)
		return error_set(err, -ENOEXEC, ".eh_frame_hdr is of an unknown kind");

	const Elf64_Phdr *load = find_load(elf, section.address);
	if (!load)
		return error_set(err, -ENOEXEC, ".eh_frame is in no segment");
	uint64_t size = load->p_vaddr + load->p_filesz - section.address;
	if (size > CFI_SECTION_BYTES_MAX)
		size = CFI_SECTION_BYTES_MAX;
	section.ends_at_zero = true;
	rc = section_reader_open(elf, elf_file_offset(load, section.address), size,
				 &section.reader);
	if (rc)
		return error_set(err, rc, ".eh_frame does not lie in the file");
	return read_entries(&section, ".eh_frame", err);
}

/*
 * Returns 0; -ENOENT without the section, or with broken headers; -ENODATA if the section's bytes are in another file (this
 * one is a separate debug file).
 */
static int find_section(const struct elf *elf, const char *name, Elf64_Shdr *ret_header)
{
	int rc = elf_find_section(elf, name, ret_header);

	if (rc == -ENOEXEC || rc == -E2BIG)
		return -ENOENT;
	return rc ? rc : ret_header->sh_type == SHT_NOBITS ? -ENODATA : 0;
}

/* Returns as find_section() or cfi_read(). */
static int read_eh_frame(const struct elf *elf, const struct wanted_functions *wanted,
			 struct unwind_rows *rows, struct error *err)
{
	Elf64_Shdr header;
	int rc = find_section(elf, ".eh_frame", &header);

	if (rc == 0)
		return read_section(elf, &header, ".eh_frame", wanted, rows, err);
	if (rc == -ENOENT)
		return read_by_segment(elf, wanted, rows, err);
	return rc == -ENODATA ? rc : error_set(err, rc, "section headers cannot be read");
}

int cfi_read_functions(const struct elf *elf, const uint64_t *addresses, uint32_t count,
		       uint8_t number, struct unwind_rows *rows, struct error *err)
{
	const struct wanted_functions wanted = { addresses, count, number };
	int rc = read_eh_frame(elf, &wanted, rows, err);

	return rc == -ENODATA ? 0 : rc;
}

int cfi_read(const struct elf *elf, struct unwind_rows *rows, struct error *err)
{
	Elf64_Shdr header;
	int rc = read_eh_frame(elf, NULL, rows, err);

	if (rc && rc != -ENODATA)
		return rc;

	// Go's own code is only here, next to the C code of .eh_frame.
	rc = find_section(elf, ".debug_frame", &header);
	if (rc == -ENOENT || rc == -ENODATA)
		return 0;
	if (rc)
		return error_set(err, rc, "section headers cannot be read");

	uint32_t range_count = rows->range_count;
	rc = read_section(elf, &header, ".debug_frame", NULL, rows, err);
	if (rc && !rows->rc && range_count && (rc == -ENOEXEC || rc == -E2BIG)) {
		rows->unsupported_count++; // keep what .eh_frame has
		return 0;
	}
	return rc;
}
