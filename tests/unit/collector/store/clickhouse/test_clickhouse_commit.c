// SPDX-License-Identifier: Apache-2.0
// ClickHouse is killed, sends nonsense, or has tables of another version: nothing that was acknowledged is lost, nothing
// counts twice, and an error says what to do.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "collector/store/clickhouse/clickhouse_store.h"
#include "tests/unit/collector/store/clickhouse/clickhouse_server.h"

enum { AGENTS = 3, BATCH_ROWS = 12, KILLS = 6, BATCHES_BETWEEN_MAX = 20, HOSTILE_ANSWERS = 300 };

static struct clickhouse_server_process server;
static uint64_t base_ns;

static int open_database(const char *url, const char *database, uint64_t retention_ns,
			 struct store **ret_store, struct error *err)
{
	const struct store_options options = { .retention_ns = retention_ns };
	const struct clickhouse_options clickhouse = { .urls = url, .database = database };

	return clickhouse_store_open(&options, &clickhouse, ret_store, err);
}

static struct store *opened(const char *database)
{
	struct store *store = NULL;
	struct error err = { 0 };

	if (open_database(server.url, database, 0, &store, &err))
		fail_msg("open: %s", err.text);
	return store;
}

static void execute(struct store *store, const char *sql)
{
	const struct clickhouse_request request = { .sql = sql };
	struct error err = { 0 };

	if (clickhouse_ask(&((struct clickhouse_store *)store)->client, 0, &request, &err))
		fail_msg("%s: %s", sql, err.text);
}

static int64_t sum_of(struct store *store)
{
	struct dump dump;
	int64_t sum = 0;

	dump_store(store, "{}", all_time, SCAN_SUMS, &dump);
	for (uint32_t i = 0; i < dump.count; i++)
		sum += dump.lines[i].value;
	dump_deinit(&dump);
	return sum;
}

// ---- the server is killed -------------------------------------------------------------------------

struct sender {
	struct store *store;
	uint64_t agent, refused;
	_Atomic uint64_t acknowledged;
	atomic_bool *stop;
};

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

/** As another collector is: what the servers say decides. */
static void forget_agents(struct clickhouse_store *store)
{
	pthread_mutex_lock(&store->agents_lock);
	agent_table_deinit(&store->agents);
	pthread_mutex_unlock(&store->agents_lock);
}

/** As an agent does: what is refused is sent again, to another collector. */
static void *send_batches(void *argument)
{
	struct sender *sender = argument;

	while (!*sender->stop) {
		uint64_t sequence = sender->acknowledged + 1;
		struct store_batch_id batch = batch_of(sender->agent, sequence);
		struct profile *profile = batch_profile(sender->agent, sequence);
		struct store_append_result result = { 0 };
		int rc = store_append(sender->store, &batch, profile, &result, NULL);

		profile_free(profile);
		if (rc == 0 && result.unknown_stack_count == 0)
			sender->acknowledged = sequence;
		else
			sender->refused++;
		free(result.unknown_stacks);
		if (rc) {
			forget_agents((struct clickhouse_store *)sender->store);
			usleep(5000);
		}
	}
	return NULL;
}

static uint64_t acknowledged_by(const struct sender *senders)
{
	uint64_t sum = 0;

	for (int i = 0; i < AGENTS; i++)
		sum += senders[i].acknowledged;
	return sum;
}

/** Until so many more are acknowledged. */
static void wait_for_batches(const struct sender *senders, uint64_t count)
{
	uint64_t begin = acknowledged_by(senders);

	for (int i = 0; acknowledged_by(senders) < begin + count; i++) {
		if (i == 60000)
			fail_msg("no batch has been acknowledged for a minute");
		usleep(1000);
	}
}

