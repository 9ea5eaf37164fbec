// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/export/svg.h"
#include "base/export/svg_text.h"
#include "base/utf8.h"
#include "base/contract/label_names.h"

static void sample(struct profile *profile, const char *process, const char *name, int64_t value)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	struct location location = { .id = location_id_of_line(FRAME_KIND_NATIVE, name, "", 0),
				     .kind = FRAME_KIND_NATIVE };
	struct line line = { 0 };
	uint32_t series, stack, at;

	labels_set(&labels, LABEL_PROCESS, process);
	assert_int_equal(profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series), 0);
	profile_add_string(profile, name, &line.name);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &at), 0);
	assert_int_equal(profile_add_stack(profile, &at, 1, STACK_END_COMPLETE, &stack), 0);
	assert_int_equal(profile_add_sample(profile, series, stack, 0, value), 0);
}

static const char *encode(const struct profile *profile, const char *title, struct buffer *text)
{
	EXPECT_EQ(0, svg_encode(profile, PROFILE_TYPE_CPU, title, text), "encode");
	return buffer_string(text);
}

static uint32_t count_of(const char *text, const char *piece)
{
	uint32_t count = 0;

	for (; (text = strstr(text, piece)); text++)
		count++;
	return count;
}

static void expect_piece(const char *text, const char *piece)
{
	if (!strstr(text, piece))
		fail_msg("the picture lacks %s", piece);
}

TEST(boxes_are_as_wide_as_their_share)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	sample(profile, "a", "f", 1000000000);
	sample(profile, "a", "g", 3000000000);
	const char *svg = encode(profile, "Title", &text);
	expect_piece(svg, "<title>all\n4.00 s (100.00 %)</title>"
			  "<rect x=\"0%\" y=\"36\" width=\"100%\"");
	expect_piece(svg, "<title>f\n1.00 s (25.00 %)\nnative</title>"
			  "<rect x=\"0%\" y=\"0\" width=\"25%\"");
	expect_piece(svg, "<title>g\n3.00 s (75.00 %)\nnative</title>"
			  "<rect x=\"25%\" y=\"0\" width=\"75%\"");
	expect_piece(svg, ">4.00 s of cpu</text>");
}

TEST(omits_thin_boxes_but_counts_them)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	sample(profile, "a", "wide", 999999);
	sample(profile, "b", "thin", 1);
	const char *svg = encode(profile, "Title", &text);
	EXPECT_EQ(3, count_of(svg, "<g><title>"), "all, a, wide");
	expect_piece(svg, "<title>all\n1.00 ms (100.00 %)");
}

TEST(hostile_names_stay_text)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	sample(profile, "</title><script>alert(1)</script>", "\"><g onload='x()'>&amp;]]>", 1000);
	sample(profile, "x\xff\x01y", "\xef\xbf\xbf", 1000);
	const char *svg = encode(profile, "<b>\x02&\xfe", &text);
	EXPECT_EQ(1, count_of(svg, "<script>"), "ours");
	EXPECT_EQ(0, count_of(svg, "<g onload"), "none");
	EXPECT_EQ(1, count_of(svg, "]]>"), "ours");
	expect_piece(svg, "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
	expect_piece(svg, "&quot;&gt;&lt;g onload=&#39;x()&#39;&gt;&amp;amp:]]&gt;");
	expect_piece(svg, "<text id=\"title\" x=\"10\" y=\"25\">&lt;b&gt; &amp;?</text>");
	assert_true(utf8_is_valid(svg, text.size));
	for (size_t i = 0; i < text.size; i++)
		assert_true((unsigned char)svg[i] >= ' ' || svg[i] == '\n' || svg[i] == '\t');
}

TEST(an_empty_profile_is_a_picture_too)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	const char *svg = encode(profile, "Nothing", &text);

	EXPECT_EQ(0, count_of(svg, "<g><title>"), "no boxes");
	expect_piece(svg, ">No samples of cpu</text>");
	expect_piece(svg, "</svg>\n");
}

TEST(negative_values_have_no_width)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	sample(profile, "a", "f", 100);
	sample(profile, "b", "g", -50);
	const char *svg = encode(profile, "Title", &text);
	EXPECT_EQ(0, count_of(svg, "width=\"-"), "none");
	EXPECT_EQ(0, count_of(svg, "<title>g"), "left out");
	buffer_clear(&text);
	sample(profile, "c", "h", INT64_MIN);
	svg = encode(profile, "Title", &text);
	EXPECT_EQ(0, count_of(svg, "<g><title>"), "less than nothing has no picture");
	EXPECT_EQ(0, count_of(svg, "nan"), "none");
}

TEST(the_file_refers_to_nothing_outside)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	sample(profile, "a", "f", 100);
	const char *svg = encode(profile, "Title", &text);
	EXPECT_EQ(count_of(svg, "http"), count_of(svg, "http://www.w3.org/"), "namespaces only");
	EXPECT_EQ(0, count_of(svg, "href"), "no links");
	EXPECT_EQ(0, count_of(svg, "url("), "no images, no fonts");
	EXPECT_EQ(0, count_of(svg, "@import"), "no styles");
}

