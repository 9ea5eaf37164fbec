// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/elf_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Its files. */
enum { FILE_ELF, FILE_REPORT, FILE_COUNT };

_Static_assert(sizeof(struct elf_report) <= PIPE_BUF, "a report is written at once");

/* In the process. */
static int look(const int *files)
{
	struct elf_report report = { 0 };
	struct debug_elf *elf = NULL;

	report.err.code = debug_elf_open(files[FILE_ELF], &elf, &report.err);
	if (!report.err.code) {
		if (debug_elf_build_id(elf, report.build_id))
			report.build_id[0] = '\0';
		report.has_symbols = debug_elf_has_symbols(elf);
	}
	return write(files[FILE_REPORT], &report, sizeof(report)) != sizeof(report);
}

const struct confined_task elf_task = {
	"elf",
	{ .memory_bytes = ELF_PROCESS_MEMORY_BYTES, .cpu_seconds = ELF_PROCESS_MS_MAX / 1000 },
	look,
};

int elf_process_look(struct confined_launcher *launcher, int fd, struct elf_report *ret_report,
		     struct error *err)
{
	struct elf_report report;
	int ends[2], process;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return error_errno(err, -errno, "pipe");
	_cleanup_close_ int read_end = ends[0], write_end = ends[1];
	const int files[FILE_COUNT] = { [FILE_ELF] = fd, [FILE_REPORT] = write_end };
	int rc = confined_process_start(launcher, &elf_task, files, FILE_COUNT, &process, err);
	if (rc == 0)
		rc = confined_process_finish(process, ELF_PROCESS_MS_MAX, err);
	if (rc < 0)
		return rc;
	if (read(read_end, &report, sizeof(report)) != sizeof(report))
		return error_set(err, -EIO, "the process that reads the file left no report");
	// The process may have been taken over: its texts end where they must.
	report.err.text[sizeof(report.err.text) - 1] = '\0';
	report.build_id[sizeof(report.build_id) - 1] = '\0';
	*ret_report = report;
	return 0;
}
