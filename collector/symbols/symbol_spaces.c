// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/symbol_spaces.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory_account.h"

enum { TENANT_BYTES = 64 };

struct space {
	char tenant[TENANT_BYTES];
	struct symbol_space space;
};

struct symbol_spaces {
	char *data;
	uint64_t bytes_max, sources_bytes_max;
	struct source_folders source_folders;
	struct debuginfod *debuginfod;
	struct confined_launcher *launcher;
	pthread_mutex_t lock;                    // guards the fields below
	struct space *spaces[SYMBOL_SPACES_MAX]; // they never move
	uint32_t count;
};

static void space_free(struct space *space)
{
	if (!space)
		return;
	symbolizer_free(space->space.symbolizer);
	debug_files_close(&space->space.files);
	source_files_close(&space->space.sources);
	free(space);
}

/** A tenant's name is that of a folder; the access file allows no others. */
static bool is_folder_name(const char *tenant)
{
	return tenant[0] != '.' && !strchr(tenant, '/') && strlen(tenant) < TENANT_BYTES;
}

static int make_folder(const struct symbol_spaces *spaces, const char *tenant,
		       char ret_path[PATH_MAX], struct error *err)
{
	const char *const formats[] = { "%s/tenants", "%s/tenants/%s" };

	if (!is_folder_name(tenant))
		return error_set(err, -EINVAL, "\"%.70s\" is not a tenant's name", tenant);
	if (!*tenant) {
		snprintf(ret_path, PATH_MAX, "%s", spaces->data);
		return 0;
	}
	for (size_t i = 0; i < 2; i++) {
		snprintf(ret_path, PATH_MAX, formats[i], spaces->data, tenant);
		if (mkdir(ret_path, 0700) && errno != EEXIST)
			return error_errno(err, -errno, "debug files: %s", ret_path);
	}
	return 0;
}

static int add_space(struct symbol_spaces *spaces, const char *tenant, struct error *err)
{
	char path[PATH_MAX];
	struct space *space = NULL;
	int rc = spaces->count == SYMBOL_SPACES_MAX
			 ? error_set(err, -E2BIG,
				     "debug files: %d tenants have symbols already (limit %d)",
				     SYMBOL_SPACES_MAX, SYMBOL_SPACES_MAX)
			 : make_folder(spaces, tenant, path, err);

	if (rc)
		return rc;
	space = calloc(1, sizeof(*space));
	if (!space)
		return error_set(err, -ENOMEM, "out of memory");
	space->space.files.cache.folder = space->space.sources.cache.folder = -1;
	snprintf(space->tenant, sizeof(space->tenant), "%s", tenant);
	space->space.tenant = space->tenant;
	space->space.source_folders = &spaces->source_folders;
	rc = debug_files_open(&space->space.files, path, spaces->bytes_max, spaces->launcher, err);
	if (!rc)
		rc = source_files_open(&space->space.sources, path, spaces->sources_bytes_max, err);
	if (!rc) {
		space->space.symbolizer =
			symbolizer_new(&space->space.files, spaces->debuginfod, spaces->launcher);
		rc = space->space.symbolizer ? 0 : error_set(err, -ENOMEM, "out of memory");
	}
	if (rc) {
		space_free(space);
		return rc;
	}
	spaces->spaces[spaces->count++] = space;
	return 0;
}

int symbol_spaces_open(const struct symbol_spaces_options *options,
		       struct symbol_spaces **ret_spaces, struct error *err)
{
	struct symbol_spaces *spaces = calloc(1, sizeof(*spaces));
	char *data = strdup(options->data);

	if (!spaces || !data) {
		free(spaces);
		free(data);
		return error_set(err, -ENOMEM, "out of memory");
	}
	spaces->data = data;
	spaces->bytes_max = options->bytes_max;
	spaces->sources_bytes_max = options->sources_bytes_max;
	spaces->debuginfod = options->debuginfod;
	spaces->launcher = options->launcher;
	pthread_mutex_init(&spaces->lock, NULL);
	int rc = options->source_folders ? source_folders_parse(options->source_folders,
								&spaces->source_folders, err)
					 : 0;
	if (!rc)
		rc = add_space(spaces, "", err);
	if (rc) {
		symbol_spaces_close(spaces);
		return rc;
	}
	*ret_spaces = spaces;
	return 0;
}

void symbol_spaces_close(struct symbol_spaces *spaces)
{
	if (!spaces)
		return;
	for (uint32_t i = 0; i < spaces->count; i++)
		space_free(spaces->spaces[i]);
	pthread_mutex_destroy(&spaces->lock);
	source_folders_deinit(&spaces->source_folders);
	free(spaces->data);
	free(spaces);
}

struct symbol_space *symbol_spaces_get(struct symbol_spaces *spaces, const char *tenant,
				       struct error *err)
{
	struct space *found = NULL;

	if (strcmp(tenant, "*") == 0)
		tenant = "";
	pthread_mutex_lock(&spaces->lock);
	for (uint32_t i = 0; i < spaces->count && !found; i++)
		if (strcmp(spaces->spaces[i]->tenant, tenant) == 0)
			found = spaces->spaces[i];
	if (!found) { // it outlives the query that is the first to ask for it
		struct memory_account *paused = memory_account_pause();

		if (!add_space(spaces, tenant, err))
			found = spaces->spaces[spaces->count - 1];
		memory_account_resume(paused);
	}
	pthread_mutex_unlock(&spaces->lock);
	return found ? &found->space : NULL;
}

uint32_t symbol_spaces_take_failures(struct symbol_spaces *spaces, struct error *ret_err)
{
	uint32_t failures = 0;

	pthread_mutex_lock(&spaces->lock);
	for (uint32_t i = 0; i < spaces->count; i++)
		failures += symbolizer_take_failures(spaces->spaces[i]->space.symbolizer, ret_err);
	pthread_mutex_unlock(&spaces->lock);
	return failures;
}
