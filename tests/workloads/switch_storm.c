// SPDX-License-Identifier: Apache-2.0
// A storm of context switches on demand: SIGUSR1 starts pairs of processes that throw a byte
// back and forth through pipes as fast as they can, SIGUSR2 ends them. It exits after
// LIFE_SECONDS, even without its parent.
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIRS = 2, LIFE_SECONDS = 120 };

static void stay_on(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu % (int)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus); // may not be allowed: then it storms less
}

static void throw_back_and_forth(int in, int out, int begins)
{
	char byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (begins && write(out, &byte, 1) != 1)
		_exit(1);
	while (read(in, &byte, 1) == 1) {
		if (write(out, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static pid_t start_player(int cpu, int in, int out, int begins)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		stay_on(cpu);
		throw_back_and_forth(in, out, begins);
	}
	return pid;
}

static void start_pair(int cpu, pid_t players[2])
{
	int there[2], back[2];

	if (pipe(there) || pipe(back)) {
		perror("pipe");
		exit(1);
	}
	players[0] = start_player(cpu, there[0], back[1], 0);
	players[1] = start_player(cpu, back[0], there[1], 1);
	close(there[0]);
	close(there[1]);
	close(back[0]);
	close(back[1]);
}

int main(void)
{
	pid_t players[2 * PAIRS] = { 0 };
	sigset_t signals;
	int signal_number;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LIFE_SECONDS);
	while (sigwait(&signals, &signal_number) == 0) {
		for (int i = 0; i < 2 * PAIRS && players[i]; i++) {
			kill(players[i], SIGKILL);
			waitpid(players[i], NULL, 0);
			players[i] = 0;
		}
		for (int i = 0; i < PAIRS && signal_number == SIGUSR1; i++)
			start_pair(i, &players[2 * i]);
	}
	return 0;
}
