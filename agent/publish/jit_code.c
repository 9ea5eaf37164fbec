// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/jit_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/guard/work.h"
#include "agent/process/process_memory.h"
#include "agent/publish/failed_code.h"
#include "agent/unwind/analysis/code_analysis.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id128.h"

#ifdef __x86_64__

enum {
	PAGE_BYTES = 4096,
	// A generator reserves so much for each function and uses a few KiB of it (oneDNN's
	// src/cpu/x64/jit_generator.hpp, MAX_CODE_SIZE).
	SLOT_BYTES = 256 << 10,
	PADDING_BYTES = 16, // at least, before a function that begins a page inside a mapping
	ALIGN_BYTES = 16,   // of functions that follow each other, as LLVM's
	FOLLOWING_BYTES = 64 << 10, // so much is analyzed per try: some milliseconds
	CODE_BYTES_MIN = 16 << 10,  // first read; then four times as much, up to a slot
	HEAD_BYTES = 16,
	ROW_BYTES_MIN = 4, // shorter rows are part of a prologue, which samples hardly ever hit
	FUNCTION_RANGES_MAX = 64,
	TRIED_AT_ONCE = 16, // functions per scan: a millisecond each
	// Of a function that fills its slot, some passes: a tenth of a second, past which no budget is looked at.
	DECODED_MAX = 1 << 17,
	SLOTS_READ_MAX =
		4096, // per scan; a process may reserve terabytes, and most slots are empty
};

struct generated_range {
	uint64_t start;
	uint64_t rule; // MAPPING_RULE(), or 0: none
};

struct jit_function {
	uint64_t start;
	uint64_t limit;
	uint64_t hash; // of the code
	uint32_t range_count;
	struct generated_range *ranges;
};

struct jit_code {
	struct jit_function functions[JIT_FUNCTIONS_MAX]; // sorted
	uint32_t count;
	uint32_t range_count;
	struct failed_code failed;
	uint64_t scanned; // where the next scan begins
};

// ---- life -----------------------------------------------------------------------------------

struct jit_code *jit_code_new(void)
{
	return calloc(1, sizeof(struct jit_code));
}

static void drop(struct jit_code *code, uint32_t at)
{
	struct jit_function *function = &code->functions[at];

	code->range_count -= function->range_count;
	free(function->ranges);
	code->count--;
	memmove(function, function + 1, (code->count - at) * sizeof(*function));
}

void jit_code_free(struct jit_code *code)
{
	if (!code)
		return;
	for (uint32_t i = 0; i < code->count; i++)
		free(code->functions[i].ranges);
	free(code);
}

uint32_t jit_code_count(const struct jit_code *code)
{
	return code ? code->count : 0;
}

// The first function that ends above @address.
static uint32_t find(const struct jit_code *code, uint64_t address)
{
	uint32_t at = 0, limit = code->count;

	while (at < limit) {
		uint32_t middle = at + (limit - at) / 2;

		if (code->functions[middle].limit <= address)
			at = middle + 1;
		else
			limit = middle;
	}
	return at;
}

static bool is_known(const struct jit_code *code, uint64_t address)
{
	uint32_t at = find(code, address);

	return at < code->count && code->functions[at].start <= address;
}

static void put(struct jit_code *code, const struct jit_function *function)
{
	uint32_t at = find(code, function->start);

	// Functions that overlap have been overwritten.
	while (at < code->count && code->functions[at].start < function->limit)
		drop(code, at);
	memmove(&code->functions[at + 1], &code->functions[at],
		(code->count - at) * sizeof(*function));
	code->functions[at] = *function;
	code->count++;
	code->range_count += function->range_count;
}

// ---- one function ---------------------------------------------------------------------------

struct analysis {
	uint64_t start;
	uint64_t pc; // offset that must be reached
	bool reached;
	uint32_t end; // end of the code reached
	struct generated_range ranges[FUNCTION_RANGES_MAX];
	uint32_t count;
	bool too_many;
	uint64_t since; // offset where `rule` begins
	struct unwind_rule rule;
};

