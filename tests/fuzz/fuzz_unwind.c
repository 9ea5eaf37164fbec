// SPDX-License-Identifier: Apache-2.0
// Any registers, memory, mappings, tables, rules and interpreter: the walk ends in time,
// keeps no more frames than there is room for, and reads only the given memory. The input's
// first bytes choose a plausible process; the others are written over it, anywhere.

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// For gcc, which has another word for "unroll".
#pragma GCC diagnostic ignored "-Wunknown-pragmas"

static const bool unwind_by_tables = true;
static const bool unwind_python = true;

#include "bpf/unwind/unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
	MEMORY_WORDS = 512,
	TABLE_WORDS = 2 * TABLE_PAGE_WORDS,
	TABLES = 2,
	RULES = 16,
	PAGES = 3,
};

#define MEMORY_BASE 0x7f0000000000ULL
#define CODE_BASE   0x400000ULL
#define CODE_BYTES  (16 * TABLE_BLOCK_BYTES)
#define CODE_TYPE   (MEMORY_BASE + 8 * 7) // &PyCode_Type

/* The unwound process. */
static struct {
	uint64_t memory[MEMORY_WORDS];
	struct table_page tables[TABLES][TABLE_WORDS / TABLE_PAGE_WORDS];
	struct unwind_rule rules[RULES];
	struct mapping_page pages[PAGES];
	struct python_offsets offsets;
	struct raw_frame frames[STACK_DEPTH_MAX];
	uint32_t page_count;
} given;

/* ---- helpers of unwind.h  ------------------------------------------------------------------- */

static long read_user(void *to, __u32 size, __u64 address)
{
	uint64_t offset = address - MEMORY_BASE;

	if (offset >= sizeof(given.memory) || size > sizeof(given.memory) - offset)
		return -14; // -EFAULT
	memcpy(to, (const char *)given.memory + offset, size);
	return 0;
}

static struct raw_frame *unwind_frame(struct unwind *unwind, __u32 at)
{
	(void)unwind;
	if (at >= STACK_DEPTH_MAX)
		abort();
	return &given.frames[at];
}

static const struct mapping_page *unwind_mapping_page(const struct unwind *unwind, __u32 page)
{
	(void)unwind;
	return page < given.page_count ? &given.pages[page] : NULL;
}

static void *unwind_table(__u32 table)
{
	return table < TABLES ? &given.tables[table] : NULL;
}

static const struct table_page *unwind_table_page(void *table, __u32 page)
{
	return page < TABLE_WORDS / TABLE_PAGE_WORDS ? (struct table_page *)table + page : NULL;
}

static const struct unwind_rule *unwind_rule_at(__u32 rule)
{
	return rule < RULES ? &given.rules[rule] : NULL;
}

/* No cache: each search is done. */
static struct cached_rules *unwind_cached_rules(__u64 address)
{
	(void)address;
	return NULL;
}

static const struct python_offsets *python_offsets_at(__u32 runtime)
{
	return runtime == 1 ? &given.offsets : NULL;
}

/* ---- a plausible process -----------  ------------------------------------------------------- */

static uint64_t random_state;

/* xorshift64 (Marsaglia) */
static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) % below;
}

static uint64_t draw_word(uint32_t at)
{
	switch (draw(8)) {
	case 0:
	case 1:
	case 2:
		return CODE_BASE + draw(2 * CODE_BYTES);
	case 3:
	case 4: // further up the stack, as frame pointers are
		return MEMORY_BASE + 8 * (at + 2 + draw(16));
	case 5:
		return MEMORY_BASE + 8 * draw(MEMORY_WORDS);
	case 6:
		return draw(2) ? CODE_TYPE : draw(64);
	}
	return random_state;
}

