// SPDX-License-Identifier: Apache-2.0
#include "cli/printable_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

void text_print(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return;
	utf8_clean(copy);
	fputs(copy, stdout);
	free(copy);
}
