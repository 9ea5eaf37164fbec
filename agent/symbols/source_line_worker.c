// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/source_line_worker.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/symbols/dwarf_lines.h"
#include "base/symbols/source_line_message.h"
#include "agent/elf/elf.h"
#include "agent/elf/go_pclntab.h"

enum {
	READ_BYTES = 64 << 10,
	WORKER_NICE = 10,
	END_MS = 2000, // from the last answer to the end of the process
};

/* Its files. */
enum { FILE_CODE, FILE_DEBUG, FILE_ALT, FILE_SOCKET, FILE_COUNT };

/* ---- in the worker ------------------------------------------------------------------------- */

static int write_all(int fd, const struct buffer *message)
{
	for (size_t at = 0; at < message->size;) {
		ssize_t count = write(fd, message->bytes + at, message->size - at);

		if (count < 0)
			return -errno;
		at += (size_t)count;
	}
	return 0;
}

struct serving {
	uint64_t offsets[LINE_WORKER_OFFSETS_MAX];
	uint32_t count;
	struct elf elf;
	struct dwarf_lines *dwarf;
	struct go_pclntab *go;
	struct buffer message;
};

/* The segment of the code at @offset; NULL: not code. */
static const Elf64_Phdr *find_segment(const struct elf *elf, uint64_t offset)
{
	for (uint32_t i = 0; i < elf->load_count; i++) {
		const Elf64_Phdr *load = &elf->loads[i];

		if ((load->p_flags & PF_X) && offset >= load->p_offset &&
		    offset - load->p_offset < load->p_filesz)
			return load;
	}
	return NULL;
}

static int serve_one(struct serving *serving, uint32_t index, int out)
{
	uint64_t offset = serving->offsets[index];
	const Elf64_Phdr *segment = find_segment(&serving->elf, offset);
	struct buffer *message = &serving->message;
	struct dwarf_position place;
	char file[GO_FILE_BYTES];
	uint32_t number;

	if (!segment)
		return 0;
	uint64_t address = offset - segment->p_offset + segment->p_vaddr;
	buffer_clear(message);
	if (serving->dwarf && dwarf_lines_find(serving->dwarf, address, &place) == 0) {
		uint64_t start_offset = offset;

		if (address - place.start <= offset - segment->p_offset)
			start_offset -= address - place.start;
		source_line_message_begin(message, index, start_offset, place.count);
		source_line_message_add_dwarf(message, &place);
	} else if (serving->go && go_pclntab_find_line(serving->go, address, file, &number) == 0) {
		source_line_message_begin(message, index, offset, 1);
		source_line_message_add(message, "", file, number);
	}
	return message->rc ? message->rc : write_all(out, message);
}

/* Until the agent has sent all. */
static int read_offsets(struct serving *serving, int socket)
{
	size_t size = 0;
	ssize_t count;

	while ((count = read(socket, (uint8_t *)serving->offsets + size,
			     sizeof(serving->offsets) - size)) > 0)
		size += (size_t)count;
	serving->count = (uint32_t)(size / sizeof(serving->offsets[0]));
	return count < 0 ? -errno : 0;
}

static int serve(const int *files)
{
	static struct serving serving;
	struct stat status;

	if (read_offsets(&serving, files[FILE_SOCKET]) || fstat(files[FILE_CODE], &status) ||
	    elf_read_headers(files[FILE_CODE], &status, &serving.elf, NULL))
		return 1;
	dwarf_lines_open(files[FILE_DEBUG] >= 0 ? files[FILE_DEBUG] : files[FILE_CODE],
			 files[FILE_ALT], &serving.dwarf);
	if (!serving.dwarf)
		go_pclntab_open(&serving.elf, &serving.go);
	for (uint32_t i = 0; (serving.dwarf || serving.go) && i < serving.count; i++)
		if (serve_one(&serving, i, files[FILE_SOCKET]))
			return 1;
	return 0;
}

const struct confined_task source_line_task = {
	"source lines",
	{ .memory_bytes = LINE_WORKER_MEMORY_BYTES,
	  .cpu_seconds = LINE_WORKER_SECONDS,
	  .nice = WORKER_NICE },
	serve,
};

/* ---- in the agent -------------------------------------------------------------------------- */

struct answers {
	const struct line_request *request;
	source_lines_fn fn;
	void *context;
	uint8_t bytes[SOURCE_LINE_MESSAGE_BYTES_MAX + READ_BYTES]; // read and not yet parsed
	size_t size;
	struct source_line_message message;
};

