// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/live_unwind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dump/live_memory.h"
#include "agent/dump/live_tables.h"
#include "agent/process/process_memory.h"
#include "agent/python/python_runtime.h"
#include "base/array.h"
#include "base/cleanup.h"

#ifdef __aarch64__
#define __TARGET_ARCH_arm64 // as the BPF programs are compiled
#endif

// The kernel's limit is the size of a CPU's scratch memory; it does not apply here.
#include "bpf/unwind/stack.h"
#undef STACK_DEPTH_MAX
#define STACK_DEPTH_MAX LIVE_STACK_DEPTH_MAX

static const bool unwind_by_tables = true;
static const bool unwind_python = true;

// gcc has another word for "unroll", and needs none.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "bpf/unwind/unwind.h"
#pragma GCC diagnostic pop

enum {
	PREFETCH_PAGES = 4, // of a stack: most are not deeper
	SCAN_STEP_BYTES = 16384,
};

struct live_unwind {
	pid_t memory_tid;
	struct live_unwind_options options;
	struct live_memory *memory;
	struct unwind_table_cache *cache;
	struct live_tables tables;
	struct python_runtimes *runtimes;
	struct python_interpreter interpreter; // offsets NULL: there is none
	struct process_unwind facts;
	struct unwind unwind;

	// Of the stack in work.
	struct live_stack *stack;
	const struct live_file *file; // of the last table
	bool out_of_memory;
};

/* unwind.h's functions have no argument for it: each thread has one at a time. */
static _Thread_local struct live_unwind *working;

/* ---- what unwind.h needs ------------------------------------------------------------------- */

static long read_user(void *to, __u32 size, __u64 address)
{
	return live_memory_read(working->memory, address, to, size);
}

static struct raw_frame *unwind_frame(struct unwind *unwind, __u32 at)
{
	struct live_stack *stack = working->stack;

	(void)unwind;
	// The leaf comes first.
	if (array_reserve(&stack->frames, sizeof(*stack->frames), &stack->frame_capacity, at + 1, 1,
			  UINT32_MAX)) {
		working->out_of_memory = true;
		return NULL;
	}
	return &stack->frames[at + 1];
}

static const struct mapping_page *unwind_mapping_page(const struct unwind *unwind, __u32 page)
{
	(void)unwind;
	return page < working->tables.page_count ? &working->tables.pages[page] : NULL;
}

static void *unwind_table(__u32 table)
{
	if (table >= working->tables.file_count)
		return NULL;
	working->file = &working->tables.files[table];
	return working->file->table ? (void *)working->file : NULL;
}

static const struct table_page *unwind_table_page(void *table, __u32 page)
{
	const struct live_file *file = table;

	return page < file->page_count ? &file->pages[page] : NULL;
}

/* In the kernel all tables share their rules; here each has its own. */
static const struct unwind_rule *unwind_rule_at(__u32 rule)
{
	const struct unwind_table *table = working->file->table;

	return rule < table->rule_count ? &table->rules[rule] : NULL;
}

/* A search is cheap here. */
static struct cached_rules *unwind_cached_rules(__u64 address)
{
	(void)address;
	return NULL;
}