static void draw_rules(void)
{
	static const uint8_t saved[] = { SAVED_AT_CFA << 4, SAVED_AT_CFA << 4 | SAVED_AT_CFA,
					 SAVED_AT_CFA << 4 | SAVED_AT_FP, SAVED_IN_REGISTER << 4,
					 SAVED_AT_SP << 4 };

	for (uint32_t i = 0; i < RULES; i++)
		given.rules[i] = (struct unwind_rule){
			.cfa = draw(4) ? CFA_REGISTER : (uint8_t)draw(8),
			.cfa_register = draw(2) ? REGISTER_SP : REGISTER_FP,
			.saved = saved[draw(sizeof(saved))],
			.flags = (uint8_t)draw(8),
			.cfa_offset = (int32_t)(8 * (1 + draw(6))),
			.fp_offset = -16,
			.return_offset = -8,
			.deref_offset = (int16_t)draw(16),
		};
}

static void draw_table(struct table_page *pages)
{
	const uint32_t blocks = CODE_BYTES / TABLE_BLOCK_BYTES;
	uint32_t *words = pages[0].words, at = blocks + 1;
	uint32_t sparse = draw(2) ? 16 : 64; // the rows of some block lie in two pages, or none's

	for (uint32_t block = 0; block < blocks; block++) {
		words[block] = at;
		for (uint32_t row = 0; row < TABLE_BLOCK_BYTES && at < TABLE_WORDS;
		     row += 1 + (uint32_t)draw(sparse))
			words[at++] = row << TABLE_RULE_BITS | (uint32_t)draw(RULES);
	}
	words[blocks] = at;
}

/* Two files, JIT code and unknown code, one behind the other. */
static void draw_mappings(void)
{
	static const uint32_t codes[] = { MAPPING_CODE_TABLE, MAPPING_CODE_TABLE + 1,
					  MAPPING_CODE_JIT, MAPPING_CODE_UNKNOWN,
					  MAPPING_CODE_NONE };
	uint64_t start = CODE_BASE;
	uint32_t root = draw(2);

	given.page_count = 1 + 2 * root;
	for (uint32_t page = 0; page < PAGES; page++)
		for (uint32_t i = 0; i < MAPPING_PAGE_ENTRIES; i++)
			given.pages[page].starts[i] = MAPPING_START_UNUSED;
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t size = i < 2 ? CODE_BYTES : CODE_BYTES / 16;

		given.pages[root].starts[i] = start;
		given.pages[root].ranges[i] =
			(struct mapping_code_range){ start, (uint32_t)(size / TABLE_BLOCK_BYTES),
						     codes[i] };
		start += size;
	}
	if (root)
		given.pages[0].starts[0] = CODE_BASE;
}

/* As a kind of version has it: fields at any even offset. */
static void draw_python(struct python_process *process)
{
	struct python_offsets *offsets = &given.offsets;

	*offsets = (struct python_offsets){
		.minor = (uint16_t)draw(16),
		.entry = (uint8_t)draw(3),
		.position = (uint8_t)draw(3),
		.free_threaded = (uint8_t)draw(2),
		.shim_owner = (uint8_t)draw(4),
		.reference_tag_bits = (uint8_t)draw(3),
		.state_frame = (uint16_t)(draw(2) ? 8 * draw(8) : PYTHON_NO_FIELD),
		.state_cframe = (uint16_t)(draw(2) ? 8 * draw(8) : PYTHON_NO_FIELD),
		.cframe_frame = (uint16_t)(draw(2) ? 8 * draw(4) : PYTHON_NO_FIELD),
		.cframe_previous = (uint16_t)(8 * draw(4)),
		.state_thread = (uint16_t)(8 * draw(8)),
		.frame_bytes = (uint16_t)(draw(4) ? 80 : 8 * draw(PYTHON_FRAME_BYTES_MAX / 8 + 1)),
		.frame_previous = (uint16_t)(8 * draw(8)),
		.frame_code = (uint16_t)(8 * draw(8)),
		.frame_position = (uint16_t)(4 * draw(16)),
		.frame_owner = (uint16_t)(draw(2) ? draw(80) : PYTHON_NO_FIELD),
		.frame_tlbc = (uint16_t)(draw(2) ? 4 * draw(16) : PYTHON_NO_FIELD),
		.code_type = (uint16_t)(8 * draw(3)),
		.code_argcount = (uint16_t)(4 * draw(16)),
		.code_flags = (uint16_t)(4 * draw(16)),
		.code_firstlineno = (uint16_t)(4 * draw(16)),
		.code_instructions = (uint16_t)(8 * draw(30)),
		.code_tlbc = (uint16_t)(8 * draw(30)),
	};
	process->runtime = (uint32_t)draw(3);
	process->ways = (uint32_t)draw(32) | PYTHON_WAY_KEY * (uint32_t)draw(2);
	process->tls_also_at = (int64_t)(8 * draw(MEMORY_WORDS));
	process->key_at = (int32_t)(8 * draw(MEMORY_WORDS));
	process->tls_at = (int64_t)(8 * draw(MEMORY_WORDS));
	process->dtv_at = (int32_t)(8 * draw(MEMORY_WORDS));
	process->code_type = CODE_TYPE;
	process->holder = MEMORY_BASE + 8 * draw(MEMORY_WORDS);
}

