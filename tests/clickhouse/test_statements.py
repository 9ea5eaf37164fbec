# SPDX-License-Identifier: Apache-2.0
"""Today's ClickHouse understands the statements of collector/store/clickhouse/clickhouse_sql.h: chdb (pip install chdb) is its engine."""
import pathlib
import re

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "collector/store/clickhouse/clickhouse_sql.h"
TABLES = {"locations": ("LOCATION", "id", "detail"), "stacks": ("STACK", "id", ""), "series": ("SERIES", "id", ""),
          "samples": ("SAMPLE", "(service, series, minute, batch)", ""), "batches": ("BATCH", "boot", "sequence")}
WHERE = ("day >= toDate(16999) AND day <= toDate(17001) AND minute >= 0 AND minute <= 99 AND last_ns >= 0 "
         "AND first_ns <= 18446744073709551614")
SELECTED = WHERE + " AND service IN (1) AND series IN ids"


def statements():
    found = {}
    for name, text in re.findall(r"#define SQL_(\w+)\s+(.*)", SOURCE.read_text().replace("\\\n", " ")):
        text = text.replace("SQL_ONCE", f'"{found.get("ONCE", "")}"')
        found[name] = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace("FORMAT RowBinary", "")
    return found


def fixed(text):
    return f"toFixedString('{text}', 16)"


@pytest.fixture(scope="module")
def ask():
    chdb = pytest.importorskip("chdb.session", reason="chdb is missing: pip install chdb")
    server, sql = chdb.Session(), statements()

    def run(statement, *values):
        for value in values:
            statement = statement.replace("%s", value, 1)
        return sorted(str(server.query(statement, "TSV")).replace("\\0", "").split("\n")[:-1])

    run(sql["CREATE_DATABASE"], "t")
    run("USE t")
    run(sql["CREATE_VERSIONS"], "t")
    for table, (columns, order, version) in TABLES.items():
        run(sql["CREATE_TABLE"], "t", table, sql[columns + "_COLUMNS"], sql["ENGINE"].replace("%s", version),
            order + " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1")
    row = (f"toDate(17000), toUInt64(1), {fixed('s')}, 5, {fixed('b')}, 20000000, 100, 2000000000, 2020000000, "
           f"[0, 1], [], [{fixed('a')}, {fixed('c')}], [5, 6]")
    for _ in range(2):  # a batch that was sent again
        run(f"INSERT INTO samples SELECT {row}")
    run(f"INSERT INTO stacks SELECT toDate(17000), {fixed('a')}, 0, [{fixed('l')}]")
    run(f"INSERT INTO locations SELECT toDate(17000), {fixed('l')}, 0, 2, 'm', 'i', 7, [], [], []")
    run(f"INSERT INTO locations SELECT toDate(17001), {fixed('l')}, 2, 2, 'm', 'i', 7, ['n'], ['f'], [1]")
    run(f"INSERT INTO series SELECT toDate(17000), {fixed('s')}, 't', ['a'], ['b']")
    run(f"INSERT INTO batches SELECT toDate(17000), {fixed('a')}, arrayJoin([4, 3])")
    run("CREATE TABLE ids (id FixedString(16)) ENGINE = Memory")
    run("INSERT INTO ids SELECT toFixedString(x, 16) FROM (SELECT arrayJoin(['a', 'l', 's']) AS x)")
    run.sql = sql
    return run


@pytest.mark.parametrize("name, values, rows", [
    ("LAST_SEQUENCE", (), ["a\t4"]),
    ("STACKS", (), ["a\t0\t['l']"]),
    ("LOCATIONS", (), ["l\t2\tm\ti\t7\t['n']\t['f']\t[1]"]),
    ("SERIES_BY_ID", (), ["s\tt\t['a']\t['b']"]),
    ("ACTIVE_SERIES", (WHERE,), ["s"]),
    ("SUMS", (SELECTED,), ["a\t5", "c\t6"]),
    ("SERIES_SUMS", (SELECTED,), ["s\ta\t5", "s\tc\t6"]),
    ("ROWS", (SELECTED,), ["s\t20000000\t100\t[0,1]\t[]\t[5,6]\t['a','c']"]),
    ("INTERVALS", (SELECTED,), []),
    ("SCHEMA_VERSION", ("t",), ["0"]),
    ("MUTATIONS_LEFT", ("t",), ["0"]),
])
def test_answers(ask, name, values, rows):
    assert ask(ask.sql[name], *values) == rows


def test_activity(ask):
    for series, rows in (("", ["100\t6", "99\t5"]), ("series, ", ["s\t100\t6", "s\t99\t5"])):
        statement = ask.sql["ACTIVITY"]
        for place, value in (("%1$s", series), ("%2$s", SELECTED), ("%3$llu", "1000"), ("%4$llu", "99999999999"),
                             ("%5$llu", "20000000")):
            statement = statement.replace(place, value)
        assert ask(statement) == rows


def test_days_are_listed_and_dropped(ask):
    assert [row.split("\t")[0] for row in ask(ask.sql["DAYS"], "t")] == ["17000", "17001"]
    ask(ask.sql["DROP_DAY"], "locations", "2016-07-19")
    assert [row.split("\t")[0] for row in ask(ask.sql["DAYS"], "t")] == ["17000"]
