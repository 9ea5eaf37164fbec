// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/dwarf_process.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/symbols/dwarf_lines.h"
#include "base/symbols/source_line_message.h"

/* Its files. */
enum { FILE_CODE, FILE_ALT, FILE_SOCKET, FILE_COUNT };

struct dwarf_process {
	int process; // -1: it was ended
	int socket;
	bool is_asked; // an answer is outstanding, of this request:
	uint64_t address, asked_ns;
	uint8_t bytes[SOURCE_LINE_MESSAGE_BYTES_MAX]; // of the answer
	size_t size;
	struct source_line_message answer;
};

/* ---- the process --------------------------------------------------------------------------- */

static int answer(struct dwarf_lines *lines, uint64_t address, int socket, struct buffer *message)
{
	struct dwarf_position position;

	buffer_clear(message);
	if (dwarf_lines_find(lines, address, &position))
		position.count = 0;
	source_line_message_begin(message, 0, 0, position.count);
	source_line_message_add_dwarf(message, &position);
	if (message->rc)
		return message->rc;
	for (size_t at = 0; at < message->size;) {
		ssize_t count = write(socket, message->bytes + at, message->size - at);

		if (count < 0)
			return -errno;
		at += (size_t)count;
	}
	return 0;
}

/* A file without DWARF needs no process. */
static int serve(const int *files)
{
	int socket = files[FILE_SOCKET];
	struct buffer message = { 0 };
	struct dwarf_lines *lines = NULL;
	uint64_t address;
	int rc = dwarf_lines_open(files[FILE_CODE], files[FILE_ALT], &lines);

	while (!rc && read(socket, &address, sizeof(address)) == sizeof(address))
		rc = answer(lines, address, socket, &message);
	return rc != 0;
}

const struct confined_task dwarf_task = {
	"dwarf",
	{ .memory_bytes = DWARF_PROCESS_MEMORY_BYTES },
	serve,
};

/* ---- the collector's side ------------------------------------------------------------------ */

int dwarf_process_open(struct confined_launcher *launcher, int fd, int alt_fd,
		       struct dwarf_process **ret_process, struct error *err)
{
	_cleanup_free_ struct dwarf_process *process = calloc(1, sizeof(*process));
	int ends[2];

	if (!process)
		return error_set(err, -ENOMEM, "out of memory");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return error_errno(err, -errno, "socketpair");
	const int files[FILE_COUNT] = {
		[FILE_CODE] = fd,
		[FILE_ALT] = alt_fd,
		[FILE_SOCKET] = ends[1],
	};
	int rc = confined_process_start(launcher, &dwarf_task, files, FILE_COUNT, &process->process,
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

static void end(struct dwarf_process *process)
{
	if (process->process < 0)
		return;
	close(process->socket);
	close(process->process); // kills it
	process->process = -1;
}

void dwarf_process_close(struct dwarf_process *process)
{
	if (process)
		end(process);
	free(process);
}

static int ask(struct dwarf_process *process, uint64_t address)
{
	if (send(process->socket, &address, sizeof(address), MSG_NOSIGNAL) != sizeof(address))
		return -EIO;
	process->is_asked = true;
	process->address = address;
	process->asked_ns = clock_monotonic_ns();
	process->size = 0;
	return 0;
}

/* Receive part of the answer. Returns 0; -EAGAIN (nothing until @until_ns); -EIO. */
static int receive(struct dwarf_process *process, uint64_t until_ns)
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
static int wait_for_answer(struct dwarf_process *process, uint64_t until_ns)
{
	uint64_t limit_ns = process->asked_ns + DWARF_PROCESS_SECONDS * NS_PER_SECOND;
	ssize_t size;
	int rc = 0;

	while ((size = source_line_message_read(process->bytes, process->size, &process->answer)) ==
		       0 &&
	       !rc)
		rc = receive(process, until_ns < limit_ns ? until_ns : limit_ns);
	if (size > 0) {
		process->is_asked = false;
		return (size_t)size == process->size ? 0 : -EIO;
	}
	return size < 0 || clock_monotonic_ns() >= limit_ns ? -EIO : rc;
}

/* The outstanding answer, too late for an earlier query, may be of the same address. */
static int find(struct dwarf_process *process, uint64_t address, uint64_t until_ns)
{
	bool was_asked = process->is_asked && process->address == address;
	int rc = process->is_asked ? wait_for_answer(process, until_ns) : 0;

	if (!rc && !was_asked)
		rc = ask(process, address);
	if (!rc && !was_asked)
		rc = wait_for_answer(process, until_ns);
	return rc;
}

int dwarf_process_find(struct dwarf_process *process, uint64_t address, uint64_t budget_ns,
		       const struct source_lines **ret_lines)
{
	if (process->process < 0)
		return -ENOENT;
	int rc = find(process, address, clock_monotonic_ns() + budget_ns);
	if (rc == -EIO)
		end(process);
	if (rc == -EAGAIN)
		return rc;
	if (rc || !process->answer.place.count)
		return -ENOENT;
	*ret_lines = &process->answer.place;
	return 0;
}
