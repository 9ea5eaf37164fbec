// SPDX-License-Identifier: Apache-2.0
// Any bytes as code: the analysis ends, and gives each row once, in order, and the same every time.

#include <stdlib.h>
#include <string.h>

#include "agent/unwind/analysis/arm64_analysis.h"
#include "agent/unwind/analysis/code_analysis.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
	ROWS_MAX = 4096,
	CODE = 0x401000,
	ENTRIES = 3, // the first bytes are the starts of functions
};

struct rows {
	size_t size;
	uint32_t count;
	uint64_t offsets[ROWS_MAX];
	struct unwind_rule rules[ROWS_MAX];
};

static void take_row(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct rows *rows = context;

	if (offset >= rows->size + !rows->size || rule->cfa_register >= UNWIND_REGISTERS)
		abort();
	if (rows->count == ROWS_MAX)
		return;
	// The first row has no rule; the code's own may begin there, too.
	if (rows->count > 1 && offset <= rows->offsets[rows->count - 1])
		abort();
	rows->offsets[rows->count] = offset;
	rows->rules[rows->count++] = *rule;
}

static void follow(const uint8_t *bytes, size_t size, struct rows *rows)
{
	const uint8_t *code = bytes + ENTRIES;
	struct code_analysis *flow = NULL;

	rows->size = size - ENTRIES;
	rows->count = 0;
	if (code_analysis_open(code, rows->size, CODE, &flow))
		abort();
	for (int i = 0; i < ENTRIES; i++)
		code_analysis_enter(flow, CODE + bytes[i]);
	code_analysis_never_returns(flow, CODE + bytes[0]);
	code_analysis_run(flow);
	code_analysis_each(flow, take_row, rows);
	code_analysis_close(flow);
}

/* The same bytes as aarch64 code. */
static void follow_arm64(const uint8_t *bytes, size_t size, struct rows *rows)
{
	uint32_t entries[ENTRIES];

	rows->size = size - ENTRIES;
	rows->count = 0;
	for (int i = 0; i < ENTRIES; i++)
		entries[i] = bytes[i];
	if (arm64_analysis_each(bytes + ENTRIES, rows->size, entries, ENTRIES, take_row, rows))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct rows rows, again;

	if (size <= ENTRIES)
		return 0;
	follow(bytes, size, &rows);
	follow(bytes, size, &again);
	if (rows.count != again.count ||
	    memcmp(rows.rules, again.rules, rows.count * sizeof(*rows.rules)) != 0)
		abort();
	follow_arm64(bytes, size, &rows);
	return 0;
}
