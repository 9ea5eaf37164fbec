// SPDX-License-Identifier: Apache-2.0
// Within svg: names, amounts and colours as text.
#pragma once

#include "base/buffer.h"
#include "base/profile/profile.h"

/** Append @text, whoever wrote it, as XML character data that is also safe within quotes. */
void svg_append_escaped(struct buffer *buffer, const char *text);

/** As svg_append_escaped(), at most @columns wide; what was cut ends in an ellipsis. */
void svg_append_shortened(struct buffer *buffer, const char *text, uint32_t columns);

/** Append @value for people: "12.3 s", "4.1 MiB", "1,234 samples". @unit as in a profile type. */
void svg_append_amount(struct buffer *buffer, int64_t value, const char *unit);

/** Append "#rrggbb": a hue for the @kind of code, a shade for the @name, always the same. */
void svg_append_colour(struct buffer *buffer, enum frame_kind kind, const char *name);
