// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/collector/doors/doors_fixture.h"

#include "collector/doors/push_door.h"

#define FROM "1700000000"
#define SLOT (1700000000ULL * 50)

static int ingest(struct doors_fixture *f, const char *parameters, const char *body)
{
	const struct door_request request = door_request_of(f, parameters, body, strlen(body));

	return push_ingest(&f->doors, &request, &f->outcome, &f->err);
}

TEST(ingest_reads_folded_stacks)
{
	static const struct {
		const char *parameters, *body, *stacks, *labels, *type, *what;
	} rows[] = {
		{ "name\0web.cpu{env=prod,region=\"eu\"}\0from\0" FROM "\0until\0"
		  "1700000010\0",
		  "a;b 2\n", "web;a;b 20000000\n",
		  "env=prod,process=web,region=eu,service=web,tenant=shop,", PROFILE_TYPE_CPU,
		  "CPU time of 100 Hz" },
		{ "name\0web\0from\0" FROM "\0sampleRate\0"
		  "20\0",
		  "a 1\n", "web;a 50000000\n", "process=web,service=web,tenant=shop,",
		  PROFILE_TYPE_CPU, "20 Hz" },
		{ "name\0web.alloc_space\0from\0" FROM "\0units\0bytes\0", "a 7\n", "web;a 7\n",
		  "process=web,service=web,tenant=shop,",
		  "memory:alloc_space:bytes:alloc_space:bytes", "bytes" },
		{ "name\0web.wall{tenant=evil,__x__=y}\0from\0" FROM "\0format\0lines\0", "a\na\n",
		  "web;a 20000000\n", "process=web,service=web,tenant=shop,",
		  "wall:wall:nanoseconds:wall:nanoseconds", "lines, labels that nobody sets" },
	};

	for EACH (row, rows) {
		struct doors_fixture f;

		open_doors(&f);
		if (ingest(&f, row->parameters, row->body))
			fail_msg("%s: %s", row->what, f.err.text);
		EXPECT_STR(row->type, seen.type, row->what);
		EXPECT_STR(row->stacks, seen.stacks, row->what);
		EXPECT_STR(row->labels, seen.labels, row->what);
		EXPECT_EQ(SLOT, seen.from_slot, row->what);
		EXPECT_EQ(0, seen.to_ns, "no vote about clocks");
		close_doors(&f);
	}
}

TEST(ingest_refuses_in_words)
{
	static const struct {
		const char *parameters, *body, *words;
		int rc;
	} rows[] = {
		{ "", "a 1\n", "name: expected", -EINVAL },
		{ "name\0web{x}\0", "a 1\n", "label=value", -EINVAL },
		{ "name\0web\0from\0yesterday\0", "a 1\n", "from: \"yesterday\"", -EINVAL },
		{ "name\0web\0from\0"
		  "99999999999999999999\0",
		  "a 1\n", "from:", -EINVAL },
		{ "name\0web\0from\0" FROM "\0until\0"
		  "1600000000\0",
		  "a 1\n", "until: before from", -EINVAL },
		{ "name\0web\0format\0jfr\0", "FLR", "Java Flight Recorder", -ENOTSUP },
		{ "name\0web\0format\0trie\0", "x", "\"trie\": not read", -ENOTSUP },
		{ "name\0web\0sampleRate\0"
		  "0\0",
		  "a 1\n", "sampleRate", -EINVAL },
		{ "name\0web\0", "a\n", "line 1", -EBADMSG },
		{ "name\0web\0format\0pprof\0", "nonsense", "pprof", -EBADMSG },
	};

	for EACH (row, rows) {
		struct doors_fixture f;

		open_doors(&f);
		EXPECT_EQ(row->rc, ingest(&f, row->parameters, row->body), row->words);
		if (!strstr(f.err.text, row->words))
			fail_msg("%s: \"%s\"", row->words, f.err.text);
		close_doors(&f);
	}
}

