// SPDX-License-Identifier: Apache-2.0
// The terminal screen of `cairn top`: draws functions, calls or threads. The only users of ncurses are this and
// top_keys.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/top_tables.h"

enum {
	TOP_FILTER_BYTES = 64,
	TOP_HEADING_ROW = 2, // above it: two lines of header
	TOP_TABLE_ROW = 3,
};

/** What the user chose; changed by keys and the mouse. */
struct top_settings {
	struct top_choice choice;
	enum function_order order;
	bool paused;
	bool help;    // the list of keys covers the table
	bool editing; // keys go into the filter
	char filter[TOP_FILTER_BYTES];
	uint32_t cursor;    // row that Enter opens
	uint32_t first_row; // scrolled to
	struct call_toggles toggles;
};

/** The line above the table. */
struct top_header {
	const char *scope; // "all processes", "process 12", "service llm"
	const char *load;  // "CPU time 1.50 of 8 cores"
	uint64_t samples;  // since the last refresh
	uint64_t dropped;  // since the start
	double interval_s;
};

/** Take over the terminal. Returns 0, or -ENOTTY and @err when it cannot be used. */
int top_view_open(struct error *err);
/** Give the terminal back as it was. Harmless when it was not taken. */
void top_view_close(void);

/** Draw all, with the cursor on a row that there is, and in sight. */
void top_view_draw(const struct top_tables *tables, const struct top_header *header,
		   struct top_settings *settings);

/** The view whose name is at column @x of the second line, or -1. */
int top_view_at(const struct top_settings *settings, int x);
