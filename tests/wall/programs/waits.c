// SPDX-License-Identifier: Apache-2.0
// Threads that each wait in one function for one kind of thing, as long as others decide.
//
//     waits --seconds 10 [--file PATH] [--only thread,thread]
//
// Without --file, of 64 MiB, nothing waits for the disk.

#include "tests/wall/programs/story.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MS 1000000ULL

enum { DISK_BLOCK = 16384, BURST = 100 };

static uint64_t end_ns;
static const char *file_path;
static const char *only;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t condition_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static unsigned long condition_turns;
static int ping[2], pong[2], silent[2], epoll_pipe[2];
static int connection[2], listener;

static bool is_over(void)
{
	return now_ns() >= end_ns;
}

// ---- locks ----------------------------------------------------------------------------------

static NOINLINE void hold_the_lock(uint64_t ns)
{
	sleep_ns(ns);
	AFTERWARDS();
}

static void play_holder(struct story *story)
{
	uint64_t seed = 1;

	while (!is_over()) {
		pthread_mutex_lock(&mutex);
		wait_begin(story);
		hold_the_lock(random_between(&seed, 2 * MS, 20 * MS));
		wait_end(story);
		pthread_mutex_unlock(&mutex);
		usleep(500); // in which the waiter takes it
	}
}

static NOINLINE void wait_for_lock(void)
{
	pthread_mutex_lock(&mutex);
	AFTERWARDS();
}

static void play_lock(struct story *story)
{
	while (!is_over()) {
		wait_begin(story);
		wait_for_lock();
		wait_end(story);
		pthread_mutex_unlock(&mutex);
		usleep(1000); // in which the holder takes it
	}
}

static NOINLINE void wait_for_condition(unsigned long seen)
{
	pthread_mutex_lock(&condition_mutex);
	while (condition_turns == seen)
		pthread_cond_wait(&condition, &condition_mutex);
	pthread_mutex_unlock(&condition_mutex);
	AFTERWARDS();
}

static void play_condition(struct story *story)
{
	while (!is_over()) {
		unsigned long seen = condition_turns;

		wait_begin(story);
		wait_for_condition(seen);
		wait_end(story);
	}
}

static NOINLINE void wait_for_time(uint64_t ns)
{
	sleep_ns(ns);
	AFTERWARDS();
}

static void play_sleep(struct story *story)
{
	uint64_t seed = 2;

	while (!is_over()) {
		wait_begin(story);
		wait_for_time(random_between(&seed, MS / 10, 30 * MS));
		wait_end(story);
		pthread_mutex_lock(&condition_mutex);
		condition_turns++;
		pthread_cond_signal(&condition);
		pthread_mutex_unlock(&condition_mutex);
	}
}

// ---- pipes and poll -------------------------------------------------------------------------

static NOINLINE bool wait_for_pipe(int descriptor)
{
	char byte;
	bool there = read(descriptor, &byte, 1) == 1;

	AFTERWARDS();
	return there;
}

/* Many turns without a pause, then one. */
static void play_ping(struct story *story)
{
	while (!is_over()) {
		for (int i = 0; i < BURST; i++) {
			if (write(ping[1], "", 1) != 1)
				return;
			wait_begin(story);
			wait_for_pipe(pong[0]);
			wait_end(story);
		}
		usleep(20000);
	}
	close(ping[1]);
}

static void play_pong(struct story *story)
{
	bool there = true;

	while (there) {
		wait_begin(story);
		there = wait_for_pipe(ping[0]);
		wait_end(story);
		if (there && write(pong[1], "", 1) != 1)
			return;
	}
}

static NOINLINE void wait_for_poll(int ms)
{
	struct pollfd entry = { .fd = silent[0], .events = POLLIN };

	poll(&entry, 1, ms);
	AFTERWARDS();
}

static void play_poll(struct story *story)
{
	uint64_t seed = 3;

	while (!is_over()) {
		wait_begin(story);
		wait_for_poll((int)random_between(&seed, 1, 20));
		wait_end(story);
	}
}

static NOINLINE void wait_for_event(int epoll)
{
	struct epoll_event event;

	epoll_wait(epoll, &event, 1, 1000);
	AFTERWARDS();
}

