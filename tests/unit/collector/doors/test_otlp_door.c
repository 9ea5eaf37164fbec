// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/collector/doors/doors_fixture.h"

#include "collector/doors/otlp_door.h"
#include "tests/unit/base/import/otlp_recorded.h"

TEST(export_stores_what_came)
{
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct doors_fixture f;

	open_doors(&f);
	const struct rpc_request request = { .bytes = otlp_recorded,
					     .size = sizeof(otlp_recorded),
					     .peer = "192.0.2.1",
					     .caller = &f.identity };
	assert_int_equal(otlp_export(&f.doors, &request, &response, &f.err), RPC_OK);
	assert_int_equal(0, response.size);
	assert_string_equal(
		"python3;<module> (app.py:30);Model.predict (model.py:12) 2000000000\n"
		"python3;<module> (app.py:30);Model.predict (model.py:12);libcompute.so+0x1234 "
		"2000000000\n",
		seen.stacks);
	assert_non_null(strstr(seen.labels, "tenant=shop,"));
	close_doors(&f);
}

TEST(export_maps_failures_to_statuses)
{
	static const struct {
		int append_rc;
		const void *bytes;
		size_t size;
		enum rpc_status status;
		const char *what;
	} rows[] = {
		{ 0, "\xff", 1, RPC_INVALID_ARGUMENT, "malformed" },
		{ 0, NULL, 0, RPC_OK, "empty" },
		{ -EIO, otlp_recorded, sizeof(otlp_recorded), RPC_UNAVAILABLE, "disk" },
		{ -EAGAIN, otlp_recorded, sizeof(otlp_recorded), RPC_UNAVAILABLE, "clock" },
	};

	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer response = { 0 };
		struct doors_fixture f;

		open_doors(&f);
		f.store->append_rc = row->append_rc;
		const struct rpc_request request = { .bytes = row->bytes,
						     .size = row->size,
						     .peer = "p" };
		EXPECT_EQ(row->status, otlp_export(&f.doors, &request, &response, &f.err),
			  row->what);
		close_doors(&f);
	}
}

TEST(an_exporter_is_told_when_to_try_again)
{
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct limits_fixture limits;
	struct doors_fixture f;
	uint32_t pause_ms = 0;

	open_doors(&f);
	limits_open(&limits, "tenants: {shop: {ingest-rate: 1KiB, ingest-burst: 64KiB}}\n");
	f.doors.limits = limits.limits;
	const struct rpc_request request = { .bytes = otlp_recorded,
					     .size = sizeof(otlp_recorded),
					     .peer = "192.0.2.1",
					     .caller = &f.identity,
					     .ret_pause_ms = &pause_ms };
	EXPECT_EQ(RPC_OK, otlp_export(&f.doors, &request, &response, &f.err), "within its rate");
	EXPECT_EQ(0, pause_ms, "nothing to wait for");
	limits_use(&limits, "shop", 164 << 10);
	EXPECT_EQ(RPC_RESOURCE_EXHAUSTED, otlp_export(&f.doors, &request, &response, &f.err),
		  "over its rate");
	assert_true(pause_ms > 90 * 1000 && pause_ms < 104 * 1000);
	limits_close(&limits);
	close_doors(&f);
}

TEST(json_is_the_same_request)
{
	static const char json[] =
		"{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		"\"value\":"
		"{\"stringValue\":\"web\"}}]},\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":{"
		"\"typeStrindex\":1,"
		"\"unitStrindex\":2},\"samples\":[{\"stackIndex\":1,\"timestampsUnixNano\":["
		"\"1700000000000000000\","
		"1700000000020000000]}],\"periodType\":{\"typeStrindex\":3,\"unitStrindex\":4},"
		"\"period\":\"50000000\","
		"\"profileId\":\"00ff\"}]}]}],\"dictionary\":{\"string_table\":[\"\",\"samples\","
		"\"count\",\"cpu\","
		"\"nanoseconds\",\"work\"],\"functionTable\":[{},{\"nameStrindex\":5}],"
		"\"locationTable\":[{},{\"lines\":"
		"[{\"functionIndex\":1}]}],\"stackTable\":[{},{\"locationIndices\":[1]}]}}";
	struct doors_fixture f;

	open_doors(&f);
	struct door_request request = door_request_of(&f, "", json, sizeof(json) - 1);
	request.content_type = "application/json";
	if (otlp_push(&f.doors, &request, &f.outcome, &f.err))
		fail_msg("%s", f.err.text);
	assert_string_equal("web;work 100000000\n", seen.stacks);
	assert_int_equal(2, seen.sample_count); // two slots
	for (size_t size = 0; size < sizeof(json) - 1; size += 7) {
		request.size = size;
		int rc = otlp_push(&f.doors, &request, &f.outcome, &f.err);
		assert_true(rc == -EBADMSG);
	}
	close_doors(&f);
}

TEST(answers_partial_success)
{
	static const char expected[] =
		"{\"partialSuccess\":{\"errorMessage\":\"2 rows are in a series with the label "
		"other: a quota of series is reached\"}}";
	const struct door_outcome outcome = { .rows = 5, .other = 2 };
	_cleanup_(buffer_deinit) struct buffer json = { 0 }, proto = { 0 };

	otlp_respond(&outcome, true, &json);
	assert_string_equal(expected, buffer_string(&json));
	otlp_respond(&outcome, false, &proto);
	assert_int_equal(0x0a, proto.bytes[0]); // partial_success
	assert_int_equal(proto.size - 2, proto.bytes[1]);
	assert_int_equal(0x12, proto.bytes[2]); // error_message
}

RUN_TESTS(cmocka_unit_test(an_exporter_is_told_when_to_try_again),
	  cmocka_unit_test(export_stores_what_came),
	  cmocka_unit_test(export_maps_failures_to_statuses),
	  cmocka_unit_test(json_is_the_same_request), cmocka_unit_test(answers_partial_success))
