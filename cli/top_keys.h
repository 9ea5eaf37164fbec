// SPDX-License-Identifier: Apache-2.0
// What keys and the mouse do in `cairn top`.
#pragma once

#include "cli/top_tables.h"
#include "cli/top_view.h"

enum top_change {
	TOP_NOTHING = 0,
	TOP_REDRAW,  // settings that only change how the table is shown
	TOP_REBUILD, // other rows, or another view
	TOP_QUIT,
};

/** Handle all keys and clicks that wait. The strongest change wins. */
enum top_change top_keys_read(struct top_settings *settings, const struct top_tables *tables);
