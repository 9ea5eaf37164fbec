// SPDX-License-Identifier: Apache-2.0
#include "line_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/demangle.h"
#include "base/dwarf_lines.h"
#include "elf.h"
#include "go_pclntab.h"

/* What the helper writes for each place: this, and for each line its head and two texts. */
struct place_head {
	uint64_t start_offset;
	uint32_t index;
	uint32_t count;
};

struct line_head {
	uint32_t number;
	uint16_t name_size, file_size;
};

enum {
	READ_BYTES = 64 << 10,
	PLACE_BYTES_MAX =
		(int)(sizeof(struct place_head) +
		      SOURCE_LINES_MAX * (sizeof(struct line_head) + 2 * SOURCE_NAME_BYTES)),
	NOBODY = 65534,
};

_Static_assert(SOURCE_LINES_MAX == DWARF_INLINED_MAX + 1, "all that DWARF gives is taken");

/* ---- in the helper ------------------------------------------------------------------------- */

static void set_limit(int resource, rlim_t limit)
{
	const struct rlimit both = { limit, limit };

	setrlimit(resource, &both);
}

/* Nothing but reading what it was given: no files, no children, no privileges, no core. */
static void confine(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	set_limit(RLIMIT_CPU, LINE_HELPER_SECONDS);
	set_limit(RLIMIT_CORE, 0);
	set_limit(RLIMIT_FSIZE, 0);
	set_limit(RLIMIT_NPROC, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(CAIRN_SANITIZED)
	set_limit(RLIMIT_DATA, LINE_HELPER_MEMORY_BYTES);
#endif
	setpriority(PRIO_PROCESS, 0, 10);
	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		signal(signal_number, SIG_DFL);
	if (geteuid() == 0 &&
	    (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); // which the change of user takes back
	prctl(PR_SET_DUMPABLE, 0);
}

/* Move what it needs to the lowest numbers and close all else. */
static void keep_files(struct line_request *request, int *out)
{
	int *const files[] = { &request->fd, &request->debug_fd, &request->alt_fd, out };

	// First out of the way of each other, then down.
	for (int i = 0; i < (int)ARRAY_SIZE(files); i++)
		if (*files[i] >= 0)
			*files[i] = fcntl(*files[i], F_DUPFD, ARRAY_SIZE(files));
	for (int i = 0; i < (int)ARRAY_SIZE(files); i++) {
		if (*files[i] >= 0) {
			dup2(*files[i], i);
			*files[i] = i;
		} else {
			close(i);
		}
	}
	close_range(ARRAY_SIZE(files), ~0U, 0);
	// Nothing can be opened from here on.
	set_limit(RLIMIT_NOFILE, 0);
}

static size_t cut(size_t size)
{
	return size < SOURCE_NAME_BYTES ? size : SOURCE_NAME_BYTES - 1;
}

static void add_line(struct buffer *message, const char *name, const char *file, uint32_t number)
{
	const struct line_head head = { .number = number,
					.name_size = (uint16_t)cut(strlen(name)),
					.file_size = (uint16_t)cut(strlen(file)) };

	buffer_append(message, &head, sizeof(head));
	buffer_append(message, name, head.name_size);
	buffer_append(message, file, head.file_size);
}

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

/* One request as it is served. */
struct serving {
	const struct line_request *request;
	struct elf elf;
	struct dwarf_lines *dwarf;
	struct go_pclntab *go;
	struct buffer message;
	char name[DEMANGLED_BYTES_MAX];
};

/* Where the code at @offset is in memory. NULL: it is no code. */
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

static void add_dwarf(struct serving *serving, const struct dwarf_place *place)
{
	for (uint32_t i = 0; i < place->count; i++) {
		const struct dwarf_line *line = &place->lines[i];

		serving->name[0] = '\0';
		if (line->name)
			demangle(line->name, serving->name);
		add_line(&serving->message, serving->name, line->file ? line->file : "",
			 line->number);
	}
}

static int serve_one(struct serving *serving, uint32_t index, int out)
{
	uint64_t offset = serving->request->offsets[index];
	const Elf64_Phdr *segment = find_segment(&serving->elf, offset);
	struct place_head head = { .start_offset = offset, .index = index, .count = 1 };
	struct dwarf_place place;
	char file[GO_FILE_BYTES];
	uint32_t number;

	if (!segment)
		return 0;
	uint64_t address = offset - segment->p_offset + segment->p_vaddr;
	buffer_clear(&serving->message);
	if (serving->dwarf && dwarf_lines_find(serving->dwarf, address, &place) == 0) {
		if (address - place.start <= offset - segment->p_offset)
			head.start_offset = offset - (address - place.start);
		head.count = place.count;
		buffer_append(&serving->message, &head, sizeof(head));
		add_dwarf(serving, &place);
	} else if (serving->go && go_pclntab_find_line(serving->go, address, file, &number) == 0) {
		buffer_append(&serving->message, &head, sizeof(head));
		add_line(&serving->message, "", file, number);
	}
	return serving->message.rc ? serving->message.rc : write_all(out, &serving->message);
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

static void run_helper(const struct line_request *request, int out)
{
	struct line_request own = *request;

	confine();
	keep_files(&own, &out);
	_exit(serve(&own, out)); // memory goes with the process
}

/* ---- in the agent -------------------------------------------------------------------------- */

/* The text at @at, copied and ended. False: it does not lie in the message. */
static bool take_text(const uint8_t **at, const uint8_t *end, size_t size,
		      char ret_text[SOURCE_NAME_BYTES])
{
	if (size >= SOURCE_NAME_BYTES || size > (size_t)(end - *at))
		return false;
	memcpy(ret_text, *at, size);
	ret_text[size] = '\0';
	*at += size;
	return true;
}

struct answers {
	const struct line_request *request;
	line_place_fn fn;
	void *context;
	uint8_t bytes[PLACE_BYTES_MAX + READ_BYTES]; // read and not yet taken
	size_t size;
	struct source_place place;
	char texts[SOURCE_LINES_MAX][2][SOURCE_NAME_BYTES];
};

/* Returns the bytes of the first place; 0: not all of it is there; -EBADMSG. */
static ssize_t take_place(struct answers *answers, const uint8_t *from, const uint8_t *end)
{
	struct source_place *place = &answers->place;
	const uint8_t *at = from;
	struct place_head head;

	if ((size_t)(end - at) < sizeof(head))
		return 0;
	memcpy(&head, at, sizeof(head));
	at += sizeof(head);
	// The helper's word is as good as the file's that it read.
	if (head.index >= answers->request->count || !head.count || head.count > SOURCE_LINES_MAX ||
	    head.start_offset > answers->request->offsets[head.index])
		return -EBADMSG;
	place->start_offset = head.start_offset;
	place->count = head.count;
	for (uint32_t i = 0; i < head.count; i++) {
		struct line_head line;

		if ((size_t)(end - at) < sizeof(line))
			return 0;
		memcpy(&line, at, sizeof(line));
		at += sizeof(line);
		if (!take_text(&at, end, line.name_size, answers->texts[i][0]) ||
		    !take_text(&at, end, line.file_size, answers->texts[i][1]))
			return line.name_size < SOURCE_NAME_BYTES &&
					       line.file_size < SOURCE_NAME_BYTES
				       ? 0
				       : -EBADMSG;
		place->lines[i] = (struct source_line){ .name = answers->texts[i][0],
							.file = answers->texts[i][1],
							.number = line.number };
	}
	answers->fn(answers->context, head.index, place);
	return at - from;
}

static int take_places(struct answers *answers)
{
	const uint8_t *at = answers->bytes, *end = at + answers->size;
	ssize_t size = 0;

	while (at < end && (size = take_place(answers, at, end)) > 0)
		at += size;
	if (size < 0)
		return (int)size;
	size_t left = (size_t)(end - at);
	if (left > PLACE_BYTES_MAX)
		return -EBADMSG;
	memmove(answers->bytes, at, left);
	answers->size = left;
	return 0;
}

/* Returns 0 when the helper has closed its end; -ETIME; -EBADMSG; -errno. */
static int read_answers(int fd, struct answers *answers)
{
	uint64_t until_ns = clock_monotonic_ns() + LINE_HELPER_SECONDS * NS_PER_SECOND;
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
		rc = take_places(answers);
		if (rc)
			return rc;
	}
}

static int end_helper(pid_t pid, int rc, struct error *err)
{
	int status = 0;

	if (rc)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == -ETIME)
		return error_set(err, -EIO, "it took longer than %d s", LINE_HELPER_SECONDS);
	if (rc)
		return error_errno(err, rc == -EBADMSG ? -EIO : rc, "its answers");
	if (WIFSIGNALED(status))
		return error_set(err, -EIO, "it ended by signal %d (%s)", WTERMSIG(status),
				 strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status))
		return error_set(err, -EIO, "it could not read the file");
	return 0;
}

int line_helper_ask(const struct line_request *request, line_place_fn fn, void *context,
		    struct error *err)
{
	_cleanup_free_ struct answers *answers = calloc(1, sizeof(*answers));
	int ends[2];

	if (request->count > LINE_HELPER_OFFSETS_MAX)
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
		run_helper(request, ends[1]);
	close(ends[1]);
	int rc = pid < 0 ? error_errno(err, -errno, "fork")
			 : end_helper(pid, read_answers(ends[0], answers), err);
	close(ends[0]);
	return rc;
}
