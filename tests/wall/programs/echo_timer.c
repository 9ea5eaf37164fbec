// SPDX-License-Identifier: Apache-2.0
// Waits for a timer and for an echo in turns, with the same call on the same number from the same place,
// at two places of the kernel: echo_timer SECONDS. Prints how many waits that were.

#include "tests/wall/programs/story.h"

#include <sys/timerfd.h>

#define WAIT_NS 3000000

/* Sends a byte back a while after each that it gets. */
static void play_late_echo(int in, int out)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(in, &byte, 1) == 1) {
		sleep_ns(WAIT_NS);
		if (write(out, &byte, 1) != 1)
			break;
	}
	_exit(1);
}

static void check(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const struct itimerspec once = { .it_value.tv_nsec = WAIT_NS };
	uint64_t end_ns = now_ns() + (argc > 1 ? atoi(argv[1]) : 1) * 1000000000ULL;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0), fd = 100;
	int asked[2], echo[2];
	unsigned long turn = 0;
	char bytes[8];

	check(timer >= 0 && !pipe(asked) && !pipe(echo), "echo_timer");
	if (fork() == 0)
		play_late_echo(asked[0], echo[1]);
	for (; now_ns() < end_ns; turn++) {
		check(turn % 2 ? write(asked[1], "", 1) == 1
			       : !timerfd_settime(timer, 0, &once, NULL),
		      "ask");
		check(dup2(turn % 2 ? echo[0] : timer, fd) == fd, "dup2");
		check(read(fd, bytes, sizeof(bytes)) > 0, "read");
	}
	printf("{\"waits\": %lu}\n", turn);
	return 0;
}
