// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/source_line_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/symbols/confinement.h"
#include "base/symbols/dwarf_lines.h"
#include "base/symbols/source_line_message.h"
#include "agent/elf/elf.h"
#include "agent/elf/go_pclntab.h"

enum { READ_BYTES = 64 << 10 };

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
	const struct line_request *request;
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
	uint64_t offset = serving->request->offsets[index];
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

static int serve(const struct line_request *request, int out)
{
	static struct serving serving;
	struct stat status;

	serving.request = request;
	if (fstat(request->fd, &status) ||
	    elf_read_headers(request->fd, &status, &serving.elf, NULL))
		return 1;
	dwarf_lines_open(request->debug_fd >= 0 ? request->debug_fd : request->fd, request->alt_fd,
			 &serving.dwarf);
	if (!serving.dwarf)
		go_pclntab_open(&serving.elf, &serving.go);
	for (uint32_t i = 0; (serving.dwarf || serving.go) && i < request->count; i++)
		if (serve_one(&serving, i, out))
			return 1;
	return 0;
}

static void run_worker(const struct line_request *request, int out)
{
	const struct confinement limits = { .memory_bytes = LINE_WORKER_MEMORY_BYTES,
					    .cpu_seconds = LINE_WORKER_SECONDS };
	struct line_request own = *request;
	int *const files[] = { &own.fd, &own.debug_fd, &own.alt_fd, &out };

	setpriority(PRIO_PROCESS, 0, 10);
	confine_process(&limits, files, ARRAY_SIZE(files));
	_exit(serve(&own, out)); // frees its memory, too
}

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

static int end_worker(pid_t pid, int rc, struct error *err)
{
	int status = 0;

	if (rc)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == -ETIME)
		return error_set(err, -EIO, "worker killed: time limit (%d s)",
				 LINE_WORKER_SECONDS);
	if (rc)
		return error_errno(err, rc == -EBADMSG ? -EIO : rc, "worker's answers");
	if (WIFSIGNALED(status))
		return error_set(err, -EIO, "worker ended by signal %d (%s)", WTERMSIG(status),
				 strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status))
		return error_set(err, -EIO, "worker failed to read the file");
	return 0;
}

int source_line_worker_run(const struct line_request *request, source_lines_fn fn, void *context,
			   struct error *err)
{
	_cleanup_free_ struct answers *answers = calloc(1, sizeof(*answers));
	int ends[2];

	if (request->count > LINE_WORKER_OFFSETS_MAX)
		return error_set(err, -E2BIG, "%u offsets at once", request->count);
	if (!answers)
		return error_set(err, -ENOMEM, "out of memory");
	answers->request = request;
	answers->fn = fn;
	answers->context = context;
	if (pipe2(ends, O_CLOEXEC))
		return error_errno(err, -errno, "pipe");
	pid_t pid = fork();
	if (pid == 0)
		run_worker(request, ends[1]);
	close(ends[1]);
	int rc = pid < 0 ? error_errno(err, -errno, "fork")
			 : end_worker(pid, read_answers(ends[0], answers), err);
	close(ends[0]);
	return rc;
}
