// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/cuda_symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#if defined(__x86_64__)

enum {
	READ_RELOCATIONS = 2048, // per pread(): 48 KiB
	RELOCATIONS_MAX = 1 << 20,
	STUB_BYTES = 18,
	FRAMES_MAX = 1 << 20, // of .eh_frame_hdr; 535 has 13,000
};

/* An export of the driver begins with cmpl $imm32, disp32(%rip); je +12; jmp *disp32(%rip). */
enum { STUB_JUMP_AT = 12, STUB_SLOT_AT = 14 };

/* An export with its slot. */
struct slot {
	uint64_t address;
	uint64_t name_offset;
	uint64_t target; // what the slot points to; 0: not relocated
};

struct slots {
	struct slot *slots;
	uint32_t count;
};

/* .eh_frame_hdr sorts functions by address (LSB, "Exception Frames"). */
struct frame_entry {
	int32_t function; // from the section's address
	int32_t frame;
};

struct frames {
	uint64_t address; // of .eh_frame_hdr
	struct frame_entry *entries;
	uint32_t count;
};

/* ---- stubs --------------------------------------------------------------------------------- */

/* The file offset of a virtual address in any segment. False: in none. */
static bool find_offset(const struct elf *elf, uint64_t address, uint64_t *ret_offset)
{
	for (uint32_t i = 0; i < elf->load_count; i++) {
		const Elf64_Phdr *load = &elf->loads[i];

		if (address >= load->p_vaddr && address - load->p_vaddr < load->p_filesz) {
			*ret_offset = elf_file_offset(load, address);
			return true;
		}
	}
	return false;
}

static bool is_stub(const uint8_t *code)
{
	return code[0] == 0x81 && code[1] == 0x3d && code[10] == 0x74 && code[11] == 12 &&
	       code[STUB_JUMP_AT] == 0xff && code[STUB_JUMP_AT + 1] == 0x25;
}

/* The slot that the export at @address jumps through. False: not a stub. */
static bool find_slot(const struct elf *elf, uint64_t address, uint64_t *ret_slot)
{
	uint8_t code[STUB_BYTES];
	int32_t distance;
	uint64_t offset;

	if (!elf_find_code(elf, address) || !find_offset(elf, address, &offset) ||
	    elf_read(elf, offset, code, sizeof(code)) || !is_stub(code))
		return false;
	memcpy(&distance, code + STUB_SLOT_AT, sizeof(distance));
	*ret_slot = address + STUB_BYTES + (uint64_t)(int64_t)distance;
	return true;
}

static int read_stubs(const struct elf *elf, struct slots *slots)
{
	Elf64_Shdr symbols, names;
	int rc = elf_find_section(elf, ".dynsym", &symbols);

	if (!rc)
		rc = elf_find_section(elf, ".dynstr", &names);
	if (rc)
		return rc;
	uint64_t count = symbols.sh_size / sizeof(Elf64_Sym);
	if (count > CUDA_SYMBOLS_MAX)
		count = CUDA_SYMBOLS_MAX;
	slots->slots = calloc(count ? count : 1, sizeof(*slots->slots));
	if (!slots->slots)
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++) {
		struct slot slot = { 0 };
		Elf64_Sym symbol;

		rc = elf_read(elf, symbols.sh_offset + i * sizeof(symbol), &symbol, sizeof(symbol));
		if (rc)
			return rc;
		if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
		    symbol.st_name >= names.sh_size ||
		    !find_slot(elf, symbol.st_value, &slot.address))
			continue;
		slot.name_offset = names.sh_offset + symbol.st_name;
		slots->slots[slots->count++] = slot;
	}
	return 0;
}

static int compare_slots(const void *left, const void *right)
{
	const struct slot *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (a->name_offset > b->name_offset) - (a->name_offset < b->name_offset);
}

/* ---- targets of slots ------------------------------------------------------------------------ */

