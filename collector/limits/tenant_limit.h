// SPDX-License-Identifier: Apache-2.0
// The limits of a tenant: names, defaults, what may be set. They are declared here, once.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/config/config_setting.h"

enum tenant_limit {
	LIMIT_INGEST_RATE,
	LIMIT_INGEST_BURST,
	LIMIT_SERIES,
	LIMIT_LABELS,
	LIMIT_LABEL_NAME,
	LIMIT_LABEL_VALUE,
	LIMIT_STACK_DEPTH,
	LIMIT_QUERY_RANGE,
	LIMIT_QUERY_MEMORY,
	TENANT_LIMITS, // their number
};

enum {
	TENANT_SERIES_MAX = 252 << 10,     // all that an hour of the store has
	TENANT_SERIES_DEFAULT = 192 << 10, // three quarters of it, that other tenants have some
	TENANT_BURST_SECONDS = 10,         // of ingest-rate, unless ingest-burst is set
	TENANT_LIMIT_TEXT_BYTES = 48,
};

/** The longest range of a query. */
#define TENANT_RANGE_NS_MAX (31ULL * 24 * 3600 * 1000000000ULL)

struct tenant_limit_spec {
	const char *name;        // in the file, in /metrics and in messages
	enum config_kind kind;   // CONFIG_SIZE, CONFIG_UINT or CONFIG_DURATION
	uint64_t min, max;       // that may be set
	uint64_t preset;         // the default; 0: what `preset_text` says
	const char *preset_text; // NULL: the text of `preset`
	const char *bounds;      // what it bounds
	const char *beyond;      // what becomes of more
};

/** Never NULL. */
const struct tenant_limit_spec *tenant_limit_spec(enum tenant_limit limit);
/** The limit with @name; TENANT_LIMITS: none. */
enum tenant_limit tenant_limit_of_name(const char *name);
/** A value as people write it: "4 MiB", "7d", "5000". */
const char *tenant_limit_text(enum tenant_limit limit, uint64_t value,
			      char text[TENANT_LIMIT_TEXT_BYTES]);
