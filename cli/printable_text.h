// SPDX-License-Identifier: Apache-2.0
// Names as a terminal may see them.
#pragma once

enum { FUNCTION_NAME_BYTES = 512 }; // longer display names are cut

/**
 * Replace what a terminal would interpret: control characters, and their 8-bit forms in
 * UTF-8. Names come from processes and are hostile.
 */
void text_make_printable(char *text);
/** Print what that leaves of @text. */
void text_print(const char *text);
