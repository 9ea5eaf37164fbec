// SPDX-License-Identifier: Apache-2.0
// Call frame programs: the instructions of a function's entry in .eh_frame or .debug_frame, run to
// the rules that hold from one code address to the next. Only what unwinding follows is kept: the
// CFA, the frame pointer, the stack pointer and the return address. DWARF 5, section 6.4.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind/table_layout.h"
#include "agent/elf/byte_cursor.h"
#include "agent/unwind/cfi_expression.h"

enum { X86_REGISTER_PC = 16 }; // no register of its own: what stands for the return address

/** How a register of the caller is found. */
enum cfi_saved_kind {
	CFI_SAVED_UNSPECIFIED, // nothing was said: the ABI's default
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

/** One row of the table that DWARF describes, as far as it is of interest. */
struct cfi_state {
	struct cfi_value cfa;
	struct cfi_value expressed_cfa; // `cfa` where an expression defines it
	bool is_expressed;
	struct cfi_saved fp;
	struct cfi_saved sp;
	struct cfi_saved return_address;
};

/** What the entries of a kind have in common (DWARF: CIE). */
struct cfi_common {
	uint16_t machine; // EM_X86_64 or EM_AARCH64
	uint64_t code_factor;
	int64_t data_factor;
	uint8_t pointer_encoding;
	uint8_t return_register; // stands for the return address
	uint8_t instead_of_fp; // the register whose place rules tell in the frame pointer's; 0: none
	bool has_augmentation_size;
	bool is_signal_frame;
	bool is_supported; // else nothing is known of the entries' code, but where it lies
	struct cfi_state initial;
};

/** The code of one entry, and its instructions as they lie in the section. */
struct cfi_program {
	const struct cfi_common *common;
	uint64_t start; // virtual address of the code
	uint64_t size;
	struct byte_cursor instructions;
	uint64_t address; // virtual address of the instructions
};

/** From @offset after the code's start on, @rule holds. Offsets ascend and lie in the code. */
typedef void (*cfi_row_fn)(void *context, uint64_t offset, const struct unwind_rule *rule);

/** Run the common instructions of @common: sets its `initial` and `is_supported`. */
void cfi_common_run(struct cfi_common *common, struct byte_cursor instructions);

/**
 * Run a program. @add_row is called at least once if the code's size is not 0, first with offset 0.
 * From an instruction on that is broken or unknown, the rule is CFA_UNSUPPORTED.
 */
void cfi_program_run(const struct cfi_program *program, cfi_row_fn add_row, void *context);
