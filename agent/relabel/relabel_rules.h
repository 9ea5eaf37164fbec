// SPDX-License-Identifier: Apache-2.0
// Relabel rules with the meaning of Prometheus's relabel_config (prometheus.io, "Configuration"): they set, rename and drop
// labels of a process before it is shipped, or keep it from being profiled.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/relabel/meta_labels.h"
#include "base/error.h"
#include "base/labels.h"
#include "base/regex.h"

enum {
	RELABEL_RULES_MAX = 128,
	RELABEL_SOURCES_MAX = 16, // of one rule
	RELABEL_TEXT_BYTES_MAX =
		4096, // of joined values, which are cut, and of a field of the file
	RELABEL_MATCH_STEPS_MAX = 10 * 1000, // of one match: 1 ms with the worst patterns
};

enum relabel_action {
	RELABEL_REPLACE,
	RELABEL_KEEP,
	RELABEL_DROP,
	RELABEL_KEEPEQUAL,
	RELABEL_DROPEQUAL,
	RELABEL_HASHMOD,
	RELABEL_LABELMAP,
	RELABEL_LABELDROP,
	RELABEL_LABELKEEP,
	RELABEL_LOWERCASE,
	RELABEL_UPPERCASE,
};

struct relabel_rule {
	enum relabel_action action;
	char *sources[RELABEL_SOURCES_MAX];
	uint32_t source_count;
	char *separator;
	char *target;
	char *replacement;
	struct regex *regex;
	uint64_t modulus;
};

/** Never changed once it is read: any thread may use it. */
struct relabel_rules {
	struct relabel_rule *rules;
	uint32_t count, capacity;
};

/** So far. */
struct relabel_stats {
	uint64_t labels_dropped; // that rules made: cairn's own name, or no name, or too many
	uint64_t matches_stopped;
};

/** NULL is allowed. */
void relabel_rules_free(struct relabel_rules *rules);

static inline void relabel_rules_freep(struct relabel_rules **rules)
{
	relabel_rules_free(*rules);
}

void relabel_rule_deinit(struct relabel_rule *rule);

/** May rules set the label @name? The identity of a series and what was measured are cairn's own. */
bool relabel_may_set(const char *name);

/** Does @text hold "$1" or "${name}"? */
bool relabel_has_variable(const char *text);

/** [a-zA-Z_][a-zA-Z0-9_]*, where a variable stands for letters. */
bool relabel_may_be_name(const char *text);
/** The same without variables. */
bool relabel_is_name(const char *text);

/** Does a rule read the label @name? False for NULL: what nobody reads need not be kept. */
bool relabel_rules_read_label(const struct relabel_rules *rules, const char *name);

/**
 * Apply all rules in turn to @labels and @meta. *ret_labels, empty before, gets what is left without names that begin with
 * "__"; service, node and process always stay. *ret_is_dropped: the process is not to be profiled. A pattern that takes too
 * long matches nothing. Returns 0 or -ENOMEM.
 */
int relabel_rules_apply(const struct relabel_rules *rules, const struct labels *labels,
			const struct meta_labels *meta, struct labels *ret_labels,
			bool *ret_is_dropped, struct relabel_stats *stats);
