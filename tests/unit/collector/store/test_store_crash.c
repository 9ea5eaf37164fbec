// SPDX-License-Identifier: Apache-2.0
// kill -9 at any moment loses nothing that was acknowledged and counts nothing twice. A program of
// its own: it forks before anything has threads.
#include "tests/unit/collector/store/store_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "collector/store/rocksdb/rocksdb.h"

enum {
	ROUNDS = 15,
	AGENTS = 3,
	BATCH_ROWS = 12,
	KILL_MS_MAX = 150,
};

/** What a child reports to its parent: this batch was acknowledged. */
struct ack {
	uint64_t agent, sequence;
};

struct sender {
	struct store *store;
	uint64_t agent, sequence; // the next to send
	int pipe;
};

static uint64_t base_ns; // equal in all processes

/** A batch is identified by its slot: the rows of one cannot pass for another's. */
static struct profile *batch_profile(uint64_t agent, uint64_t sequence)
{
	struct profile *profile = test_profile();
	char labels[64], stack[64];

	sprintf(labels, "service=crash,node=n%llu", (unsigned long long)agent);
	for (uint64_t i = 0; i < BATCH_ROWS; i++) {
		sprintf(stack, "main;f%llu;g%llu", (unsigned long long)(sequence % 17),
			(unsigned long long)i);
		add_text(profile, labels, base_ns + sequence * TEST_SLOT_NS, stack,
			 (int64_t)(sequence * 100 + i));
	}
	return profile;
}

static void *send_batches(void *argument)
{
	struct sender *sender = argument;

	for (;; sender->sequence++) {
		struct store_batch_id batch = batch_of(sender->agent, sender->sequence);
		struct ack ack = { sender->agent, sender->sequence };
		struct profile *profile = batch_profile(sender->agent, sender->sequence);
		struct store_append_result result;

		if (store_append(sender->store, &batch, profile, &result, NULL) < 0 ||
		    result.unknown_stack_count || write(sender->pipe, &ack, sizeof(ack)) < 0)
			_exit(3);
		profile_free(profile);
	}
	return NULL;
}

/** Append until killed; minutes are closed in between. */
static void run_sender(const char *path, const uint64_t *acknowledged, int ack_pipe)
{
	struct store_options options = { .path = path };
	struct sender senders[AGENTS];
	struct store *store;
	pthread_t thread;

	if (rocksdb_store_open(&options, &store, NULL) < 0)
		_exit(2);
	for (uint64_t i = 0; i < AGENTS; i++) {
		senders[i] = (struct sender){ store, i, acknowledged[i] + 1, ack_pipe };
		if (pthread_create(&thread, NULL, send_batches, &senders[i]))
			_exit(2);
	}
	for (;;) {
		usleep(3000);
		if (store_flush(store, NULL) < 0)
			_exit(4);
	}
}

/**
 * How many whole batches of @agent are there, from the first on; -1 if any is not as it was sent.
 */
static int64_t count_batches(const struct dump *dump, uint64_t agent)
{
	for (uint64_t sequence = 1;; sequence++) {
		uint64_t found_rows = 0;
		char line[128];

		for (uint64_t i = 0; i < BATCH_ROWS; i++) {
			sprintf(line, "node=n%llu,service=crash %llu main;f%llu;g%llu",
				(unsigned long long)agent,
				(unsigned long long)((base_ns + sequence * TEST_SLOT_NS) /
						     NS_PER_MS),
				(unsigned long long)(sequence % 17), (unsigned long long)i);
			const struct dump_line *found = dump_find(dump, line);
			if (found && found->value != (int64_t)(sequence * 100 + i)) {
				fprintf(stderr, "%s has %lld\n", line, (long long)found->value);
				return -1;
			}
			found_rows += found != NULL;
		}
		if (found_rows == 0)
			return (int64_t)sequence - 1;
		if (found_rows != BATCH_ROWS) {
			fprintf(stderr, "batch %llu of agent %llu has %llu rows\n",
				(unsigned long long)sequence, (unsigned long long)agent,
				(unsigned long long)found_rows);
			return -1;
		}
	}
}