TEST(the_range_is_shown_where_known)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	sample(profile, "a", "f", 100);
	profile->from_ns = 1795255200ULL * 1000000000;
	profile->to_ns = profile->from_ns + 30ULL * 1000000000;
	expect_piece(encode(profile, "Title", &text),
		     "· 2026-11-21 10:00:00 – 10:00:30 UTC</text>");
	buffer_clear(&text);
	profile->to_ns = UINT64_MAX;
	expect_piece(encode(profile, "Title", &text), "– 2554-07-21 23:34:33 UTC</text>");
}

TEST(the_buffers_limit_is_respected)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20000000);
	_cleanup_(buffer_deinit) struct buffer text = { .size_max = 1000 };

	sample(profile, "a", "f", 100);
	EXPECT_EQ(-EFBIG, svg_encode(profile, PROFILE_TYPE_CPU, "Title", &text), "1000 bytes");
}

static const struct {
	int64_t value;
	const char *unit, *expected;
} amounts[] = {
	{ 0, "nanoseconds", "0 ns" },
	{ 999, "nanoseconds", "999 ns" },
	{ 1500, "nanoseconds", "1.50 µs" },
	{ 20000000, "nanoseconds", "20.0 ms" },
	{ 123456789012, "nanoseconds", "2.06 min" },
	{ -2000000000, "nanoseconds", "-2.00 s" },
	{ INT64_MIN, "nanoseconds", "-106752 d" },
	{ 1536, "bytes", "1.50 KiB" },
	{ 12, "count", "12 samples" },
	{ 1234567, "objects", "1,234,567 objects" },
	{ -123, "objects", "-123 objects" },
	{ INT64_MIN, "<x>", "-9,223,372,036,854,775,808 &lt;x&gt;" },
};

TEST(amounts_are_for_people)
{
	for EACH (row, amounts) {
		_cleanup_(buffer_deinit) struct buffer text = { 0 };

		svg_append_amount(&text, row->value, row->unit);
		EXPECT_STR(row->expected, buffer_string(&text), row->unit);
	}
}

static const struct {
	const char *text;
	uint32_t columns;
	const char *expected;
} shortened[] = {
	{ "abcdef", 6, "abcdef" },
	{ "abcdef", 5, "abcd\xe2\x80\xa6" },
	{ "a<b>c", 4, "a&lt;b\xe2\x80\xa6" },
	{ "\xe6\xbc\xa2\xe5\xad\x97", 4, "\xe6\xbc\xa2\xe5\xad\x97" }, // two ideographs
	{ "\xe6\xbc\xa2\xe5\xad\x97", 3, "\xe6\xbc\xa2\xe2\x80\xa6" },
	{ "h\xc3\xa9llo", 3, "h\xc3\xa9\xe2\x80\xa6" },
};

TEST(names_are_shortened_by_columns_not_bytes)
{
	for EACH (row, shortened) {
		_cleanup_(buffer_deinit) struct buffer text = { 0 };

		svg_append_shortened(&text, row->text, row->columns);
		EXPECT_STR(row->expected, buffer_string(&text), row->text);
	}
}

TEST(colours_are_stable_per_kind)
{
	_cleanup_(buffer_deinit) struct buffer first = { 0 }, again = { 0 };

	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++) {
		buffer_clear(&first);
		buffer_clear(&again);
		svg_append_colour(&first, (enum frame_kind)kind, "f");
		svg_append_colour(&again, (enum frame_kind)kind, "f");
		EXPECT_STR(buffer_string(&first), buffer_string(&again), "stable");
		EXPECT_EQ(7, first.size, "#rrggbb");

		unsigned int red, green, blue;
		assert_int_equal(sscanf(buffer_string(&first), "#%2x%2x%2x", &red, &green, &blue),
				 3);
		if (kind == FRAME_KIND_PYTHON)
			assert_true(blue > green && green > red);
		if (kind == FRAME_KIND_NATIVE)
			assert_true(red > green && green > blue);
		if (kind == FRAME_KIND_KERNEL)
			assert_true(blue > red && red > green);
	}
}

RUN_TESTS(cmocka_unit_test(boxes_are_as_wide_as_their_share),
	  cmocka_unit_test(omits_thin_boxes_but_counts_them),
	  cmocka_unit_test(hostile_names_stay_text),
	  cmocka_unit_test(an_empty_profile_is_a_picture_too),
	  cmocka_unit_test(negative_values_have_no_width),
	  cmocka_unit_test(the_file_refers_to_nothing_outside),
	  cmocka_unit_test(the_range_is_shown_where_known),
	  cmocka_unit_test(the_buffers_limit_is_respected),
	  cmocka_unit_test(amounts_are_for_people),
	  cmocka_unit_test(names_are_shortened_by_columns_not_bytes),
	  cmocka_unit_test(colours_are_stable_per_kind))
