// SPDX-License-Identifier: Apache-2.0
#include "cli/printable_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_make_printable(char *text)
{
	for (unsigned char *at = (unsigned char *)text; *at; at++) {
		if (*at < ' ' || *at == 0x7f)
			*at = '?';
		else if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
			at[0] = at[1] = '?';
	}
}

void text_print(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return;
	text_make_printable(copy);
	fputs(copy, stdout);
	free(copy);
}