static const struct python_offsets *python_offsets_at(__u32 runtime)
{
	(void)runtime;
	return working->interpreter.offsets;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Without a known interpreter, stacks are native. */
static int find_python(struct live_unwind *live, struct work_budget *budget,
		       const struct mapping_list *mappings, struct error *notice)
{
	struct work work;

	live->runtimes = python_runtimes_new();
	if (!live->runtimes)
		return -ENOMEM;
	if (!work_begin(&work, budget, "reading Python thread states"))
		return 0;
	int rc = python_runtimes_find(live->runtimes, live->memory_tid, mappings,
				      &live->facts.python, notice);
	work_end(&work);
	if (rc == -EDQUOT)
		error_set(notice, rc,
			  "stacks stay native: CPU time to find the interpreter's "
			  "threads spent");
	if (rc) {
		live->facts.python = (struct python_process){ 0 };
		return 0;
	}
	live->interpreter.budget = budget;
	live->interpreter.offsets =
		python_runtimes_offsets(live->runtimes, live->facts.python.runtime);
	live->interpreter.code_type = live->facts.python.code_type;
	return 0;
}

static void freep(struct live_unwind **live)
{
	live_unwind_close(*live);
}

int live_unwind_open(struct process_table *processes, struct process *process, pid_t memory_tid,
		     const struct live_unwind_options *options, struct live_unwind **ret_unwind,
		     struct error *err)
{
	_cleanup_(freep) struct live_unwind *live = calloc(1, sizeof(*live));
	const struct mapping_list *mappings;

	if (!live)
		return error_set(err, -ENOMEM, "out of memory");
	live->memory_tid = memory_tid;
	live->options = *options;
	live->facts.key = process->key;
	live->memory = live_memory_new(memory_tid);
	if (options->cache_folder &&
	    unwind_table_cache_open(options->cache_folder, UNWIND_TABLE_CACHE_BYTES_DEFAULT,
				    &live->cache, NULL))
		live->cache = NULL; // tables are built
	mappings = process_mappings(processes, process);
	if (!mappings)
		return error_set(err, -ESRCH, "the mappings of process %u cannot be read",
				 process->key.pid);
	int rc = live->memory ? live_tables_init(&live->tables, mappings, live->cache) : -ENOMEM;
	if (!rc && !options->no_python)
		rc = find_python(live, &process->budget, mappings, err);
	if (rc)
		return error_set(err, rc, "out of memory");
	*ret_unwind = take(live);
	return 0;
}

void live_unwind_close(struct live_unwind *live)
{
	if (!live)
		return;
	python_runtimes_free(live->runtimes);
	live_tables_deinit(&live->tables);
	unwind_table_cache_close(live->cache);
	live_memory_free(live->memory);
	free(live);
}

void live_unwind_clear_memory(struct live_unwind *live)
{
	live_memory_clear(live->memory);
}

/* ---- one stack ----------------------------------------------------------------------------- */

static void begin(struct live_unwind *live, const struct thread_registers *registers)
{
	struct unwind *unwind = &live->unwind;

	memset(unwind, 0, sizeof(*unwind));
	memcpy(unwind->registers, registers->dwarf, sizeof(unwind->registers));
	unwind->pc = registers->pc;
	// A system call that does not return may be the last instruction of its function.
	unwind->exact_pc = registers->syscall == SYSCALL_NONE;
	unwind->thread_pointer = registers->thread_pointer;
	unwind->process = live->facts;
	unwind->process.mapping_page_count = live->tables.page_count;
	unwind_begin(unwind);
}

static void walk(struct live_unwind *live, const struct thread_registers *registers)
{
	begin(live, registers);
	if (registers->compat)
		live->unwind.end = STACK_END_COMPAT;
	for (uint32_t i = 0; live->unwind.end == UNWIND_CONTINUES && i < UNWIND_STEPS_MAX; i++)
		if (unwind_step(&live->unwind))
			break;
	if (live->unwind.end == UNWIND_CONTINUES)
		live->unwind.end = STACK_END_DEPTH;
}

static int keep(struct live_unwind *live)
{
	struct live_stack *stack = live->stack;
	const struct unwind *unwind = &live->unwind;

	stack->frame_count = 0;
	stack->end = (enum stack_end)unwind->end;
	if (live->out_of_memory)
		return -ENOMEM;
	if (!unwind->leaf.tag)
		return 0;
	if (!unwind_frame(&live->unwind, 0)) // room for a leaf without callers
		return -ENOMEM;
	stack->frames[0] = unwind->leaf;
	stack->frame_count = unwind->frame_count + 1;
	return 0;
}

int live_unwind_thread(struct live_unwind *live, const struct thread_registers *registers,
		       struct live_stack *stack)
{
	struct live_unwind *before = working;

	working = live;
	live->stack = stack;
	live->out_of_memory = false;
	live_memory_prefetch(live->memory, thread_registers_sp(registers), PREFETCH_PAGES);
	// Each turn builds the table that the last one lacked, so the turns end.
	for (;;) {
		walk(live, registers);
		if (live->unwind.end != STACK_END_NO_MAPPING ||
		    !live_tables_want(&live->tables, unwind_code_address(&live->unwind)) ||
		    !live->options.build_at_once || !live_tables_build(&live->tables))
			break;
	}
	int rc = keep(live);
	live->stack = NULL;
	working = before;
	return rc;
}

void live_stack_deinit(struct live_stack *stack)
{
	free(stack->frames);
	*stack = (struct live_stack){ 0 };
}

bool live_unwind_holds_gil(struct live_unwind *live, const struct thread_registers *registers)
{
	const struct python_offsets *offsets = live->interpreter.offsets;
	struct live_unwind *before = working;
	bool holds;

	if (!offsets || !registers->thread_pointer)
		return false;
	working = live;
	begin(live, registers);
	holds = python_holds_gil(&live->unwind, offsets);
	working = before;
	return holds;
}

/* ---- scan -------------------------------------------------------------------------------- */

void live_unwind_scan(struct live_unwind *live, uint64_t pc, uint64_t sp)
{
	_cleanup_free_ uint64_t *words = malloc(SCAN_STEP_BYTES);
	uint64_t at = sp & ~(uint64_t)7, limit = at + LIVE_STACK_SCAN_BYTES;

	live_tables_want(&live->tables, pc);
	while (words && at < limit) {
		// A step ends with a page, so that the last page of a stack is not missed.
		uint32_t size = SCAN_STEP_BYTES - at % LIVE_PAGE_BYTES;

		if (process_memory_read(live->memory_tid, at, words, size)) {
			size = LIVE_PAGE_BYTES - at % LIVE_PAGE_BYTES;
			if (process_memory_read(live->memory_tid, at, words, size))
				return;
		}
		for (uint32_t i = 0; i < size / sizeof(*words); i++)
			live_tables_want(&live->tables, words[i] - 1);
		at += size;
	}
}

uint32_t live_unwind_build_missing(struct live_unwind *live)
{
	return live_tables_build(&live->tables);
}

const struct python_interpreter *live_unwind_interpreter(const struct live_unwind *live)
{
	return live->interpreter.offsets ? &live->interpreter : NULL;
}

void live_unwind_read_stats(const struct live_unwind *live, struct live_unwind_stats *ret_stats)
{
	*ret_stats = (struct live_unwind_stats){
		.mappings = live->tables.range_count,
		.tables = live->tables.built,
		.tables_failed = live->tables.failed,
		.build_ns = live->tables.build_ns,
		.memory_reads = live_memory_reads(live->memory),
	};
}
