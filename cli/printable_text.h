// SPDX-License-Identifier: Apache-2.0
// Names as a terminal may see them. They come from processes and collectors, and are hostile.
#pragma once

enum { FUNCTION_NAME_BYTES = 512 }; // longer display names are cut

/** Print what utf8_clean() leaves of @text. */
void text_print(const char *text);
