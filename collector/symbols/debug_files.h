// SPDX-License-Identifier: Apache-2.0
// Uploaded debug files by build id, in a folder of the store's directory. Bounded: the least
// recently used are evicted. Safe for several threads.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/symbols/debug_cache.h"
#include "base/error.h"
#include "collector/symbols/debug_origin.h"

#define DEBUG_FILE_BYTES_MAX (2ULL << 30) // of one upload

enum {
	DEBUG_UPLOADS_MAX = 8, // received at a time
};

struct confined_launcher;

struct debug_files {
	struct debug_cache cache;
	struct confined_launcher *launcher;
	atomic_uint version; // changes with each upload

	pthread_mutex_t lock; // guards the fields below, and what is kept
	uint32_t uploads;     // being received
	uint64_t upload_bytes;
};

/** A file being received. */
struct debug_upload {
	struct debug_cache_file file;
	uint64_t bytes; // reserved
};

/**
 * Open @data/debug-files, created if missing. Uploads are looked at in processes of @launcher; NULL: they
 * are refused. Returns 0 or -errno.
 */
int debug_files_open(struct debug_files *files, const char *data, uint64_t bytes_max,
		     struct confined_launcher *launcher, struct error *err);
void debug_files_close(struct debug_files *files);

/** Open the file of @build_id for reading. Returns the caller's descriptor, or -ENOENT. */
int debug_files_find(const struct debug_files *files, const char *build_id);

/**
 * Begin to receive @bytes, which are reserved before the first one: uploads that are being received take
 * DEBUG_FILE_BYTES_MAX, or the limit on disk, together. Returns 0; -EFBIG; -EAGAIN: others are being
 * received, try again; -errno.
 */
int debug_files_begin(struct debug_files *files, uint64_t bytes, struct debug_upload *ret_upload,
		      struct error *err);
/**
 * Keep the received file if it is an ELF file with symbols and this build id. The first one of a build id
 * stays: the same again changes nothing, another one is refused until the first is removed. It is on disk
 * on return. Returns 0; -EINVAL (@err says why); -EEXIST (@err says whose is kept); -EFBIG; -ENOTCONN
 * (nothing can be confined here); -errno. debug_files_drop() is still to be called.
 */
int debug_files_keep(struct debug_files *files, struct debug_upload *upload, const char *build_id,
		     const char *who, const char *address, struct error *err);
/** The upload has ended: delete the file unless it was kept. */
void debug_files_drop(struct debug_files *files, struct debug_upload *upload);

/** Who uploaded the file of @build_id. Returns 0; -ENOENT; -ENODATA; -errno. */
int debug_files_origin(const struct debug_files *files, const char *build_id,
		       struct debug_origin *ret_origin);

/** Delete the file of @build_id. Returns 0; -ENOENT; -EINVAL (no build id); -errno. */
int debug_files_remove(struct debug_files *files, const char *build_id);

/**
 * Check that an open file is an ELF file with symbols and this build id; a confined process reads it. Returns 0; -EINVAL
 * (@err says why); -ENOTCONN: nothing can be confined here.
 */
int debug_file_check(struct confined_launcher *launcher, int fd, const char *build_id,
		     struct error *err);
