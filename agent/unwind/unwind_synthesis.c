// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_synthesis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "agent/unwind/code_analysis_rows.h"
#include "agent/unwind/code_pointers.h"
#include "agent/elf/elf_symbols.h"
#include "agent/unwind/landing_pads.h"
#include "agent/unwind/plt.h"

enum {
	ENTRY_BYTES_MAX = 64,         // first instructions of a program; glibc has 38
	SCANNED_GAPS_MAX = 4096,      // a libc without unwind information has fewer
	SCANNED_GAP_BYTES_MIN = 16,   // less is padding, except before a thread's first code
	SCANNED_BYTES_MAX = 2 << 20,  // musl has 0.6 MB of code; a larger file is no libc
	ANALYZED_BYTES_MAX = 4 << 20, // of code in a file, to analyze its gaps by symbols
	LARGE_GAP_BYTES_MIN = 256,    // more than functions are aligned to: code
	PATTERN_BYTES_MAX = 16,
	MAKECONTEXT_BYTES_MAX = 1024, // glibc's has 400
	LEA_BYTES = 7,
	MATCHES_MAX = 64, // per file; a libc has three
};

/* ---- where threads begin, and signal handlers return ------------------------------------------- */

/* Code that is known by its bytes. */
struct pattern {
	uint16_t machine;
	uint8_t size;    // of the bytes that are compared
	uint8_t covered; // the rule holds for so many
	uint8_t bytes[PATTERN_BYTES_MAX];
	struct unwind_rule rule;
};

/* On x86-64 clone() has pushed nothing. */
#define CLONE_RETURNS                                                                  \
	{                                                                              \
		.cfa = CFA_REGISTER, .cfa_register = X86_REGISTER_SP, .cfa_offset = 8, \
		.saved = SAVED_AT_CFA << 4, .return_offset = -8, .flags = RULE_CLONED, \
	}

/* On aarch64 neither, and its caller is in lr. */
#define ARM_CLONE_RETURNS                                                                    \
	{                                                                                    \
		.cfa = CFA_REGISTER, .cfa_register = ARM64_REGISTER_SP, .flags = RULE_CLONED \
	}

/*
 * A signal handler returns by one system call, rt_sigreturn: 15 on x86-64, 139 on aarch64.
 * clone() returns twice: to its caller, and on the new thread's stack. glibc describes nothing between that system call and
 * the new thread's function (sysdeps/unix/sysv/linux/x86_64/clone.S, clone3.S), musl nothing at all: there the code calls
 * the thread's function and then exits. A detached musl thread unmaps its own stack and exits
 * (src/thread/x86_64/__unmapself.s).
 */
static const struct pattern patterns[] = {
	// mov $15, %rax; syscall
	{ EM_X86_64, 9, 9, { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 }, { .cfa = CFA_SIGNAL } },
	// mov $15, %eax; syscall
	{ EM_X86_64, 7, 7, { 0xb8, 15, 0, 0, 0, 0x0f, 0x05 }, { .cfa = CFA_SIGNAL } },
	// mov x8, #139; svc #0
	{ EM_AARCH64, 8, 8, { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 }, { .cfa = CFA_SIGNAL } },
	// glibc: syscall; test %rax, %rax; jl (failed); je (new thread); ret
	{ EM_X86_64, 6, 10, { 0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c }, CLONE_RETURNS },
	// musl: syscall; test %eax, %eax; jne; xor %ebp, %ebp; pop %rdi; call *%r9
	{ EM_X86_64,
	  12,
	  6,
	  { 0x0f, 0x05, 0x85, 0xc0, 0x75, 0x0f, 0x31, 0xed, 0x5f, 0x41, 0xff, 0xd1 },
	  CLONE_RETURNS },
	// xor %ebp, %ebp; pop %rdi; call *%r9; mov %eax, %edi; xor %eax, %eax; mov $60, %al; syscall
	{ EM_X86_64,
	  14,
	  14,
	  { 0x31, 0xed, 0x5f, 0x41, 0xff, 0xd1, 0x89, 0xc7, 0x31, 0xc0, 0xb0, 60, 0x0f, 0x05 },
	  { .cfa = CFA_END } },
	// musl: svc #0; cbz x0, (new thread); ret
	{ EM_AARCH64,
	  12,
	  12,
	  { 0x01, 0, 0, 0xd4, 0x40, 0, 0, 0xb4, 0xc0, 0x03, 0x5f, 0xd6 },
	  ARM_CLONE_RETURNS },
	// mov $11, %eax; syscall; xor %rdi, %rdi; mov $60, %eax (munmap, then exit)
	{ EM_X86_64,
	  15,
	  17,
	  { 0xb8, 11, 0, 0, 0, 0x0f, 0x05, 0x48, 0x31, 0xff, 0xb8, 60, 0, 0, 0 },
	  { .cfa = CFA_END } },
	// mov x8, #215; svc #0; mov x8, #93; svc #0 (the same)
	{ EM_AARCH64,
	  16,
	  16,
	  { 0xe8, 0x1a, 0x80, 0xd2, 0x01, 0, 0, 0xd4, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4 },
	  { .cfa = CFA_END } },
	// ldp x1, x0, [sp], #16; blr x1; mov x8, #93; svc #0
	{ EM_AARCH64,
	  16,
	  16,
	  { 0xe1, 0x03, 0xc1, 0xa8, 0x20, 0, 0x3f, 0xd6, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4 },
	  { .cfa = CFA_END } },
};

