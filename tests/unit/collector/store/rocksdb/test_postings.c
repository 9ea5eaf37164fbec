// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/collector/store/store_fixture.h"

#include "collector/store/rocksdb/partition.h"
#include "collector/store/rocksdb/partition_presence.h"
#include "collector/store/rocksdb/postings.h"

static int add(struct postings *postings, const char *text, const char *type, uint64_t slot_ns,
	       uint32_t *ret_series)
{
	struct labels labels = { 0 };

	labels_of_text(text, &labels);
	int rc = postings_add(postings, series_id_of(&labels, type), &labels, type, slot_ns,
			      ret_series);
	labels_deinit(&labels);
	return rc;
}

static uint32_t count_in_view(const struct postings_view *view, const char *selector_text,
			      const char *type, uint64_t presence)
{
	struct selector selector = selector_of(selector_text);
	struct series_set set;
	uint32_t count = 0;

	assert_int_equal(0, postings_select(view, &selector, type, presence, &set));
	for (uint32_t i = 0; i < view->series_count + 100; i++)
		count += series_set_has(&set, i);
	series_set_deinit(&set);
	selector_deinit(&selector);
	return count;
}

static uint32_t count_matches(struct postings *postings, const char *selector_text,
			      const char *type, uint64_t presence)
{
	struct postings_view view = postings_view(postings);
	uint32_t count = count_in_view(&view, selector_text, type, presence);

	postings_view_deinit(&view);
	return count;
}

TEST(groups_series_by_service_type_and_slot)
{
	static const struct {
		const char *labels, *type;
		uint64_t slot_ns;
		uint32_t group;
	} cases[] = {
		{ "service=a,node=1", "cpu", 20, 0 },
		{ "service=a,node=2", "cpu", 20, 0 },
		{ "service=b,node=1", "cpu", 20, 1 },
		{ "service=a,node=1", "mem", 20, 2 },
		{ "service=a,node=1", "cpu", 40, 3 },
		{ "node=1", "cpu", 20, 4 },
		{ "", "cpu", 20, 4 },
	};
	struct postings *postings = postings_new();
	uint32_t series;

	for EACH (c, cases) {
		assert_int_equal(0, add(postings, c->labels, c->type, c->slot_ns, &series));
		EXPECT_EQ(c - cases, series, c->labels);
		EXPECT_EQ(c->group, postings->series[series].group, c->labels);
		postings->series[series].presence = 1;
	}
	EXPECT_EQ(2, postings->groups[0].series_count, "of the first group");
	EXPECT_EQ(6, count_matches(postings, "{}", "cpu", 1), "of a type");
	EXPECT_EQ(0, count_matches(postings, "{}", "cpu", 2), "not present");
	EXPECT_EQ(3, count_matches(postings, "{service=\"a\"}", "cpu", UINT64_MAX), "selected");
	postings_unref(postings);
}

/** Many values, so that sets have more than a word and lists grow. */
static void fill(struct postings *postings, uint32_t from, uint32_t to)
{
	char text[128];
	uint32_t series;

	for (uint32_t i = from; i < to; i++) {
		sprintf(text, "service=s%u,node=n%u,thread=t%u", i % 3, i % 50, i);
		assert_int_equal(0, add(postings, text, i % 2 ? "cpu" : "mem", 20, &series));
		postings->series[series].presence = 1ULL << i % 64;
	}
}

TEST(matches_values_of_many_series)
{
	struct postings *postings = postings_new();

	fill(postings, 0, 1000);
	EXPECT_EQ(1000, count_matches(postings, "{}", NULL, UINT64_MAX), "all");
	EXPECT_EQ(20, count_matches(postings, "{node=\"n7\"}", NULL, UINT64_MAX), "a node");
	EXPECT_EQ(980, count_matches(postings, "{node!=\"n7\"}", NULL, UINT64_MAX), "all others");
	EXPECT_EQ(40, count_matches(postings, "{node=~\"n[78]\"}", NULL, UINT64_MAX), "two nodes");
	EXPECT_EQ(20, count_matches(postings, "{node=~\"n[78]\"}", "cpu", UINT64_MAX),
		  "and a type");
	EXPECT_EQ(1, count_matches(postings, "{thread=\"t999\"}", NULL, UINT64_MAX), "the last");
	EXPECT_EQ(16, count_matches(postings, "{}", NULL, 1), "in the first 64th");
	postings_unref(postings);
}