static uint64_t pack(const struct unwind_rule *rule)
{
	if (rule->cfa != CFA_REGISTER || rule->cfa_offset <= 0)
		return 0;
	return MAPPING_RULE(rule->cfa_register == X86_REGISTER_FP, rule->cfa_offset,
			    (rule->saved & 15) == SAVED_AT_CFA ? rule->fp_offset : 0);
}

static void close_row(struct analysis *analysis, uint64_t limit)
{
	uint64_t since = analysis->since, rule = pack(&analysis->rule);
	uint32_t count = analysis->count;

	if (limit == since)
		return;
	if (analysis->rule.cfa != CFA_NO_TABLE) {
		analysis->end = (uint32_t)limit;
		if (rule && analysis->pc >= since && analysis->pc < limit)
			analysis->reached = true;
	}
	if (limit - since < ROW_BYTES_MIN)
		rule = 0;
	if (count && analysis->ranges[count - 1].rule == rule)
		return;
	if (count == FUNCTION_RANGES_MAX) {
		analysis->too_many = true;
		return;
	}
	analysis->ranges[analysis->count++] =
		(struct generated_range){ analysis->start + since, rule };
}

static void add_row(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct analysis *analysis = context;

	close_row(analysis, offset);
	analysis->since = offset;
	analysis->rule = *rule;
}

// Returns false if there is no function that can be described. The pc may be in another one.
static bool analyze(const uint8_t *bytes, size_t size, uint64_t start, uint64_t pc,
		    struct analysis *analysis)
{
	struct code_analysis *flow = NULL;

	*analysis = (struct analysis){ .start = start, .pc = pc - start };
	if (code_analysis_open(bytes, size, start, &flow))
		return false;
	code_analysis_limit(flow, DECODED_MAX);
	code_analysis_enter(flow, start);
	code_analysis_run(flow);
	bool is_cut = code_analysis_is_cut(flow);
	if (!is_cut) {
		code_analysis_each(flow, add_row, analysis);
		close_row(analysis, size);
	}
	code_analysis_close(flow);
	return !is_cut && analysis->end && !analysis->too_many;
}

static bool is_padding(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != 0 && bytes[i] != 0xcc && bytes[i] != 0x90)
			return false;
	return true;
}

// Reads code from @start on, with some padding after it. Returns its size; 0: unreadable.
static size_t read_code(pid_t pid, uint64_t start, uint64_t limit, uint8_t *bytes)
{
	uint64_t room = limit - start < SLOT_BYTES ? limit - start : SLOT_BYTES;
	size_t size = room < CODE_BYTES_MIN ? room : CODE_BYTES_MIN;

	for (;;) {
		if (process_memory_read(pid, start, bytes, size))
			return 0;
		if (size == room || is_padding(bytes + size - PADDING_BYTES, PADDING_BYTES))
			return size;
		size = size * 4 < room ? size * 4 : room;
	}
}

static bool add_function(struct jit_code *code, const uint8_t *bytes,
			 const struct analysis *analysis)
{
	struct jit_function function = {
		.start = analysis->start,
		.limit = analysis->start + analysis->end,
		.hash = hash64_of(bytes, analysis->end),
		.range_count = analysis->count,
	};

	if (code->count == JIT_FUNCTIONS_MAX ||
	    code->range_count + analysis->count > JIT_RANGES_MAX)
		return false;
	function.ranges = malloc((analysis->count + 1) * sizeof(*function.ranges));
	if (!function.ranges)
		return false;
	memcpy(function.ranges, analysis->ranges, analysis->count * sizeof(*function.ranges));
	put(code, &function);
	return true;
}

// The bytes of a no-operation of any length, as compilers align with; 0: another instruction.
static size_t nop_size(const uint8_t *bytes, size_t size)
{
	size_t at = 0;

	if (size && (bytes[0] == 0xcc || bytes[0] == 0))
		return 1;
	while (at < size && (bytes[at] == 0x66 || bytes[at] == 0x2e))
		at++;
	if (at < size && bytes[at] == 0x90)
		return at + 1;
	if (size - at < 3 || bytes[at] != 0x0f || bytes[at + 1] != 0x1f)
		return 0;

	// nopl with an address: ModRM, maybe SIB, maybe a displacement.
	uint8_t mode = bytes[at + 2] >> 6;

	at += 3 + ((bytes[at + 2] & 7) == 4) + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
	return at <= size ? at : 0;
}

