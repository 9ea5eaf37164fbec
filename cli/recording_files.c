// SPDX-License-Identifier: Apache-2.0
#include "cli/recording_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/output_format.h"
#include "proto/pprof.h"

static bool is_folder_name(const char *path)
{
	size_t size = strlen(path);

	return size && path[size - 1] == '/';
}

/** Which types one file has. */
static int add_file(struct recording_files *files, const struct recorded_types *types, char *path)
{
	struct recording_file *file = &files->at[files->count++];

	*file = (struct recording_file){ .path = path, .types = *types };
	return path ? 0 : -ENOMEM;
}

static int plan_folder(struct recording_files *files, const char *format_text,
		       const struct recorded_types *types, struct error *err)
{
	int rc = 0;

	if (!format_text) {
		char names[EXPORT_WORDS_BYTES];

		export_format_names(names);
		return error_set(err, -EINVAL,
				 "-o %s is a folder; --format selects what its files are: %s",
				 files->folder, names);
	}
	rc = output_format_find(files->folder, format_text, &files->format, err);
	for (uint32_t i = 0; !rc && i < types->count; i++) {
		const struct recorded_types one = { { types->at[i] }, 1 };
		char *path = NULL;

		if (asprintf(&path, "%s%s%s", files->folder, recorded_type_spec(types->at[i])->word,
			     export_format_spec(files->format)->suffix) < 0)
			path = NULL;
		if (add_file(files, &one, path))
			rc = error_set(err, -ENOMEM, "out of memory");
	}
	return rc;
}

static int plan_file(struct recording_files *files, const char *output, const char *format_text,
		     const struct recorded_types *types, struct error *err)
{
	int rc = output_file_check_name(output, err);

	if (!rc)
		rc = output_format_find(output, format_text, &files->format, err);
	if (rc)
		return rc;
	if (types->count > 1 && files->format != EXPORT_PPROF)
		return error_set(err, -EINVAL,
				 "%s files hold one profile type; for several write -o FILE.pb.gz, "
				 "or -o FOLDER/ --format %s",
				 export_format_spec(files->format)->name,
				 export_format_spec(files->format)->name);
	rc = add_file(files, types, strdup(output));
	return rc ? error_set(err, rc, "out of memory") : 0;
}

int recording_files_plan(const char *output, const char *format_text,
			 const struct recorded_types *types, struct recording_files *ret_files,
			 struct error *err)
{
	_cleanup_(recording_files_deinit) struct recording_files files = { 0 };

	files.folder = is_folder_name(output) ? output : NULL;
	int rc = files.folder ? plan_folder(&files, format_text, types, err)
			      : plan_file(&files, output, format_text, types, err);
	if (rc)
		return rc;
	*ret_files = files;
	files = (struct recording_files){ 0 };
	return 0;
}

int recording_files_open(struct recording_files *files, struct error *err)
{
	int rc = 0;

	if (files->folder && mkdir(files->folder, 0755) && errno != EEXIST)
		return error_errno(err, -errno, "cannot make the folder %s", files->folder);
	for (uint32_t i = 0; !rc && i < files->count; i++)
		rc = output_file_open(files->at[i].path, &files->at[i].output, err);
	return rc;
}

/* CPU time is sampled with a period, which pprof files have where it is the first type. */
static int encode_pprof(const struct recorded_types *types, const struct profile *profile,
			uint64_t frequency_hz, struct buffer *content, struct error *err)
{
	const char *names[RECORDED_TYPES_MAX];
	const struct pprof_options options = {
		.types = names,
		.type_count = types->count,
		.period = types->at[0]->sources ? 0 : NS_PER_SECOND / frequency_hz,
	};

	for (uint32_t i = 0; i < types->count; i++)
		names[i] = types->at[i]->type;
	return pprof_encode_types(profile, &options, content, err);
}

static int write_file(struct recording_file *file, enum export_format format,
		      const struct profile *profile, const char *title, uint64_t frequency_hz,
		      struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer content = { 0 };

	if (recorded_types_are_empty(&file->types, profile) &&
	    output_file_replaces(&file->output)) {
		file->is_old_kept = true;
		output_file_discard(&file->output);
		return 0;
	}
	int rc = format == EXPORT_PPROF
			 ? encode_pprof(&file->types, profile, frequency_hz, &content, err)
			 : export_profile(profile, file->types.at[0]->type, format, title, &content,
					  err);
	return rc ? rc : output_file_finish(&file->output, &content, err);
}

int recording_files_write(struct recording_files *files, const struct profile *profile,
			  const char *title, uint64_t frequency_hz, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < files->count; i++)
		rc = write_file(&files->at[i], files->format, profile, title, frequency_hz, err);
	return rc;
}

bool recording_files_are_old(const struct recording_files *files)
{
	for (uint32_t i = 0; i < files->count; i++)
		if (!files->at[i].is_old_kept)
			return false;
	return files->count > 0;
}

void recording_files_deinit(struct recording_files *files)
{
	for (uint32_t i = 0; i < files->count; i++) {
		output_file_discard(&files->at[i].output);
		free(files->at[i].path);
	}
	*files = (struct recording_files){ 0 };
}
