// SPDX-License-Identifier: Apache-2.0
#include "collector/query/profile_builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/profile/profile.h"
#include "collector/symbols/symbolizer.h"

void profile_builder_deinit(struct profile_builder *builder)
{
	free(builder->location_of);
}

int profile_builder_fail(struct profile_builder *builder, int rc)
{
	if (rc == -E2BIG)
		return error_set(builder->err, rc,
				 "the answer has too many distinct stacks for one file; choose a "
				 "shorter range or fewer series");
	return error_set(builder->err, rc, "out of memory for an exported profile");
}

int profile_builder_begin(struct profile_builder *builder, const struct store_forest *forest)
{
	size_t count = forest->locations->location_count;

	free(builder->location_of);
	builder->location_of = malloc((count + 1) * sizeof(*builder->location_of));
	if (!builder->location_of)
		return profile_builder_fail(builder, -ENOMEM);
	memset(builder->location_of, 0xff, count * sizeof(*builder->location_of));
	return 0;
}

static int copy_string(struct profile *into, const struct profile *from, uint32_t number,
		       uint32_t *ret_number)
{
	return profile_add_string(into, profile_string(from, number), ret_number);
}

/** A location being copied, and its lines. */
struct copying {
	struct profile *into;
	struct line lines[LOCATION_LINES_MAX];
	uint32_t count;
};

static int copy_lines(struct copying *copying, const struct profile *from,
		      const struct location *location)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < location->line_count; i++) {
		const struct line *line = &from->lines[location->first_line + i];

		copying->lines[i].number = line->number;
		rc = copy_string(copying->into, from, line->name, &copying->lines[i].name);
		if (!rc)
			rc = copy_string(copying->into, from, line->file, &copying->lines[i].file);
	}
	copying->count = location->line_count;
	return rc;
}

_Static_assert((int)SOURCE_LINES_MAX <= (int)LOCATION_LINES_MAX, "all source lines fit a location");

static int copy_found_lines(void *context, const struct source_lines *lines)
{
	struct copying *copying = context;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < lines->count; i++) {
		struct line *line = &copying->lines[i];

		line->number = lines->lines[i].number;
		rc = profile_add_string(copying->into, lines->lines[i].name, &line->name);
		if (!rc)
			rc = profile_add_string(copying->into, lines->lines[i].file, &line->file);
	}
	copying->count = lines->count;
	return rc;
}

static int copy_location(struct profile_builder *builder, const struct profile *from,
			 uint32_t number, uint32_t *ret_number)
{
	const struct location *old = &from->locations[number];
	struct location location = { .id = old->id, .kind = old->kind, .offset = old->offset };
	struct copying copying = { .into = builder->profile };

	if (old->line_count > LOCATION_LINES_MAX)
		return -E2BIG;
	int rc = copy_string(copying.into, from, old->module, &location.module);
	if (!rc)
		rc = copy_string(copying.into, from, old->build_id, &location.build_id);
	if (!rc)
		rc = copy_lines(&copying, from, old);
	if (!rc && !old->line_count && builder->query->symbolizer) {
		rc = symbolizer_find(builder->query->symbolizer, from, old, &builder->symbolizer_ns,
				     copy_found_lines, &copying);
		rc = rc == -ENOENT ? 0 : rc;
	}
	return rc ? rc
		  : profile_add_location(copying.into, &location, copying.lines, copying.count,
					 ret_number);
}

int profile_builder_add_stack(struct profile_builder *builder, const struct store_forest *forest,
			      uint32_t node, uint32_t *ret_stack)
{
	uint32_t locations[STACK_FRAMES_MAX];
	enum stack_end end = STACK_END_COMPLETE;
	uint32_t count = 0;

	for (; node; node = forest->parents[node]) {
		uint32_t frame = forest->frames[node];

		if (frame >= FOREST_FRAME_END) {
			end = (enum stack_end)(frame - FOREST_FRAME_END);
			continue;
		}
		if (frame >= forest->locations->location_count || count == STACK_FRAMES_MAX)
			return error_set(builder->err, -EIO, "store: a stack is damaged");
		if (builder->location_of[frame] == UINT32_MAX) {
			int rc = copy_location(builder, forest->locations, frame,
					       &builder->location_of[frame]);
			if (rc)
				return profile_builder_fail(builder, rc);
		}
		locations[count++] = builder->location_of[frame];
	}
	int rc = profile_add_stack(builder->profile, locations, count, end, ret_stack);
	return rc ? profile_builder_fail(builder, rc) : 0;
}
