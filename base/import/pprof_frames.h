// SPDX-License-Identifier: Apache-2.0
// Entries of a profile.proto's tables become the importer's strings and frames when the first sample uses them.
#pragma once

#include "base/import/importer.h"
#include "base/import/pprof_tables.h"

struct pprof_frames {
	const struct pprof_tables *tables;
	struct importer *importer;
	uint32_t *numbers;   // by string: the importer's; PPROF_NONE: not used yet
	uint32_t *locations; // by location: the same
};

/** @tables and @importer outlive the frames. Returns 0 or -ENOMEM. They are to be freed after a failure, too. */
int pprof_frames_init(struct pprof_frames *frames, const struct pprof_tables *tables,
		      struct importer *importer);
void pprof_frames_deinit(struct pprof_frames *frames);

/** Add the location at @at of its table. Returns 0, -EBADMSG, -ENOMEM or -E2BIG; the tables' error says why. */
int pprof_frames_add(struct pprof_frames *frames, uint32_t at);

/** The importer's location for the one at @at of its table. Returns as above. */
static inline int pprof_frames_location(struct pprof_frames *frames, uint32_t at,
					uint32_t *ret_location)
{
	int rc = frames->locations[at] == PPROF_NONE ? pprof_frames_add(frames, at) : 0;

	if (!rc)
		*ret_location = frames->locations[at];
	return rc;
}
