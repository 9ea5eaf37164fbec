// SPDX-License-Identifier: Apache-2.0
// The labels of a process while relabel rules are applied: more, and with longer names, than it may have in the end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RELABEL_LABELS_MAX = 256
}; // while rules are applied: META_LABELS_MAX, LABELS_MAX, and what rules make

struct relabel_label {
	char *name, *value;
	bool is_changed; // by a rule
};

/**
 * Those that no rule has changed, by name, and then those that rules have, in that order: where a rule gives two labels one
 * name, the later one wins, as in Prometheus. A zeroed struct is empty.
 */
struct relabel_set {
	struct relabel_label *labels;
	uint32_t count, capacity;
};

void relabel_set_deinit(struct relabel_set *set);

/** The value, "" if there is no such label. */
const char *relabel_set_get(const struct relabel_set *set, const char *name);

/** Begin: sort by name what was put, none of which counts as changed. */
void relabel_set_begin(struct relabel_set *set);

/** An empty value removes. Returns 0; -ENOMEM; -E2BIG at RELABEL_LABELS_MAX. */
int relabel_set_put(struct relabel_set *set, const char *name, const char *value);

void relabel_set_remove_at(struct relabel_set *set, uint32_t index);
