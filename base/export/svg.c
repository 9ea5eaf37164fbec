// SPDX-License-Identifier: Apache-2.0
#include "base/export/svg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/export/call_tree.h"
#include "base/contract/profile_type.h"
#include "base/export/svg_script.h"
#include "base/export/svg_text.h"

// In pixels, at the width that a viewer without scripts shows; the script stretches it.
enum {
	PICTURE_WIDTH = 1200,
	MARGIN = 10,
	FRAMES_WIDTH = PICTURE_WIDTH - 2 * MARGIN,
	FRAME_HEIGHT = 18,
	HEADER_HEIGHT = 72,
	FOOTER_HEIGHT = 32,
	TEXT_COLUMNS_MIN = 3,
};

static const double box_width_min = 0.1;
static const double border_width_min = 4;   // the border of a thinner box would hide all of it
static const double character_width = 7.23; // of 12 px monospaced

// Where a node is drawn, in the profile's unit.
struct box {
	double left;
	double next_left; // of its next child
	uint32_t depth;
	bool visible;
};

struct picture {
	struct call_tree tree;
	struct profile_type type;
	struct box *boxes;
	double total;
	uint32_t depth_max; // of the visible boxes
};

static void picture_deinit(struct picture *picture)
{
	call_tree_deinit(&picture->tree);
	free(picture->boxes);
}

// ---- layout ---------------------------------------------------------------------------------

static void place_box(struct picture *picture, uint32_t node, uint32_t depth)
{
	const struct call_node *flame = &picture->tree.nodes[node];
	struct box *parent = &picture->boxes[flame->parent];
	struct box *box = &picture->boxes[node];
	double width = (double)flame->total * FRAMES_WIDTH / picture->total;

	*box = (struct box){
		.left = parent->next_left,
		.next_left = parent->next_left,
		.depth = depth,
		.visible = parent->visible && width >= box_width_min,
	};
	if (flame->total > 0) // a negative value, in a profile of differences, has no width
		parent->next_left += (double)flame->total;
	if (box->visible && depth > picture->depth_max)
		picture->depth_max = depth;
}

static int picture_init(struct picture *picture, const struct profile *profile, const char *type)
{
	int rc = call_tree_init(&picture->tree, profile, type);

	if (rc < 0)
		return rc;
	if (profile_type_parse(type, &picture->type, NULL) < 0)
		picture->type =
			(struct profile_type){ .sample_type = "samples", .sample_unit = "count" };
	picture->boxes = calloc(picture->tree.node_count, sizeof(*picture->boxes));
	if (!picture->boxes)
		return -ENOMEM;

	picture->total = (double)picture->tree.nodes[0].total;
	picture->boxes[0].visible = picture->total > 0;
	uint32_t depth = 0;
	for (uint32_t node = 0; (node = call_tree_next(&picture->tree, node, &depth));)
		place_box(picture, node, depth);
	return 0;
}

// ---- the frame around -----------------------------------------------------------------------

static void append_moment(struct buffer *buffer, uint64_t ns, const char *format)
{
	time_t seconds = (time_t)(ns / NS_PER_SECOND);
	struct tm utc;
	char text[40];

	if (gmtime_r(&seconds, &utc) && strftime(text, sizeof(text), format, &utc) > 0)
		buffer_append_string(buffer, text);
}

static void append_range(struct buffer *buffer, uint64_t from_ns, uint64_t to_ns)
{
	const uint64_t day_ns = 86400 * NS_PER_SECOND;
	bool is_one_day = from_ns / day_ns == to_ns / day_ns;

	append_moment(buffer, from_ns, "%F %T");
	buffer_append_string(buffer, " – ");
	append_moment(buffer, to_ns, is_one_day ? "%T UTC" : "%F %T UTC");
}