// Where the function after one that ends at @end begins; @size: none follows that can be told from what is between.
static size_t next_function(const uint8_t *bytes, size_t size, size_t end)
{
	size_t nop = 1;

	while (end < size && nop) {
		nop = nop_size(bytes + end, size - end);
		end += nop;
	}
	return end % ALIGN_BYTES ? size : end;
}

// Analyzes the function at @start and those that follow it, up to the one with @pc. False: it is in none of them.
static bool analyze_at(struct jit_code *code, pid_t pid, uint64_t start, uint64_t limit,
		       uint64_t pc)
{
	_cleanup_free_ uint8_t *bytes = malloc(SLOT_BYTES);
	_cleanup_free_ struct analysis *analysis = malloc(sizeof(*analysis));
	size_t size = bytes && analysis ? read_code(pid, start, limit, bytes) : 0;
	size_t at = 0;

	while (at < size && at < FOLLOWING_BYTES && start + at <= pc) {
		if ((!at && is_padding(bytes, HEAD_BYTES)) || !work_may_go_on() ||
		    !analyze(bytes + at, size - at, start + at, pc, analysis))
			return false;
		if ((analysis->reached || !is_known(code, start + at)) &&
		    !add_function(code, bytes + at, analysis))
			return false;
		if (analysis->reached)
			return true;
		at = next_function(bytes, size, at + analysis->end);
	}
	return false;
}

// Pages where a function may begin: the mapping's first, and those after padding.
static bool may_begin(pid_t pid, const struct mapping *mapping, uint64_t page)
{
	uint8_t before[PADDING_BYTES];

	return page == mapping->start ||
	       (!process_memory_read(pid, page - sizeof(before), before, sizeof(before)) &&
		is_padding(before, sizeof(before)));
}

bool jit_code_analyze(struct jit_code *code, pid_t pid, const struct mapping *mapping, uint64_t pc)
{
	uint64_t page = pc & ~(uint64_t)(PAGE_BYTES - 1);
	uint64_t lowest = pc - mapping->start < SLOT_BYTES ? mapping->start : pc - SLOT_BYTES;

	if (is_known(code, pc) ||
	    !failed_code_may_try(&code->failed, mapping->start, clock_monotonic_ns()))
		return false;
	for (; page >= lowest; page -= PAGE_BYTES) {
		if (!may_begin(pid, mapping, page))
			continue;
		if (analyze_at(code, pid, page, mapping->limit, pc)) {
			failed_code_remove(&code->failed, mapping->start);
			return true;
		}
		break;
	}
	failed_code_add(&code->failed, mapping->start, clock_monotonic_ns());
	return false;
}

// ---- the others -----------------------------------------------------------------------------

static bool has_changed(const struct jit_function *function, pid_t pid)
{
	size_t size = function->limit - function->start;
	_cleanup_free_ uint8_t *bytes = malloc(size);
	int rc = bytes ? process_memory_read(pid, function->start, bytes, size) : -ENOMEM;

	if (rc == -ENOMEM || rc == -EDQUOT) // not read
		return false;
	return rc || hash64_of(bytes, size) != function->hash;
}

static bool drop_changed(struct jit_code *code, pid_t pid)
{
	bool any = false;

	for (uint32_t i = code->count; i-- > 0;) {
		if (!has_changed(&code->functions[i], pid))
			continue;
		drop(code, i);
		any = true;
	}
	return any;
}

// Does a slot begin with a function of the known kind?
static bool has_slots(const struct jit_code *code, const struct mapping *mapping)
{
	for (uint32_t i = find(code, mapping->start);
	     i < code->count && code->functions[i].start < mapping->limit; i++)
		if ((code->functions[i].start - mapping->start) % SLOT_BYTES == 0)
			return true;
	return (mapping->limit - mapping->start) % SLOT_BYTES == 0;
}

struct scan {
	uint32_t tried;
	uint32_t slots_read;
	bool put_off; // the process's budget is spent
	bool news;
};