TEST(a_view_stays_as_it_was)
{
	struct postings *postings = postings_new();

	fill(postings, 0, 1000);
	struct postings_view view = postings_view(postings);
	fill(postings, 1000, 5000); // all arrays move
	EXPECT_EQ(1000, count_in_view(&view, "{}", NULL, UINT64_MAX), "all");
	EXPECT_EQ(20, count_in_view(&view, "{node=~\"n7\"}", NULL, UINT64_MAX), "a node");
	EXPECT_EQ(100, count_matches(postings, "{node=~\"n7\"}", NULL, UINT64_MAX), "now");
	postings_unref(postings); // evicted
	EXPECT_EQ(20, count_in_view(&view, "{node=~\"n7\"}", NULL, UINT64_MAX), "a node");
	EXPECT_EQ(1, count_in_view(&view, "{thread=\"t999\"}", NULL, UINT64_MAX), "the last");
	EXPECT_EQ(0, count_in_view(&view, "{thread=\"t1000\"}", NULL, UINT64_MAX), "after it");
	postings_view_deinit(&view);
}

TEST(restores_postings_from_their_records)
{
	struct postings *postings = postings_new(), *copy = postings_new();

	for (uint32_t from = 0; from < 1000; from += 250) {
		struct buffer record = { 0 };

		fill(postings, from, from + 250);
		postings_encode(postings, from, &record);
		assert_int_equal(
			0,
			postings_decode(copy, (struct bytes){ record.bytes, record.size }, NULL));
		buffer_deinit(&record);
	}
	EXPECT_EQ(1000, copy->series_count, "series");
	EXPECT_EQ(postings->pair_count, copy->pair_count, "pairs");
	for (uint32_t i = 0; i < 1000; i++) {
		EXPECT_EQ(i, postings_find(copy, postings->series[i].id, 20), "found");
		EXPECT_EQ(postings->series[i].group, copy->series[i].group, "group");
		copy->series[i].presence = 1;
	}
	EXPECT_EQ(20, count_matches(copy, "{node=~\"n[78]\"}", "cpu", 1), "selected");
	postings_unref(postings);
	postings_unref(copy);
}

TEST(refuses_damaged_records)
{
	struct postings *postings = postings_new();
	struct buffer record = { 0 };

	fill(postings, 0, 20);
	postings_encode(postings, 0, &record);
	for (size_t i = 0; i < 2 * record.size; i++) {
		struct postings *copy = postings_new();
		size_t size = i < record.size ? record.size : i - record.size;
		_cleanup_free_ uint8_t *bytes = malloc(size + 1);

		memcpy(bytes, record.bytes, size);
		if (i < record.size)
			bytes[i] ^= (uint8_t)(0x81 + i);
		int rc = postings_decode(copy, (struct bytes){ bytes, size }, NULL);
		if (size < record.size)
			EXPECT_EQ(-EBADMSG, rc, "cut");
		postings_unref(copy);
	}
	buffer_deinit(&record);
	postings_unref(postings);
}

/** What labels may hold at most is what a record may. */
TEST(restores_labels_at_their_limits)
{
	struct postings *postings = postings_new(), *restored = postings_new();
	char type[5 * PROFILE_TYPE_PART_BYTES], name[LABEL_NAME_BYTES_MAX + 1];
	char value[LABEL_VALUE_BYTES_MAX + 1];
	struct labels labels = { 0 };
	struct buffer record = { 0 };
	uint32_t series;

	memset(type, 't', sizeof(type));
	memset(name, 'n', sizeof(name));
	memset(value, 'v', sizeof(value));
	type[sizeof(type) - 1] = name[sizeof(name) - 1] = value[sizeof(value) - 1] = 0;
	for (uint32_t i = 0; i < LABELS_MAX; i++) {
		name[0] = (char)('A' + i % 26);
		name[1] = (char)('A' + i / 26);
		value[0] = (char)('A' + i);
		assert_int_equal(0, labels_set(&labels, name, value));
	}
	assert_int_equal(0, postings_add(postings, series_id_of(&labels, type), &labels, type,
					 TEST_SLOT_NS, &series));
	postings_encode(postings, 0, &record);
	assert_int_equal(
		0, postings_decode(restored, (struct bytes){ record.bytes, record.size }, NULL));
	EXPECT_EQ(LABELS_MAX, restored->series[0].pair_count, "labels");
	EXPECT_EQ(series, postings_find(restored, series_id_of(&labels, type), TEST_SLOT_NS),
		  "found");
	labels_deinit(&labels);
	buffer_deinit(&record);
	postings_unref(postings);
	postings_unref(restored);
}

