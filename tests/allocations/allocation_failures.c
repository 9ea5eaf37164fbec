// SPDX-License-Identifier: Apache-2.0
// A double of what allocates memory, and the runner of unit tests with it. Our libraries are linked with their calls of
// malloc() and so on renamed to these (redefined.txt); the test, libc and other libraries keep the real ones.
//
// Each test runs once to list from where it allocates: the callers' addresses, of our code alone. A place is tried once,
// whichever test comes to it first, with an allocation that fails there: each of them, whatever time that takes. When all
// tests have had that, their places fail again with all later allocations, and last one in the middle of many: what time
// is left for (ALLOCATION_SECONDS). An assertion of the test may fail then: there was no memory. Dying of a signal in our
// code, or hanging, is a fault.

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

enum {
	CALLERS = 8, // of an allocation: together a place
	FRAMES_MAX = 40,
	NULL_BYTES = 64 << 20, // structures are so large at most
	PLACES_MAX = 4096,     // of a program
	TEST_SECONDS = 90,     // a test that takes longer hangs: some wait for half a minute
	RUNS_MAX = 4,          // at a time
	PROGRAM_SECONDS = 60,  // ALLOCATION_SECONDS: then no place is tried again
	LISTINGS = 3,          // of a test that fails: others' load may have made it late
	FIRST_ROUND = 10,      // times as long, until each was tried once: some tests wait
};

enum end { END_FINE = 0, END_CRASH_IN_TEST = 77, END_CRASH = 78 };

// The test's own code has a section of its own (Makefile).
extern const char __start_test_text[], __stop_test_text[];
extern const char __executable_start[], __etext[];

struct place {
	_Atomic uint64_t hash;
	_Atomic uint32_t count; // allocations in one run of the present test
	uint32_t tried;         // in any test: rounds
};

/** Shared by the runner and its children, each of which runs a test once. */
static struct {
	struct place places[PLACES_MAX];
	_Atomic uint32_t unlisted;
} * shared;

// Of the run that begins, and in it.
static enum { IDLE, LISTING, FAILING } mode;
static uint64_t failing_hash;
static uint32_t failing_at; // which of its allocations
static bool fails_on;       // and all later ones
static _Atomic uint32_t seen;
static _Atomic bool has_failed;
static struct test_call {
	const void *inner, *outer; // in a helper of the test, and in the test itself
} failing_call;                    // where the test called what lacked memory last

// ---- places ---------------------------------------------------------------------------------

static bool lies_within(const void *at, const char *start, const char *stop)
{
	return (const char *)at >= start && (const char *)at < stop;
}

static bool is_of_test(const void *at)
{
	return lies_within(at, __start_test_text, __stop_test_text);
}

/* By frame pointers, which all of our code has; whatever else is there is only a number. */
static uint64_t hash_callers(const void *frame)
{
	const uintptr_t *at = frame;
	uint64_t hash = 14695981039346656037ULL;

	for (int i = 0; i < CALLERS; i++) {
		uintptr_t next = at[0];

		// Our own code is what must survive, wherever a test calls it from.
		if (i && is_of_test((const void *)at[1]))
			break;
		hash = (hash ^ at[1]) * 1099511628211ULL;
		if (next <= (uintptr_t)at || next - (uintptr_t)at > 1 << 14 || next % 16)
			break;
		at = (const uintptr_t *)next;
	}
	return hash ? hash : 1;
}

static void note_frame(struct test_call *call, const void *at)
{
	if (!is_of_test(at))
		return;
	if (!call->inner)
		call->inner = at;
	call->outer = at;
}

/* All NULL: another thread's. */
static struct test_call find_test_call(const void *frame)
{
	const uintptr_t *at = frame;
	struct test_call call = { 0 };

	for (int i = 0; i < FRAMES_MAX; i++) {
		uintptr_t next = at[0];

		note_frame(&call, (const void *)at[1]);
		if (next <= (uintptr_t)at || next - (uintptr_t)at > 1 << 14 || next % 16)
			break;
		at = (const uintptr_t *)next;
	}
	return call;
}

