// SPDX-License-Identifier: Apache-2.0
// What --json prints: an object on a line of standard output.
#pragma once

#include <jansson.h>

/** Print @object and give it back. NULL, which is out of memory, prints nothing. */
void json_line_print(json_t *object);