/* Parse the first message. Returns its size; 0: not complete yet; -EBADMSG. */
static ssize_t parse_message(struct answers *answers, const uint8_t *from, const uint8_t *end)
{
	const struct source_line_message *message = &answers->message;
	ssize_t size = source_line_message_read(from, (size_t)(end - from), &answers->message);

	if (size <= 0)
		return size;
	// Answers are as hostile as the file that the worker read.
	if (message->index >= answers->request->count || !message->place.count ||
	    message->place.start_offset > answers->request->offsets[message->index])
		return -EBADMSG;
	answers->fn(answers->context, message->index, &message->place);
	return size;
}

static int parse_messages(struct answers *answers)
{
	const uint8_t *at = answers->bytes, *end = at + answers->size;
	ssize_t size = 0;

	while (at < end && (size = parse_message(answers, at, end)) > 0)
		at += size;
	if (size < 0)
		return (int)size;
	size_t left = (size_t)(end - at);
	if (left > SOURCE_LINE_MESSAGE_BYTES_MAX)
		return -EBADMSG;
	memmove(answers->bytes, at, left);
	answers->size = left;
	return 0;
}

/* Returns 0 when the worker has closed its end; -ETIME; -EBADMSG; -errno. */
static int read_answers(int fd, struct answers *answers)
{
	uint64_t until_ns = clock_monotonic_ns() + LINE_WORKER_SECONDS * NS_PER_SECOND;
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now_ns = clock_monotonic_ns();

		if (now_ns >= until_ns)
			return -ETIME;
		int rc = poll(&wait, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
		if (rc < 0 && errno != EINTR)
			return -errno;
		if (rc <= 0)
			continue;
		ssize_t count = read(fd, answers->bytes + answers->size, READ_BYTES);
		if (count < 0 && errno != EINTR)
			return -errno;
		if (count == 0)
			return 0;
		answers->size += count < 0 ? 0 : (size_t)count;
		rc = parse_messages(answers);
		if (rc)
			return rc;
	}
}

/* Returns 0 when the worker has the offsets; -errno. */
static int send_offsets(int socket, const struct line_request *request)
{
	const uint8_t *bytes = (const uint8_t *)request->offsets;
	size_t size = request->count * sizeof(request->offsets[0]);

	for (size_t at = 0; at < size;) {
		ssize_t count = send(socket, bytes + at, size - at, MSG_NOSIGNAL);

		if (count < 0)
			return -errno;
		at += (size_t)count;
	}
	return shutdown(socket, SHUT_WR) ? -errno : 0;
}

static int converse(int process, int socket, struct answers *answers, struct error *err)
{
	_cleanup_close_ int owned = process;
	int rc = send_offsets(socket, answers->request);

	// A worker that has died answers no more, and its end says why.
	if (!rc || rc == -EPIPE)
		rc = read_answers(socket, answers);
	if (rc == -ETIME)
		return error_set(err, -EIO, "worker killed: time limit (%d s)",
				 LINE_WORKER_SECONDS);
	if (rc && rc != -ECONNRESET)
		return error_errno(err, rc == -EBADMSG ? -EIO : rc, "worker's answers");
	struct error cause = { 0 };
	rc = confined_process_finish(take_fd(owned), END_MS, &cause);
	return rc ? error_set(err, rc, "worker %.*s", ERROR_TEXT_BYTES - 16, cause.text) : 0;
}

int source_line_worker_run(struct confined_launcher *launcher, const struct line_request *request,
			   source_lines_fn fn, void *context, struct error *err)
{
	_cleanup_free_ struct answers *answers = calloc(1, sizeof(*answers));
	int ends[2], process;

	if (request->count > LINE_WORKER_OFFSETS_MAX)
		return error_set(err, -E2BIG, "%u offsets at once", request->count);
	if (!answers)
		return error_set(err, -ENOMEM, "out of memory");
	answers->request = request;
	answers->fn = fn;
	answers->context = context;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return error_errno(err, -errno, "socketpair");
	_cleanup_close_ int socket = ends[0];
	const int files[FILE_COUNT] = {
		[FILE_CODE] = request->fd,
		[FILE_DEBUG] = request->debug_fd,
		[FILE_ALT] = request->alt_fd,
		[FILE_SOCKET] = ends[1],
	};
	int rc = confined_process_start(launcher, &source_line_task, files, FILE_COUNT, &process,
					err);
	close(ends[1]);
	return rc ? rc : converse(process, socket, answers, err);
}
