// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_extent.h"

uint32_t unwind_segments_of(const struct elf *elf,
			    struct unwind_segment ret_segments[UNWIND_SEGMENTS_MAX])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < elf->load_count && count < UNWIND_SEGMENTS_MAX; i++) {
		const Elf64_Phdr *load = &elf->loads[i];

		if (!(load->p_flags & PF_X))
			continue;
		ret_segments[count++] = (struct unwind_segment){
			.offset = load->p_offset,
			.address = load->p_vaddr,
			.size = load->p_filesz,
		};
	}
	return count;
}
