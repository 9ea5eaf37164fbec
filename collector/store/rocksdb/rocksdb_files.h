// SPDX-License-Identifier: Apache-2.0
// The files of one open database, or of a backup. RocksDB goes on writing to a file after a write to it has failed, and
// Debian's build ends the process with an assertion then. So the first failed write (ENOSPC, EIO, EROFS)
// freezes the files: they stay as a crash at that moment would leave them, later changes are discarded
// and reported to RocksDB as done. Whoever writes asks db_files_failed() before he relies on a write.
// The way out is to close the database and to open it again, which recovers as after a crash.
//
// RocksDB's C API has no file system of one's own: rocksdb_files.cc is C++.
#pragma once

#include <rocksdb/c.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DB_FILES_TEXT_BYTES = 192 };

struct db_files;

/** NULL when out of memory. */
struct db_files *db_files_new(void);
/** After the database is closed. */
void db_files_free(struct db_files *files);

/** What makes a database, or a backup, use @files. Valid as long as they are. */
rocksdb_env_t *db_files_env(struct db_files *files);

/** Has a write failed? Its cause goes to @text then. Thread-safe. */
bool db_files_failed(struct db_files *files, char text[DB_FILES_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif
