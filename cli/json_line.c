// SPDX-License-Identifier: Apache-2.0
#include "cli/json_line.h"

#include <stdio.h>

void json_line_print(json_t *object)
{
	if (!object)
		return;
	json_dumpf(object, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(object);
}