TEST(limits_are_named_in_words)
{
	_cleanup_(buffer_deinit) struct buffer tags = { 0 }, frames = { 0 };
	struct doors_fixture f;

	open_doors(&f);
	buffer_append(&tags, "name\0web{", 9);
	for (int i = 0; i < 40; i++)
		buffer_printf(&tags, "l%d=v,", i);
	buffer_append(&tags, "}\0", 3);
	assert_int_equal(ingest(&f, (const char *)tags.bytes, "a 1\n"), -EINVAL);
	assert_string_equal("labels: more than 32", f.err.text);
	for (int i = 0; i < 70000; i++)
		buffer_append_string(&frames, "a;");
	buffer_append_string(&frames, " 1\n");
	assert_int_equal(ingest(&f, "name\0web\0", buffer_string(&frames)), -E2BIG);
	assert_string_equal(
		"collapsed stacks: line 1: too many, or a stack too deep; push less at once",
		f.err.text);
	close_doors(&f);
}

TEST(ingest_reads_parts_of_a_form)
{
	static const char body[] =
		"--xyz\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"p\"\r\n"
		"Content-Type: text/plain\r\n\r\na 3\n\r\n--xyz--\r\n";
	static const char previous[] =
		"--xyz\r\nContent-Disposition: form-data; name=\"profile\"\r\n\r\n"
		"\x0a\x02\x08\x01\r\n--xyz\r\nContent-Disposition: form-data; name=\"prev_profile\""
		"\r\n\r\nx\r\n--xyz--";
	struct doors_fixture f;

	open_doors(&f);
	struct door_request request =
		door_request_of(&f, "name\0web\0from\0" FROM "\0", body, sizeof(body) - 1);
	request.content_type = "multipart/form-data; boundary=xyz";
	assert_int_equal(push_ingest(&f.doors, &request, &f.outcome, &f.err), 0);
	assert_string_equal("web;a 30000000\n", seen.stacks);
	request.bytes = previous;
	request.size = sizeof(previous) - 1;
	assert_int_equal(push_ingest(&f.doors, &request, &f.outcome, &f.err), -ENOTSUP);
	assert_non_null(strstr(f.err.text, "prev_profile"));
	close_doors(&f);
}

/** A profile of one stack: leaf work, 5 ms of CPU time. */
static void put_pprof(struct buffer *bytes)
{
	static const char *const strings[] = { "", "cpu", "nanoseconds", "work" };

	PUT(bytes, 1, 1, 1, 2, 2);
	PUT(bytes, 2, 1, 1, 2, 5000000);
	put_bytes(bytes, 4, "\x08\x01\x22\x02\x08\x01", 6);
	PUT(bytes, 5, 1, 1, 2, 3);
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		put_text(bytes, 6, strings[i]);
	put_number(bytes, 9, 1700000000000000000);
	PUT(bytes, 11, 1, 1, 2, 2);
}

TEST(push_takes_labels_of_url)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct doors_fixture f;

	open_doors(&f);
	put_pprof(&bytes);
	const struct door_request request = door_request_of(
		&f, "service\0web\0env\0prod\0from\0" FROM "\0", bytes.bytes, bytes.size);
	assert_int_equal(push_pprof(&f.doors, &request, &f.outcome, &f.err), 0);
	assert_string_equal("web;work 5000000\n", seen.stacks);
	assert_string_equal("env=prod,process=web,service=web,tenant=shop,", seen.labels);
	assert_string_equal(PROFILE_TYPE_CPU, seen.type);
	assert_int_equal(1, f.outcome.samples);
	assert_int_equal(1, f.metrics.counters[METRIC_PUSH_BATCHES]);
	close_doors(&f);
}

static void put_pair(struct buffer *series, const char *name, const char *value)
{
	_cleanup_(buffer_deinit) struct buffer pair = { 0 };

	put_text(&pair, 1, name);
	put_text(&pair, 2, value);
	put_bytes(series, 1, pair.bytes, pair.size);
}