/** A record that names a pair twice would write beyond a posting list. */
TEST(refuses_a_record_that_repeats_a_pair)
{
	static const struct {
		const char *what, *bytes;
		uint32_t size;
		int rc;
	} records[] = {
#define SERIES             \
	"\0\1"             \
	"0123456789abcdef" \
	"\x14"
		{ "two labels",
		  SERIES "\0\1t\1x"
			 "\2"
			 "\1\1a\1b"
			 "\2\1c\1d",
		  35, 0 },
		{ "one label twice",
		  SERIES "\0\1t\1x"
			 "\2"
			 "\1\1a\1b"
			 "\1",
		  31, -EBADMSG },
		{ "the type as a label",
		  SERIES "\0\1t\1x"
			 "\1"
			 "\0",
		  26, -EBADMSG },
#undef SERIES
	};

	for EACH (row, records) {
		struct postings *postings = postings_new();

		EXPECT_EQ(row->rc,
			  postings_decode(postings, (struct bytes){ row->bytes, row->size }, NULL),
			  row->what);
		postings_unref(postings);
	}
}

TEST(refuses_series_beyond_the_limit)
{
	struct postings *postings = postings_new();
	struct labels labels = { 0 };
	uint32_t series;

	for (uint64_t i = 0; i < POSTINGS_SERIES_MAX; i++)
		assert_int_equal(0, postings_add(postings, (struct id128){ i, i * 2654435761U },
						 &labels, "cpu", 20, &series));
	EXPECT_EQ(-E2BIG, add(postings, "service=x", "cpu", 20, &series), "one more");
	EXPECT_EQ(POSTINGS_SERIES_MAX, postings->series_count, "series");
	postings_unref(postings);
}

// ---- small tables beside ----------------------------------------------------------------------------------

TEST(records_presence_per_64th)
{
	static const struct {
		const char *what;
		uint64_t from_s, to_s, bits;
	} cases[] = {
		{ "all of it", 0, 6400, UINT64_MAX },
		{ "more than it", 0, 99999, UINT64_MAX },
		{ "the first", 0, 100, 1 },
		{ "the first and a bit", 0, 101, 3 },
		{ "the last", 6300, 6400, 1ULL << 63 },
		{ "in the middle", 250, 350, 3 << 2 },
		{ "before", 0, 0, 0 },
		{ "after", 6400, 7000, 0 },
	};
	struct partition *partition = partition_new(1000 * NS_PER_SECOND, 6400 * NS_PER_SECOND);

	for EACH (c, cases)
		EXPECT_EQ(c->bits,
			  partition_presence(partition, (1000 + c->from_s) * NS_PER_SECOND,
					     (1000 + c->to_s) * NS_PER_SECOND),
			  c->what);
	EXPECT_EQ(1, partition_presence(partition, 0, 1001 * NS_PER_SECOND), "from long before");
	partition_unref(partition);
}

RUN_TESTS(cmocka_unit_test(groups_series_by_service_type_and_slot),
	  cmocka_unit_test(matches_values_of_many_series), cmocka_unit_test(a_view_stays_as_it_was),
	  cmocka_unit_test(restores_postings_from_their_records),
	  cmocka_unit_test(refuses_damaged_records),
	  cmocka_unit_test(refuses_series_beyond_the_limit),
	  cmocka_unit_test(restores_labels_at_their_limits),
	  cmocka_unit_test(refuses_a_record_that_repeats_a_pair),
	  cmocka_unit_test(records_presence_per_64th))