static void play_epoll(struct story *story)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, epoll_pipe[0], &event))
		return;
	while (!is_over()) {
		char byte;

		wait_begin(story);
		wait_for_event(epoll);
		wait_end(story);
		if (read(epoll_pipe[0], &byte, 1) != 1 && errno != EAGAIN)
			return;
	}
	close(epoll);
}

// ---- network --------------------------------------------------------------------------------

/* Answers, connects and writes after a while: what network, accept and epoll wait for. */
static void play_peer(struct story *story)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	uint64_t seed = 4;

	(void)story;
	getsockname(listener, (struct sockaddr *)&address, &size);
	while (!is_over()) {
		int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		sleep_ns(random_between(&seed, MS, 12 * MS));
		if (send(connection[1], "", 1, MSG_NOSIGNAL) != 1 ||
		    write(epoll_pipe[1], "", 1) != 1)
			return;
		if (connect(client, (struct sockaddr *)&address, sizeof(address)))
			perror("connect");
		close(client);
	}
	shutdown(connection[1], SHUT_RDWR);
	shutdown(listener, SHUT_RDWR);
}

static NOINLINE bool wait_for_network(void)
{
	char byte;
	bool there = recv(connection[0], &byte, 1, 0) == 1;

	AFTERWARDS();
	return there;
}

static void play_network(struct story *story)
{
	bool there = true;

	while (there) {
		wait_begin(story);
		there = wait_for_network();
		wait_end(story);
	}
}

static NOINLINE int wait_for_client(void)
{
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	AFTERWARDS();
	return client;
}

static void play_accept(struct story *story)
{
	int client = 0;

	while (client >= 0) {
		wait_begin(story);
		client = wait_for_client();
		wait_end(story);
		if (client >= 0)
			close(client);
	}
}

static int open_listener(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (descriptor < 0 || bind(descriptor, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(descriptor, 16))
		return -1;
	return descriptor;
}

/* A connection of TCP with itself, through the listener. */
static int connect_pair(void)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	if (getsockname(listener, (struct sockaddr *)&address, &size))
		return -1;
	connection[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(connection[1], (struct sockaddr *)&address, sizeof(address)))
		return -1;
	connection[0] = accept(listener, NULL, NULL);
	return connection[0] < 0 ? -1 : 0;
}

// ---- disk -----------------------------------------------------------------------------------

static NOINLINE void wait_for_disk(int descriptor, void *block, off_t at)
{
	if (pread(descriptor, block, DISK_BLOCK, at) != DISK_BLOCK)
		perror("pread");
	AFTERWARDS();
}

static void play_disk(struct story *story)
{
	int descriptor = open(file_path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	uint64_t seed = 5;
	struct stat status;
	void *block;

	if (descriptor < 0 || fstat(descriptor, &status) ||
	    posix_memalign(&block, 4096, DISK_BLOCK)) {
		perror("O_DIRECT");
		return;
	}
	while (!is_over()) {
		uint64_t at = random_between(&seed, 0, (uint64_t)status.st_size / DISK_BLOCK);

		wait_begin(story);
		wait_for_disk(descriptor, block, (off_t)(at * DISK_BLOCK));
		wait_end(story);
		if (story->waits % 16 == 0)
			usleep(1000);
	}
	close(descriptor);
}

static NOINLINE char wait_for_page(const volatile char *page)
{
	char byte = *page;

	AFTERWARDS();
	return byte;
}

/* Pages of a file that were dropped from the cache. */
static void play_page(struct story *story)
{
	int descriptor = open(file_path, O_RDONLY | O_CLOEXEC);
	uint64_t seed = 6;
	struct stat status;

	if (descriptor < 0 || fstat(descriptor, &status))
		return;
	char *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, descriptor, 0);
	if (map == MAP_FAILED)
		return;
	while (!is_over()) {
		madvise(map, (size_t)status.st_size, MADV_DONTNEED);
		posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
		madvise(map, (size_t)status.st_size, MADV_RANDOM);
		for (int i = 0; i < 64; i++) {
			uint64_t at = random_between(&seed, 0, (uint64_t)status.st_size);

			wait_begin(story);
			wait_for_page(map + at);
			wait_end(story);
		}
		usleep(1000);
	}
	munmap(map, (size_t)status.st_size);
	close(descriptor);
}

