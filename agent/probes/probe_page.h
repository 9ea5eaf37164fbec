// SPDX-License-Identifier: Apache-2.0
// A page of code in a memfd, which only we map, to try and measure uprobes on (probe_link, probe_cost, and tests).
// Its functions look like the CUDA driver's exports and do nothing.
#pragma once

#include <stdint.h>

#if defined(__x86_64__)
/* File offsets of instructions to probe, each in its own function. */
enum {
	PROBE_PAGE_CHEAP_AT = 0x00a,   // the kernel emulates it
	PROBE_PAGE_STEPPED_AT = 0x100, // the kernel single-steps it
	PROBE_PAGE_RETURN_AT = 0x20a,  // emulated; for a return probe
	PROBE_PAGE_BARE_AT = 0x30a,    // never probed
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

/** Returns 0 or -errno: -EACCES or -EPERM where a policy (SELinux) forbids executable memory. */
int probe_page_open(struct probe_page *ret_page);
void probe_page_close(struct probe_page *page);

/** Call the function that contains the offset @at. */
void probe_page_call(const struct probe_page *page, uint32_t at);