/** Each acknowledged batch is there once, and at most the one under way besides. */
static void expect_batches(struct store *store, const struct sender *senders)
{
	struct dump dump;
	uint64_t lines = 0;

	dump_store(store, "{}", all_time, SCAN_ROWS, &dump);
	for (uint64_t agent = 0; agent < AGENTS; agent++) {
		for (uint64_t sequence = 1; sequence <= senders[agent].acknowledged + 1;
		     sequence++) {
			uint32_t found = 0;

			for (uint64_t i = 0; i < BATCH_ROWS; i++) {
				char text[128];

				sprintf(text, "node=n%llu,service=crash %llu main;f%llu;g%llu",
					(unsigned long long)agent,
					(unsigned long long)((base_ns + sequence * TEST_SLOT_NS) /
							     NS_PER_MS),
					(unsigned long long)(sequence % 17), (unsigned long long)i);
				const struct dump_line *line = dump_find(&dump, text);
				if (line)
					EXPECT_EQ(sequence * 100 + i, line->value, text);
				found += line != NULL;
			}
			if (sequence <= senders[agent].acknowledged)
				EXPECT_EQ(BATCH_ROWS, found, "rows of an acknowledged batch");
			else if (found)
				EXPECT_EQ(BATCH_ROWS, found, "a part of a batch");
			lines += found;
		}
	}
	EXPECT_EQ(lines, dump.count, "rows of no batch");
	dump_deinit(&dump);
}

TEST(kill_9_of_the_server_loses_nothing_acknowledged)
{
	struct sender senders[AGENTS] = { 0 };
	pthread_t threads[AGENTS];
	atomic_bool stop = false;
	struct store *store = opened("killed");
	uint64_t refused = 0;

	base_ns = hour_ns(0);
	srand((unsigned int)getpid());
	for (uint64_t i = 0; i < AGENTS; i++) {
		senders[i].store = store;
		senders[i].agent = i;
		senders[i].stop = &stop;
		assert_int_equal(0, pthread_create(&threads[i], NULL, send_batches, &senders[i]));
	}
	for (int i = 0; i < KILLS; i++) {
		wait_for_batches(senders, 1 + (uint64_t)rand() % BATCHES_BETWEEN_MAX);
		usleep((useconds_t)(rand() % 20) * 1000); // anywhere in the inserts of the next
		clickhouse_server_kill(&server);
		clickhouse_server_run(&server);
	}
	wait_for_batches(senders, 1);
	stop = true;
	for (int i = 0; i < AGENTS; i++) {
		pthread_join(threads[i], NULL);
		refused += senders[i].refused;
	}
	expect_batches(store, senders);
	store_close(store);
	store = opened("killed"); // another collector
	expect_batches(store, senders);
	printf("# %llu batches acknowledged, %llu refused, %d kills\n",
	       (unsigned long long)acknowledged_by(senders), (unsigned long long)refused, KILLS);
	assert_true(refused > 0);
	store_close(store);
}

/* Two servers, a shard each, as their configuration says. While one is away, its agents' batches are refused, and queries
 * fail rather than leave its samples out. */
TEST(a_killed_shard_of_a_cluster_loses_nothing)
{
	struct clickhouse_server_process servers[2];
	struct store *store = NULL;
	struct error err = { 0 };
	char more[1024], urls[160];
	uint32_t refused = 0;

	for (int i = 0; i < 2; i++)
		clickhouse_server_prepare(&servers[i]);
	snprintf(more, sizeof(more),
		 "<remote_servers><fleet>"
		 "<shard><replica><host>127.0.0.1</host><port>%d</port></replica></shard>"
		 "<shard><replica><host>127.0.0.1</host><port>%d</port></replica></shard>"
		 "</fleet></remote_servers>",
		 servers[0].tcp_port, servers[1].tcp_port);
	for (int i = 0; i < 2; i++) {
		clickhouse_server_configure(&servers[i], more);
		clickhouse_server_run(&servers[i]);
	}
	snprintf(urls, sizeof(urls), "%s,%s", servers[1].url, servers[0].url); // in any order
	const struct store_options options = { 0 };
	const struct clickhouse_options clickhouse = { .urls = urls,
						       .database = "sharded",
						       .cluster = "fleet" };
	if (clickhouse_store_open(&options, &clickhouse, &store, &err))
		fail_msg("%s", err.text);
	EXPECT_EQ(2, ((struct clickhouse_store *)store)->client.shard_count, "shards");
	for (uint64_t agent = 0; agent < 16; agent++)
		append_text(store, agent, 1, "service=a", hour_ns(0), "main;leaf", 1);
	EXPECT_EQ(16, sum_of(store), "both shards");

	clickhouse_server_kill(&servers[0]);
	for (uint64_t agent = 0; agent < 16; agent++) {
		struct store_batch_id batch = batch_of(agent, 2);
		struct profile *profile = test_profile();
		struct store_append_result result;

		add_text(profile, "service=a", hour_ns(0), "main;leaf", 100);
		refused += store_append(store, &batch, profile, &result, &err) != 0;
		profile_free(profile);
	}
	assert_true(refused > 0 && refused < 16);
	struct selector selector = selector_of("{}");
	struct store_selection *selection;
	assert_true(store_select(store, &selector, NULL, all_time, &selection, &err) < 0);
	if (!strstr(err.text, servers[0].url))
		fail_msg("\"%s\" does not name the server", err.text);
	selector_deinit(&selector);
	clickhouse_server_run(&servers[0]);
	EXPECT_EQ(16 + 100 * (16 - (int64_t)refused), sum_of(store), "what was acknowledged");
	store_close(store);
	for (int i = 0; i < 2; i++)
		clickhouse_server_remove(&servers[i]);
}