struct gap_list {
	struct code_extent *gaps;
	uint32_t count;
	uint64_t bytes;
};

static void gap_list_deinit(struct gap_list *list)
{
	free(list->gaps);
}

/* Finds gaps of at least @bytes_min. Returns false if there are too many, or they are too large. */
static bool add_gap(struct gap_list *list, uint64_t start, uint64_t limit, uint32_t bytes_min)
{
	if (limit <= start || limit - start < bytes_min)
		return true;
	if (list->count == SCANNED_GAPS_MAX || limit - start > SCANNED_BYTES_MAX - list->bytes)
		return false;
	list->gaps[list->count++] = (struct code_extent){ .start = start, .limit = limit };
	list->bytes += limit - start;
	return true;
}

static bool begins_a_thread(const struct unwind_rows *rows, const struct unwind_range *range)
{
	return unwind_rows_first(rows, range).rule == RULE_END;
}

/* The gaps of one segment or section. Returns as add_gap(). */
static bool add_gaps_of(struct gap_list *list, const struct unwind_rows *rows, uint64_t at,
			uint64_t limit)
{
	for (uint32_t i = unwind_rows_find(rows, at); i < rows->sorted_count && at < limit; i++) {
		const struct unwind_range *range = &rows->ranges[i];

		if (range->start >= limit)
			break;
		if (!add_gap(list, at, range->start,
			     begins_a_thread(rows, range) ? 1 : SCANNED_GAP_BYTES_MIN))
			return false;
		if (range->start + range->size > at)
			at = range->start + range->size;
	}
	return add_gap(list, at, limit, SCANNED_GAP_BYTES_MIN);
}

static bool is_code(const struct elf *elf, const Elf64_Shdr *section)
{
	const Elf64_Phdr *load = elf_find_code(elf, section->sh_addr);

	return section->sh_type == SHT_PROGBITS && (section->sh_flags & SHF_EXECINSTR) && load &&
	       section->sh_size <= load->p_vaddr + load->p_filesz - section->sh_addr;
}

/* The gaps of sections with code, in order. Returns -ENOENT if none has any; else as find_gaps(). */
static int find_gaps_of_sections(const struct elf *elf, const struct unwind_rows *rows,
				 struct gap_list *list)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	uint64_t end = 0;
	uint32_t count;
	int rc = elf_read_sections(elf, &sections, &count);

	if (rc)
		return rc == -ENOMEM ? rc : -ENOENT;
	for (uint32_t i = 0; i < count; i++) {
		const Elf64_Shdr *section = &sections[i];

		if (!is_code(elf, section) || section->sh_addr < end)
			continue;
		end = section->sh_addr + section->sh_size;
		if (!add_gaps_of(list, rows, section->sh_addr, end))
			return -E2BIG;
	}
	return end ? 0 : -ENOENT;
}