static void list(uint64_t hash)
{
	for (uint32_t i = 0; i < PLACES_MAX; i++) {
		struct place *place = &shared->places[(hash + i) % PLACES_MAX];
		uint64_t none = 0;

		if (place->hash == hash ||
		    atomic_compare_exchange_strong(&place->hash, &none, hash) || none == hash) {
			place->count++;
			return;
		}
	}
	shared->unlisted++;
}

static bool fails_here(const void *frame)
{
	uint64_t hash = hash_callers(frame);

	if (mode == LISTING)
		list(hash);
	if (mode != FAILING)
		return false;
	if (has_failed && !fails_on)
		return false;
	if (!has_failed && (hash != failing_hash || seen++ != failing_at))
		return false;
	failing_call = find_test_call(frame);
	has_failed = true;
	errno = ENOMEM;
	return true;
}

#define FAILS() (mode != IDLE && fails_here(__builtin_frame_address(0)))

// ---- the doubles ----------------------------------------------------------------------------

void *failing_malloc(size_t size);
void *failing_calloc(size_t count, size_t size);
void *failing_realloc(void *memory, size_t size);
void *failing_reallocarray(void *memory, size_t count, size_t size);
void *failing_aligned_alloc(size_t alignment, size_t size);
int failing_posix_memalign(void **ret_memory, size_t alignment, size_t size);
char *failing_strdup(const char *text);
char *failing_strndup(const char *text, size_t size);
int failing_asprintf(char **ret_text, const char *format, ...);
int failing_vasprintf(char **ret_text, const char *format, va_list arguments);
int failing_asprintf_chk(char **ret_text, int flag, const char *format, ...);
int failing_vasprintf_chk(char **ret_text, int flag, const char *format, va_list arguments);
FILE *failing_open_memstream(char **ret_bytes, size_t *ret_size);
FILE *failing_fopen(const char *path, const char *way);
FILE *failing_fdopen(int fd, const char *way);
DIR *failing_fdopendir(int fd);
void *failing_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);

void *failing_malloc(size_t size)
{
	return FAILS() ? NULL : malloc(size);
}

void *failing_calloc(size_t count, size_t size)
{
	return FAILS() ? NULL : calloc(count, size);
}

void *failing_realloc(void *memory, size_t size)
{
	return FAILS() ? NULL : realloc(memory, size);
}

void *failing_reallocarray(void *memory, size_t count, size_t size)
{
	return FAILS() ? NULL : reallocarray(memory, count, size);
}

void *failing_aligned_alloc(size_t alignment, size_t size)
{
	return FAILS() ? NULL : aligned_alloc(alignment, size);
}

int failing_posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
	return FAILS() ? ENOMEM : posix_memalign(ret_memory, alignment, size);
}

char *failing_strdup(const char *text)
{
	return FAILS() ? NULL : strdup(text);
}

char *failing_strndup(const char *text, size_t size)
{
	return FAILS() ? NULL : strndup(text, size);
}

int failing_vasprintf(char **ret_text, const char *format, va_list arguments)
{
	return FAILS() ? -1 : vasprintf(ret_text, format, arguments);
}

int failing_asprintf(char **ret_text, const char *format, ...)
{
	va_list arguments;

	if (FAILS())
		return -1;
	va_start(arguments, format);
	int size = vasprintf(ret_text, format, arguments);
	va_end(arguments);
	return size;
}

int failing_vasprintf_chk(char **ret_text, int flag, const char *format, va_list arguments)
{
	(void)flag;
	return FAILS() ? -1 : vasprintf(ret_text, format, arguments);
}

int failing_asprintf_chk(char **ret_text, int flag, const char *format, ...)
{
	va_list arguments;

	(void)flag;
	if (FAILS())
		return -1;
	va_start(arguments, format);
	int size = vasprintf(ret_text, format, arguments);
	va_end(arguments);
	return size;
}

FILE *failing_open_memstream(char **ret_bytes, size_t *ret_size)
{
	return FAILS() ? NULL : open_memstream(ret_bytes, ret_size);
}

FILE *failing_fopen(const char *path, const char *way)
{
	return FAILS() ? NULL : fopen(path, way);
}

FILE *failing_fdopen(int fd, const char *way)
{
	return FAILS() ? NULL : fdopen(fd, way);
}

DIR *failing_fdopendir(int fd)
{
	return FAILS() ? NULL : fdopendir(fd);
}