static void append_subtitle(struct buffer *buffer, const struct picture *picture,
			    const struct profile *profile)
{
	buffer_printf(buffer, "<text id=\"subtitle\" x=\"%d\" y=\"46\">", MARGIN);
	if (picture->total > 0)
		svg_append_amount(buffer, picture->tree.nodes[0].total, picture->type.sample_unit);
	else
		buffer_append_string(buffer, "No samples");
	buffer_append_string(buffer, " of ");
	svg_append_escaped(buffer, picture->type.sample_type);
	if (profile->to_ns > profile->from_ns) {
		buffer_append_string(buffer, " · ");
		append_range(buffer, profile->from_ns, profile->to_ns);
	}
	buffer_append_string(buffer, "</text>\n");
}

// One swatch for each kind of code that is there.
static void append_legend(struct buffer *buffer, const struct picture *picture)
{
	static const struct {
		enum frame_kind kind;
		const char *name;
	} entries[] = {
		{ FRAME_KIND_PYTHON, "Python" },
		{ FRAME_KIND_JIT, "JIT" },
		{ FRAME_KIND_NATIVE, "native" },
		{ FRAME_KIND_KERNEL, "kernel" },
	};
	bool seen[FRAME_KIND_COUNT] = { false };
	int x = 0;

	for (uint32_t i = 0; i < picture->tree.node_count; i++)
		seen[picture->tree.nodes[i].kind] |= picture->boxes[i].visible;
	buffer_append_string(buffer,
			     "<svg id=\"legend\" x=\"100%\" y=\"36\" overflow=\"visible\">");
	for (size_t i = ARRAY_SIZE(entries); i-- > 0;) { // from the right
		if (!seen[entries[i].kind])
			continue;
		x -= 28 + 7 * (int)strlen(entries[i].name);
		buffer_printf(buffer, "<rect x=\"%d\" width=\"12\" height=\"12\" rx=\"3\" fill=\"",
			      x - MARGIN + 10);
		svg_append_colour(buffer, entries[i].kind, entries[i].name);
		buffer_printf(buffer, "\"/><text x=\"%d\" y=\"10\">%s</text>", x - MARGIN + 27,
			      entries[i].name);
	}
	buffer_append_string(buffer, "</svg>\n");
}

static void append_head(struct buffer *buffer, const struct picture *picture,
			const struct profile *profile, const char *title, uint32_t height)
{
	buffer_printf(buffer,
		      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%d\" "
		      "height=\"%u\">\n",
		      PICTURE_WIDTH, height);
	buffer_printf(buffer, "<style>\n%s</style>\n", svg_style);
	buffer_append_string(buffer, "<rect id=\"paper\" width=\"100%\" height=\"100%\" "
				     "fill=\"#fdfdfc\"/>\n");
	buffer_printf(buffer, "<text id=\"title\" x=\"%d\" y=\"25\">", MARGIN);
	svg_append_escaped(buffer, title);
	buffer_append_string(buffer, "</text>\n");
	append_subtitle(buffer, picture, profile);
	append_legend(buffer, picture);
}

// What the script brings to life; a viewer without scripts shows none of it.
static void append_controls(struct buffer *buffer, uint32_t height)
{
	buffer_append_string(
		buffer,
		"<svg x=\"100%\" overflow=\"visible\"><g id=\"reset\">"
		"<rect x=\"-366\" y=\"6\" width=\"96\" height=\"26\" rx=\"5\" fill=\"#3867d6\"/>"
		"<text x=\"-318\" y=\"23\">Reset zoom</text></g>"
		"<foreignObject id=\"search\" x=\"-260\" y=\"6\" width=\"250\" height=\"26\"/>"
		"</svg>\n");
	buffer_printf(
		buffer,
		"<text id=\"details\" x=\"%d\" y=\"%u\"></text>\n"
		"<svg x=\"100%%\" overflow=\"visible\"><text id=\"matched\" x=\"-%d\" y=\"%u\" "
		"text-anchor=\"end\"></text></svg>\n",
		MARGIN, height - 12, MARGIN, height - 12);
}

// ---- boxes ----------------------------------------------------------------------------------

