// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_table.h"

#include <stddef.h>
#include <stdlib.h>

void unwind_table_free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->words);
	free(table->rules);
	free(table);
}

const struct unwind_rule *unwind_table_find(const struct unwind_table *table, uint64_t address)
{
	uint64_t offset = address - table->first_address;

	if (address < table->first_address || offset >> TABLE_BLOCK_BITS >= table->block_count)
		return NULL;

	uint32_t block = (uint32_t)(offset >> TABLE_BLOCK_BITS);
	uint32_t key = (uint32_t)(offset % TABLE_BLOCK_BYTES) << TABLE_RULE_BITS | TABLE_RULE_MASK;
	uint32_t first = table->words[block], limit = table->words[block + 1];

	// The last row not above the key; a block's first row has offset 0.
	while (limit - first > 1) {
		uint32_t middle = first + (limit - first) / 2;

		if (table->words[middle] <= key)
			first = middle;
		else
			limit = middle;
	}
	return &table->rules[table->words[first] & TABLE_RULE_MASK];
}

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