/* The server was killed after the samples and before what acknowledges them; the agent sends again, elsewhere. */
TEST(a_batch_whose_acknowledgement_got_lost_counts_once)
{
	struct store *store = opened("lost_acknowledgement");
	struct store *other;

	append_text(store, 1, 1, "service=a", hour_ns(0), "main;leaf", 7);
	execute(store, "TRUNCATE TABLE batches");
	other = opened("lost_acknowledgement");
	append_text(other, 1, 1, "service=a", hour_ns(0), "main;leaf",
		    7); // is not said to be a duplicate
	EXPECT_EQ(7, sum_of(store), "before parts are merged");
	execute(store, "OPTIMIZE TABLE samples FINAL");
	EXPECT_EQ(7, sum_of(store), "after");
	store_close(other);
	store_close(store);
}

TEST(an_agent_may_change_its_collector)
{
	struct store *store = opened("two_collectors"), *other = opened("two_collectors");
	struct store_append_result result;
	struct store_batch_id batch = batch_of(1, 1);
	struct profile *profile = test_profile();

	append_text(store, 1, 1, "service=a", hour_ns(0), "main;leaf", 7);
	add_text(profile, "service=a", hour_ns(0), "main;leaf", 7);
	assert_int_equal(0, store_append(other, &batch, profile, &result, NULL));
	assert_true(result.duplicate);
	profile_free(profile);
	// The other collector has never seen this stack's definition.
	profile = test_profile();
	add_known(profile, "service=a", hour_ns(0), "main;leaf", 1);
	append_profile(other, 1, 2, profile);
	EXPECT_EQ(8, sum_of(store), "sum");
	store_close(other);
	store_close(store);
}

TEST(a_server_that_does_not_answer_is_named)
{
	struct store *store = NULL;
	struct error err = { 0 };

	EXPECT_EQ(-EIO, open_database("http://127.0.0.1:1", "nobody", 0, &store, &err), "open");
	if (!strstr(err.text, "ClickHouse at http://127.0.0.1:1 does not answer: "))
		fail_msg("%s", err.text);
	EXPECT_EQ(-EINVAL, open_database("127.0.0.1:1", "nobody", 0, &store, &err), "no URL");
	EXPECT_EQ(-EINVAL, open_database("http://u:p@h:1", "nobody", 0, &store, &err), "password");
	EXPECT_EQ(-EINVAL, open_database(server.url, "a; DROP", 0, &store, &err), "database");
}

// ---- the schema -----------------------------------------------------------------------------------

TEST(newer_tables_are_refused)
{
	struct store *store = opened("versions");
	struct error err = { 0 };

	execute(store, "INSERT INTO versions SELECT toUInt64(2), 'later', now()");
	store_close(store);
	EXPECT_EQ(-EBADMSG, open_database(server.url, "versions", 0, &store, &err), "open");
	if (!strstr(err.text, "are of version 2, newer than this program's 1; use the "
			      "cairn-collector that made them"))
		fail_msg("%s", err.text);
}