static int find_gaps_of_segments(const struct elf *elf, const struct unwind_rows *rows,
				 struct gap_list *list)
{
	for (uint32_t i = 0; i < elf->load_count; i++) {
		const Elf64_Phdr *load = &elf->loads[i];

		if ((load->p_flags & PF_X) &&
		    !add_gaps_of(list, rows, load->p_vaddr, load->p_vaddr + load->p_filesz))
			return -E2BIG;
	}
	return 0;
}

/* Returns 0; -E2BIG as above; -ENOMEM. On aarch64 linkers put read-only data into the segment of the code. */
static int find_gaps(const struct elf *elf, const struct unwind_rows *rows,
		     struct gap_list *ret_list)
{
	int rc = -ENOENT;

	ret_list->gaps = malloc(SCANNED_GAPS_MAX * sizeof(*ret_list->gaps));
	if (!ret_list->gaps)
		return -ENOMEM;
	if (elf->header.e_machine == EM_AARCH64)
		rc = find_gaps_of_sections(elf, rows, ret_list);
	return rc == -ENOENT ? find_gaps_of_segments(elf, rows, ret_list) : rc;
}

/* The pattern is @at bytes into a gap. */
static void put_pattern(struct unwind_rows *rows, const struct pattern *pattern, uint64_t address,
			uint64_t at, uint64_t size)
{
	uint64_t covered = pattern->covered < size - at ? pattern->covered : size - at;

	// A handler returns to its first byte, and the byte before is looked up.
	uint32_t before = pattern->rule.cfa == CFA_SIGNAL && at > 0;

	unwind_rows_begin(rows, address + at - before, covered + before);
	unwind_rows_add(rows, 0, &pattern->rule);
	unwind_rows_end(rows);
}

static void scan_gap(struct unwind_rows *rows, uint16_t machine, uint64_t address,
		     const uint8_t *bytes, size_t size)
{
	for (size_t p = 0; p < ARRAY_SIZE(patterns); p++) {
		const struct pattern *pattern = &patterns[p];
		const uint8_t *at = bytes;

		if (pattern->machine != machine)
			continue;
		while (rows->range_count - rows->sorted_count < MATCHES_MAX &&
		       (at = memmem(at, size - (size_t)(at - bytes), pattern->bytes,
				    pattern->size))) {
			put_pattern(rows, pattern, address, (uint64_t)(at - bytes), size);
			at += pattern->size;
		}
	}
}

static int read_gap(const struct elf *elf, const struct code_extent *gap, uint8_t *bytes)
{
	const Elf64_Phdr *load = elf_find_code(elf, gap->start);

	return load ? elf_read(elf, elf_file_offset(load, gap->start), bytes,
			       gap->limit - gap->start)
		    : -ENOEXEC;
}

static bool is_large(const struct elf *elf)
{
	uint64_t code_bytes = 0;

	for (uint32_t i = 0; i < elf->load_count; i++)
		if (elf->loads[i].p_flags & PF_X)
			code_bytes += elf->loads[i].p_filesz;
	return code_bytes > ANALYZED_BYTES_MAX;
}

static bool has_large_gap(const struct gap_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->gaps[i].limit - list->gaps[i].start >= LARGE_GAP_BYTES_MIN)
			return true;
	return false;
}

/*
 * Large files have many symbols and little code without rules: functions that are found in stacks are analyzed by their
 * symbols later. Symbols of a stripped file are those that it exports. Assembly, such as ONNX Runtime's or x264's kernels,
 * is not among them: code and data have its addresses.
 */
static int read_starts(const struct elf *elf, const struct gap_list *list,
		       struct function_starts *ret_starts)
{
	_cleanup_(elf_symbols_deinit) struct elf_symbols symbols = { 0 };
	bool large = is_large(elf);

	if (large && !has_large_gap(list))
		return 0;
	int rc = elf_symbols_init(&symbols, elf);
	if (!rc && !large)
		rc = function_starts_read(&symbols, list->gaps, list->count, ret_starts);
	return rc == -ENOMEM ? rc
			     : code_pointers_read(&symbols, list->gaps, list->count, ret_starts);
}

/* A piece of code to analyze: gaps and what lies between them. */
struct piece {
	struct code_extent *extent;
	uint64_t described; // bytes with rules,
	uint32_t ranges;    // in so many ranges
};

