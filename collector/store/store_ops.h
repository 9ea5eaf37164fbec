// SPDX-License-Identifier: Apache-2.0
// What an implementation of store.h provides. Its store begins with a struct store; the functions of
// store.h, here, call through it.
#pragma once

#include "collector/store/store.h"

struct store_ops {
	void (*close)(struct store *store);
	int (*append)(struct store *store, const struct store_batch_id *batch,
		      const struct profile *profile, struct store_append_result *ret_result,
		      struct error *err);
	int (*select)(struct store *store, const struct selector *selector, const char *type,
		      struct time_range range, struct store_selection **ret_selection,
		      struct error *err);
	void (*selection_free)(struct store_selection *selection);
	int (*scan)(struct store *store, const struct store_selection *selection,
		    const struct time_range *ranges, uint32_t range_count,
		    const struct store_scanner *scanner, struct error *err);
	int (*activity)(struct store *store, const struct store_selection *selection,
			struct time_range range, uint64_t slot_ns, const uint32_t *rows,
			int64_t *counts, struct error *err);
	int (*label_names)(struct store *store, const struct selector *selector,
			   struct time_range range, struct name_list *ret_list, struct error *err);
	int (*label_values)(struct store *store, const char *name, const struct selector *selector,
			    struct time_range range, struct name_list *ret_list, struct error *err);
	int (*delete_series)(struct store *store, const struct selector *selector,
			     struct time_range range, struct store_deletion *ret_deletion,
			     struct error *err);
	int (*maintain)(struct store *store, uint64_t now_ns, struct error *err);
	int (*flush)(struct store *store, struct error *err);
	int (*backup)(struct store *store, const char *folder, struct error *err);
	void (*read_stats)(struct store *store, struct store_stats *ret_stats);
	void (*read_damage)(struct store *store, struct time_range range,
			    struct store_damage *ret_damage);
	uint64_t (*resolution)(struct store *store, struct time_range range);
	void (*read_health)(struct store *store, struct store_health *ret_health);
};

struct store {
	const struct store_ops *ops;
};

/** Each implementation's store_selection.private_ begins with this. */
struct store_selection_private {
	const struct store_ops *ops;
};