TEST(pusher_joins_series_into_one_batch)
{
	_cleanup_(buffer_deinit) struct buffer pprof = { 0 }, sample = { 0 }, series = { 0 },
					       request_bytes = { 0 };
	struct doors_fixture f;

	open_doors(&f);
	put_pprof(&pprof);
	put_bytes(&sample, 1, pprof.bytes, pprof.size);
	put_pair(&series, "__name__", "process_cpu");
	put_pair(&series, "service_name", "web");
	put_bytes(&series, 2, sample.bytes, sample.size);
	put_bytes(&request_bytes, 1, series.bytes, series.size);
	put_bytes(&request_bytes, 1, series.bytes, series.size);
	struct door_request request =
		door_request_of(&f, "", request_bytes.bytes, request_bytes.size);
	assert_int_equal(push_series(&f.doors, &request, &f.outcome, &f.err), 0);
	assert_string_equal("web;work 10000000\n", seen.stacks);
	assert_int_equal(2, f.outcome.samples);

	request.size--;
	assert_int_equal(push_series(&f.doors, &request, &f.outcome, &f.err), -EBADMSG);
	close_doors(&f);
}

TEST(pusher_reads_json)
{
	static const char json[] =
		"{\"series\":[{\"labels\":[{\"name\":\"service_name\",\"value\":\"w\\u0065b\"}],"
		"\"samples\":[{\"rawProfile\":\"%s\",\"ID\":\"x\"}]}],\"unknown\":{\"a\":[1]}}";
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	_cleanup_(buffer_deinit) struct buffer pprof = { 0 }, base64 = { 0 }, body = { 0 };
	struct doors_fixture f;

	open_doors(&f);
	put_pprof(&pprof);
	for (size_t i = 0; i < pprof.size; i += 3) {
		uint32_t bits = 0;

		for (size_t j = 0; j < 3; j++)
			bits = bits << 8 | (i + j < pprof.size ? pprof.bytes[i + j] : 0);
		for (int j = 3; j >= 0; j--)
			buffer_append_byte(&base64, (uint8_t)digits[bits >> (6 * j) & 63]);
	}
	// Zeros at the end are a field of number 0, and not sound.
	base64.size -= (3 - pprof.size % 3) % 3;
	buffer_printf(&body, json, buffer_string(&base64));
	struct door_request request = door_request_of(&f, "", body.bytes, body.size);
	request.content_type = "application/json; charset=utf-8";
	if (push_series(&f.doors, &request, &f.outcome, &f.err))
		fail_msg("%s", f.err.text);
	assert_string_equal("web;work 5000000\n", seen.stacks);
	close_doors(&f);
}

TEST(same_body_is_same_batch)
{
	struct store_batch_id first, again, elsewhere, later;
	struct doors_fixture f;

	open_doors(&f);
	assert_int_equal(ingest(&f, "name\0web\0from\0" FROM "\0", "a 1\n"), 0);
	first = seen.id;
	assert_int_equal(ingest(&f, "name\0web\0from\0" FROM "\0", "a 1\n"), 0);
	again = seen.id;
	assert_true(f.outcome.duplicate);
	assert_int_equal(ingest(&f,
				"name\0web\0from\0"
				"1700000001\0",
				"a 1\n"),
			 0);
	later = seen.id;
	struct door_request request =
		door_request_of(&f, "name\0web\0from\0" FROM "\0", "a 1\n", 4);
	request.address = "192.0.2.2";
	assert_int_equal(push_ingest(&f.doors, &request, &f.outcome, &f.err), 0);
	elsewhere = seen.id;
	assert_true(id128_equal(first.agent, again.agent));
	assert_false(id128_equal(first.agent, later.agent));
	assert_false(id128_equal(first.agent, elsewhere.agent));
	close_doors(&f);
}

TEST(a_tenant_over_its_rate_pushes_later)
{
	struct limits_fixture limits;
	struct doors_fixture f;

	open_doors(&f);
	limits_open(&limits, "tenants: {shop: {ingest-rate: 1KiB, ingest-burst: 1KiB}}\n");
	f.doors.limits = limits.limits;
	EXPECT_EQ(0, ingest(&f, "name\0web\0from\0" FROM "\0", "a 1\n"), "within its rate");
	limits_use(&limits, "shop", 1 << 20);
	EXPECT_EQ(TENANT_LATER, ingest(&f, "name\0web\0from\0" FROM "\0", "a 2\n"), "over it");
	assert_non_null(strstr(f.err.text, "tenant shop: ingest-rate: 1 KiB ("));
	doors_count_failure(&f.doors, &f.err);
	EXPECT_EQ(0, f.metrics.counters[METRIC_PUSH_ERRORS], "the store did not fail");
	strcpy(f.identity.tenant, "bank");
	EXPECT_EQ(0, ingest(&f, "name\0web\0from\0" FROM "\0", "a 3\n"), "another tenant");
	EXPECT_EQ(1, refusals_of(&limits, "shop", LIMIT_INGEST_RATE), "counted");
	limits_close(&limits);
	close_doors(&f);
}