/* Joins the gap to the piece before it if little lies between them. */
static bool join_gap(const struct elf *elf, const struct unwind_rows *rows, struct piece *piece,
		     const struct code_extent *gap)
{
	uint64_t start = piece->extent->start, limit = piece->extent->limit;
	uint64_t described = piece->described + (gap->start - limit);
	uint32_t index = unwind_rows_find(rows, limit), ranges = piece->ranges;

	if (elf_find_code(elf, start) != elf_find_code(elf, gap->start) ||
	    described > limit - start - piece->described)
		return false;
	while (index < rows->sorted_count && rows->ranges[index++].start < gap->start)
		if (++ranges > CODE_ANALYSIS_COVERED_MAX - MATCHES_MAX)
			return false;
	piece->extent->limit = gap->limit;
	piece->described = described;
	piece->ranges = ranges;
	return true;
}

/*
 * A few functions with rules, as libgcc's in musl, split code that calls across them: analyze it as one piece. At most half
 * of a piece has rules, so none is longer than twice all gaps.
 */
static void join_gaps(const struct elf *elf, const struct unwind_rows *rows, struct gap_list *list)
{
	struct piece last = { 0 };
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		struct code_extent gap = list->gaps[i];

		if (kept && join_gap(elf, rows, &last, &gap))
			continue;
		last = (struct piece){ .extent = &list->gaps[kept++] };
		*last.extent = gap;
	}
	list->count = kept;
}

/* Known bytes first; then all other code is analyzed. */
static int describe_gaps(const struct elf *elf, struct gap_list *list, uint8_t *bytes,
			 struct unwind_rows *rows)
{
	_cleanup_(function_starts_deinit) struct function_starts starts = { 0 };
	uint32_t first_match = rows->range_count, match_limit;
	__typeof__(code_analysis_rows_add) *add_rows = elf->header.e_machine == EM_AARCH64
							       ? code_analysis_rows_add_arm64
							       : code_analysis_rows_add;
	int rc = 0;

	for (uint32_t i = 0; i < list->count && !rc; i++) {
		const struct code_extent *gap = &list->gaps[i];

		rc = read_gap(elf, gap, bytes);
		if (!rc)
			scan_gap(rows, elf->header.e_machine, gap->start, bytes,
				 gap->limit - gap->start);
	}
	match_limit = rows->range_count;
	join_gaps(elf, rows, list);
	if (!rc)
		rc = read_starts(elf, list, &starts);
	for (uint32_t i = 0; i < list->count && !rc; i++) {
		const struct code_extent *gap = &list->gaps[i];

		rc = read_gap(elf, gap, bytes);
		if (!rc)
			rc = add_rows(&starts, gap->start, bytes, gap->limit - gap->start,
				      first_match, match_limit, rows);
	}
	return rc;
}

static int scan_gaps(const struct elf *elf, struct unwind_rows *rows, struct error *err)
{
	_cleanup_(gap_list_deinit) struct gap_list list = { 0 };
	_cleanup_free_ uint8_t *bytes = NULL;
	int rc = find_gaps(elf, rows, &list);

	if (rc == -E2BIG)
		return 0;
	if (!rc && !(bytes = malloc(2 * list.bytes + 1)))
		rc = -ENOMEM;
	if (!rc)
		rc = describe_gaps(elf, &list, bytes, rows);
	if (rc == -ENOMEM)
		return error_set(err, rc, "out of memory");
	return rc ? error_set(err, rc, "code cannot be read") : 0;
}

/* ---- where the program begins ------------------------------------------------------------------ */

static bool has_segment(const struct elf *elf, uint32_t type)
{
	Elf64_Phdr segment;

	for (uint32_t i = 0; elf_read_segment(elf, i, &segment) == 0; i++) {
		if (segment.p_type == type)
			return true;
	}
	return false;
}

/*
 * An entry called by nobody shows it: it ends the chain of frame pointers, or reads its arguments from the stack as the
 * kernel left it. A library's entry is often an ordinary function.
 */
