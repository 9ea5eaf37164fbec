// SPDX-License-Identifier: Apache-2.0
#include "cli/top_keys.h"

#include <errno.h>
#include <ncurses.h>
#include <stdio.h>
#include <string.h>

enum {
	PAGE_ROWS = 20,
	WHEEL_ROWS = 3,
	KEY_ESCAPE = 27,
	KEY_DELETE = 127,
	SELF_WIDTH = 8, // of the columns that a click sorts by
	TOTAL_WIDTH = 16,
};

// ---- views ----------------------------------------------------------------------------------

static enum top_change show(struct top_settings *settings, enum top_shown shown)
{
	if (settings->choice.shown == shown)
		return TOP_NOTHING;
	settings->choice.shown = shown;
	settings->cursor = settings->first_row = 0;
	return TOP_REBUILD;
}

static enum top_change show_whole(struct top_settings *settings)
{
	if (settings->choice.direction == CALLS_ALL)
		return TOP_REDRAW;
	settings->choice.direction = CALLS_ALL;
	settings->cursor = settings->first_row = 0;
	return TOP_REBUILD;
}

/* The function in the cursor's row. Returns 0 or -ENOENT. */
static int function_at(const struct top_settings *settings, const struct top_tables *tables,
		       char *ret_name, size_t size)
{
	uint32_t row = settings->cursor;

	if (row >= top_tables_count(tables) || tables->shown == TOP_THREADS)
		return -ENOENT;
	if (tables->shown == TOP_FUNCTIONS) {
		const struct function_table *table = &tables->functions;

		snprintf(ret_name, size, "%s",
			 string_table_get(&table->strings, table->rows[table->shown[row]].name));
		return 0;
	}
	if (tables->calls.nodes[tables->calls.lines[row].node].is_process)
		return -ENOENT;
	call_lines_name(&tables->calls, tables->calls.lines[row].node, ret_name, size);
	return 0;
}

static enum top_change follow(struct top_settings *settings, const struct top_tables *tables,
			      enum call_direction direction)
{
	struct top_choice *choice = &settings->choice;

	if (function_at(settings, tables, choice->function, sizeof(choice->function)))
		return TOP_NOTHING;
	choice->direction = direction;
	choice->shown = TOP_CALLS;
	settings->filter[0] = 0;
	settings->cursor = settings->first_row = 0;
	return TOP_REBUILD;
}

static const struct call_line *line_at(const struct top_settings *settings,
				       const struct top_tables *tables)
{
	return tables->shown == TOP_CALLS && settings->cursor < tables->calls.line_count
		       ? &tables->calls.lines[settings->cursor]
		       : NULL;
}

static enum top_change set_open(struct top_settings *settings, const struct top_tables *tables,
				bool open)
{
	const struct call_line *line = line_at(settings, tables);

	if (!line || !line->opens || line->open == open)
		return TOP_NOTHING;
	call_toggles_change(&settings->toggles, tables->calls.nodes[line->node].path);
	return TOP_REDRAW;
}

static enum top_change enter(struct top_settings *settings, const struct top_tables *tables)
{
	const struct call_line *line = line_at(settings, tables);

	return line ? set_open(settings, tables, !line->open)
		    : follow(settings, tables, CALLS_CALLEES);
}

// ---- rows -----------------------------------------------------------------------------------

static enum top_change move_by(struct top_settings *settings, int rows)
{
	int64_t cursor = (int64_t)settings->cursor + rows;

	settings->cursor = cursor > 0 ? (uint32_t)cursor : 0;
	return TOP_REDRAW;
}

static enum top_change move_to(struct top_settings *settings, uint32_t row)
{
	settings->cursor = row;
	return TOP_REDRAW;
}

static enum top_change sort_by(struct top_settings *settings, enum function_order order)
{
	settings->order = order;
	settings->cursor = settings->first_row = 0;
	return TOP_REDRAW;
}

static enum top_change click(struct top_settings *settings, const struct top_tables *tables, int x,
			     int y)
{
	if (y == 1) {
		int shown = top_view_at(settings, x);

		return shown < 0 ? TOP_NOTHING : show(settings, (enum top_shown)shown);
	}
	if (y == TOP_HEADING_ROW && x < TOTAL_WIDTH)
		return sort_by(settings, x < SELF_WIDTH ? ORDER_BY_SELF : ORDER_BY_TOTAL);
	if (y < TOP_TABLE_ROW)
		return TOP_NOTHING;
	uint32_t row = settings->first_row + (uint32_t)(y - TOP_TABLE_ROW);
	if (row >= top_tables_count(tables))
		return TOP_NOTHING;
	return row == settings->cursor ? enter(settings, tables) : move_to(settings, row);
}

static enum top_change apply_mouse(struct top_settings *settings, const struct top_tables *tables)
{
	MEVENT event;

	if (getmouse(&event) != OK)
		return TOP_NOTHING;
	if (event.bstate & BUTTON4_PRESSED)
		return move_by(settings, -WHEEL_ROWS);
	if (event.bstate & BUTTON5_PRESSED)
		return move_by(settings, WHEEL_ROWS);
	return event.bstate & BUTTON1_PRESSED && !settings->help
		       ? click(settings, tables, event.x, event.y)
		       : TOP_NOTHING;
}

// ---- keys -----------------------------------------------------------------------------------

static enum top_change edit_filter(struct top_settings *settings, int key)
{
	size_t length = strlen(settings->filter);

	if (key == '\n' || key == '\r' || key == KEY_ENTER) {
		settings->editing = false;
	} else if (key == KEY_ESCAPE) {
		settings->editing = false;
		settings->filter[0] = 0;
	} else if (key == KEY_BACKSPACE || key == KEY_DELETE || key == '\b') {
		if (length)
			settings->filter[length - 1] = 0;
	} else if (key >= ' ' && key < KEY_DELETE && length + 1 < sizeof(settings->filter)) {
		settings->filter[length] = (char)key;
		settings->filter[length + 1] = 0;
	}
	settings->cursor = settings->first_row = 0;
	return TOP_REDRAW;
}

static enum top_change apply_move_key(struct top_settings *settings,
				      const struct top_tables *tables, int key)
{
	switch (key) {
	case KEY_UP:
		return move_by(settings, -1);
	case KEY_DOWN:
		return move_by(settings, 1);
	case KEY_LEFT:
		return set_open(settings, tables, false);
	case KEY_RIGHT:
		return set_open(settings, tables, true);
	case KEY_PPAGE:
		return move_by(settings, -PAGE_ROWS);
	case KEY_NPAGE:
		return move_by(settings, PAGE_ROWS);
	case KEY_HOME:
		return move_to(settings, 0);
	case KEY_END:
		return move_to(settings, top_tables_count(tables));
	case KEY_MOUSE:
		return apply_mouse(settings, tables);
	case KEY_RESIZE:
		return TOP_REDRAW;
	default:
		return TOP_NOTHING;
	}
}

static enum top_change apply_view_key(struct top_settings *settings,
				      const struct top_tables *tables, int key)
{
	switch (key) {
	case '1':
	case '2':
	case '3':
		return show(settings, (enum top_shown)(key - '1'));
	case '\t':
		return show(settings, (settings->choice.shown + 1) % TOP_SHOWN_COUNT);
	case 's':
		return sort_by(settings, ORDER_BY_SELF);
	case 't':
		return sort_by(settings, ORDER_BY_TOTAL);
	case 'p':
		settings->choice.by_process = !settings->choice.by_process;
		settings->cursor = settings->first_row = 0;
		return TOP_REBUILD;
	case '\n':
	case '\r':
	case KEY_ENTER:
		return enter(settings, tables);
	case 'c':
		return follow(settings, tables, CALLS_CALLERS);
	default:
		return apply_move_key(settings, tables, key);
	}
}

static enum top_change apply_key(struct top_settings *settings, const struct top_tables *tables,
				 int key)
{
	switch (key) {
	case 'q':
		return TOP_QUIT;
	case '/':
		settings->editing = true;
		settings->filter[0] = 0;
		return TOP_REDRAW;
	case ' ':
		settings->paused = !settings->paused;
		return TOP_REDRAW;
	case 'h':
	case '?':
		settings->help = !settings->help;
		return TOP_REDRAW;
	case KEY_ESCAPE:
		if (settings->help) {
			settings->help = false;
			return TOP_REDRAW;
		}
		settings->filter[0] = 0;
		return show_whole(settings);
	default:
		return apply_view_key(settings, tables, key);
	}
}

// While the filter is edited, letters are text; arrows still move.
static bool is_for_filter(const struct top_settings *settings, int key)
{
	return settings->editing && (key < KEY_MIN || key == KEY_BACKSPACE || key == KEY_ENTER);
}

enum top_change top_keys_read(struct top_settings *settings, const struct top_tables *tables)
{
	enum top_change strongest = TOP_NOTHING;

	// What other rows stand under the cursor after, the keys that wait must not take for these.
	for (int key = getch(); key != ERR; key = strongest < TOP_REBUILD ? getch() : ERR) {
		enum top_change change = is_for_filter(settings, key)
						 ? edit_filter(settings, key)
						 : apply_key(settings, tables, key);

		if (change > strongest)
			strongest = change;
	}
	return strongest;
}
