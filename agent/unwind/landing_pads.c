// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/landing_pads.h"

#include <string.h>

enum {
	PAD_BYTES = 4,
	ALIGNMENT = 16, // of functions with a pad: others are not looked at
	// Looked at in a file: 20 ms. MKL in PyTorch has 1,124.
	LANDING_PADS_MAX = 65536,
};

static bool may_have_pad(const struct unwind_range *range, uint64_t described_limit)
{
	return range->start % ALIGNMENT == PAD_BYTES && described_limit <= range->start - PAD_BYTES;
}

static bool is_pad(const struct elf *elf, uint64_t address)
{
	static const uint8_t endbr64[PAD_BYTES] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const Elf64_Phdr *load = elf_find_code(elf, address);
	uint8_t bytes[PAD_BYTES];

	return load && elf_read(elf, elf_file_offset(load, address), bytes, sizeof(bytes)) == 0 &&
	       memcmp(bytes, endbr64, sizeof(bytes)) == 0;
}

void landing_pads_add(const struct elf *elf, struct unwind_rows *rows)
{
	static const struct unwind_rule called = {
		.cfa = CFA_REGISTER,
		.cfa_register = X86_REGISTER_SP,
		.cfa_offset = 8,
		.saved = SAVED_AT_CFA << 4,
		.return_offset = -8,
	};
	uint64_t described_limit = 0;
	uint32_t looked_at = 0;

	if (elf->header.e_machine != EM_X86_64)
		return;
	for (uint32_t i = 0; i < rows->sorted_count && looked_at < LANDING_PADS_MAX; i++) {
		const struct unwind_range range = rows->ranges[i]; // adding moves them

		if (may_have_pad(&range, described_limit) && ++looked_at &&
		    is_pad(elf, range.start - PAD_BYTES)) {
			unwind_rows_begin(rows, range.start - PAD_BYTES, PAD_BYTES);
			unwind_rows_add(rows, 0, &called);
			unwind_rows_end(rows);
		}
		if (range.start + range.size > described_limit)
			described_limit = range.start + range.size;
	}
}
