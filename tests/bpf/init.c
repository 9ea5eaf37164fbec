// SPDX-License-Identifier: Apache-2.0
// The first process on an emulated machine: runs each line of /jobs as a program with arguments,
// says how it exited, and switches the machine off. Built and packed by machine.py.
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 64, LINE_BYTES = 4096, JOB_SECONDS = 600, DISK_MS = 10000 };

static void run(char *line)
{
	char *words[WORDS_MAX + 1] = { NULL };
	int count = 0, status = 0;

	for (char *word = strtok(line, " \n"); word && count < WORDS_MAX;
	     word = strtok(NULL, " \n"))
		words[count++] = word;
	if (!count)
		return;
	printf("# begin %s\n", words[0]);
	fflush(stdout);
	// The last word may be ">FILE", for what the program prints.
	const char *file = words[count - 1][0] == '>' ? words[count - 1] + 1 : NULL;
	if (file)
		words[--count] = NULL;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(JOB_SECONDS);
		if (file && !freopen(file, "w", stdout))
			_exit(126);
		execv(words[0], words);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	printf("# exited %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128);
	fflush(stdout);
}

// Version 2, with quotas and limits: this machine may have version 1 only.
static void mount_control_groups(void)
{
	FILE *control;

	mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	control = fopen("/sys/fs/cgroup/cgroup.subtree_control", "w");
	if (!control)
		return;
	fputs("+cpu +memory", control);
	fclose(control);
}

// What is in the initramfs stays in memory, whatever a test does: /tmp is on a disk. It may come up late.
static void mount_disk(void)
{
	for (int ms = 0; ms < DISK_MS; ms++) {
		if (!mount("/dev/nvme0n1", "/tmp", "ext4", 0, NULL))
			return;
		usleep(1000);
	}
	printf("# no disk at /tmp\n");
}

static void start_loopback(void)
{
	struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ioctl(fd, SIOCSIFFLAGS, &loopback);
	close(fd);
}

int main(void)
{
	struct utsname system;
	char line[LINE_BYTES];
	FILE *jobs = fopen("/jobs", "r");

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	mount_disk();
	mount_control_groups();
	start_loopback();
	uname(&system);
	setenv("PATH", "/bin:/usr/bin", true);
	setenv("UNIT_SLOWER", "20", true); // tests/test.h
	printf("# on %s\n", system.release);
	fflush(stdout);
	while (jobs && fgets(line, sizeof(line), jobs))
		run(line);
	reboot(RB_POWER_OFF);
	return 1;
}
