// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_go.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/go_pclntab.h"

/* The present function. */
struct go_ranges {
	struct unwind_rows *rows;
	uint64_t function;
	bool open; // its range has begun
};

#if defined(__x86_64__)

/* Go saves the frame pointer below the return address in each frame. */
static struct unwind_rule rule_of_frame(int32_t sp_delta)
{
	bool has_frame = sp_delta > 0;

	return (struct unwind_rule){
		.cfa = CFA_REGISTER,
		.cfa_register = X86_REGISTER_SP,
		.saved = (has_frame ? SAVED_AT_CFA : SAVED_SAME) | SAVED_AT_CFA << 4,
		.cfa_offset = sp_delta + 8,
		.fp_offset = has_frame ? -16 : 0,
		.return_offset = -8,
	};
}

static struct unwind_rule rule_of_frame_pointer(void)
{
	return (struct unwind_rule){
		.cfa = CFA_REGISTER,
		.cfa_register = X86_REGISTER_FP,
		.saved = SAVED_AT_CFA | SAVED_AT_CFA << 4,
		.flags = RULE_SWITCHES_STACK,
		.cfa_offset = 16,
		.fp_offset = -16,
		.return_offset = -8,
	};
}

#elif defined(__aarch64__)

/* The return address is at the frame's lower end, the frame pointer below it. */
static struct unwind_rule rule_of_frame(int32_t sp_delta)
{
	struct unwind_rule rule = {
		.cfa = CFA_REGISTER,
		.cfa_register = ARM64_REGISTER_SP,
		.cfa_offset = sp_delta,
	};

	if (sp_delta > 0) {
		// The CFA of a large frame is too far away.
		bool is_large = sp_delta > INT16_MAX;

		rule.saved = SAVED_AT_CFA | (is_large ? SAVED_AT_SP : SAVED_AT_CFA) << 4;
		rule.fp_offset = -sp_delta - 8;
		rule.return_offset = is_large ? 0 : (int16_t)-sp_delta;
	}
	return rule;
}

static struct unwind_rule rule_of_frame_pointer(void)
{
	return (struct unwind_rule){ .cfa = CFA_UNSUPPORTED };
}

#endif

static struct unwind_rule rule_of(const struct go_row *row)
{
	switch (row->kind) {
	case GO_ROW_SP:
		return rule_of_frame(row->sp_delta);
	case GO_ROW_FP:
		return rule_of_frame_pointer();
	case GO_ROW_SIGNAL:
		return (struct unwind_rule){ .cfa = CFA_SIGNAL };
	case GO_ROW_END:
		return (struct unwind_rule){ .cfa = CFA_END };
	case GO_ROW_NONE:
		break;
	}
	return (struct unwind_rule){ .cfa = CFA_NO_TABLE };
}

static void end_function(struct go_ranges *ranges)
{
	if (ranges->open)
		unwind_rows_end(ranges->rows);
	ranges->open = false;
}

/* Functions without a row at their start are left to call frame information. */
static int add_row(void *context, const struct go_row *row)
{
	struct go_ranges *ranges = context;
	struct unwind_rule rule = rule_of(row);

	if (row->address == row->function) {
		end_function(ranges);
		if (row->kind == GO_ROW_NONE)
			return 0;
		unwind_rows_begin(ranges->rows, row->function, row->function_limit - row->function);
		ranges->open = true;
	}
	if (ranges->open)
		unwind_rows_add(ranges->rows, row->address - row->function, &rule);
	return 0;
}

int unwind_go_add(const struct elf *elf, struct unwind_rows *rows, struct error *err)
{
	struct go_ranges ranges = { .rows = rows };
	int rc = go_pclntab_rows(elf, add_row, &ranges);

	end_function(&ranges);
	if (rc == -ENOENT || rc == -ENOEXEC || rc == -E2BIG)
		rc = 0;
	return rc ? error_errno(err, rc, "read Go's function table") : 0;
}