// ---- children -------------------------------------------------------------------------------

static NOINLINE void wait_for_child(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	AFTERWARDS();
}

static void play_child(struct story *story)
{
	uint64_t seed = 7;

	while (!is_over()) {
		uint64_t ns = random_between(&seed, 5 * MS, 40 * MS);
		pid_t child = fork();

		if (child == 0) {
			prctl(PR_SET_NAME, "short-child");
			sleep_ns(ns);
			_exit(0);
		}
		wait_begin(story);
		wait_for_child(child);
		wait_end(story);
	}
}

// ---- all of them ----------------------------------------------------------------------------

static struct part {
	struct story story;
	void (*play)(struct story *story);
	bool needs_file;
	pthread_t thread;
	bool started;
} parts[] = {
	{ .play = play_holder,
	  .story = { .thread = "holder", .function = "hold_the_lock", .wait = "sleep" } },
	{ .play = play_lock,
	  .story = { .thread = "lock", .function = "wait_for_lock", .wait = "lock" } },
	{ .play = play_condition,
	  .story = { .thread = "condition", .function = "wait_for_condition", .wait = "lock" } },
	{ .play = play_sleep,
	  .story = { .thread = "sleep", .function = "wait_for_time", .wait = "sleep" } },
	{ .play = play_ping,
	  .story = { .thread = "ping", .function = "wait_for_pipe", .wait = "pipe" } },
	{ .play = play_pong,
	  .story = { .thread = "pong", .function = "wait_for_pipe", .wait = "pipe" } },
	{ .play = play_poll,
	  .story = { .thread = "poll", .function = "wait_for_poll", .wait = "poll" } },
	{ .play = play_epoll,
	  .story = { .thread = "epoll", .function = "wait_for_event", .wait = "idle" } },
	{ .play = play_network,
	  .story = { .thread = "network", .function = "wait_for_network", .wait = "network" } },
	{ .play = play_accept,
	  .story = { .thread = "accept", .function = "wait_for_client", .wait = "idle" } },
	{ .play = play_peer, .story = { .thread = "peer" } },
	{ .play = play_disk,
	  .needs_file = true,
	  .story = { .thread = "disk", .function = "wait_for_disk", .wait = "disk" } },
	{ .play = play_page,
	  .needs_file = true,
	  .story = { .thread = "page", .function = "wait_for_page", .wait = "page_fault" } },
	{ .play = play_child,
	  .story = { .thread = "child", .function = "wait_for_child", .wait = "child" } },
};

enum { PART_COUNT = sizeof(parts) / sizeof(*parts) };

static void *start(void *context)
{
	struct part *part = context;

	story_begin(&part->story);
	part->play(&part->story);
	story_end(&part->story);
	return NULL;
}

static bool is_wanted(const struct part *part)
{
	size_t size = strlen(part->story.thread);

	if (part->needs_file && !file_path)
		return false;
	for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, part->story.thread, size) == 0 && strchr(",", at[size]))
			return true;
	return !only;
}

int main(int argc, char **argv)
{
	struct story stories[PART_COUNT];

	only = option(argc, argv, "--only", NULL);
	file_path = option(argc, argv, "--file", NULL);
	end_ns = now_ns() + (uint64_t)(atof(option(argc, argv, "--seconds", "10")) * 1e9);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	listener = open_listener();
	if (listener < 0 || connect_pair() || pipe(ping) || pipe(pong) || pipe(silent) ||
	    pipe2(epoll_pipe, O_NONBLOCK)) {
		perror("waits");
		return 1;
	}
	for (int i = 0; i < PART_COUNT; i++)
		if (is_wanted(&parts[i]))
			parts[i].started =
				!pthread_create(&parts[i].thread, NULL, start, &parts[i]);
	for (int i = 0; i < PART_COUNT; i++) {
		if (parts[i].started)
			pthread_join(parts[i].thread, NULL);
		stories[i] = parts[i].story;
	}
	print_stories(stories, PART_COUNT, "");
}
