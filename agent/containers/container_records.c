// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/container_records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/containers/cgroup.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { FOLDER_BYTES = 3072, PATH_BYTES = 4096 };

struct entry {
	char id[CONTAINER_ID_BYTES]; // "": free
	uint64_t read_ns;
	bool is_found;
	struct container_record record;
};

struct container_records {
	char docker[FOLDER_BYTES], podman[FOLDER_BYTES]; // "": none
	const struct relabel_rules *rules;
	struct entry entries[CONTAINER_RECORDS_MAX];
	uint32_t entry_count, next; // to be evicted
	struct container_records_stats stats;
};

struct container_records *container_records_new(const struct container_folders *folders,
						const struct relabel_rules *rules)
{
	struct container_records *records = calloc(1, sizeof(*records));

	if (!records)
		return NULL;
	records->rules = rules;
	snprintf(records->docker, FOLDER_BYTES, "%s", folders->docker ? folders->docker : "");
	snprintf(records->podman, FOLDER_BYTES, "%s", folders->podman ? folders->podman : "");
	return records;
}

void container_records_free(struct container_records *records)
{
	if (!records)
		return;
	for (uint32_t i = 0; i < records->entry_count; i++)
		container_record_deinit(&records->entries[i].record);
	free(records);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A file of the agent's user only: others could name containers as they like. */
static int open_file(const char *path, size_t bytes_max, int *ret_fd)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat stat;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat))
		return -errno;
	if (!S_ISREG(stat.st_mode) || stat.st_uid != geteuid())
		return -EPERM;
	if ((uint64_t)stat.st_size > bytes_max)
		return -EFBIG;
	*ret_fd = take_fd(fd);
	return 0;
}

static int read_file(const char *path, size_t bytes_max, struct buffer *bytes)
{
	_cleanup_close_ int fd = -1;
	int rc = open_file(path, bytes_max, &fd);
	ssize_t size = 1;

	bytes->size_max = bytes_max;
	while (!rc && size > 0 && !bytes->rc) {
		uint8_t piece[16384];

		size = read(fd, piece, sizeof(piece));
		if (size < 0)
			return -errno;
		buffer_append(bytes, piece, (size_t)size);
	}
	return rc ? rc : bytes->rc;
}

typedef int read_fn(const char *text, size_t size, const char *id,
		    const struct relabel_rules *rules, struct container_record *ret_record);

static int read_record(struct container_records *records, const char *path, size_t bytes_max,
		       read_fn *fn, const char *id, struct container_record *ret_record)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	int rc = read_file(path, bytes_max, &bytes);

	if (!rc)
		rc = fn((const char *)bytes.bytes, bytes.size, id, records->rules, ret_record);
	records->stats.unreadable += rc && rc != -ENOENT && rc != -ENOTDIR && rc != -ENOMEM;
	return rc;
}

static bool read_docker(struct container_records *records, const char *id,
			struct container_record *ret_record)
{
	char path[PATH_BYTES];

	if (!records->docker[0])
		return false;
	snprintf(path, sizeof(path), "%s/containers/%s/config.v2.json", records->docker, id);
	return !read_record(records, path, CONTAINER_FILE_BYTES_MAX, container_record_read_docker,
			    id, ret_record);
}

/* A folder for each way to store layers, of which a machine has one, as a rule the first. */
static const char *const podman_files[] = {
	"overlay-containers/containers.json",
	"overlay-containers/volatile-containers.json", // those that are removed when they end
	"vfs-containers/containers.json",
	"vfs-containers/volatile-containers.json",
	"btrfs-containers/containers.json",
	"btrfs-containers/volatile-containers.json",
	"zfs-containers/containers.json",
	"zfs-containers/volatile-containers.json",
};

static bool read_podman(struct container_records *records, const char *id,
			struct container_record *ret_record)
{
	for (size_t i = 0; records->podman[0] && i < ARRAY_SIZE(podman_files); i++) {
		char path[PATH_BYTES];

		snprintf(path, sizeof(path), "%s/%s", records->podman, podman_files[i]);
		if (!read_record(records, path, CONTAINERS_FILE_BYTES_MAX,
				 container_record_read_podman, id, ret_record))
			return true;
	}
	return false;
}

/* ---- the cache ------------------------------------------------------------------------------ */

static struct entry *find_entry(struct container_records *records, const char *id)
{
	for (uint32_t i = 0; i < records->entry_count; i++)
		if (strcmp(records->entries[i].id, id) == 0)
			return &records->entries[i];
	return NULL;
}

static struct entry *add_entry(struct container_records *records, const char *id)
{
	struct entry *entry;

	if (records->entry_count < CONTAINER_RECORDS_MAX)
		entry = &records->entries[records->entry_count++];
	else
		entry = &records->entries[records->next++ % CONTAINER_RECORDS_MAX];
	container_record_deinit(&entry->record);
	*entry = (struct entry){ 0 };
	snprintf(entry->id, sizeof(entry->id), "%s", id);
	return entry;
}

/* They are in the path of a file. */
static bool is_id(const char *id)
{
	return id[0] && !id[strspn(id, "0123456789abcdef-")];
}

const struct container_record *container_records_find(struct container_records *records,
						      const char *id, uint64_t now_ns)
{
	struct entry *entry;

	if (!records || !is_id(id) || strlen(id) >= CONTAINER_ID_BYTES)
		return NULL;
	entry = find_entry(records, id);
	if (entry && ns_between(entry->read_ns, now_ns) < CONTAINER_RECORD_NS)
		return entry->is_found ? &entry->record : NULL;
	if (!entry)
		entry = add_entry(records, id);
	container_record_deinit(&entry->record);
	entry->record = (struct container_record){ 0 };
	entry->is_found = read_docker(records, id, &entry->record) ||
			  read_podman(records, id, &entry->record);
	entry->read_ns = now_ns;
	records->stats.found += entry->is_found;
	return entry->is_found ? &entry->record : NULL;
}

void container_records_read_stats(const struct container_records *records,
				  struct container_records_stats *ret_stats)
{
	*ret_stats = records ? records->stats : (struct container_records_stats){ 0 };
}