/* Of exports that share a slot, the first one. */
static void fill_slot(const struct slots *slots, const Elf64_Rela *relocation)
{
	const struct slot key = { .address = relocation->r_offset };
	uint32_t low = 0, high = slots->count;

	if (ELF64_R_TYPE(relocation->r_info) != R_X86_64_RELATIVE)
		return;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare_slots(&slots->slots[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < slots->count && slots->slots[low].address == key.address)
		slots->slots[low].target = (uint64_t)relocation->r_addend;
}

static void share_targets(const struct slots *slots)
{
	for (uint32_t i = 1; i < slots->count; i++)
		if (slots->slots[i].address == slots->slots[i - 1].address)
			slots->slots[i].target = slots->slots[i - 1].target;
}

static int read_relocations(const struct elf *elf, const struct slots *slots)
{
	Elf64_Shdr section;
	int rc = elf_find_section(elf, ".rela.dyn", &section);

	if (rc)
		return rc;
	_cleanup_free_ Elf64_Rela *relocations = malloc(READ_RELOCATIONS * sizeof(*relocations));
	if (!relocations)
		return -ENOMEM;
	uint64_t left = section.sh_size / sizeof(*relocations);
	uint64_t offset = section.sh_offset;
	if (left > RELOCATIONS_MAX)
		left = RELOCATIONS_MAX;
	while (left) {
		uint64_t count = left < READ_RELOCATIONS ? left : READ_RELOCATIONS;

		rc = elf_read(elf, offset, relocations, count * sizeof(*relocations));
		if (rc)
			return rc;
		for (uint64_t i = 0; i < count; i++)
			fill_slot(slots, &relocations[i]);
		offset += count * sizeof(*relocations);
		left -= count;
	}
	return 0;
}

/* ---- sizes of functions ---------------------------------------------------------------------- */

static int read_frames(const struct elf *elf, struct frames *frames)
{
	// Version 1; pointer relative to itself, count of four bytes, table relative to the section.
	static const uint8_t usual[4] = { 1, 0x1b, 0x03, 0x3b };
	struct {
		uint8_t kinds[4];
		int32_t pointer;
		uint32_t count;
	} header;
	Elf64_Shdr section;

	int rc = elf_find_section(elf, ".eh_frame_hdr", &section);
	if (!rc)
		rc = elf_read(elf, section.sh_offset, &header, sizeof(header));
	if (rc)
		return rc;
	if (memcmp(header.kinds, usual, sizeof(usual)) != 0 || header.count > FRAMES_MAX)
		return -ENOENT;
	frames->address = section.sh_addr;
	size_t size = header.count * sizeof(*frames->entries);
	if (size > elf->size)
		return -ENOEXEC;
	frames->entries = malloc(size ? size : 1);
	if (!frames->entries)
		return -ENOMEM;
	frames->count = header.count;
	return elf_read(elf, section.sh_offset + sizeof(header), frames->entries, size);
}

/* The size of the function that begins at @address, from its frame description; 0: none begins there. */
static uint64_t find_size(const struct elf *elf, const struct frames *frames, uint64_t address)
{
	uint32_t low = 0, high = frames->count;
	uint64_t offset;
	struct {
		uint32_t length, cie;
		int32_t function;
		uint32_t size;
	} frame;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		uint64_t start =
			frames->address + (uint64_t)(int64_t)frames->entries[middle].function;

		if (start < address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == frames->count ||
	    frames->address + (uint64_t)(int64_t)frames->entries[low].function != address)
		return 0;
	uint64_t place = frames->address + (uint64_t)(int64_t)frames->entries[low].frame;
	if (!find_offset(elf, place, &offset) || elf_read(elf, offset, &frame, sizeof(frame)))
		return 0;
	// The address is relative to itself, unless the CIE has another encoding.
	if (place + 8 + (uint64_t)(int64_t)frame.function != address)
		return 0;
	return frame.size;
}

static int visit_symbols(const struct elf *elf, const struct slots *slots,
			 const struct frames *frames, cuda_symbol_fn fn, void *context)
{
	for (uint32_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slots[i];
		const struct cuda_symbol symbol = {
			.address = slot->target,
			.size = slot->target ? find_size(elf, frames, slot->target) : 0,
			.name_offset = slot->name_offset,
		};
		int rc = symbol.size ? fn(context, &symbol) : 0;

		if (rc)
			return rc;
	}
	return 0;
}

int cuda_symbols_read(const struct elf *elf, cuda_symbol_fn fn, void *context)
{
	struct slots slots = { 0 };
	struct frames frames = { 0 };
	int rc = read_stubs(elf, &slots);

	if (!rc && slots.count) {
		qsort(slots.slots, slots.count, sizeof(*slots.slots), compare_slots);
		rc = read_relocations(elf, &slots);
		share_targets(&slots);
		if (!rc)
			rc = read_frames(elf, &frames);
		if (!rc)
			rc = visit_symbols(elf, &slots, &frames, fn, context);
	}
	free(slots.slots);
	free(frames.entries);
	return rc;
}

#else

int cuda_symbols_read(const struct elf *elf, cuda_symbol_fn fn, void *context)
{
	(void)elf, (void)fn, (void)context;
	return -ENOENT; // this architecture's driver is not supported yet
}

#endif
