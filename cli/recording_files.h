// SPDX-License-Identifier: Apache-2.0
// The files of a recording: one for all profile types where its format has room for them, otherwise a folder with a file for each.
#pragma once

#include "cli/output_file.h"
#include "cli/recorded_types.h"
#include "proto/export.h"

struct recording_file {
	char *path;
	struct output_file output;
	struct recorded_types types;
	bool is_old_kept; // there was nothing to write, and a file of this name
};

/** A zeroed struct has no files. */
struct recording_files {
	enum export_format format;
	const char *folder; // NULL: one file
	struct recording_file at[RECORDED_TYPES_MAX];
	uint32_t count;
};

/**
 * Plan the files of @types at -o @output with --format @format_text (NULL: as the suffix says). A name that ends in "/" is a folder.
 * Returns 0; -EINVAL and @err; -ENOMEM. @output outlives the files.
 */
int recording_files_plan(const char *output, const char *format_text,
			 const struct recorded_types *types, struct recording_files *ret_files,
			 struct error *err);
/** Create them now, and their folder: what cannot be written fails before the recording. */
int recording_files_open(struct recording_files *files, struct error *err);
/**
 * Write @profile. @title: the pictures'. @frequency_hz: of samples of CPU time. A file without samples does not replace one that
 * is there.
 */
int recording_files_write(struct recording_files *files, const struct profile *profile,
			  const char *title, uint64_t frequency_hz, struct error *err);
/** Were all left as they were? */
bool recording_files_are_old(const struct recording_files *files);
void recording_files_deinit(struct recording_files *files);