static void draw_process(struct unwind *unwind)
{
	for (uint32_t i = 0; i < MEMORY_WORDS; i++)
		given.memory[i] = draw_word(i);
	draw_rules();
	draw_mappings();
	for (uint32_t i = 0; i < TABLES; i++)
		draw_table(given.tables[i]);
	draw_python(&unwind->process.python);
	for (uint32_t i = 0; i < UNWIND_REGISTERS; i++)
		unwind->registers[i] = draw_word(0);
	unwind->registers[REGISTER_SP] = MEMORY_BASE + 8 * draw(MEMORY_WORDS / 4);
	unwind->registers[REGISTER_FP] = unwind->registers[REGISTER_SP] + 8 * draw(32);
	unwind->pc = CODE_BASE + draw(CODE_BYTES);
	unwind->thread_pointer = MEMORY_BASE;
	unwind->exact_pc = 1;
}

/* ---- the input ----------------------------------------------------------------------------- */

/* The agent's own numbers, which no process can choose, stay as they are. */
static void keep_bounds(void)
{
	given.page_count %= PAGES + 1;
	given.offsets.reference_tag_bits %= 4;
}

/* Each change is an offset, the kind of memory there, and up to eight bytes. */
static void change(struct unwind *unwind, const uint8_t *bytes, size_t size)
{
	struct {
		void *at;
		size_t size;
	} places[] = {
		{ given.memory, sizeof(given.memory) },
		{ given.tables, sizeof(given.tables) },
		{ given.rules, sizeof(given.rules) },
		{ given.pages, sizeof(given.pages) },
		{ &given.offsets, sizeof(given.offsets) },
		{ &given.page_count, sizeof(given.page_count) },
		{ unwind->registers, sizeof(unwind->registers) },
		{ &unwind->pc, sizeof(unwind->pc) },
		{ &unwind->process.python, sizeof(unwind->process.python) },
	};

	for (; size >= 4; bytes += 4, size -= 4) {
		uint32_t place = bytes[0] % (sizeof(places) / sizeof(*places));
		uint32_t count = 1 + bytes[0] / 32, at = bytes[1] | (uint32_t)bytes[2] << 8;

		at = (at << (at >> 15)) % (uint32_t)places[place].size;
		for (uint32_t i = 0; i < count && at + i < places[place].size; i++)
			((uint8_t *)places[place].at)[at + i] = bytes[3];
	}
	keep_bounds();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct unwind unwind;
	uint32_t steps = 0;

	memset(&given, 0, sizeof(given));
	memset(&unwind, 0, sizeof(unwind));
	random_state = 0x9e3779b97f4a7c15ULL;
	for (; size && steps < sizeof(random_state); size--, steps++)
		random_state += (uint64_t)*bytes++ << 8 * steps;
	random_state += !random_state; // 0 would stay 0
	draw_process(&unwind);
	change(&unwind, bytes, size);

	unwind.process.mapping_page_count = given.page_count;
	unwind_begin(&unwind);
	for (steps = 0; steps < UNWIND_STEPS_MAX && !unwind_step(&unwind); steps++)
		;
	if (unwind.frame_count > STACK_DEPTH_MAX - 1)
		abort();
	if (steps < UNWIND_STEPS_MAX && unwind.end == UNWIND_CONTINUES)
		abort();
	return 0;
}
