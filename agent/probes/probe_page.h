// SPDX-License-Identifier: Apache-2.0
// A page of code of our own, in a file of its own, to try uprobes on: nobody else maps it. Its
// functions have the shape of the CUDA driver's exports and do nothing.
#pragma once

#include <stdint.h>

#if defined(__x86_64__)
/* Offsets in the file of instructions to probe; each lies in another function. */
enum {
	PROBE_PAGE_CHEAP_AT = 0x00a,   // which the kernel emulates
	PROBE_PAGE_STEPPED_AT = 0x100, // which it steps through
	PROBE_PAGE_RETURN_AT = 0x20a,  // cheap, for entry and return
	PROBE_PAGE_BARE_AT = 0x30a,    // for comparison
};
#else
enum {
	PROBE_PAGE_CHEAP_AT = 0x000,
	PROBE_PAGE_STEPPED_AT = 0x100,
	PROBE_PAGE_RETURN_AT = 0x200,
	PROBE_PAGE_BARE_AT = 0x300,
};
#endif

struct probe_page {
	int fd;
	uint8_t *code; // mapped; a page
};

/** Returns 0 or -errno: -EACCES or -EPERM where code of one's own is forbidden. */
int probe_page_open(struct probe_page *ret_page);
void probe_page_close(struct probe_page *page);

/** Call the function that the place @at lies in. */
void probe_page_call(const struct probe_page *page, uint32_t at);
