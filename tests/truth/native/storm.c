// SPDX-License-Identifier: Apache-2.0
// Starts short processes at a rate, and waits for each: storm [--seconds S] [--rate N] PROGRAM
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

int main(int argc, char **argv)
{
	double seconds = 5, rate = 170;
	char *words[] = { argv[argc - 1], NULL };
	struct timespec pause = { 0, 0 };
	int status;
	pid_t pid;

	for (int i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], "--seconds"))
			seconds = atof(argv[i + 1]);
		if (!strcmp(argv[i], "--rate"))
			rate = atof(argv[i + 1]);
	}
	pause.tv_nsec = (long)(1e9 / rate / 2);
	for (int i = 0; i < (int)(seconds * rate); i++) {
		if (posix_spawn(&pid, words[0], NULL, NULL, words, environ))
			return 1;
		waitpid(pid, &status, 0);
		nanosleep(&pause, NULL);
	}
	printf("started %d\n", (int)(seconds * rate));
	return 0;
}