void *failing_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	return FAILS() ? MAP_FAILED : mmap(address, size, protection, flags, fd, offset);
}

// ---- dying ----------------------------------------------------------------------------------

/*
 * Whose function called libc's, or crashed itself? The test's, too, where it goes on with what it did not get: a NULL that
 * an earlier call of it returned.
 */
static enum end who_crashed(void *const *frames, int count, bool is_null)
{
	struct test_call call = { 0 };
	bool is_ours = false;

	for (int i = 0; i < count; i++) {
		note_frame(&call, frames[i]);
		is_ours |= !call.inner && lies_within(frames[i], __executable_start, __etext);
	}
	bool is_later = call.inner != failing_call.inner || call.outer != failing_call.outer;
	return call.inner && (!is_ours || (is_null && is_later)) ? END_CRASH_IN_TEST : END_CRASH;
}

static void on_crash(int signal, siginfo_t *info, void *context)
{
	bool is_null = signal == SIGSEGV && (uintptr_t)info->si_addr < NULL_BYTES;
	static const char text[] = "crashed:\n";
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX);
	enum end end = who_crashed(frames + 1, count - 1, is_null); // the first is this function's

	if (end == END_CRASH && write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
		backtrace_symbols_fd(frames, count, STDERR_FILENO);
	(void)context;
	_exit(end);
}

// In place of libc's, for cmocka alone: it would make an assertion that failed of each crash.
sighandler_t signal(int number, sighandler_t handler)
{
	(void)number, (void)handler;
	return SIG_DFL;
}

static void handle_crashes(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	struct sigaction action = { .sa_sigaction = on_crash, .sa_flags = SA_NODEFER | SA_SIGINFO };
	void *frame;

	backtrace(&frame, 1); // loads libgcc, which allocates
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
}

// ---- running --------------------------------------------------------------------------------

int __real__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction set_up, CMFixtureFunction tear_down);
int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction set_up, CMFixtureFunction tear_down);

/** What fails of a place's allocations. */
enum round { ROUND_FIRST, ROUND_FROM_FIRST, ROUND_MIDDLE, ROUND_FROM_MIDDLE, ROUNDS };

/** A run of a test in a child. */
struct run {
	pid_t child; // 0: the place is free
	int log;     // a file with its words
	const struct CMUnitTest *test;
	uint64_t hash; // what fails in it
	uint32_t at;
	bool fails_on;
};

/** A program's tests. */
struct group {
	CMFixtureFunction set_up, tear_down;
	struct run running[RUNS_MAX]; // tests wait most of their time
	uint32_t runs, faults;
	uint32_t untried; // places, for want of time
	time_t end, first_round_end;
};

/** Begin to run the test, in a place that is free. */
static void begin(struct group *group, struct run *run, const struct CMUnitTest *test)
{
	*run = (struct run){ .log = run->log,
			     .test = test,
			     .hash = failing_hash,
			     .at = failing_at,
			     .fails_on = fails_on };
	group->runs++;
	if (ftruncate(run->log, 0) || lseek(run->log, 0, SEEK_SET))
		abort();
	fflush(NULL);
	run->child = fork();
	if (run->child < 0)
		abort();
	if (run->child == 0) {
		setpgid(0, 0);
		dup2(run->log, STDOUT_FILENO);
		dup2(run->log, STDERR_FILENO);
		alarm(TEST_SECONDS);
		handle_crashes();
		int failed = __real__cmocka_run_group_tests("", test, 1, group->set_up,
							    group->tear_down);
		fflush(NULL);
		_exit(failed ? 1 : 0);
	}
	setpgid(run->child, run->child);
}

static void show(const struct run *run, const char *what)
{
	char bytes[8192];
	ssize_t size = pread(run->log, bytes, sizeof(bytes), 0);

	printf("FAULT   %s: %s, allocation %u of %016llx%s\n", run->test->name, what, run->at + 1,
	       (unsigned long long)run->hash, run->fails_on ? " and all later" : "");
	if (size > 0)
		fwrite(bytes, 1, (size_t)size, stdout);
	fflush(stdout);
}

/** Returns whether it is a fault. */
static bool judge(const struct run *run, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == END_CRASH)
		show(run, "crashed");
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		show(run, "hangs");
	else if (WIFSIGNALED(status))
		show(run, "died of a signal");
	else
		return false;
	return true;
}