static bool looks_like_start(uint16_t machine, const uint8_t bytes[8])
{
	static const uint8_t x86_endbr[4] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const uint8_t x86_clear_ebp[2] = { 0x31, 0xed };
	static const uint8_t x86_clear_rbp[3] = { 0x48, 0x31, 0xed };
	static const uint8_t x86_take_stack[4] = { 0x48, 0x89, 0xe7, 0xe8 }; // mov %rsp, %rdi; call
	static const uint8_t arm_bti[4] = { 0x5f, 0x24, 0x03, 0xd5 };
	static const uint8_t arm_nop[4] = { 0x1f, 0x20, 0x03, 0xd5 }; // in its place
	static const uint8_t arm_clear_fp[4] = { 0x1d, 0x00, 0x80, 0xd2 };
	static const uint8_t arm_clear_lr[4] = { 0x1e, 0x00, 0x80, 0xd2 };
	static const uint8_t arm_take_stack[4] = { 0xe0, 0x03, 0x00, 0x91 }; // mov x0, sp

	if (memcmp(bytes, machine == EM_X86_64 ? x86_endbr : arm_bti, 4) == 0 ||
	    (machine == EM_AARCH64 && memcmp(bytes, arm_nop, 4) == 0))
		bytes += 4;
	if (machine == EM_X86_64)
		return !memcmp(bytes, x86_clear_ebp, sizeof(x86_clear_ebp)) ||
		       !memcmp(bytes, x86_clear_rbp, sizeof(x86_clear_rbp)) ||
		       !memcmp(bytes, x86_take_stack, sizeof(x86_take_stack));
	return !memcmp(bytes, arm_clear_fp, 4) || !memcmp(bytes, arm_clear_lr, 4) ||
	       !memcmp(bytes, arm_take_stack, 4);
}

/* Is the header's entry where the kernel or the loader starts? */
static bool is_start(const struct elf *elf, const Elf64_Phdr *load)
{
	uint8_t bytes[8];

	if (elf->header.e_type == ET_EXEC || has_segment(elf, PT_INTERP))
		return true;
	return elf_read(elf, elf_file_offset(load, elf->header.e_entry), bytes, sizeof(bytes)) ==
		       0 &&
	       looks_like_start(elf->header.e_machine, bytes);
}

/* Length of the call or jump at @bytes; 0: something else. */
static uint32_t x86_call_bytes(const struct elf *elf, uint64_t address, const uint8_t *bytes)
{
	int32_t distance;

	if (bytes[0] == 0xff && bytes[1] == 0x15) // call through memory
		return 6;
	if (bytes[0] != 0xe8 && bytes[0] != 0xe9)
		return 0;
	memcpy(&distance, bytes + 1, sizeof(distance));
	return elf_find_code(elf, address + 5 + (uint64_t)(int64_t)distance) ? 5 : 0;
}

static uint32_t arm_call_bytes(uint64_t address, const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	if (address % 4)
		return 0;
	// b and bl; br and blr
	return (word & 0x7c000000) == 0x14000000 || (word & 0xffdffc1f) == 0xd61f0000 ? 4 : 0;
}

/*
 * The end of the entry code: one call or jump to what never returns. Bytes that only look like a call end it early.
 */
static uint64_t limit_of_start(const struct elf *elf, const Elf64_Phdr *load)
{
	uint64_t entry = elf->header.e_entry, left = load->p_vaddr + load->p_filesz - entry;
	size_t size = left < ENTRY_BYTES_MAX ? left : ENTRY_BYTES_MAX;
	uint8_t bytes[ENTRY_BYTES_MAX + 8] = { 0 };

	if (elf_read(elf, elf_file_offset(load, entry), bytes, size))
		return entry + size;
	for (size_t at = 0; at < size; at++) {
		uint32_t call_bytes = elf->header.e_machine == EM_X86_64
					      ? x86_call_bytes(elf, entry + at, bytes + at)
					      : arm_call_bytes(entry + at, bytes + at);

		if (call_bytes && at + call_bytes <= size)
			return entry + at + call_bytes;
	}
	return entry + size;
}

