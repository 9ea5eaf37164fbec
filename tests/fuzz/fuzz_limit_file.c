// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file of limits: refused with a word, or values within what may be set, for each tenant.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/limits/limit_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed);

static const char good[] = "defaults: {ingest-rate: 4MiB, query-range: 7d, ingest-burst: 64MiB}\n"
			   "tenants:\n  shop: {series: 5000, labels: 8, label-name-bytes: 20}\n"
			   "  \"-\": {label-value-bytes: 64, stack-depth: 64}\n"
			   "  \"*\": {query-memory: 2MiB, query-range: 0}\n";

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_values(const struct limit_file *file, const char *tenant)
{
	struct tenant_values values;

	limit_file_find(file, tenant, &values);
	for (int i = 0; i < TENANT_LIMITS; i++) {
		const struct tenant_limit_spec *spec = tenant_limit_spec((enum tenant_limit)i);
		uint64_t value = values.of[i];
		char text[TENANT_LIMIT_TEXT_BYTES];

		check(value == spec->preset || (value >= spec->min && value <= spec->max));
		check(value == spec->preset || values.line[i]);
		check(*tenant_limit_text((enum tenant_limit)i, value, text));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct limit_file file = { 0 };
	struct error err = { 0 };
	char path[64];
	int fd = memfd_create("limits", MFD_CLOEXEC);

	check(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int rc = limit_file_read(path, &file, &err);
	check(rc ? !file.tenants && err.code && *err.text : file.count <= LIMIT_FILE_TENANTS_MAX);
	check_values(&file, "nobody");
	for (uint32_t i = 0; i < file.count; i++) {
		const char *name = file.tenants[i].name;

		check(memchr(name, '\0', ACCESS_TENANT_BYTES) && *name != '.' &&
		      !strchr(name, '/'));
		check_values(&file, name);
	}
	limit_file_deinit(&file);
	close(fd);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed)
{
	(void)seed;
	if (size < 8 && sizeof(good) - 1 <= size_max) {
		size = sizeof(good) - 1;
		memcpy(bytes, good, size);
	}
	return LLVMFuzzerMutate(bytes, size, size_max);
}
