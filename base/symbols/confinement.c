// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/confinement.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static void set_limit(int resource, rlim_t limit)
{
	const struct rlimit both = { limit, limit };

	setrlimit(resource, &both);
}

static void set_limits(const struct confinement *limits)
{
	if (limits->cpu_seconds)
		set_limit(RLIMIT_CPU, limits->cpu_seconds);
	set_limit(RLIMIT_CORE, 0);
	set_limit(RLIMIT_FSIZE, 0);
	set_limit(RLIMIT_NPROC, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(CAIRN_SANITIZED)
	set_limit(RLIMIT_DATA, limits->memory_bytes);
#endif
}

static void drop_privileges(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		signal(signal_number, SIG_DFL);
	if (geteuid() == 0 &&
	    (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); // which the change of user takes back
	prctl(PR_SET_DUMPABLE, 0);
}

/* Move them to the lowest numbers and close all else. */
static void keep_files(int *const *files, uint32_t count)
{
	// First out of the way of each other, then down.
	for (uint32_t i = 0; i < count; i++)
		if (*files[i] >= 0)
			*files[i] = fcntl(*files[i], F_DUPFD, (int)count);
	for (uint32_t i = 0; i < count; i++) {
		if (*files[i] >= 0) {
			dup2(*files[i], (int)i);
			*files[i] = (int)i;
		} else {
			close((int)i);
		}
	}
	close_range(count, ~0U, 0);
	// Nothing can be opened from here on.
	set_limit(RLIMIT_NOFILE, 0);
}

void confine_process(const struct confinement *limits, int *const *files, uint32_t count)
{
	set_limits(limits);
	drop_privileges();
	keep_files(files, count);
}
