// SPDX-License-Identifier: Apache-2.0
#include "collector/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "collector/store/rocksdb/rocksdb.h"

// Files in the store's directory: the folder asked for, and "" or an error once it is done. Both appear
// whole, by a rename.
#define REQUEST_NAME "BACKUP_REQUEST"
#define RESULT_NAME  "BACKUP_RESULT"

enum { ANSWER_WAIT_S = 30 }; // a collector looks for requests each second

static void name_file(char path[PATH_MAX], const char *data, const char *name)
{
	snprintf(path, PATH_MAX, "%s/%s", data, name);
}

static int write_whole(const char *data, const char *name, const char *text)
{
	char path[PATH_MAX], partial[PATH_MAX];

	name_file(path, data, name);
	if (snprintf(partial, sizeof(partial), "%s.partial", path) >= (int)sizeof(partial))
		return -ENAMETOOLONG;
	_cleanup_close_ int fd =
		open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	ssize_t written = write(fd, text, strlen(text));
	if (written != (ssize_t)strlen(text))
		return written < 0 ? -errno : -ENOSPC;
	return rename(partial, path) < 0 ? -errno : 0;
}

/** Read a file and delete it. Returns 0; -ENOENT if there is none. */
static int take_text(const char *data, const char *name, char *text, size_t size)
{
	char path[PATH_MAX];

	name_file(path, data, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	ssize_t count = read(fd, text, size - 1);
	if (count < 0)
		return -errno;
	text[count] = '\0';
	return unlink(path) < 0 ? -errno : 0;
}

// ---- the command ----------------------------------------------------------------------------------------

static int backup_alone(const char *data, const char *folder, struct error *err)
{
	const struct store_options options = { .path = data };
	struct store *store;
	int rc = rocksdb_store_open(&options, &store, err);

	if (rc < 0)
		return rc;
	rc = store_backup(store, folder, err);
	store_close(store);
	return rc;
}

static bool is_requested(const char *data)
{
	char path[PATH_MAX];

	name_file(path, data, REQUEST_NAME);
	return access(path, F_OK) == 0;
}

static int withdraw(const char *data, struct error *err, const char *why)
{
	char path[PATH_MAX];

	name_file(path, data, REQUEST_NAME);
	unlink(path);
	return error_set(err, -EIO, "backup: the collector that has %s open %s", data, why);
}

static int wait_for_result(const char *data, struct error *err)
{
	const struct timespec pause = { .tv_nsec = 100 * 1000 * 1000 };
	char text[ERROR_TEXT_BYTES];

	for (int waited = 0;; waited++) {
		int rc = take_text(data, RESULT_NAME, text, sizeof(text));
		if (rc == 0)
			return text[0] ? error_set(err, -EIO, "%s", text) : 0;
		if (rc != -ENOENT)
			return error_errno(err, rc, "backup: read %s/%s", data, RESULT_NAME);
		if (!rocksdb_store_is_open(data))
			return withdraw(data, err, "has ended");
		if (waited > 10 * ANSWER_WAIT_S && is_requested(data))
			return withdraw(data, err, "does not answer; see its log");
		nanosleep(&pause, NULL);
	}
}

int backup_make(const char *data, const char *folder, struct error *err)
{
	char absolute[PATH_MAX], old[ERROR_TEXT_BYTES];

	if (!rocksdb_store_is_open(data))
		return backup_alone(data, folder, err);
	// The collector has another working directory.
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return error_errno(err, -errno, "backup: create %s", folder);
	if (!realpath(folder, absolute))
		return error_errno(err, -errno, "backup: resolve %s", folder);
	if (is_requested(data))
		return error_set(err, -EBUSY, "backup: another one is asked for already");
	take_text(data, RESULT_NAME, old, sizeof(old)); // of a command that did not wait
	int rc = write_whole(data, REQUEST_NAME, absolute);
	return rc ? error_errno(err, rc, "backup: write %s/%s", data, REQUEST_NAME)
		  : wait_for_result(data, err);
}

// ---- the collector's side -----------------------------------------------------------------------------------

static void *run_backup(void *argument)
{
	struct backup_service *service = argument;
	struct error err = { 0 };
	char folder[PATH_MAX];

	if (take_text(service->data, REQUEST_NAME, folder, sizeof(folder)) == 0) {
		log_info("backup: copying the store to %s", folder);
		if (store_backup(service->store, folder, &err))
			log_error("backup: failed: %s", err.text);
		else
			log_info("backup: done: %s", folder);
		int rc = write_whole(service->data, RESULT_NAME, err.text);
		if (rc)
			log_error("backup: cannot write its result to %s: %s; check the disk",
				  service->data, strerror(-rc));
	}
	atomic_store(&service->running, false);
	return NULL;
}

static void join(struct backup_service *service)
{
	if (service->has_thread)
		pthread_join(service->thread, NULL);
	service->has_thread = false;
}

void backup_service_poll(struct backup_service *service)
{
	if (atomic_load(&service->running) || !is_requested(service->data))
		return;
	join(service);
	atomic_store(&service->running, true);
	service->has_thread = pthread_create(&service->thread, NULL, run_backup, service) == 0;
	if (!service->has_thread)
		atomic_store(&service->running, false);
}

void backup_service_close(struct backup_service *service)
{
	join(service);
}
