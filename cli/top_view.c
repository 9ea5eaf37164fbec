// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"

#include <errno.h>
#include <ncurses.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	TABLE_ROW = 3, // above it: two lines of header, one of headings
	PAGE_ROWS = 20,
	LINE_BYTES = 512,
	COLOR_HEADINGS = 1, // then one pair per kind of frame
	COLOR_KINDS = 2,
	KEY_ESCAPE = 27,
	KEY_DELETE = 127,
	NUMBERS_COLUMN = 0,
	KIND_COLUMN = 17,
	PROCESS_COLUMN = 25,
	NAME_COLUMN = 41,
};

static const char *const help_lines[] = {
	"q        quit",
	"s        sort by self: the function's own code",
	"t        sort by total: the function and all that it calls",
	"p        one row per process and function, or per function of all processes",
	"/        filter functions and processes by a text; Enter applies, Esc clears",
	"space    pause or resume",
	"arrows   scroll; also Page Up, Page Down, Home",
	"h, ?     show or hide this list",
	"",
	"Percentages are shares of the time since the last refresh.",
};

static SCREEN *screen;

static void set_up_colors(void)
{
	static const short colors[FRAME_KIND_COUNT] = {
		[FRAME_KIND_UNKNOWN] = COLOR_WHITE, [FRAME_KIND_NATIVE] = COLOR_YELLOW,
		[FRAME_KIND_KERNEL] = COLOR_RED,    [FRAME_KIND_PYTHON] = COLOR_CYAN,
		[FRAME_KIND_JIT] = COLOR_GREEN,
	};

	if (!has_colors())
		return;
	start_color();
	use_default_colors();
	init_pair(COLOR_HEADINGS, COLOR_BLACK, COLOR_WHITE);
	for (short kind = 0; kind < FRAME_KIND_COUNT; kind++)
		init_pair((short)(COLOR_KINDS + kind), colors[kind], -1);
}

int top_view_open(struct error *err)
{
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return error_set(err, -ENOTTY,
				 "this terminal cannot be drawn on (TERM is unknown); use --batch");
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	set_up_colors();
	return 0;
}

void top_view_close(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
}

/* One line, cut at the screen's edge: a line that wraps would push into the next. */
static void __attribute__((format(printf, 3, 4))) draw_text(int y, int x, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (x < COLS)
		mvaddnstr(y, x, text, COLS - x);
}

static void draw_header(const struct function_table *table, const struct top_header *header,
			const struct top_settings *settings)
{
	attron(A_BOLD);
	draw_text(0, 0, "cairn top  %s", header->scope);
	attroff(A_BOLD);
	draw_text(0, getcurx(stdscr), "  %s  samples %llu  dropped %llu  every %g s", header->load,
		  (unsigned long long)header->samples, (unsigned long long)header->dropped,
		  header->interval_s);
	draw_text(1, 0, "%sby %s, %s, %u functions  %s%s%s", settings->paused ? "PAUSED  " : "",
		  settings->order == ORDER_BY_SELF ? "self" : "total",
		  settings->by_process ? "per process" : "processes merged", table->shown_count,
		  settings->editing || *settings->filter ? "filter: " : "(h: help)",
		  settings->filter, settings->editing ? "_" : "");
}

static void draw_headings(void)
{
	attron(has_colors() ? COLOR_PAIR(COLOR_HEADINGS) : A_REVERSE);
	mvhline(TABLE_ROW - 1, 0, ' ', COLS);
	draw_text(TABLE_ROW - 1, 0, "%7s %7s  %-7s %-15s %s", "self%", "total%", "kind", "process",
		  "function");
	attroff(has_colors() ? COLOR_PAIR(COLOR_HEADINGS) : A_REVERSE);
}

// ncurses without wide characters counts bytes: bytes beyond ASCII would shift the line.
static void draw_name(int y, int x, const char *name)
{
	for (; *name && x < COLS; name++, x++)
		mvaddch(y, x, (unsigned char)*name < 0x80 ? (chtype)(unsigned char)*name : '?');
}

