// SPDX-License-Identifier: Apache-2.0
// What each tenant may have, how much of it is used, and what was refused: the limits of the file of --limits, which is
// read again when it changes. Thread-safe; a tenant's lock is its own, so that none waits for another.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/byte_budget.h"
#include "base/error.h"
#include "collector/access/identity.h"
#include "collector/limits/limit_file.h"

enum {
	LIMITED_TENANTS_MAX =
		ACCESS_ENTRIES_MAX, // who log in; those that come later have the defaults
	REPORTED_TENANTS_MAX =
		256, // with a name in /metrics; the others are summed as TENANT_OTHERS
	TENANT_REFUSALS_MAX = 256, // listed
	TENANT_WORDS_BYTES = 160,
};

/** Codes of refusals: the limit lets it in later; or never. */
#define TENANT_LATER (-EUSERS)
#define TENANT_NEVER (-EDOM)

#define TENANT_OTHERS "(others)" // no tenant's name

struct tenant_limits;

/** One of them; NULL has the default limits, and nothing is counted. It lives as long as its tenant_limits. */
struct tenant;

/** @path: the file; NULL: all tenants have the default limits. Returns 0; -EINVAL with the line in @err; -errno. */
int tenant_limits_open(const char *path, struct tenant_limits **ret_limits, struct error *err);
/** NULL is allowed. */
void tenant_limits_close(struct tenant_limits *limits);
/**
 * Read the file if it has changed; about once a second, on one thread. A damaged one leaves the old limits in force. Returns
 * whether it was read, or a negative errno with @err: for a bad line once per change (-EINVAL).
 */
int tenant_limits_refresh(struct tenant_limits *limits, struct error *err);

/** The tenant @name, as an identity has it. NULL: without @limits, or at LIMITED_TENANTS_MAX. */
struct tenant *tenant_limits_find(struct tenant_limits *limits, const char *name);

/** Its limits of now. */
void tenant_read_values(struct tenant *tenant, struct tenant_values *ret_values);

/**
 * May it send @bytes more at @now_ns (monotonic)? Whoever has room may send one batch of any size: the next waits until that
 * is worked off. With 0 nothing is used. Returns 0; TENANT_LATER with @err, counted.
 */
int tenant_take_ingest(struct tenant *tenant, uint64_t bytes, uint64_t now_ns, struct error *err);
/** It has sent @bytes more than was known when it was admitted. */
void tenant_charge_ingest(struct tenant *tenant, uint64_t bytes);
/** How long it has to wait for that; 0: it need not. */
uint32_t tenant_ingest_pause_ms(struct tenant *tenant, uint64_t now_ns);

/** May it ask for a range of @range_ns? Returns 0; TENANT_NEVER with @err, counted. */
int tenant_check_range(struct tenant *tenant, uint64_t range_ns, struct error *err);
/** What its queries share, for memory_account_share(), and how much they may have. NULL: no limit of its own. */
struct byte_budget *tenant_query_memory(struct tenant *tenant, size_t *ret_bytes_max);
/** A query was refused memory; @is_alone: it needs more than the limit itself. Returns TENANT_LATER or TENANT_NEVER with @err; counted. */
int tenant_refuse_memory(struct tenant *tenant, bool is_alone, struct error *err);

/** Count @count parts of a batch that a limit changed. */
void tenant_count(struct tenant *tenant, enum tenant_limit limit, uint64_t count);
/** "tenant shop: series: 5000 (limits.yaml:9)". */
void tenant_limit_words(struct tenant *tenant, enum tenant_limit limit,
			char text[TENANT_WORDS_BYTES]);

/** What a limit has refused since the collector's start. */
struct tenant_refusal {
	char tenant[ACCESS_TENANT_BYTES]; // "-": none
	enum tenant_limit limit;
	uint64_t value; // 0: none now
	uint32_t line;  // of the file that sets it; 0: the default
	uint64_t count;
	uint64_t last_ns; // Unix time
};

/**
 * Those of @tenant (ACCESS_ALL_TENANTS: all, at most TENANT_REFUSALS_MAX): the caller frees *ret_refusals. Returns 0 or -ENOMEM.
 */
int tenant_limits_list(struct tenant_limits *limits, const char *tenant,
		       struct tenant_refusal **ret_refusals, uint32_t *ret_count);
/** Where limits are set, for people: the file's name; "" without one. */
const char *tenant_limits_file(const struct tenant_limits *limits);
/** Append the metrics of @tenant (ACCESS_ALL_TENANTS: all) as Prometheus text. */
void tenant_limits_encode(struct tenant_limits *limits, const char *tenant, struct buffer *buffer);
