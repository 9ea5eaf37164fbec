// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/file_process.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/symbols/source_line_message.h"
#include "base/time_span.h"

enum { END_MS = 100 }; // of a process that has closed its socket

struct file_process {
	int process; // -1: it was ended
	int socket;
	bool is_asked; // an answer is outstanding, of this request:
	bool has_answered;
	uint64_t key, asked_ns;
	uint8_t bytes[SOURCE_LINE_MESSAGE_BYTES_MAX]; // of the answer
	size_t size;
	struct source_line_message answer;
};

int file_process_open(struct confined_launcher *launcher, const struct confined_task *task, int fd,
		      int alt_fd, struct file_process **ret_process, struct error *err)
{
	_cleanup_free_ struct file_process *process = calloc(1, sizeof(*process));
	int ends[2];

	if (!process)
		return error_set(err, -ENOMEM, "out of memory");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return error_errno(err, -errno, "socketpair");
	const int files[FILE_TASK_FILES] = {
		[FILE_TASK_FILE] = fd,
		[FILE_TASK_ALT] = alt_fd,
		[FILE_TASK_SOCKET] = ends[1],
	};
	int rc = confined_process_start(launcher, task, files, FILE_TASK_FILES, &process->process,
					err);
	close(ends[1]);
	if (rc) {
		close(ends[0]);
		return rc;
	}
	process->socket = ends[0];
	*ret_process = take(process);
	return 0;
}

static void end(struct file_process *process)
{
	if (process->process < 0)
		return;
	close(process->socket);
	close(process->process); // kills it
	process->process = -1;
}

/* Always -EIO. */
static int end_with_cause(struct file_process *process, struct error *err)
{
	if (confined_process_finish(take_fd(process->process), END_MS, err) == 0)
		error_set(err, -EIO, "its answers were malformed");
	close(process->socket);
	return -EIO;
}

void file_process_close(struct file_process *process)
{
	if (process)
		end(process);
	free(process);
}

static int ask(struct file_process *process, uint64_t key)
{
	if (send(process->socket, &key, sizeof(key), MSG_NOSIGNAL) != sizeof(key))
		return -EIO;
	process->is_asked = true;
	process->key = key;
	process->asked_ns = clock_monotonic_ns();
	process->size = 0;
	return 0;
}

/* Receive part of the answer. Returns 0; -EAGAIN (nothing until @until_ns); -EIO. */
static int receive(struct file_process *process, uint64_t until_ns)
{
	struct pollfd wait = { .fd = process->socket, .events = POLLIN };
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns >= until_ns)
		return -EAGAIN;
	int rc = poll(&wait, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
	if (rc <= 0)
		return rc < 0 && errno != EINTR ? -EIO : 0;
	ssize_t count = read(process->socket, process->bytes + process->size,
			     sizeof(process->bytes) - process->size);
	if (count <= 0)
		return -EIO;
	process->size += (size_t)count;
	return 0;
}

/* Returns 0; -EAGAIN (no answer until @until_ns); -EIO (there will be none). */
static int wait_for_answer(struct file_process *process, uint64_t until_ns)
{
	uint64_t seconds =
		process->has_answered ? FILE_PROCESS_SECONDS : FILE_PROCESS_FIRST_SECONDS;
	uint64_t limit_ns = process->asked_ns + seconds * NS_PER_SECOND;
	ssize_t size;
	int rc = 0;

	while ((size = source_line_message_read(process->bytes, process->size, &process->answer)) ==
		       0 &&
	       !rc)
		rc = receive(process, until_ns < limit_ns ? until_ns : limit_ns);
	if (size > 0) {
		process->is_asked = false;
		process->has_answered = true;
		return (size_t)size == process->size ? 0 : -EIO;
	}
	return size < 0 || clock_monotonic_ns() >= limit_ns ? -EIO : rc;
}

/* The outstanding answer, too late for an earlier query, may be of the same address. */
static int find(struct file_process *process, uint64_t key, uint64_t until_ns)
{
	bool was_asked = process->is_asked && process->key == key;
	int rc = process->is_asked ? wait_for_answer(process, until_ns) : 0;

	if (!rc && !was_asked)
		rc = ask(process, key);
	if (!rc && !was_asked)
		rc = wait_for_answer(process, until_ns);
	return rc;
}

int file_process_find(struct file_process *process, uint64_t key, uint64_t until_ns,
		      const struct source_lines **ret_lines, struct error *err)
{
	if (process->process < 0)
		return -ENOENT;
	int rc = find(process, key, until_ns);
	if (rc == -EIO)
		return end_with_cause(process, err);
	if (rc == -EAGAIN)
		return rc;
	if (rc || !process->answer.place.count)
		return -ENOENT;
	*ret_lines = &process->answer.place;
	return 0;
}
