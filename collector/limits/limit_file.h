// SPDX-License-Identifier: Apache-2.0
// The file of --limits: what tenants have instead of the default limits.
//
//     defaults:             # of each tenant
//       query-range: 7d
//     tenants:
//       shop:
//         ingest-rate: 4MiB
//       "-":                # series without a tenant
//         series: 20000
//       "*":                # queries by a credential of all tenants
//         query-range: 31d
//
// 0 is the default, as what is left out.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collector/access/identity.h"
#include "collector/limits/tenant_limit.h"

enum {
	LIMIT_FILE_BYTES_MAX = 1 << 20,
	LIMIT_FILE_TENANTS_MAX = 4096,
};

/** A value of 0 is not set. */
struct tenant_values {
	uint64_t of[TENANT_LIMITS];
	uint32_t line[TENANT_LIMITS]; // of the file that sets it; 0: the default
};

struct limited_tenant {
	char name[ACCESS_TENANT_BYTES];
	struct tenant_values values;
};

/** A zeroed struct is an empty file. */
struct limit_file {
	struct tenant_values defaults;
	struct limited_tenant *tenants; // sorted by name
	uint32_t count, capacity;
};

void limit_file_deinit(struct limit_file *file);
/** Returns 0; -EINVAL with the line in @err; -ENOMEM; -errno. @ret_file is untouched on failure. */
int limit_file_read(const char *path, struct limit_file *ret_file, struct error *err);
/** What @tenant has: its own, else the file's, else the default. */
void limit_file_find(const struct limit_file *file, const char *tenant,
		     struct tenant_values *ret_values);
