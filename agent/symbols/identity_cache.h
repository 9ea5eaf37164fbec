// SPDX-License-Identifier: Apache-2.0
// Identities of files, kept on disk: what has not changed since the last start is not hashed again.
//
// An identity from here is believed without reading the file, so a file must not be able to change behind its version
// (device, inode, size, modification and change time). Its owner sets back the modification time; the change time is
// the kernel's. What is left, and why it does not help:
// - A write within the same tick of the kernel's clock, or to a page that was mapped and dirty before and that no
//   write-back has taken yet, leaves the change time: a file counts only when it has not changed for
//   IDENTITY_SETTLED_NS, which is longer than dirty pages are kept.
// - On tmpfs and the like a mapped page is written without any time; a file server or a FUSE program reports what it
//   likes: only file systems on a block device count, and of those not what is mounted "nosuid", which is how users
//   mount their own disks and images.
// - Who owns a file may have it mapped at any time: only root's files count, which nobody else may write, and only those
//   of processes that see the host's root: a container's root is not ours.
// - Who writes the disk from elsewhere, while this kernel does not run: entries hold until the next boot.
// The rest could be done by root, who needs no cache for it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/file_identity.h"
#include "base/error.h"

enum {
	IDENTITIES_MAX =
		4096, // 700 KB; a node with ten versions of PyTorch maps some 2,000 such files
};
#define IDENTITY_SETTLED_NS \
	(60ULL * 1000000000) // dirty_expire_centisecs is 30 s, its writer wakes every 5 s

struct identity_cache;

struct identity_cache_stats {
	uint64_t found;   // files that were not hashed
	uint64_t damaged; // entries dropped: not as they were written
};

/**
 * Read the cache in @folder, which is created for this user only. What another boot or another build of the program has
 * written is ignored. Returns 0; cache_folder_open()'s errors; -ENOMEM. One thread at a time.
 */
int identity_cache_open(const char *folder, struct identity_cache **ret_cache, struct error *err);
/** Write what is new, and free it. */
void identity_cache_close(struct identity_cache *cache);

/** The identity of @file, of which only its status, version and root are looked at. */
bool identity_cache_find(struct identity_cache *cache, const struct opened_file *file,
			 struct file_identity *ret_identity);
/** @file was read after @read_ns of the wall clock, and is @identity. Nothing is kept if it may change unseen. */
void identity_cache_add(struct identity_cache *cache, const struct opened_file *file,
			const struct file_identity *identity, uint64_t read_ns);

/** Write what is new, if anything is. Others' entries are kept, those used last first. 0 or -errno. */
int identity_cache_save(struct identity_cache *cache);

void identity_cache_read_stats(const struct identity_cache *cache,
			       struct identity_cache_stats *ret_stats);
