// SPDX-License-Identifier: Apache-2.0
#include "agent/probes/probe_site.h"

#include <errno.h>

#include "base/cleanup.h"

#if defined(__x86_64__)

#include <capstone/capstone.h>

struct walk {
	csh decoder;
	cs_insn *instruction;
	const uint8_t *at;
	size_t left;
	uint64_t address; // of what comes next, from the function's first byte
};

static int walk_open(struct walk *walk, const uint8_t *code, size_t size)
{
	*walk = (struct walk){ .at = code, .left = size };
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &walk->decoder) != CS_ERR_OK)
		return -ENOMEM;
	cs_option(walk->decoder, CS_OPT_DETAIL, CS_OPT_ON);
	walk->instruction = cs_malloc(walk->decoder);
	if (!walk->instruction) {
		cs_close(&walk->decoder);
		return -ENOMEM;
	}
	return 0;
}

static void walk_close(struct walk *walk)
{
	cs_free(walk->instruction, 1);
	cs_close(&walk->decoder);
}

static bool walk_next(struct walk *walk)
{
	return cs_disasm_iter(walk->decoder, &walk->at, &walk->left, &walk->address,
			      walk->instruction);
}

/*
 * What arch/x86/kernel/uprobes.c emulates in all kernels since 6.1: branch_setup_xol_ops() and
 * push_setup_xol_ops(). Only some kernels emulate longer nops and prefixed instructions.
 */
static bool is_emulated(const cs_insn *instruction)
{
	const uint8_t *byte = instruction->bytes;

	switch (instruction->size) {
	case 1: // nop, push
		return byte[0] == 0x90 || (byte[0] & 0xf8) == 0x50;
	case 2: // jmp and jcc of 8 bits, push of r8 to r15
		return byte[0] == 0xeb || (byte[0] & 0xf0) == 0x70 ||
		       (byte[0] == 0x41 && (byte[1] & 0xf8) == 0x50);
	case 5: // jmp and call of 32 bits
		return byte[0] == 0xe9 || byte[0] == 0xe8;
	case 6: // jcc of 32 bits
		return byte[0] == 0x0f && (byte[1] & 0xf0) == 0x80;
	default:
		return false;
	}
}

/* Does a write to this register change an argument, or hide those on the stack? */
static bool holds_arguments(uint16_t number)
{
	// Each register with the names of its parts.
	static const x86_reg registers[] = {
		X86_REG_RDI, X86_REG_EDI, X86_REG_DI,  X86_REG_DIL, X86_REG_RSI, X86_REG_ESI,
		X86_REG_SI,  X86_REG_SIL, X86_REG_RDX, X86_REG_EDX, X86_REG_DX,  X86_REG_DL,
		X86_REG_DH,  X86_REG_RCX, X86_REG_ECX, X86_REG_CX,  X86_REG_CL,  X86_REG_CH,
		X86_REG_R8,  X86_REG_R8D, X86_REG_R8W, X86_REG_R8B, X86_REG_R9,  X86_REG_R9D,
		X86_REG_R9W, X86_REG_R9B, X86_REG_RSP, X86_REG_ESP, X86_REG_SP,  X86_REG_SPL,
	};

	for (size_t i = 0; i < ARRAY_SIZE(registers); i++) {
		if (registers[i] == number)
			return true;
	}
	return false;
}

/* Instructions that only compare and load. All others may do anything. */
static bool is_known(const cs_insn *instruction)
{
	switch (instruction->id) {
	case X86_INS_CMP:
	case X86_INS_TEST:
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVZX:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
	case X86_INS_LEA:
	case X86_INS_XOR:
	case X86_INS_NOP:
	case X86_INS_ENDBR64:
		return true;
	default:
		return false;
	}
}

