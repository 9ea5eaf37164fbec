// SPDX-License-Identifier: Apache-2.0
// Any bytes as what Docker or Podman write of containers: texts are within their bounds, and fit to be labels.

#include <stdlib.h>
#include <string.h>

#include "agent/containers/container_record.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define ID "abababababababababababababababababababababababababababababababab"

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_text(const char *text, size_t bytes)
{
	check(strnlen(text, bytes) < bytes && utf8_is_valid(text, strlen(text)));
}

typedef int read_fn(const char *text, size_t size, const char *id,
		    const struct relabel_rules *rules, struct container_record *ret_record);

static void read_by(read_fn *fn, const uint8_t *bytes, size_t size)
{
	struct container_record record = { 0 };

	if (fn((const char *)bytes, size, ID, NULL, &record) == 0) {
		check_text(record.name, sizeof(record.name));
		check_text(record.service, sizeof(record.service));
		check_text(record.project, sizeof(record.project));
		check_text(record.version, sizeof(record.version));
	}
	container_record_deinit(&record);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	read_by(container_record_read_docker, bytes, size);
	read_by(container_record_read_podman, bytes, size);
	return 0;
}