/** Exits 0 if the store holds what was acknowledged, and at most the batch under way besides. */
static void run_checker(const char *path, const uint64_t *acknowledged)
{
	struct store_options options = { .path = path };
	struct store *store;
	struct error err = { 0 };
	struct dump dump;
	uint64_t batches = 0;

	if (rocksdb_store_open(&options, &store, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		_exit(2);
	}
	dump_store(store, "{}", all_time, SCAN_ROWS, &dump);
	for (uint64_t i = 0; i < AGENTS; i++) {
		int64_t count = count_batches(&dump, i);

		if (count < (int64_t)acknowledged[i] || count > (int64_t)acknowledged[i] + 1) {
			fprintf(stderr, "agent %llu: %lld batches, %llu acknowledged\n",
				(unsigned long long)i, (long long)count,
				(unsigned long long)acknowledged[i]);
			_exit(1);
		}
		batches += (uint64_t)count;
	}
	if (dump.count != batches * BATCH_ROWS)
		_exit(1); // rows of no batch
	_exit(0);
}

static void read_acks(int pipe, uint64_t *acknowledged)
{
	struct ack ack;

	while (read(pipe, &ack, sizeof(ack)) == sizeof(ack))
		if (ack.sequence > acknowledged[ack.agent])
			acknowledged[ack.agent] = ack.sequence;
}

static void run_round(const char *path, uint64_t *acknowledged, unsigned int kill_ms)
{
	int pipes[2], status;

	assert_int_equal(0, pipe2(pipes, O_CLOEXEC));
	pid_t sender = fork();
	if (!sender)
		run_sender(path, acknowledged, pipes[1]);
	close(pipes[1]);
	usleep(kill_ms * 1000);
	kill(sender, SIGKILL);
	waitpid(sender, &status, 0);
	assert_true(WIFSIGNALED(status));
	read_acks(pipes[0], acknowledged);
	close(pipes[0]);

	pid_t checker = fork();
	if (!checker)
		run_checker(path, acknowledged);
	waitpid(checker, &status, 0);
	EXPECT_EQ(0, WIFEXITED(status) ? WEXITSTATUS(status) : -1, "the checker's exit status");
}

/** Append until the disk refuses; then say how many batches were acknowledged. */
static void run_until_full(const char *path, int pipe)
{
	struct store_options options = { .path = path };
	struct rlimit limit = { 1 << 20, 1 << 20 }; // a file may not become larger
	struct store *store;
	struct error err = { 0 };

	signal(SIGXFSZ, SIG_IGN);
	if (rocksdb_store_open(&options, &store, NULL) < 0 || setrlimit(RLIMIT_FSIZE, &limit) < 0)
		_exit(2);
	for (uint64_t sequence = 1;; sequence++) {
		struct store_batch_id batch = batch_of(0, sequence);
		struct ack ack = { 0, sequence };
		struct profile *profile = batch_profile(0, sequence);
		struct store_append_result result;

		if (store_append(store, &batch, profile, &result, &err) < 0)
			break;
		profile_free(profile);
		if (write(pipe, &ack, sizeof(ack)) < 0)
			_exit(3);
	}
	_exit(strstr(err.text, "store") ? 0 : 4); // the error says where
}

TEST(failing_writes_lose_nothing_acknowledged)
{
	uint64_t acknowledged[AGENTS] = { 0 };
	char path[64];
	int pipes[2], status;

	base_ns = hour_ns(0);
	directory_new(path);
	assert_int_equal(0, pipe2(pipes, O_CLOEXEC));
	pid_t sender = fork();
	if (!sender)
		run_until_full(path, pipes[1]);
	close(pipes[1]);
	read_acks(pipes[0], acknowledged);
	close(pipes[0]);
	waitpid(sender, &status, 0);
	EXPECT_EQ(0, WIFEXITED(status) ? WEXITSTATUS(status) : -1, "the sender's exit status");
	if (acknowledged[0] < 100)
		fail_msg("only %llu batches fitted", (unsigned long long)acknowledged[0]);

	pid_t checker = fork();
	if (!checker)
		run_checker(path, acknowledged);
	waitpid(checker, &status, 0);
	EXPECT_EQ(0, WIFEXITED(status) ? WEXITSTATUS(status) : -1, "the checker's exit status");
	directory_remove(path);
}

static bool too_few(const uint64_t *acknowledged)
{
	for (int i = 0; i < AGENTS; i++)
		if (acknowledged[i] < ROUNDS)
			return true;
	return false;
}

TEST(kill_9_keeps_each_acknowledged_batch_once)
{
	uint64_t acknowledged[AGENTS] = { 0 };
	char path[64];

	base_ns = hour_ns(0);
	directory_new(path);
	srand((unsigned int)getpid());
	for (int i = 0; i < ROUNDS; i++)
		run_round(path, acknowledged, 10 + (unsigned int)rand() % KILL_MS_MAX);
	// A machine under load may not have opened the store by then.
	for (unsigned int ms = 2 * KILL_MS_MAX; too_few(acknowledged) && ms < 20000; ms *= 2)
		run_round(path, acknowledged, ms);
	for (int i = 0; i < AGENTS; i++)
		if (acknowledged[i] < ROUNDS)
			fail_msg(
				"agent %d had only %llu batches acknowledged: the test says little",
				i, (unsigned long long)acknowledged[i]);
	directory_remove(path);
}

// ---- deletions ------------------------------------------------------------------------------------------

enum { DELETE_ROUNDS = 12, DELETE_ROWS = 4, DELETE_BATCHES = 6 };

/** What a child has done so far, by number of the batch. */
struct deleting {
	uint64_t acknowledged; // batches
	uint64_t begun, done;  // deletions of red's rows up to this batch
};

/** The batches of a round are of as many hours: a killed rewrite has some of them before it. */
static uint64_t batch_ns(uint64_t number)
{
	return base_ns - number % DELETE_BATCHES * 3600 * NS_PER_SECOND + number * 200 * NS_PER_MS;
}

/** One row of each stack for both tenants; nobody else has these values. */
static struct profile *tenants_profile(uint64_t number)
{
	struct profile *profile = test_profile();
	char stack[32];

	for (uint64_t i = 0; i < DELETE_ROWS; i++) {
		uint64_t time_ns = batch_ns(number);

		sprintf(stack, "main;f%llu", (unsigned long long)i);
		add_text(profile, "service=web,tenant=blue", time_ns, stack, (int64_t)number);
		add_text(profile, "service=web,tenant=red", time_ns, stack, (int64_t)number * 3);
	}
	return profile;
}

static void report(int pipe, const struct deleting *deleting)
{
	if (write(pipe, deleting, sizeof(*deleting)) < 0)
		_exit(3);
}

static void append_for_both(struct store *store, uint64_t number)
{
	struct store_batch_id batch = batch_of(0, number);
	struct profile *profile = tenants_profile(number);
	struct store_append_result result;

	if (store_append(store, &batch, profile, &result, NULL) < 0 || result.unknown_stack_count)
		_exit(4);
	profile_free(profile);
}

static void delete_red(struct store *store)
{
	struct selector selector = selector_of("{tenant=\"red\"}");
	struct store_deletion deletion;

	if (store_delete(store, &selector, all_time, &deletion, NULL) < 0)
		_exit(5);
	selector_deinit(&selector);
}

/** Append, close minutes, delete and rewrite until killed. */
static void run_deleter(const char *path, struct deleting deleting, int pipe)
{
	struct store_options options = { .path = path };
	struct store *store;

	if (rocksdb_store_open(&options, &store, NULL) < 0)
		_exit(2);
	for (uint64_t round = 0;; round++) {
		for (int i = 0; i < DELETE_BATCHES; i++) {
			append_for_both(store, deleting.acknowledged + 1);
			deleting.acknowledged++;
			report(pipe, &deleting);
		}
		if (round % 2 && store_flush(store, NULL) < 0)
			_exit(6);
		deleting.begun = deleting.acknowledged;
		report(pipe, &deleting);
		delete_red(store);
		deleting.done = deleting.begun;
		report(pipe, &deleting);
		if (round % 3 != 2 && store_maintain(store, clock_realtime_ns(), NULL) < 0)
			_exit(7);
	}
}

/** Is the batch there for @tenant: all of its rows, or none? -1: neither, or with other values. */
static int has_batch(const struct dump *dump, const char *tenant, uint64_t number, int64_t value)
{
	uint64_t time_ns = batch_ns(number);
	int found_rows = 0;
	char line[128];

	for (int i = 0; i < DELETE_ROWS; i++) {
		sprintf(line, "service=web,tenant=%s %llu main;f%d", tenant,
			(unsigned long long)(time_ns / NS_PER_MS), i);
		const struct dump_line *found = dump_find(dump, line);
		if (found && found->value != value)
			return -1;
		found_rows += found != NULL;
	}
	return found_rows == DELETE_ROWS ? 1 : found_rows ? -1 : 0;
}

static void require(bool holds, const char *what, uint64_t number)
{
	if (holds)
		return;
	fprintf(stderr, "batch %llu: %s\n", (unsigned long long)number, what);
	_exit(1);
}

/** Blue has everything, red what came after the last deletion. */
static void check_tenants(struct store *store, const struct deleting *deleting)
{
	struct dump dump;
	uint64_t rows = 0;
	int in_doubt = -1; // red's rows of a deletion that was not answered: all there, or none

	dump_store(store, "{}", all_time, SCAN_ROWS, &dump);
	for (uint64_t i = 1; i <= deleting->acknowledged + 1; i++) {
		int blue = has_batch(&dump, "blue", i, (int64_t)i);
		int red = has_batch(&dump, "red", i, (int64_t)i * 3);

		require(blue >= 0 && red >= 0, "a part of it, or another value", i);
		require(blue || i > deleting->acknowledged, "blue's is lost", i);
		if (i <= deleting->done)
			require(!red, "red's is back", i);
		else if (i > deleting->begun)
			require(red == blue, "red's is lost", i);
		else
			require(in_doubt < 0 || red == in_doubt, "a part of a deletion", i);
		if (i > deleting->done && i <= deleting->begun)
			in_doubt = red;
		rows += (uint64_t)(blue + red) * DELETE_ROWS;
	}
	require(dump.count == rows, "rows of no batch", 0);
	dump_deinit(&dump);
}

static void note_check_damage(void *context, uint64_t start_ns, const char *text)
{
	(void)context, (void)start_ns;
	fprintf(stderr, "damage: %s\n", text);
	_exit(8);
}

static void ignore_check_progress(void *context, uint64_t start_ns, uint32_t count,
				  const struct store_check *found)
{
	(void)context, (void)start_ns, (void)count, (void)found;
}

/** Exits 0 if the store is right as it is, and when the rewrite has ended. */
static void run_deletion_checker(const char *path, const struct deleting *deleting, bool rewrite)
{
	const struct store_checker checker = { .damage = note_check_damage,
					       .progress = ignore_check_progress };
	struct store_options options = { .path = path };
	struct store_check found;
	struct store_stats stats;
	struct store *store;

	if (rocksdb_store_open(&options, &store, NULL) < 0)
		_exit(2);
	check_tenants(store, deleting);
	store_close(store);
	if (rocksdb_store_check(path, &checker, &found, NULL) < 0 ||
	    rocksdb_store_open(&options, &store, NULL) < 0)
		_exit(2);
	for (store_read_stats(store, &stats); rewrite && stats.tombstones;
	     store_read_stats(store, &stats))
		if (store_maintain(store, clock_realtime_ns(), NULL) < 0)
			_exit(3);
	check_tenants(store, deleting);
	_exit(0);
}

static void run_deletion_round(const char *path, struct deleting *deleting, unsigned int kill_ms,
			       bool rewrite)
{
	struct deleting reported;
	int pipes[2], status;

	assert_int_equal(0, pipe2(pipes, O_CLOEXEC));
	pid_t deleter = fork();
	if (!deleter)
		run_deleter(path, *deleting, pipes[1]);
	close(pipes[1]);
	usleep(kill_ms * 1000);
	kill(deleter, SIGKILL);
	waitpid(deleter, &status, 0);
	assert_true(WIFSIGNALED(status));
	while (read(pipes[0], &reported, sizeof(reported)) == sizeof(reported))
		*deleting = reported;
	close(pipes[0]);

	pid_t checker = fork();
	if (!checker)
		run_deletion_checker(path, deleting, rewrite);
	waitpid(checker, &status, 0);
	EXPECT_EQ(0, WIFEXITED(status) ? WEXITSTATUS(status) : -1, "the checker's exit status");
}

TEST(kill_9_resurrects_nothing_deleted)
{
	struct deleting deleting = { 0 };
	char path[64];
	int rounds = 0;

	base_ns = hour_ns(0);
	directory_new(path);
	srand((unsigned int)getpid());
	for (; rounds < DELETE_ROUNDS; rounds++)
		run_deletion_round(path, &deleting, 10 + (unsigned int)rand() % KILL_MS_MAX,
				   rounds % 3 == 2);
	// A machine under load may not have deleted anything by then.
	for (unsigned int ms = 2 * KILL_MS_MAX; !deleting.done && ms < 20000; ms *= 2)
		run_deletion_round(path, &deleting, ms, true);
	if (!deleting.done)
		fail_msg("no deletion was answered: the test says nothing");
	directory_remove(path);
}

// ---- merging --------------------------------------------------------------------------------------------

enum { MERGE_ROUNDS = 12, MERGE_SERVICES = 60, MERGE_MINUTES = 12, MERGE_MS_MAX = 60 };

/** One row of each service in each of some minutes, and an interval. */
static void fill_hour(const char *path)
{
	struct store_options options = { .path = path };
	struct store *store;

	if (rocksdb_store_open(&options, &store, NULL) < 0)
		_exit(2);
	for (uint64_t minute = 0; minute < MERGE_MINUTES; minute++) {
		struct profile *profile = test_profile();
		uint64_t slot = (base_ns + minute * 60 * NS_PER_SECOND) / TEST_SLOT_NS;
		char labels[64];

		for (uint64_t i = 0; i < MERGE_SERVICES; i++) {
			sprintf(labels, "service=s%llu,node=n1", (unsigned long long)i);
			add_text(profile, labels, slot * TEST_SLOT_NS, "main;run", (int64_t)i + 1);
			profile_add_interval(
				profile, series_of_text(profile, labels, TEST_TYPE),
				stack_of_text(profile, "main;wait", STACK_END_COMPLETE), slot + 10,
				999, 1000);
		}
		append_profile(store, 1, minute + 1, profile);
	}
	if (store_flush(store, NULL) < 0)
		_exit(4);
	store_close(store);
	_exit(0);
}

/** Merge until killed, at first as the rows are, later into seconds. */
static void run_merger(const char *path, bool downsamples, int pipe)
{
	struct store_options options = { .path = path,
					 .seconds_after_ns = downsamples ? 60 * NS_PER_SECOND : 0 };
	struct store *store;

	if (rocksdb_store_open(&options, &store, NULL) < 0 || write(pipe, "", 1) < 0)
		_exit(2);
	for (;;)
		if (store_maintain(store, clock_realtime_ns(), NULL) < 0)
			_exit(4);
}

/** Exits 0 if each service has its rows once; 3 if besides some may be downsampled. */
static void check_merged(const char *path)
{
	struct store_options options = { .path = path };
	struct store *store;
	struct dump dump;
	uint32_t good = 0;
	char line[128];

	if (rocksdb_store_open(&options, &store, NULL) < 0)
		_exit(2);
	dump_store(store, "{}", all_time, SCAN_SERIES_SUMS, &dump);
	for (uint64_t i = 0; i < MERGE_SERVICES; i++) {
		sprintf(line, "node=n1,service=s%llu main;run", (unsigned long long)i);
		const struct dump_line *run = dump_find(&dump, line);
		sprintf(line, "node=n1,service=s%llu main;wait", (unsigned long long)i);
		const struct dump_line *wait = dump_find(&dump, line);
		good += run && wait && run->value == (int64_t)((i + 1) * MERGE_MINUTES) &&
			wait->value == 1000 * MERGE_MINUTES;
	}
	if (good != MERGE_SERVICES || dump.count != 2 * MERGE_SERVICES)
		_exit(1);
	_exit(store_resolution(store, all_time) == NS_PER_SECOND ? 3 : 0);
}

static int exit_status_of(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void kill_merger(const char *path, bool downsamples, unsigned int kill_ms)
{
	int pipes[2];
	char opened;

	assert_int_equal(0, pipe2(pipes, O_CLOEXEC));
	pid_t merger = fork();
	if (!merger)
		run_merger(path, downsamples, pipes[1]);
	close(pipes[1]);
	if (read(pipes[0], &opened, 1) != 1)
		fail_msg("the merger ended");
	close(pipes[0]);
	usleep(kill_ms * 1000);
	kill(merger, SIGKILL);
	assert_int_equal(-1, exit_status_of(merger));
}

TEST(kill_9_keeps_merged_rows_once)
{
	char path[64];
	int status = 0;

	base_ns = hour_ns(0);
	directory_new(path);
	srand((unsigned int)getpid());
	pid_t filler = fork();
	if (!filler)
		fill_hour(path);
	EXPECT_EQ(0, exit_status_of(filler), "the filler's exit status");
	for (int i = 0; i < MERGE_ROUNDS; i++) {
		bool downsamples = i >= MERGE_ROUNDS / 2;

		kill_merger(path, downsamples, (unsigned int)rand() % MERGE_MS_MAX);
		pid_t checker = fork();
		if (!checker)
			check_merged(path);
		status = exit_status_of(checker);
		EXPECT_EQ(true, status == 0 || (downsamples && status == 3),
			  "the checker's exit status");
	}
	EXPECT_EQ(3, status, "it was downsampled, or had begun to be");
	directory_remove(path);
}

RUN_TESTS(cmocka_unit_test(failing_writes_lose_nothing_acknowledged),
	  cmocka_unit_test(kill_9_keeps_merged_rows_once),
	  cmocka_unit_test(kill_9_resurrects_nothing_deleted),
	  cmocka_unit_test(kill_9_keeps_each_acknowledged_batch_once))