TEST(limits_of_labels_and_stacks_hold_for_pushes)
{
	struct limits_fixture limits;
	struct doors_fixture f;
	char body[200] = "", words[DOOR_WORDS_BYTES];

	open_doors(&f);
	limits_open(&limits, "tenants: {shop: {stack-depth: 16, label-value-bytes: 16}}\n");
	f.doors.limits = limits.limits;
	for (int i = 0; i < 20; i++)
		sprintf(body + strlen(body), "%sf%d", i ? ";" : "", i);
	strcat(body, " 1\n");
	if (ingest(&f, "name\0web{env=0123456789abcdefg}\0from\0" FROM "\0", body))
		fail_msg("%s", f.err.text);
	EXPECT_STR(
		"web;[truncated: too deep];f4;f5;f6;f7;f8;f9;f10;f11;f12;f13;f14;f15;f16;f17;f18;"
		"f19 10000000\n",
		seen.stacks, "the leaf stays");
	EXPECT_STR("env=0123456789abcdef,process=web,service=web,tenant=shop,", seen.labels,
		   "labels");
	door_outcome_words(&f.outcome, words, sizeof(words));
	assert_non_null(strstr(words, "tenant shop: label-value-bytes: 16 ("));
	assert_non_null(strstr(words, ":1): series with values cut: 1; "
				      "tenant shop: stack-depth: 16 ("));
	limits_close(&limits);
	close_doors(&f);
}

TEST(says_what_was_refused)
{
	char words[400];
	struct doors_fixture f;

	open_doors(&f);
	f.store->refused =
		(struct store_append_result){ .rows_late = 1,
					      .accepted = { 1700000000 * NS_PER_SECOND,
							    1700003600 * NS_PER_SECOND } };
	assert_int_equal(ingest(&f, "name\0web\0from\0" FROM "\0", "a 1\n"), -ERANGE);
	assert_non_null(strstr(f.err.text, "2023-11-14 22:13 UTC to 2023-11-14 23:13 UTC"));
	assert_int_equal(ingest(&f, "name\0web\0from\0" FROM "\0", "a 1\nb 1\n"), 0);
	door_outcome_words(&f.outcome, words, sizeof(words));
	assert_non_null(strstr(words, "1 of 2 rows were refused"));
	assert_int_equal(2, f.metrics.counters[METRIC_PUSH_ROWS_REFUSED]);
	close_doors(&f);
}

TEST(takes_memory_before_it_reads)
{
	struct doors_fixture f;

	open_doors(&f);
	f.budget.bytes_max = 1000;
	assert_int_equal(ingest(&f, "name\0web\0", "a 1\n"), -EFBIG);
	f.budget.bytes_max = 4 << 20;
	assert_true(byte_budget_take(&f.budget, 4 << 20));
	assert_int_equal(ingest(&f, "name\0web\0", "a 1\n"), -EDQUOT);
	doors_count_failure(&f.doors, &f.err);
	assert_int_equal(1, f.metrics.counters[METRIC_PUSH_MEMORY_FULL]);
	byte_budget_give(&f.budget, 4 << 20);
	close_doors(&f);
}

RUN_TESTS(cmocka_unit_test(a_tenant_over_its_rate_pushes_later),
	  cmocka_unit_test(limits_of_labels_and_stacks_hold_for_pushes),
	  cmocka_unit_test(ingest_reads_folded_stacks), cmocka_unit_test(ingest_refuses_in_words),
	  cmocka_unit_test(limits_are_named_in_words),
	  cmocka_unit_test(ingest_reads_parts_of_a_form),
	  cmocka_unit_test(push_takes_labels_of_url),
	  cmocka_unit_test(pusher_joins_series_into_one_batch), cmocka_unit_test(pusher_reads_json),
	  cmocka_unit_test(same_body_is_same_batch), cmocka_unit_test(says_what_was_refused),
	  cmocka_unit_test(takes_memory_before_it_reads))
