// SPDX-License-Identifier: Apache-2.0
// Entries of OTLP's tables become the importer's strings, frames and stacks when the first sample uses them.
#pragma once

#include "base/import/importer.h"
#include "base/import/otlp_tables.h"

struct otlp_frames {
	const struct otlp_tables *tables;
	struct importer *importer;
	uint32_t *numbers;   // by string: the importer's
	uint32_t *locations; // by location
	uint32_t *stacks;    // by stack
};

/** @tables and @importer outlive the frames. Returns 0 or -ENOMEM. They are to be freed after a failure, too. */
int otlp_frames_init(struct otlp_frames *frames, const struct otlp_tables *tables,
		     struct importer *importer);
void otlp_frames_deinit(struct otlp_frames *frames);

/** The importer's stack for entry @index of the stacks. Returns 0, -EBADMSG, -ENOMEM or -E2BIG; the tables' error says why. */
int otlp_frames_stack(struct otlp_frames *frames, uint64_t index, uint32_t *ret_stack);
