// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/sorted_window.h"

#include <string.h>

/** Where @value is, or belongs. */
static uint32_t place_of(const struct sorted_window *window, double value)
{
	uint32_t at = 0;

	while (at < window->count && window->sorted[at] < value)
		at++;
	return at;
}

static void remove_oldest(struct sorted_window *window)
{
	uint32_t at = place_of(window, window->arrived[window->oldest]);

	window->count--;
	memmove(window->sorted + at, window->sorted + at + 1,
		(window->count - at) * sizeof(*window->sorted));
}

void sorted_window_add(struct sorted_window *window, double value)
{
	if (window->count < SORTED_WINDOW_MAX) {
		window->arrived[window->count] = value;
	} else {
		remove_oldest(window);
		window->arrived[window->oldest] = value;
		window->oldest = (window->oldest + 1) % SORTED_WINDOW_MAX;
	}
	uint32_t at = place_of(window, value);

	memmove(window->sorted + at + 1, window->sorted + at,
		(window->count - at) * sizeof(*window->sorted));
	window->sorted[at] = value;
	window->count++;
}
