// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"
#include "cli/printable_text.h"

#include <errno.h>
#include <ncurses.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	LINE_BYTES = 512,
	COLOR_HEADINGS = 1, // then one pair per kind of frame
	COLOR_KINDS = 2,
	NUMBERS_WIDTH = 17, // self% and total%
	PART_WIDTH = 7,
	KIND_WIDTH = 8,
	PROCESS_WIDTH = 16,
	ESCAPE_MS = 25,
};

static const char *const help_lines[] = {
	"q        quit",
	"1 2 3    functions, calls or threads; Tab goes on",
	"s        functions by self: their own code",
	"t        functions by total: they and all that they call",
	"p        one row per process and function, or per function of all processes",
	"Enter    on a function: what it calls; on a call: open or close it",
	"c        on a function or a call: its callers",
	"Esc      whole stacks again; no filter",
	"/        filter functions, processes and threads by a text; Enter applies, Esc clears",
	"space    pause or resume",
	"arrows   move; also Page Up, Page Down, Home, End; left and right close and open a call",
	"mouse    click a row, again to open it; a heading to sort; a view's name; scroll",
	"h, ?     show or hide this list",
	"",
	"Percentages are shares of the time since the last refresh. With --type wall there are",
	"columns for what threads did: running, run queue, waiting for the GIL, for the GPU, "
	"blocked.",
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
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	mouseinterval(0);
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

// ---- header ---------------------------------------------------------------------------------

static int label_of(enum top_shown shown, char *ret_text, size_t size)
{
	return snprintf(ret_text, size, "%d %s", (int)shown + 1, top_shown_name(shown));
}

int top_view_at(const struct top_settings *settings, int x)
{
	int at = settings->paused ? (int)strlen("PAUSED  ") : 0;

	for (int shown = 0; shown < TOP_SHOWN_COUNT; shown++) {
		char text[LINE_BYTES];
		int width = label_of((enum top_shown)shown, text, sizeof(text));

		if (x >= at && x < at + width)
			return shown;
		at += width + 2;
	}
	return -1;
}

static void draw_views(const struct top_settings *settings)
{
	draw_text(1, 0, "%s", settings->paused ? "PAUSED  " : "");
	for (int shown = 0; shown < TOP_SHOWN_COUNT; shown++) {
		bool chosen = settings->choice.shown == (enum top_shown)shown;
		char text[LINE_BYTES];

		label_of((enum top_shown)shown, text, sizeof(text));
		if (chosen)
			attron(A_REVERSE);
		draw_text(1, getcurx(stdscr), "%s", text);
		attroff(A_REVERSE);
		draw_text(1, getcurx(stdscr), "  ");
	}
}

/* How the rows came about. */
static void describe_rows(const struct top_settings *settings, uint32_t count, char *ret_text,
			  size_t size)
{
	const struct top_choice *choice = &settings->choice;
	const char *by = choice->by_process ? "per process" : "processes merged";

	if (choice->shown == TOP_THREADS)
		snprintf(ret_text, size, "%u thread names", count);
	else if (choice->shown == TOP_FUNCTIONS)
		snprintf(ret_text, size, "by %s, %s, %u functions",
			 settings->order == ORDER_BY_SELF ? "self" : "total", by, count);
	else if (choice->direction == CALLS_ALL)
		snprintf(ret_text, size, "whole stacks, %s", by);
	else
		snprintf(ret_text, size, "%s %.200s (Esc: whole stacks)",
			 choice->direction == CALLS_CALLERS ? "callers of" : "calls from",
			 choice->function);
}

static void draw_header(const struct top_tables *tables, const struct top_header *header,
			const struct top_settings *settings)
{
	char rows[LINE_BYTES];

	attron(A_BOLD);
	draw_text(0, 0, "cairn top  %s", header->scope);
	attroff(A_BOLD);
	draw_text(0, getcurx(stdscr), "  %s  samples %llu  dropped %llu  every %g s", header->load,
		  (unsigned long long)header->samples, (unsigned long long)header->dropped,
		  header->interval_s);
	draw_views(settings);
	describe_rows(settings, top_tables_count(tables), rows, sizeof(rows));
	draw_text(1, getcurx(stdscr), " %s  %s%s%s", rows,
		  settings->editing || *settings->filter ? "filter: " : "(h: help)",
		  settings->filter, settings->editing ? "_" : "");
}

// ---- rows -----------------------------------------------------------------------------------

static int parts_width(const struct top_tables *tables)
{
	bool has_parts = tables->functions.has_parts || tables->threads.has_parts;

	return has_parts ? TIME_PART_COUNT * PART_WIDTH : 0;
}

static void draw_headings(const struct top_tables *tables)
{
	attr_t attributes = has_colors() ? COLOR_PAIR(COLOR_HEADINGS) : A_REVERSE;
	int x = NUMBERS_WIDTH - 1;

	attron(attributes);
	mvhline(TOP_HEADING_ROW, 0, ' ', COLS);
	if (tables->shown == TOP_FUNCTIONS)
		draw_text(TOP_HEADING_ROW, 0, "%7s %7s", "self%", "total%");
	else
		draw_text(TOP_HEADING_ROW, 0, "%7s %7s", "total%",
			  tables->shown == TOP_CALLS ? "self%" : "");
	for (int part = 0; parts_width(tables) && part < TIME_PART_COUNT; part++)
		draw_text(TOP_HEADING_ROW, x - 1 + part * PART_WIDTH, "%7s",
			  time_part_heading((enum time_part)part));
	x = NUMBERS_WIDTH + parts_width(tables);
	if (tables->shown == TOP_FUNCTIONS)
		draw_text(TOP_HEADING_ROW, x, "%-7s %-15s %s", "kind", "process", "function");
	else if (tables->shown == TOP_THREADS)
		draw_text(TOP_HEADING_ROW, x, "%-15s %s", "process", "thread");
	else
		draw_text(TOP_HEADING_ROW, x, "call");
	attroff(attributes);
}

static bool continues(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

/*
 * ncurses without wide characters counts bytes: one beyond ASCII would shift the line. A name that has no room loses its
 * middle: of a template's instance, both ends tell it from others.
 */
static void draw_name(int y, int x, const char *name)
{
	size_t length = strlen(name), room = x < COLS ? (size_t)(COLS - x) : 0;
	size_t head = length > room ? room / 2 : length, tail = length;

	if (length > room)
		tail = length - (room - head - (room > head));
	for (size_t i = 0; i < length && x < COLS; i++) {
		if (i == head && length > room) {
			mvaddch(y, x++, '~');
			i = tail;
		}
		if (i < length && !continues(name[i]))
			mvaddch(y, x++, (unsigned char)name[i] < 0x80 ? (chtype)name[i] : '?');
	}
}

static void draw_numbers(int y, double first, double second)
{
	if (second < 0)
		draw_text(y, 0, "%7.2f", first);
	else
		draw_text(y, 0, "%7.2f %7.2f", first, second);
}

static void draw_parts(int y, const int64_t *parts, int64_t total)
{
	for (int part = 0; part < TIME_PART_COUNT; part++)
		draw_text(y, NUMBERS_WIDTH - 2 + part * PART_WIDTH, "%7.2f",
			  total > 0 ? 100.0 * (double)parts[part] / (double)total : 0);
}

static void draw_function(int y, const struct function_table *table, uint32_t number, int x)
{
	const struct function_row *row = &table->rows[table->shown[number]];
	const char *process = string_table_get(&table->strings, row->process);
	chtype color = has_colors() ? COLOR_PAIR(COLOR_KINDS + row->kind) : A_NORMAL;

	draw_numbers(y, function_table_percent(table, row->self),
		     function_table_percent(table, row->total));
	if (table->has_parts)
		draw_parts(y, row->parts, table->total);
	attron(color);
	draw_text(y, x, "%s", frame_kind_name(row->kind));
	attroff(color);
	draw_text(y, x + KIND_WIDTH, "%-15.15s", *process ? process : "-");
	draw_name(y, x + KIND_WIDTH + PROCESS_WIDTH, string_table_get(&table->strings, row->name));
}

static void draw_thread(int y, const struct thread_table *table, uint32_t number, int x)
{
	const struct thread_row *row = &table->rows[table->shown[number]];

	draw_numbers(y, thread_table_percent(table, row->total), -1);
	if (table->has_parts)
		draw_parts(y, row->parts, table->total);
	draw_text(y, x, "%-15.15s", string_table_get(&table->strings, row->process));
	draw_name(y, x + PROCESS_WIDTH, string_table_get(&table->strings, row->thread));
}

/* An only call below it needs none. */
static char sign_of(const struct call_lines *lines, const struct call_line *line)
{
	uint32_t first = lines->nodes[line->node].first_child;

	if (!line->opens)
		return ' ';
	if (!line->open)
		return '+';
	return lines->nodes[first].next == HASH_TABLE_NONE ? ' ' : '-';
}

/* Deep ones lie as far right as leaves room for a name. */
static void draw_call(int y, const struct call_lines *lines, uint32_t number, int x)
{
	const struct call_line *line = &lines->lines[number];
	const struct shown_call *node = &lines->nodes[line->node];
	attr_t color =
		has_colors() && !node->is_process ? COLOR_PAIR(COLOR_KINDS + node->kind) : A_BOLD;
	int indent = 2 * (int)node->indent, indent_max = (COLS - x) / 2;
	char name[FUNCTION_NAME_BYTES];

	draw_numbers(y, call_lines_percent(lines, node->total),
		     call_lines_percent(lines, node->self));
	x += indent < indent_max ? indent : indent_max;
	draw_text(y, x, "%c ", sign_of(lines, line));
	call_lines_name(lines, line->node, name, sizeof(name));
	attron(color);
	draw_name(y, x + 2, name);
	attroff(color);
}

static void draw_row(int y, const struct top_tables *tables, uint32_t number, bool is_cursor)
{
	int x = NUMBERS_WIDTH + parts_width(tables);

	if (is_cursor) {
		attron(A_REVERSE);
		mvhline(y, 0, ' ', COLS);
	}
	switch (tables->shown) {
	case TOP_CALLS:
		draw_call(y, &tables->calls, number, x);
		break;
	case TOP_THREADS:
		draw_thread(y, &tables->threads, number, x);
		break;
	default:
		draw_function(y, &tables->functions, number, x);
	}
	attroff(A_REVERSE);
}

static void draw_help(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(help_lines); i++)
		mvaddnstr(TOP_TABLE_ROW + (int)i, 2, help_lines[i], COLS > 2 ? COLS - 2 : 0);
}

static void move_into_sight(struct top_settings *settings, uint32_t count)
{
	uint32_t rows = LINES > TOP_TABLE_ROW ? (uint32_t)(LINES - TOP_TABLE_ROW) : 1;

	if (settings->cursor >= count)
		settings->cursor = count ? count - 1 : 0;
	if (settings->first_row > settings->cursor)
		settings->first_row = settings->cursor;
	if (settings->cursor >= settings->first_row + rows)
		settings->first_row = settings->cursor - rows + 1;
}

void top_view_draw(const struct top_tables *tables, const struct top_header *header,
		   struct top_settings *settings)
{
	uint32_t count = top_tables_count(tables);

	move_into_sight(settings, count);
	erase();
	draw_header(tables, header, settings);
	draw_headings(tables);
	if (settings->help)
		draw_help();
	for (int y = TOP_TABLE_ROW; !settings->help && y < LINES; y++) {
		uint32_t at = settings->first_row + (uint32_t)(y - TOP_TABLE_ROW);

		if (at < count)
			draw_row(y, tables, at, at == settings->cursor);
	}
	refresh();
}
