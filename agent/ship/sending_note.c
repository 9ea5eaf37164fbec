// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/sending_note.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache_folder.h"
#include "base/cleanup.h"

/* Of the file. A torn one names another batch, or none. */
struct entry {
	uint64_t number;
	uint64_t starts;
};

void sending_note_open(int folder, struct sending_note *ret_note)
{
	struct entry entry = { 0 };
	struct stat status;
	_cleanup_close_ int fd =
		openat(folder, SENDING_NOTE_NAME,
		       O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	*ret_note = (struct sending_note){ .fd = -1 };
	if (fd < 0 || fstat(fd, &status) || !cache_file_is_ours(&status))
		return;
	if (pread(fd, &entry, sizeof(entry), 0) == sizeof(entry) && entry.number)
		*ret_note =
			(struct sending_note){ .number = entry.number, .starts = entry.starts + 1 };
	ret_note->fd = take_fd(fd);
}

bool sending_note_is_suspect(const struct sending_note *note, uint64_t number)
{
	return number == note->number && note->starts >= SENDING_STARTS_MAX;
}

void sending_note_write(struct sending_note *note, uint64_t number)
{
	const struct entry entry = { number, number == note->number ? note->starts : 0 };

	if (note->fd >= 0)
		(void)!pwrite(note->fd, &entry, sizeof(entry), 0);
}

void sending_note_close(struct sending_note *note)
{
	if (note->fd >= 0)
		close(note->fd);
	note->fd = -1;
}
