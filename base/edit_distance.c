// SPDX-License-Identifier: Apache-2.0
#include "base/edit_distance.h"

#include <string.h>

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t least = a < b ? a : b;

	return least < c ? least : c;
}

uint32_t edit_distance(const char *a, const char *b)
{
	uint32_t row[EDIT_DISTANCE_BYTES_MAX + 1]; // of the table, which is kept one row at a time
	size_t height = strnlen(a, EDIT_DISTANCE_BYTES_MAX);
	size_t width = strnlen(b, EDIT_DISTANCE_BYTES_MAX);

	for (size_t x = 0; x <= width; x++)
		row[x] = (uint32_t)x;
	for (size_t y = 1; y <= height; y++) {
		uint32_t diagonal = row[0];

		row[0] = (uint32_t)y;
		for (size_t x = 1; x <= width; x++) {
			uint32_t above = row[x];

			row[x] = min3(above + 1, row[x - 1] + 1, diagonal + (a[y - 1] != b[x - 1]));
			diagonal = above;
		}
	}
	return row[width];
}

uint32_t edit_distance_of_slip(const char *typed)
{
	return (uint32_t)strnlen(typed, EDIT_DISTANCE_BYTES_MAX) / 3 + 1;
}