static void draw_row(int y, const struct function_table *table, const struct function_row *row)
{
	const char *process = string_table_get(&table->strings, row->process);
	chtype color = has_colors() ? COLOR_PAIR(COLOR_KINDS + row->kind) : A_NORMAL;

	draw_text(y, NUMBERS_COLUMN, "%7.2f %7.2f", function_table_percent(table, row->self),
		  function_table_percent(table, row->total));
	attron(color);
	draw_text(y, KIND_COLUMN, "%s", frame_kind_name(row->kind));
	attroff(color);
	draw_text(y, PROCESS_COLUMN, "%-15.15s", *process ? process : "-");
	draw_name(y, NAME_COLUMN, string_table_get(&table->strings, row->name));
}

static void draw_help(void)
{
	for (size_t i = 0; i < sizeof(help_lines) / sizeof(help_lines[0]); i++)
		mvaddnstr(TABLE_ROW + (int)i, 2, help_lines[i], COLS > 2 ? COLS - 2 : 0);
}

void top_view_draw(const struct function_table *table, const struct top_header *header,
		   const struct top_settings *settings)
{
	uint32_t first = settings->first_row;

	erase();
	draw_header(table, header, settings);
	draw_headings();
	if (settings->help)
		draw_help();
	for (int y = TABLE_ROW; !settings->help && y < LINES; y++) {
		uint32_t at = first + (uint32_t)(y - TABLE_ROW);

		if (at < table->shown_count)
			draw_row(y, table, &table->rows[table->shown[at]]);
	}
	refresh();
}

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
	settings->first_row = 0;
	return TOP_REDRAW;
}

static enum top_change scroll_by(struct top_settings *settings, int rows)
{
	int64_t first = (int64_t)settings->first_row + rows;

	settings->first_row = first > 0 ? (uint32_t)first : 0;
	return TOP_REDRAW;
}

static enum top_change sort_by(struct top_settings *settings, enum function_order order)
{
	settings->order = order;
	settings->first_row = 0;
	return TOP_REDRAW;
}

static enum top_change apply_scroll_key(struct top_settings *settings, int key)
{
	switch (key) {
	case KEY_UP:
		return scroll_by(settings, -1);
	case KEY_DOWN:
		return scroll_by(settings, 1);
	case KEY_PPAGE:
		return scroll_by(settings, -PAGE_ROWS);
	case KEY_NPAGE:
		return scroll_by(settings, PAGE_ROWS);
	case KEY_HOME:
		settings->first_row = 0;
		return TOP_REDRAW;
	case KEY_RESIZE:
		return TOP_REDRAW;
	default:
		return TOP_NOTHING;
	}
}

static enum top_change apply_key(struct top_settings *settings, int key)
{
	switch (key) {
	case 'q':
		return TOP_QUIT;
	case 's':
		return sort_by(settings, ORDER_BY_SELF);
	case 't':
		return sort_by(settings, ORDER_BY_TOTAL);
	case 'p':
		settings->by_process = !settings->by_process;
		settings->first_row = 0;
		return TOP_REBUILD;
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
		settings->help = false;
		settings->filter[0] = 0;
		return TOP_REDRAW;
	default:
		return apply_scroll_key(settings, key);
	}
}

// While the filter is edited, letters are text; arrows still scroll.
static bool is_for_filter(const struct top_settings *settings, int key)
{
	return settings->editing && (key < KEY_MIN || key == KEY_BACKSPACE || key == KEY_ENTER);
}

enum top_change top_view_read_keys(struct top_settings *settings)
{
	enum top_change strongest = TOP_NOTHING;

	for (int key = getch(); key != ERR; key = getch()) {
		enum top_change change = is_for_filter(settings, key) ? edit_filter(settings, key)
								      : apply_key(settings, key);

		if (change > strongest)
			strongest = change;
	}
	return strongest;
}
