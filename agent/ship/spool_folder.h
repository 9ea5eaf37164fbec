// SPDX-License-Identifier: Apache-2.0
// The folder in which batches wait on disk (--spool-dir): one file for each, named by a number that grows, so that the order of
// names is the order of batches, also over starts of the agent. One agent has it at a time, by a lock.
//
// What is not an agent's own regular file is left alone: symbolic links, folders, files of other users or names.
#pragma once

#include <stdint.h>
#include <sys/statvfs.h>

#include "agent/ship/batch.h"
#include "base/error.h"

enum {
	SPOOL_FOLDER_ENTRIES_MAX = 1 << 18, // whosever they are: four times what an agent writes
};

/* Kept free on the folder's disk: a tenth, below which Kubernetes evicts pods, but at most so much. */
#define SPOOL_FOLDER_FREE_BYTES (10ULL << 30)

struct spool_folder;

struct spool_folder_file {
	uint64_t number;
	uint64_t size; // bytes
};

struct spool_folder_files {
	struct spool_folder_file *list; // oldest first
	uint32_t count, capacity;
	uint32_t foreign; // entries that are left alone
	uint64_t last;    // number of a name, theirs too; 0: none
};
void spool_folder_files_deinit(struct spool_folder_files *files);

/**
 * Open and lock `cairn-spool` in @path, made for this user only. @path itself may be a folder of the system, that others write
 * to: it stays as it is. Returns 0; -EBUSY if another agent has it; -EPERM if it belongs to another user; -errno.
 */
int spool_folder_open(const char *path, struct spool_folder **ret_folder, struct error *err);
/** NULL is allowed. */
void spool_folder_close(struct spool_folder *folder);

/** What an earlier start has left. Returns 0; -ENOMEM; -E2BIG if the folder has too many entries; -errno. */
int spool_folder_list(struct spool_folder *folder, struct spool_folder_files *ret_files,
		      struct error *err);

/** Bytes that a packed batch takes. */
uint64_t spool_folder_file_size(const struct packed *packed);

/**
 * Write a packed batch. After a crash of the agent it is there, or it is not; after one of the machine its checksum says so.
 * Returns 0; -ENOSPC if the disk would be too full; -errno. Then there is no such file.
 */
int spool_folder_write(struct spool_folder *folder, uint64_t number, const struct packed *packed,
		       uint64_t sample_count, struct error *err);

/** Read a file into @batch, which has nothing in memory. Returns 0; -EBADMSG, -EPROTONOSUPPORT; -ENOMEM; -errno. */
int spool_folder_read(struct spool_folder *folder, uint64_t number, struct batch *batch,
		      struct error *err);

/** The number of samples that a file's header says; 0 if it cannot be read. */
uint64_t spool_folder_count_samples(struct spool_folder *folder, uint64_t number);

/** Before it is read: if the agent ends now, the next start knows why. Returns 0; -EBADMSG if it ended too many starts. */
int spool_folder_begin_sending(struct spool_folder *folder, uint64_t number, struct error *err);
/** It is sent, or the agent ends in good order. */
void spool_folder_end_sending(struct spool_folder *folder);

void spool_folder_remove(struct spool_folder *folder, uint64_t number);

/** Bytes of a disk that are kept free. */
uint64_t spool_folder_kept_free(const struct statvfs *disk);
/** Bytes that batches may still take of it. */
uint64_t spool_folder_room(const struct statvfs *disk);
