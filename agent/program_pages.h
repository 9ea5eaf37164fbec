// SPDX-License-Identifier: Apache-2.0
// Gives back the memory of code that only starting needed: of the program's and its libraries' files, which are
// read from the page cache again where they are used.
#pragma once

/** Unmap all pages of segments that are never written. What runs now is back at once, 64 KiB a page fault. */
void program_pages_release(void);
