// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's symbols in a thread: that takes 80 ms, as long as the verifier takes for the programs that are
// loaded meanwhile.
#pragma once

#include "agent/symbols/kallsyms.h"
#include "base/error.h"

struct kallsyms_reading;

/** Begin to read /proc/kallsyms. NULL: out of memory. */
struct kallsyms_reading *kallsyms_reading_begin(void);
/** Wait for the end, and free @reading. Returns as kallsyms_open(). */
int kallsyms_reading_end(struct kallsyms_reading *reading, struct kallsyms **ret_kallsyms,
			 struct error *err);
