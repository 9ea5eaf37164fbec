// SPDX-License-Identifier: Apache-2.0
#include "base/export/svg_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"

// ---- names ----------------------------------------------------------------------------------

static size_t character_bytes(unsigned char lead)
{
	return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
}

// One character of @text, which is valid UTF-8. XML 1.0 has no place for control characters,
// U+FFFE and U+FFFF, not even escaped.
static void append_character(struct buffer *buffer, const char *text, size_t size)
{
	static const struct {
		char character;
		const char *entity;
	} entities[] = {
		{ '&', "&amp;" },  { '<', "&lt;" },   { '>', "&gt;" },
		{ '"', "&quot;" }, { '\'', "&#39;" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(entities); i++) {
		if (*text == entities[i].character) {
			buffer_append_string(buffer, entities[i].entity);
			return;
		}
	}
	bool is_control = size == 1 && ((unsigned char)*text < ' ' || *text == 0x7f);
	bool is_noncharacter = size == 3 && (memcmp(text, "\xef\xbf\xbe", 3) == 0 ||
					     memcmp(text, "\xef\xbf\xbf", 3) == 0);
	if (is_control || is_noncharacter)
		buffer_append_byte(buffer, is_control ? ' ' : '?');
	else
		buffer_append(buffer, text, size);
}

// Ideographs and the like (from U+1100, roughly) are two columns wide in a monospaced font.
static uint32_t character_columns(const char *text)
{
	return strncmp(text, "\xe1\x84\x80", 3) >= 0 && (unsigned char)*text >= 0xe1 ? 2 : 1;
}

static uint32_t columns_of(const char *text)
{
	uint32_t columns = 0;

	for (; *text; text += character_bytes((unsigned char)*text))
		columns += character_columns(text);
	return columns;
}

// @text is valid UTF-8, so a character's bytes are all there.
static void append_columns(struct buffer *buffer, const char *text, uint32_t columns)
{
	while (*text && columns >= character_columns(text)) {
		size_t size = character_bytes((unsigned char)*text);

		append_character(buffer, text, size);
		columns -= character_columns(text);
		text += size;
	}
}

void svg_append_escaped(struct buffer *buffer, const char *text)
{
	_cleanup_free_ char *repaired = NULL;

	if (!utf8_is_valid(text, strlen(text))) {
		repaired = strdup(text);
		if (!repaired) {
			buffer_append_string(buffer, "?");
			return;
		}
		utf8_repair(repaired, strlen(repaired));
		text = repaired;
	}
	append_columns(buffer, text, UINT32_MAX);
}

void svg_append_shortened(struct buffer *buffer, const char *text, uint32_t columns)
{
	if (!utf8_is_valid(text, strlen(text)) || columns_of(text) <= columns) {
		svg_append_escaped(buffer, text);
		return;
	}
	append_columns(buffer, text, columns - 1);
	buffer_append_string(buffer, "\xe2\x80\xa6"); // an ellipsis
}

// ---- amounts --------------------------------------------------------------------------------

struct scale {
	double factor;
	const char *unit;
};

static const struct scale times[] = {
	{ 86400e9, "d" }, { 3600e9, "h" }, { 60e9, "min" }, { 1e9, "s" },
	{ 1e6, "ms" },    { 1e3, "µs" },   { 1, "ns" },
};

static const struct scale sizes[] = {
	{ 1099511627776.0, "TiB" }, { 1073741824.0, "GiB" }, { 1048576.0, "MiB" },
	{ 1024.0, "KiB" },          { 1, "bytes" },
};

// The largest unit that leaves at least 1 before the point; three digits are enough to read.
static void append_scaled(struct buffer *buffer, double value, const struct scale *scale)
{
	double magnitude = value < 0 ? -value : value;

	while (scale->factor > 1 && magnitude < scale->factor)
		scale++;
	magnitude /= scale->factor;
	int decimals = scale->factor <= 1 || magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : 2;
	buffer_printf(buffer, "%.*f %s", decimals, value / scale->factor, scale->unit);
}

// Thousands apart by commas.
static void append_count(struct buffer *buffer, int64_t value, const char *unit)
{
	char digits[24];
	int size = snprintf(digits, sizeof(digits), "%" PRId64, value);

	for (int i = 0; i < size; i++) {
		bool is_group = i > 0 && (size - i) % 3 == 0 && digits[i - 1] != '-';

		if (is_group)
			buffer_append_byte(buffer, ',');
		buffer_append_byte(buffer, (uint8_t)digits[i]);
	}
	buffer_append_byte(buffer, ' ');
	svg_append_escaped(buffer, unit);
}

void svg_append_amount(struct buffer *buffer, int64_t value, const char *unit)
{
	if (strcmp(unit, "nanoseconds") == 0)
		append_scaled(buffer, (double)value, times);
	else if (strcmp(unit, "bytes") == 0)
		append_scaled(buffer, (double)value, sizes);
	else
		append_count(buffer, value, strcmp(unit, "count") == 0 ? "samples" : unit);
}

// ---- colours --------------------------------------------------------------------------------

// Hue in degrees, the others in percent; the name's hash picks within the ranges.
struct palette {
	int hue, hue_range;
	int saturation, saturation_range;
	int lightness, lightness_range;
};

static const struct palette palettes[FRAME_KIND_COUNT] = {
	[FRAME_KIND_UNKNOWN] = { 212, 6, 14, 4, 80, 4 }, // processes: quiet
	[FRAME_KIND_NATIVE] = { 16, 32, 84, 10, 66, 8 },
	[FRAME_KIND_KERNEL] = { 258, 26, 48, 12, 75, 7 },
	[FRAME_KIND_PYTHON] = { 202, 20, 66, 12, 68, 9 },
	[FRAME_KIND_JIT] = { 110, 36, 42, 12, 67, 8 },
};

// One channel of a colour given by hue, saturation and lightness (CSS Color 4, section 7.1); red is
// at @offset 0, green at 8, blue at 4.
static int channel_of(double hue, double saturation, double lightness, int offset)
{
	double k = offset + hue / 30;
	double amplitude = saturation * (lightness < 0.5 ? lightness : 1 - lightness);

	if (k >= 12)
		k -= 12;
	double slope = k - 3 < 9 - k ? k - 3 : 9 - k;
	slope = slope > 1 ? 1 : slope < -1 ? -1 : slope;
	return (int)(255 * (lightness - amplitude * slope) + 0.5);
}

void svg_append_colour(struct buffer *buffer, enum frame_kind kind, const char *name)
{
	const struct palette *palette = &palettes[kind < FRAME_KIND_COUNT ? kind : 0];
	uint64_t hash = id128_of(name, strlen(name)).low;
	double hue = palette->hue + (double)(hash % 1000) * palette->hue_range / 1000;
	double saturation = palette->saturation +
			    (double)(hash / 1000 % 1000) * palette->saturation_range / 1000;
	double lightness = palette->lightness +
			   (double)(hash / 1000000 % 1000) * palette->lightness_range / 1000;

	if (strncmp(name, "[truncated", 10) == 0 && kind == FRAME_KIND_UNKNOWN) {
		saturation = 0;
		lightness = 88;
	}
	buffer_printf(buffer, "#%02x%02x%02x",
		      channel_of(hue, saturation / 100, lightness / 100, 0),
		      channel_of(hue, saturation / 100, lightness / 100, 8),
		      channel_of(hue, saturation / 100, lightness / 100, 4));
}
