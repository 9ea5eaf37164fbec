// SPDX-License-Identifier: Apache-2.0
#include "unwind_synthesis.h"

int unwind_synthesis_add(const struct elf *elf, struct unwind_rows *rows, struct error *err)
{
	(void)elf;
	(void)err;
	return rows->rc;
}