static void append_percent(struct buffer *buffer, double share)
{
	buffer_printf(buffer, "%.10g%%", share * 100);
}

// The tooltip: the name on a line of its own, which the script reads.
static void append_title(struct buffer *buffer, const struct picture *picture, uint32_t node,
			 const char *name)
{
	const struct call_node *flame = &picture->tree.nodes[node];

	buffer_append_string(buffer, "<title>");
	svg_append_escaped(buffer, name);
	buffer_append_byte(buffer, '\n');
	svg_append_amount(buffer, flame->total, picture->type.sample_unit);
	buffer_printf(buffer, " (%.2f %%)", (double)flame->total * 100 / picture->total);
	if (flame->self != 0 && flame->self != flame->total) {
		buffer_append_string(buffer, "\nself ");
		svg_append_amount(buffer, flame->self, picture->type.sample_unit);
	}
	if (flame->kind != FRAME_KIND_UNKNOWN)
		buffer_printf(buffer, "\n%s", frame_kind_name(flame->kind));
	buffer_append_string(buffer, "</title>");
}

static void append_box(struct buffer *buffer, const struct picture *picture, uint32_t node)
{
	const struct box *box = &picture->boxes[node];
	const struct call_node *flame = &picture->tree.nodes[node];
	const char *name = node == 0 ? "all" : call_tree_name(&picture->tree, node);
	double width = (double)flame->total / picture->total;
	uint32_t y = (picture->depth_max - box->depth) * FRAME_HEIGHT; // the root is at the bottom
	int columns = (int)((width * FRAMES_WIDTH - 6) / character_width);

	buffer_append_string(buffer, "<g>");
	append_title(buffer, picture, node, name);
	buffer_append_string(buffer, "<rect x=\"");
	append_percent(buffer, box->left / picture->total);
	buffer_printf(buffer, "\" y=\"%u\" width=\"", y);
	append_percent(buffer, width);
	buffer_printf(buffer, "\" height=\"%d\" rx=\"2\"%s fill=\"", FRAME_HEIGHT - 1,
		      width * FRAMES_WIDTH < border_width_min ? " class=\"thin\"" : "");
	svg_append_colour(buffer, flame->kind, name);
	buffer_append_string(buffer, "\"/><text dx=\"3\" x=\"");
	append_percent(buffer, box->left / picture->total);
	buffer_printf(buffer, "\" y=\"%u\">", y + 13);
	if (columns >= TEXT_COLUMNS_MIN)
		svg_append_shortened(buffer, name, (uint32_t)columns);
	buffer_append_string(buffer, "</text></g>\n");
}

static void append_boxes(struct buffer *buffer, const struct picture *picture)
{
	uint32_t node = 0, depth = 0;

	// A margin of its own on both sides, whatever the width: shares are of what is between.
	buffer_printf(buffer, "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%u\" id=\"frames\">\n",
		      MARGIN, HEADER_HEIGHT, FRAMES_WIDTH, (picture->depth_max + 1) * FRAME_HEIGHT);
	do {
		if (picture->boxes[node].visible)
			append_box(buffer, picture, node);
		node = call_tree_next(&picture->tree, node, &depth);
	} while (node && !buffer->rc);
	buffer_append_string(buffer, "</svg>\n");
}

int svg_encode(const struct profile *profile, const char *type, const char *title,
	       struct buffer *buffer)
{
	_cleanup_(picture_deinit) struct picture picture = { 0 };
	int rc = picture_init(&picture, profile, type);

	if (rc < 0)
		return rc;

	uint32_t height = HEADER_HEIGHT + (picture.depth_max + 1) * FRAME_HEIGHT + FOOTER_HEIGHT;
	append_head(buffer, &picture, profile, title, height);
	append_boxes(buffer, &picture);
	append_controls(buffer, height);
	buffer_printf(buffer, "<script><![CDATA[\n%s]]></script>\n</svg>\n", svg_script);
	return buffer->rc;
}