TEST(what_a_killed_migration_has_left_is_completed)
{
	struct store *store = opened("half");

	execute(store, "TRUNCATE TABLE versions");
	execute(store, "DROP TABLE stacks");
	store_close(store);
	store = opened("half");
	append_text(store, 1, 1, "service=a", hour_ns(0), "main", 3);
	EXPECT_EQ(3, sum_of(store), "sum");
	store_close(store);
}

// ---- retention and deletion -----------------------------------------------------------------------

TEST(drops_days_beyond_retention)
{
	struct store *store = opened("retention");
	struct store_stats stats;
	uint64_t now_ns = clock_realtime_ns();
	struct error err = { 0 };

	append_text(store, 1, 1, "service=old", now_ns - 5 * DAY_NS, "main", 1);
	append_text(store, 1, 2, "service=new", now_ns - DAY_NS, "main", 2);
	store_close(store);
	assert_int_equal(0, open_database(server.url, "retention", 2 * DAY_NS, &store, &err));
	EXPECT_EQ(3, sum_of(store), "before");
	if (store_maintain(store, now_ns, &err))
		fail_msg("%s", err.text);
	EXPECT_EQ(2, sum_of(store), "after");
	store_read_stats(store, &stats);
	EXPECT_EQ(1, stats.partitions_dropped, "days");
	store_close(store);
}

/* As of a collector whose clock says 2036. */
TEST(drops_nothing_while_the_clocks_differ)
{
	struct store *store = opened("clocks");
	struct store_health health;
	struct error err = { 0 };

	append_text(store, 1, 1, "service=a", clock_realtime_ns(), "main", 1);
	store_close(store);
	assert_int_equal(0, open_database(server.url, "clocks", 2 * DAY_NS, &store, &err));
	if (store_maintain(store, clock_realtime_ns() + 3650 * DAY_NS, &err))
		fail_msg("%s", err.text);
	EXPECT_EQ(1, sum_of(store), "sum");
	store_read_health(store, &health);
	if (!strstr(health.clock, "from ClickHouse's"))
		fail_msg("\"%s\"", health.clock);
	store_close(store);
}

TEST(deletes_series_of_a_range)
{
	struct store *store = opened("deletion");
	struct selector selector = selector_of("{service=\"a\"}");
	struct time_range first = { hour_ns(0), hour_ns(0) + 60 * NS_PER_SECOND };
	struct store_deletion deletion;
	struct error err = { 0 };

	append_text(store, 1, 1, "service=a", hour_ns(0), "main", 1);
	append_text(store, 1, 2, "service=a", hour_ns(0) + 60 * NS_PER_SECOND, "main", 10);
	append_text(store, 1, 3, "service=b", hour_ns(0), "main", 100);
	if (store_delete(store, &selector, first, &deletion, &err))
		fail_msg("%s", err.text);
	EXPECT_EQ(1, deletion.series, "series");
	EXPECT_EQ(110, sum_of(store), "sum");
	append_text(store, 1, 4, "service=a", hour_ns(0), "main",
		    1000); // later ones are not concerned
	EXPECT_EQ(1110, sum_of(store), "sum");
	selector_deinit(&selector);
	store_close(store);
}

// ---- answers that are not ClickHouse's ------------------------------------------------------------

struct hostile {
	int fd;
	unsigned int seed;
};

/** Answers each request with random bytes. */
static void *answer_nonsense(void *argument)
{
	struct hostile *hostile = argument;
	static char request[1 << 16];
	uint8_t body[256];
	char head[128];

	for (;;) {
		_cleanup_close_ int fd = accept(hostile->fd, NULL, NULL);

		if (fd < 0)
			return NULL;
		if (recv(fd, request, sizeof(request), 0) <= 0)
			continue;
		size_t size = (size_t)rand_r(&hostile->seed) % sizeof(body);
		for (size_t i = 0; i < size; i++) // small lengths and large ones
			body[i] = (uint8_t)(rand_r(&hostile->seed) % (i % 3 ? 256 : 4));
		int head_size = snprintf(head, sizeof(head),
					 "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n"
					 "Connection: close\r\n\r\n",
					 size);
		send(fd, head, (size_t)head_size, MSG_NOSIGNAL);
		send(fd, body, size, MSG_NOSIGNAL);
	}
}