static void end_at_entry(const struct elf *elf, struct unwind_rows *rows)
{
	uint64_t entry = elf->header.e_entry, limit;
	const Elf64_Phdr *load = elf_find_code(elf, entry);
	struct unwind_rule end = { .cfa = CFA_END };

	if (!entry || !load || !is_start(elf, load))
		return;

	limit = limit_of_start(elf, load);
	uint32_t index = unwind_rows_find(rows, entry);
	if (index < rows->sorted_count) {
		if (rows->ranges[index].start <= entry) {
			unwind_rows_replace(rows, index, &end);
			return;
		}
		if (rows->ranges[index].start < limit)
			limit = rows->ranges[index].start;
	}
	unwind_rows_begin(rows, entry, limit - entry);
	unwind_rows_add(rows, 0, &end);
	unwind_rows_end(rows);
}

/* ---- where coroutines begin -------------------------------------------------------------------- */

/*
 * glibc's makecontext() makes a coroutine's function return to __start_context(), which nobody calls: mov %rbx, %rsp. Return
 * addresses are looked up by the byte before.
 */
static bool begins_coroutines(const struct elf *elf, const struct unwind_rows *rows,
			      uint64_t address, uint32_t *ret_index)
{
	static const uint8_t takes_stack[] = { 0x48, 0x89, 0xdc };
	const Elf64_Phdr *load = elf_find_code(elf, address);
	uint8_t bytes[sizeof(takes_stack)];

	*ret_index = unwind_rows_find(rows, address);
	return load && *ret_index < rows->sorted_count &&
	       rows->ranges[*ret_index].start == address &&
	       !elf_read(elf, elf_file_offset(load, address), bytes, sizeof(bytes)) &&
	       !memcmp(bytes, takes_stack, sizeof(bytes));
}

static int read_makecontext(const struct elf *elf, uint64_t *ret_address, uint8_t *bytes,
			    size_t *size)
{
	_cleanup_(elf_symbols_deinit) struct elf_symbols symbols = { 0 };
	Elf64_Sym symbol;
	int rc = elf_symbols_init(&symbols, elf);

	if (!rc)
		rc = elf_symbols_find_exported(&symbols, "makecontext", &symbol);
	const Elf64_Phdr *load = rc ? NULL : elf_find_code(elf, symbol.st_value);
	if (!load)
		return -ENOENT;
	if (symbol.st_size < *size)
		*size = symbol.st_size;
	*ret_address = symbol.st_value;
	return elf_read(elf, elf_file_offset(load, symbol.st_value), bytes, *size);
}

/* makecontext() stores the address: lea distance(%rip), %register. */
static void end_coroutines(const struct elf *elf, struct unwind_rows *rows)
{
	static const struct unwind_rule end = { .cfa = CFA_END };
	uint8_t bytes[MAKECONTEXT_BYTES_MAX];
	size_t size = sizeof(bytes);
	uint64_t address, target;
	uint32_t index;

	if (elf->header.e_machine != EM_X86_64 || read_makecontext(elf, &address, bytes, &size))
		return;
	for (size_t at = 0; at + LEA_BYTES <= size; at++) {
		int32_t distance;

		if ((bytes[at] & 0xfb) != 0x48 || bytes[at + 1] != 0x8d ||
		    (bytes[at + 2] & 0xc7) != 0x05)
			continue;
		memcpy(&distance, bytes + at + 3, sizeof(distance));
		target = address + at + LEA_BYTES + (uint64_t)(int64_t)distance;
		if (!begins_coroutines(elf, rows, target, &index))
			continue;
		unwind_rows_replace(rows, index, &end);
		unwind_rows_begin(rows, target - 1, 1);
		unwind_rows_add(rows, 0, &end);
		unwind_rows_end(rows);
		return;
	}
}

int unwind_synthesis_add(const struct elf *elf, struct unwind_rows *rows, struct error *err)
{
	end_coroutines(elf, rows);
	end_at_entry(elf, rows);
	landing_pads_add(elf, rows);
	int rc = plt_add(elf, rows, err);
	if (rc)
		return rc;
	unwind_rows_sort(rows); // sorted again: these are no gaps any more
	rc = scan_gaps(elf, rows, err);
	if (rc)
		return rc;
	return rows->rc ? error_set(err, rows->rc, "unwind table: %s",
				    rows->rc == -E2BIG ? "too many rows" : "out of memory")
			: 0;
}
