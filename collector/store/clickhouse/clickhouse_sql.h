// SPDX-License-Identifier: Apache-2.0
// All that is said to ClickHouse, in the SQL of 18.16, which today's servers understand, too. %s in them are names that
// were checked, and conditions made of numbers: nothing of a user or an agent stands in a statement. Ids go beside it, as the
// external table "ids".
#pragma once

// ---- tables ---------------------------------------------------------------------------------------

#define SQL_LOCATION_COLUMNS                                                         \
	"day Date, id FixedString(16), detail UInt8, kind UInt8, module String, "    \
	"build_id String, offset UInt64, names Array(String), files Array(String), " \
	"numbers Array(UInt32)"
#define SQL_STACK_COLUMNS \
	"day Date, id FixedString(16), end UInt8, locations Array(FixedString(16))"
#define SQL_SERIES_COLUMNS \
	"day Date, id FixedString(16), type String, names Array(String), values Array(String)"
// first_slot: the number of the minute's first slot, which those in slots are counted from. first_ns and last_ns: when
// the first and the last slot of the row begin. more_slots is empty if no sample has any.
#define SQL_SAMPLE_COLUMNS                                                  \
	"day Date, service UInt64, series FixedString(16), minute UInt32, " \
	"batch FixedString(16), slot_ns UInt64, first_slot UInt64, "        \
	"first_ns UInt64, last_ns UInt64, slots Array(UInt32), "            \
	"more_slots Array(UInt32), stacks Array(FixedString(16)), values Array(Int64)"
#define SQL_BATCH_COLUMNS "day Date, boot FixedString(16), sequence UInt64"

#define SQL_CREATE_DATABASE "CREATE DATABASE IF NOT EXISTS %s"
#define SQL_CREATE_TABLE \
	"CREATE TABLE IF NOT EXISTS %s.%s (%s) ENGINE = %s PARTITION BY day ORDER BY %s"
#define SQL_ENGINE            "ReplacingMergeTree(%s)"
#define SQL_REPLICATED_ENGINE "ReplicatedReplacingMergeTree('/cairn/%s/%u/%s', '%u'%s%s)"
#define SQL_CREATE_VERSIONS                                                        \
	"CREATE TABLE IF NOT EXISTS %s.versions (version UInt64, program String, " \
	"time DateTime) ENGINE = MergeTree() ORDER BY version"
#define SQL_SCHEMA_VERSION "SELECT max(version) FROM %s.versions FORMAT RowBinary"
#define SQL_ADD_VERSION    "INSERT INTO %s.versions SELECT toUInt64(%llu), '%s', now()"

// ---- servers --------------------------------------------------------------------------------------

#define SQL_VERSION "SELECT version() FORMAT RowBinary"
#define SQL_NOW     "SELECT toUInt64(toUnixTimestamp(now())) FORMAT RowBinary"
#define SQL_KEEPER  "SELECT count() FROM system.zookeeper WHERE path = '/'"
#define SQL_CLUSTER_PLACE                                                         \
	"SELECT toUInt64(shard_num), toUInt64(replica_num) FROM system.clusters " \
	"WHERE cluster = '%s' AND is_local FORMAT RowBinary"
#define SQL_CLUSTER_SIZE                                               \
	"SELECT toUInt64(max(shard_num)), toUInt64(max(replica_num)) " \
	"FROM system.clusters WHERE cluster = '%s' FORMAT RowBinary"

// ---- batches and definitions ----------------------------------------------------------------------

#define SQL_INSERT "INSERT INTO %s FORMAT RowBinary"
#define SQL_LAST_SEQUENCE \
	"SELECT boot, max(sequence) FROM batches WHERE boot IN ids GROUP BY boot FORMAT RowBinary"
#define SQL_STACKS                                                             \
	"SELECT id, end, locations FROM stacks WHERE id IN ids LIMIT 1 BY id " \
	"FORMAT RowBinary"
#define SQL_LOCATIONS                                                       \
	"SELECT id, kind, module, build_id, offset, names, files, numbers " \
	"FROM locations WHERE id IN ids ORDER BY id, detail DESC LIMIT 1 BY id FORMAT RowBinary"
#define SQL_SERIES_BY_ID                                                            \
	"SELECT id, type, names, values FROM series WHERE id IN ids LIMIT 1 BY id " \
	"FORMAT RowBinary"

// ---- samples --------------------------------------------------------------------------------------

// A batch that was sent again after its acknowledgement got lost is there twice, until a merge drops one.
#define SQL_ONCE "LIMIT 1 BY series, minute, batch"

#define SQL_ACTIVE_SERIES "SELECT DISTINCT series FROM samples WHERE %s FORMAT RowBinary"
#define SQL_SUMS                                                                               \
	"SELECT stack, sum(value) FROM (SELECT stacks, values FROM samples WHERE %s " SQL_ONCE \
	") ARRAY JOIN stacks AS stack, values AS value GROUP BY stack FORMAT RowBinary"
#define SQL_SERIES_SUMS                                                         \
	"SELECT series, stack, sum(value) FROM (SELECT series, stacks, values " \
	"FROM samples WHERE %s " SQL_ONCE ") ARRAY JOIN stacks AS stack, "      \
	"values AS value GROUP BY series, stack FORMAT RowBinary"
#define SQL_ROWS                                                                 \
	"SELECT series, slot_ns, first_slot, slots, more_slots, values, stacks " \
	"FROM samples WHERE %s " SQL_ONCE " FORMAT RowBinary"

// Of samples that cover one slot. %1$s: "series, " or ""; %2$s: conditions; %3$llu, %4$llu: the range; %5$llu: a slot of
// the answer.
#define SQL_ACTIVITY                                                                               \
	"SELECT %1$sintDiv((first_slot + slot) * slot_ns - %3$llu, %5$llu) AS number, sum(value) " \
	"FROM (SELECT series, slot_ns, first_slot, slots, values FROM samples "                    \
	"WHERE %2$s AND empty(more_slots) " SQL_ONCE ") "                                          \
	"ARRAY JOIN slots AS slot, values AS value "                                               \
	"WHERE (first_slot + slot) * slot_ns >= %3$llu "                                           \
	"AND (first_slot + slot) * slot_ns < %4$llu "                                              \
	"GROUP BY %1$snumber FORMAT RowBinary"
// The others: what does not divide evenly is spread as interval.h says.
#define SQL_INTERVALS                                                    \
	"SELECT series, slot_ns, first_slot, slots, more_slots, values " \
	"FROM samples WHERE %s AND notEmpty(more_slots) " SQL_ONCE " FORMAT RowBinary"

// ---- maintenance ----------------------------------------------------------------------------------

#define SQL_DAYS                                                                             \
	"SELECT toUInt64(toRelativeDayNum(min_date)), sum(bytes_on_disk) FROM system.parts " \
	"WHERE database = '%s' AND active AND table IN ('locations', 'stacks', 'series', "   \
	"'samples', 'batches') GROUP BY min_date ORDER BY min_date FORMAT RowBinary"
#define SQL_SIZES                                                                 \
	"SELECT table, count(), sum(rows), sum(bytes_on_disk) FROM system.parts " \
	"WHERE database = '%s' AND active GROUP BY table FORMAT RowBinary"
#define SQL_DROP_DAY "ALTER TABLE %s DROP PARTITION '%s'"
#define SQL_DELETE   "ALTER TABLE samples DELETE WHERE %s AND series IN (%s)"
#define SQL_MUTATIONS_LEFT                                                \
	"SELECT count() FROM system.mutations WHERE database = '%s' AND " \
	"table = 'samples' AND NOT is_done FORMAT RowBinary"