static void ask_everything(struct store *store, struct store_selection *selection)
{
	struct dump dump = { .selection = selection, .detail = SCAN_ROWS };
	struct time_range hour = { hour_ns(0), hour_ns(1) };
	_cleanup_free_ int64_t *counts = calloc(3600, sizeof(*counts));
	struct selector selector = selector_of("{}");
	struct store_selection *other;
	struct name_list list;

	for (int detail = SCAN_ROWS; detail <= SCAN_SUMS; detail++) {
		const struct store_scanner scanner = { .context = &dump,
						       .detail = (enum scan_detail)detail,
						       .partition = dump_partition,
						       .rows = dump_rows };

		dump.detail = (enum scan_detail)detail;
		store_scan(store, selection, hour, &scanner, NULL);
	}
	store_activity(store, selection, hour, NS_PER_SECOND, NULL, counts, NULL);
	if (store_select(store, &selector, NULL, hour, &other, NULL) == 0)
		store_selection_free(other);
	if (store_label_names(store, &selector, hour, &list, NULL) == 0)
		name_list_deinit(&list);
	store_maintain(store, clock_realtime_ns(), NULL);
	dump_finish(&dump);
	dump_deinit(&dump);
	selector_deinit(&selector);
}

TEST(nonsense_is_refused)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	struct hostile hostile = { .fd = socket(AF_INET, SOCK_STREAM, 0), .seed = 1 };
	struct store *store = opened("nonsense"), *none;
	struct clickhouse_server *asked = &((struct clickhouse_store *)store)->client.servers[0];
	struct selector selector = selector_of("{}");
	struct store_selection *selection;
	struct error err = { 0 };
	pthread_t thread;
	char url[64];

	assert_int_equal(0, bind(hostile.fd, (struct sockaddr *)&address, size));
	assert_int_equal(0, listen(hostile.fd, 16));
	assert_int_equal(0, getsockname(hostile.fd, (struct sockaddr *)&address, &size));
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(address.sin_port));
	assert_int_equal(0, pthread_create(&thread, NULL, answer_nonsense, &hostile));
	append_text(store, 1, 1, "service=a", hour_ns(0), "main;leaf", 7);
	assert_int_equal(0, store_select(store, &selector, NULL, all_time, &selection, NULL));
	strcpy(asked->url, url);
	for (int i = 0; i < HOSTILE_ANSWERS / 10; i++)
		ask_everything(store, selection);
	assert_true(open_database(url, "nonsense", 0, &none, &err) < 0);
	shutdown(hostile.fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(hostile.fd);
	store_selection_free(selection);
	selector_deinit(&selector);
	store_close(store);
}

// ---------------------------------------------------------------------------------------------------

static int start_server(void **state)
{
	(void)state;
	if (!clickhouse_server_prepare(&server)) {
		printf("# SKIP all: no " CLICKHOUSE_PROGRAM " (apt install clickhouse-server)\n");
		exit(0);
	}
	clickhouse_server_configure(&server, "");
	clickhouse_server_run(&server);
	return 0;
}

static int stop_server(void **state)
{
	(void)state;
	clickhouse_server_remove(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kill_9_of_the_server_loses_nothing_acknowledged),
		cmocka_unit_test(a_killed_shard_of_a_cluster_loses_nothing),
		cmocka_unit_test(a_batch_whose_acknowledgement_got_lost_counts_once),
		cmocka_unit_test(an_agent_may_change_its_collector),
		cmocka_unit_test(a_server_that_does_not_answer_is_named),
		cmocka_unit_test(newer_tables_are_refused),
		cmocka_unit_test(what_a_killed_migration_has_left_is_completed),
		cmocka_unit_test(drops_days_beyond_retention),
		cmocka_unit_test(drops_nothing_while_the_clocks_differ),
		cmocka_unit_test(deletes_series_of_a_range),
		cmocka_unit_test(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
