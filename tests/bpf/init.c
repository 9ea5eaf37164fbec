// SPDX-License-Identifier: Apache-2.0
// The first process on an emulated machine: runs each program in /tests, says how it exited, and
// switches the machine off. Built and packed by on-kernel.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(const char *name)
{
	char path[300];
	int status;

	snprintf(path, sizeof(path), "/tests/%s", name);
	pid_t pid = fork();
	if (pid == 0) {
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	printf("# %s exited %d\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : 128);
	fflush(stdout);
}

int main(void)
{
	struct utsname system;
	struct dirent **names;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	uname(&system);
	printf("# on %s\n", system.release);
	fflush(stdout);

	int count = scandir("/tests", &names, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		if (names[i]->d_name[0] != '.')
			run(names[i]->d_name);
	}
	reboot(RB_POWER_OFF);
	return 1;
}
