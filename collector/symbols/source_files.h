// SPDX-License-Identifier: Apache-2.0
// Uploaded source files: archives (base/symbols/source_archive.h) by the SHA-256 of their bytes, in a folder of the store's
// directory. Bounded: the least recently used are evicted. Safe for several threads.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"
#include "base/symbols/debug_cache.h"
#include "base/symbols/source_archive.h"
#include "collector/symbols/debug_origin.h"

enum {
	SOURCE_ARCHIVES_MAX = 64, // kept: each is looked through for a file
	SOURCE_UPLOADS_MAX = 2,   // received at a time
};

struct source_files {
	struct debug_cache cache;
	pthread_mutex_t lock; // guards the field below, and what is kept
	uint32_t uploads;     // being received
};

/** An archive that is being received. */
struct source_upload {
	struct debug_cache_file file;
	uint64_t bytes;
};

/** Open @data/sources, created if missing. Returns 0 or -errno. */
int source_files_open(struct source_files *files, const char *data, uint64_t bytes_max,
		      struct error *err);
void source_files_close(struct source_files *files);

/** Begin to receive @bytes. Returns 0; -EFBIG; -EAGAIN: others are being received, try again; -errno. */
int source_files_begin(struct source_files *files, uint64_t bytes, struct source_upload *ret_upload,
		       struct error *err);
/**
 * Keep what was received if it is an archive and has this SHA-256, @id in hexadecimal. The first one of a service and version stays:
 * the same again changes nothing, another one is refused until the first is removed. Archives without a version are all
 * kept. Returns 0; -EINVAL (@err says why); -EEXIST (@err says whose is kept); -EFBIG; -errno. source_files_drop() is
 * still to be called.
 */
int source_files_keep(struct source_files *files, struct source_upload *upload, const char *id,
		      const char *who, const char *address, struct error *err);
/** The upload has ended: delete it unless it was kept. */
void source_files_drop(struct source_files *files, struct source_upload *upload);
/** Delete an archive. Returns 0; -ENOENT; -EINVAL (no id); -errno. */
int source_files_remove(struct source_files *files, const char *id);

/** One archive that is kept. */
struct kept_archive {
	const char *id;
	int fd;
	struct debug_origin origin;
	struct source_archive archive;
};

/** What it gets is valid during the call only. A return other than 0 ends the listing. */
typedef int (*kept_archive_fn)(void *context, const struct kept_archive *kept);

/** Give each archive that is kept, in no order. Returns 0; -ENOMEM; -errno; or what @fn returned. */
int source_files_list(const struct source_files *files, kept_archive_fn fn, void *context);
