// SPDX-License-Identifier: Apache-2.0
// Go's function table (.gopclntab), present in stripped Go programs, too: names, lines, and the stack pointer's distance
// at each address. The file is hostile. Layouts: Go's src/runtime/symtab.go and src/debug/gosym/pclntab.go, 1.2 to 1.26.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "agent/elf/elf.h"

enum {
	GO_FUNCTIONS_MAX = 1 << 21,     // Kubernetes' largest programs have 200,000
	GO_FUNCTION_ROWS_MAX = 1 << 16, // per function; more mean a hostile table
	GO_ROWS_MAX = 32 << 20,         // of all functions
	GO_FILE_BYTES = 1024,           // file names are truncated
};

struct go_pclntab;

/** A function; virtual addresses in the file. */
struct go_function {
	uint64_t address;
	uint64_t limit;       // the next function's address
	uint64_t name_offset; // file offset of its name, NUL-terminated: "main.(*T).Method"
};

/** How the caller is found. */
enum go_row_kind {
	GO_ROW_SP,     // CFA = sp + sp_delta + 8 on x86-64, sp + sp_delta on aarch64
	GO_ROW_FP,     // another stack: CFA = frame pointer + 16
	GO_ROW_SIGNAL, // all registers come from the kernel's signal frame
	GO_ROW_END,    // first function of the stack: complete
	GO_ROW_NONE,   // not known
};

/**
 * Holds from @address to the next row, or to the function's end. GO_ROW_SP on x86-64: the return address is at CFA - 8;
 * if sp_delta > 0 the caller's frame pointer is at CFA - 16, else in its register. On aarch64: if sp_delta > 0 the return
 * address is at CFA - sp_delta and the caller's frame pointer at CFA - sp_delta - 8, else both are in their registers.
 */
struct go_row {
	uint64_t address;
	uint64_t function; // that it is in: where that begins, and where the next one does
	uint64_t function_limit;
	int32_t sp_delta; // bytes, of GO_ROW_SP; at least 0
	enum go_row_kind kind;
};

/** Returns 0 to continue; anything else ends the walk and is its result. */
typedef int (*go_row_fn)(void *context, const struct go_row *row);

/**
 * All rows of the file's Go code, by ascending address, with one at each function's start. Needs about 1 MiB of memory.
 * Returns 0; -ENOENT (no Go table, or an unknown version); -ENOEXEC (broken) or -E2BIG (past GO_ROWS_MAX), with valid rows
 * so far; -ENOMEM; -errno; or what @fn returned.
 */
int go_pclntab_rows(const struct elf *elf, go_row_fn fn, void *context);

/** Open the table for the calls below. @elf must outlive it. Errors as go_pclntab_rows(). One thread at a time. */
int go_pclntab_open(const struct elf *elf, struct go_pclntab **ret_table);
void go_pclntab_close(struct go_pclntab *table);
void go_pclntab_closep(struct go_pclntab **table);

/** Number of functions, at most GO_FUNCTIONS_MAX. */
uint32_t go_pclntab_count(const struct go_pclntab *table);

/** File offset where names begin. */
uint64_t go_pclntab_names_offset(const struct go_pclntab *table);

/** Function @index, by ascending address. Returns 0; -ENOEXEC if it is broken; -errno. */
int go_pclntab_function(struct go_pclntab *table, uint32_t index, struct go_function *ret_function);

/**
 * The source line of a virtual address in the file, of the innermost inlined call. Returns 0; -ENOENT if there is none;
 * -ENOEXEC; -errno.
 */
int go_pclntab_find_line(struct go_pclntab *table, uint64_t address, char ret_file[GO_FILE_BYTES],
			 uint32_t *ret_line);
