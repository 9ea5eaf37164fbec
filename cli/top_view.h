// SPDX-License-Identifier: Apache-2.0
// The terminal screen of `cairn top`: draws a table of functions and turns keys into settings.
// The only user of ncurses.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/function_table.h"

enum { TOP_FILTER_BYTES = 64 };

/** What the user chose; changed by keys. */
struct top_settings {
	enum function_order order;
	bool by_process;
	bool paused;
	bool help;    // the list of keys covers the table
	bool editing; // keys go into the filter
	char filter[TOP_FILTER_BYTES];
	uint32_t first_row; // scrolled to
};

/** The line above the table. */
struct top_header {
	const char *scope; // "all processes", "process 12", "service llm"
	const char *load;  // "CPU time 1.50 of 8 cores"
	uint64_t samples;  // since the last refresh
	uint64_t dropped;  // since the start
	double interval_s;
};

enum top_change {
	TOP_NOTHING = 0,
	TOP_REDRAW,  // settings that only change how the table is shown
	TOP_REBUILD, // the table has other rows now
	TOP_QUIT,
};

/** Take over the terminal. Returns 0, or -ENOTTY and @err when it cannot be used. */
int top_view_open(struct error *err);
/** Give the terminal back as it was. Harmless when it was not taken. */
void top_view_close(void);

void top_view_draw(const struct function_table *table, const struct top_header *header,
		   const struct top_settings *settings);

/** Handle all keys that wait. The strongest change wins. */
enum top_change top_view_read_keys(struct top_settings *settings);