static bool may_go_on(const struct scan *scan)
{
	return scan->tried < TRIED_AT_ONCE && scan->slots_read < SLOTS_READ_MAX && !scan->put_off;
}

static void scan_mapping(struct jit_code *code, pid_t pid, const struct mapping *mapping,
			 struct scan *scan)
{
	uint8_t head[HEAD_BYTES];

	uint64_t slot = mapping->start;

	if (code->scanned > slot) // the first slot that was not scanned
		slot += (code->scanned - slot + SLOT_BYTES - 1) / SLOT_BYTES * SLOT_BYTES;
	for (; slot < mapping->limit && may_go_on(scan); slot += SLOT_BYTES) {
		scan->slots_read++;
		if (is_known(code, slot))
			continue;
		code->scanned = slot + SLOT_BYTES;
		if (process_memory_read(pid, slot, head, sizeof(head)) ||
		    is_padding(head, sizeof(head)))
			continue;
		if (!work_may_go_on()) {
			code->scanned = slot;
			scan->put_off = true;
			return;
		}
		scan->tried++;
		// If anything is reached, the first instruction is.
		scan->news = analyze_at(code, pid, slot, mapping->limit, slot) || scan->news;
	}
}

bool jit_code_scan(struct jit_code *code, pid_t pid, const struct mapping_list *list)
{
	struct scan scan = { .news = drop_changed(code, pid) };

	if (!code->count)
		return scan.news;
	for (uint32_t i = 0; i < list->count && may_go_on(&scan); i++) {
		const struct mapping *mapping = &list->mappings[i];

		if (mapping->limit > code->scanned && mapping_is_jit(list, mapping) &&
		    has_slots(code, mapping))
			scan_mapping(code, pid, mapping, &scan);
	}
	if (may_go_on(&scan))
		code->scanned = 0; // next time from the start
	return scan.news;
}

// ---- for the unwinder -----------------------------------------------------------------------

static int add_ranges(const struct jit_function *function, uint64_t limit,
		      struct mapping_pages *pages)
{
	int rc = 0;

	for (uint32_t i = 0; i < function->range_count && !rc; i++) {
		const struct generated_range *range = &function->ranges[i];
		uint64_t next = i + 1 < function->range_count ? range[1].start : function->limit;

		if (next > limit)
			break;
		rc = mapping_pages_add_rule(pages, range->start, next, range->rule);
	}
	return rc;
}

int jit_code_add(const struct jit_code *code, const struct mapping *mapping,
		 struct mapping_pages *pages)
{
	uint64_t at = mapping->start;
	int rc = 0;

	if (code && !pages->coarse)
		for (uint32_t i = find(code, mapping->start);
		     i < code->count && code->functions[i].limit <= mapping->limit && !rc; i++) {
			const struct jit_function *function = &code->functions[i];

			if (function->start < at)
				continue;
			rc = mapping_pages_add_rule(pages, at, function->start, 0);
			if (!rc)
				rc = add_ranges(function, mapping->limit, pages);
			at = function->limit;
		}
	if (!rc && at > mapping->start)
		return mapping_pages_add_rule(pages, at, mapping->limit, 0);
	return rc ? rc : mapping_pages_add(pages, at, mapping->limit, MAPPING_CODE_JIT);
}

#else

struct jit_code {
	int nothing;
};

struct jit_code *jit_code_new(void)
{
	return calloc(1, sizeof(struct jit_code));
}

void jit_code_free(struct jit_code *code)
{
	free(code);
}

uint32_t jit_code_count(const struct jit_code *code)
{
	(void)code;
	return 0;
}

bool jit_code_analyze(struct jit_code *code, pid_t pid, const struct mapping *mapping, uint64_t pc)
{
	(void)code;
	(void)pid;
	(void)mapping;
	(void)pc;
	return false;
}

bool jit_code_scan(struct jit_code *code, pid_t pid, const struct mapping_list *list)
{
	(void)code;
	(void)pid;
	(void)list;
	return false;
}

int jit_code_add(const struct jit_code *code, const struct mapping *mapping,
		 struct mapping_pages *pages)
{
	(void)code;
	return mapping_pages_add(pages, mapping->start, mapping->limit, MAPPING_CODE_JIT);
}

#endif
