// SPDX-License-Identifier: Apache-2.0
// Any bytes as a record of a perf ring: it gives a range with a path that ends with a NUL, or nothing.

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "agent/bpf/mmap_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct perf_event_header header;
	struct mmap_event event;
	uint8_t *record = malloc(size ? size : 1); // of exactly its size, aligned as in a ring

	if (!record)
		return 0;
	memcpy(record, bytes, size);
	if (size >= sizeof(header)) { // the record's size is the ring's
		memcpy(&header, record, sizeof(header));
		header.size = (uint16_t)size;
		memcpy(record, &header, sizeof(header));
	}
	if (mmap_event_parse(record, size, &event) > 0) {
		if (event.kind == MMAP_EVENT_MAP && event.start >= event.limit)
			abort();
		if (event.build_id_size > MMAP_EVENT_BUILD_ID_BYTES || strlen(event.path) >= size)
			abort();
	}
	free(record);
	return 0;
}