static bool is_harmless(csh decoder, const cs_insn *instruction)
{
	const cs_x86 *x86 = &instruction->detail->x86;
	cs_regs read, written;
	uint8_t read_count, written_count;

	if (!is_known(instruction))
		return false;
	// A write to memory may change arguments on the stack; the first operand of a compare is only read.
	if (x86->op_count && x86->operands[0].type == X86_OP_MEM &&
	    instruction->id != X86_INS_CMP && instruction->id != X86_INS_TEST &&
	    instruction->id != X86_INS_NOP)
		return false;
	if (cs_regs_access(decoder, instruction, read, &read_count, written, &written_count))
		return false;
	for (uint8_t i = 0; i < written_count; i++) {
		if (holds_arguments(written[i]))
			return false;
	}
	return true;
}

/* The first fit instruction, else the first one, as expensive. Returns 0; -ENOEXEC; -ENOMEM. */
static int find_fit(const uint8_t *code, size_t size, struct probe_site *ret_site)
{
	struct walk walk;
	int rc = walk_open(&walk, code, size);

	if (rc)
		return rc;
	*ret_site = (struct probe_site){ .is_expensive = true };
	rc = -ENOEXEC;
	while (walk_next(&walk)) {
		rc = 0;
		if (is_emulated(walk.instruction)) {
			ret_site->skip = (uint32_t)walk.instruction->address;
			ret_site->is_expensive = false;
			break;
		}
		if (!is_harmless(walk.decoder, walk.instruction))
			break;
	}
	walk_close(&walk);
	return rc;
}

/* Does a jump lead back to before the site? Then one call may pass the site more than once. */
static int find_loop(const uint8_t *code, size_t size, uint32_t skip, bool *ret_found)
{
	struct walk walk;
	int rc = walk_open(&walk, code, size < PROBE_SITE_LOOP_MAX ? size : PROBE_SITE_LOOP_MAX);

	if (rc)
		return rc;
	while (!*ret_found && walk_next(&walk)) {
		const cs_x86 *x86 = &walk.instruction->detail->x86;

		*ret_found = is_emulated(walk.instruction) && x86->op_count == 1 &&
			     x86->operands[0].type == X86_OP_IMM && x86->operands[0].imm > 0 &&
			     x86->operands[0].imm <= skip;
	}
	walk_close(&walk);
	return 0;
}

int probe_site_choose(const uint8_t *code, size_t size, struct probe_site *ret_site)
{
	struct probe_site site;
	bool loops = false;
	int rc = find_fit(code, size < PROBE_SITE_BYTES ? size : PROBE_SITE_BYTES, &site);

	if (!rc && site.skip)
		rc = find_loop(code, size, site.skip, &loops);
	if (rc)
		return rc;
	if (loops)
		site = (struct probe_site){ .is_expensive = true };
	*ret_site = site;
	return 0;
}

#else

int probe_site_choose(const uint8_t *code, size_t size, struct probe_site *ret_site)
{
	(void)code;
	// Not measured on arm64: the kernel single-steps most instructions there.
	if (size < 4)
		return -ENOEXEC;
	*ret_site = (struct probe_site){ .is_expensive = true };
	return 0;
}

#endif

int probe_site_find(const struct elf_symbols *symbols, const char *name,
		    struct probe_site *ret_site)
{
	const struct elf *elf = symbols->elf;
	uint8_t code[PROBE_SITE_LOOP_MAX];
	struct probe_site site;
	Elf64_Sym symbol;

	int rc = elf_symbols_find_exported(symbols, name, &symbol);
	if (rc)
		return rc;
	const Elf64_Phdr *segment = elf_find_code(elf, symbol.st_value);
	if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !segment)
		return -ENOEXEC;
	// A symbol may have no size; beyond the search for a site the bytes would be another function's.
	uint64_t size = symbol.st_size ? symbol.st_size : PROBE_SITE_BYTES;
	uint64_t left = segment->p_filesz - (symbol.st_value - segment->p_vaddr);
	if (size > left)
		size = left;
	if (size > sizeof(code))
		size = sizeof(code);
	rc = elf_read(elf, elf_file_offset(segment, symbol.st_value), code, size);
	if (!rc)
		rc = probe_site_choose(code, size, &site);
	if (rc)
		return rc;
	site.offset = elf_file_offset(segment, symbol.st_value) + site.skip;
	*ret_site = site;
	return 0;
}
