// SPDX-License-Identifier: Apache-2.0
// Runs call frame programs, the instructions of an entry of .eh_frame or .debug_frame, to rules by code address. Only
// what unwinding needs is kept: CFA, frame pointer, stack pointer and return address. DWARF 5, section 6.4.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind/table_layout.h"
#include "agent/elf/byte_cursor.h"
#include "agent/unwind/cfi_expression.h"

enum { X86_REGISTER_PC = 16 }; // DWARF's number for the return address

/** How a register of the caller is found. */
enum cfi_saved_kind {
	CFI_SAVED_UNSPECIFIED, // the ABI's default
	CFI_SAVED_SAME,
	CFI_SAVED_UNDEFINED,
	CFI_SAVED_AT_CFA,      // in memory at CFA + offset
	CFI_SAVED_AT_REGISTER, // in memory at base + offset
	CFI_SAVED_IN_REGISTER, // in base
	CFI_SAVED_UNSUPPORTED,
};

struct cfi_saved {
	uint8_t kind; // enum cfi_saved_kind
	uint8_t base;
	int64_t offset;
};

/** A row of the table that DWARF describes. */
struct cfi_state {
	struct cfi_value cfa;
	struct cfi_value expressed_cfa; // if an expression defines `cfa`
	bool is_expressed;
	struct cfi_saved fp;
	struct cfi_saved sp;
	struct cfi_saved return_address;
};

/** A CIE: what entries have in common. */
struct cfi_common {
	uint16_t machine; // EM_X86_64 or EM_AARCH64
	uint64_t code_factor;
	int64_t data_factor;
	uint8_t pointer_encoding;
	uint8_t return_register; // of the return address
	uint8_t instead_of_fp;   // register to treat as the frame pointer; 0: none
	bool has_augmentation_size;
	bool is_signal_frame;
	bool is_supported; // false: of the entries only their code ranges are known
	struct cfi_state initial;
};

/** An entry: its code, and its instructions in the section. */
struct cfi_program {
	const struct cfi_common *common;
	uint64_t start; // virtual address of the code
	uint64_t size;
	struct byte_cursor instructions;
	uint64_t address; // virtual address of the instructions
};

/** @rule holds from @offset of the code on. Offsets ascend. */
typedef void (*cfi_row_fn)(void *context, uint64_t offset, const struct unwind_rule *rule);

/** Run the initial instructions of @common: sets its `initial` and `is_supported`. */
void cfi_common_run(struct cfi_common *common, struct byte_cursor instructions);

/**
 * Run a program. If the code is not empty, @add_row is called with offset 0 first. From a broken or unknown instruction
 * on the rule is CFA_UNSUPPORTED.
 */
void cfi_program_run(const struct cfi_program *program, cfi_row_fn add_row, void *context);