/** Wait for the end of @child, or of any (-1), and judge it. Returns its place; NULL: none runs. */
static struct run *end_one(struct group *group, pid_t child, int *ret_status)
{
	child = waitpid(child, ret_status, 0);
	for (uint32_t i = 0; child > 0 && i < RUNS_MAX; i++) {
		struct run *run = &group->running[i];

		if (run->child != child)
			continue;
		kill(-child, SIGKILL); // its own children
		run->child = 0;
		return run;
	}
	return NULL;
}

static void end_any(struct group *group)
{
	int status;
	const struct run *run = end_one(group, -1, &status);

	if (run)
		group->faults += judge(run, status);
}

/** A place for another run; it waits until there is one. */
static struct run *free_place(struct group *group)
{
	for (;;) {
		for (uint32_t i = 0; i < RUNS_MAX; i++)
			if (!group->running[i].child)
				return &group->running[i];
		end_any(group);
	}
}

static void end_all(struct group *group)
{
	for (uint32_t i = 0; i < RUNS_MAX; i++)
		while (group->running[i].child)
			end_any(group);
}

static void fail_in(struct group *group, const struct CMUnitTest *test, struct place *place,
		    enum round round)
{
	struct run *run = free_place(group);

	mode = FAILING;
	failing_hash = place->hash;
	failing_at = round == ROUND_MIDDLE || round == ROUND_FROM_MIDDLE ? place->count / 2 : 0;
	fails_on = round == ROUND_FROM_FIRST || round == ROUND_FROM_MIDDLE;
	begin(group, run, test);
	mode = IDLE;
	place->tried++;
}

/** Run the test with all memory, to list its places. Returns its status. */
static int list_places(struct group *group, const struct CMUnitTest *test)
{
	struct run *run = free_place(group);
	int status = 0;

	for (uint32_t i = 0; i < PLACES_MAX; i++)
		shared->places[i].count = 0;
	mode = LISTING;
	begin(group, run, test);
	mode = IDLE;
	end_one(group, run->child, &status);
	return status;
}

static bool is_due(const struct place *place, enum round round)
{
	return place->count && place->tried == round && (round < ROUND_MIDDLE || place->count > 2);
}

static void try_test(struct group *group, const struct CMUnitTest *test, enum round round)
{
	if (round && time(NULL) >= group->end)
		return;
	int status = list_places(group, test);
	for (int again = 1; status && again < LISTINGS; again++)
		status = list_places(group, test);
	if (status) {
		if (!round)
			printf("SKIP    %s: it fails with all memory, too\n", test->name);
		return;
	}
	for (uint32_t i = 0; i < PLACES_MAX; i++) {
		struct place *place = &shared->places[i];

		if (!is_due(place, round))
			continue;
		if (time(NULL) < (round ? group->end : group->first_round_end))
			fail_in(group, test, place, round);
	}
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
				   CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	struct group group = { .set_up = set_up, .tear_down = tear_down };
	const char *only = getenv("UNIT_TEST"), *seconds = getenv("ALLOCATION_SECONDS");
	uint32_t places = 0;

	(void)name;
	int program_seconds = seconds ? atoi(seconds) : PROGRAM_SECONDS;
	group.end = time(NULL) + program_seconds;
	group.first_round_end = time(NULL) + (time_t)FIRST_ROUND * program_seconds;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	for (uint32_t i = 0; i < RUNS_MAX; i++)
		if ((group.running[i].log = memfd_create("log", MFD_CLOEXEC)) < 0)
			return 1;
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < count; i++)
			if (!only || strcmp(only, tests[i].name) == 0)
				try_test(&group, &tests[i], (enum round)round);
	end_all(&group);
	for (uint32_t i = 0; i < PLACES_MAX; i++) {
		places += shared->places[i].tried != 0;
		group.untried += shared->places[i].hash && !shared->places[i].tried;
	}
	printf("%u places failed in %u runs, %u faults", places, group.runs, group.faults);
	if (group.untried)
		printf(", %u places untried: no time (ALLOCATION_SECONDS)", group.untried);
	if (shared->unlisted)
		printf(", more places than there is room for (limit %u)", PLACES_MAX);
	printf("\n");
	return group.faults ? 1 : 0;
}
