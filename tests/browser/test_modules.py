# SPDX-License-Identifier: Apache-2.0
"""The page's pure functions, run by the browser itself: tables of what goes in and what comes out."""

import json

import pytest

from browser import BrowserError
from contract import CONTRACT, KNOBS, SPECS, TYPE, knob_sentence

NOW_MS = 1_893_495_600_000


@pytest.fixture(scope="module")
def call(browser, shared_fake):
    """call(module, function, *arguments): the result of an exported function."""
    shared_fake.server.away = False
    page = browser.page()
    page.call("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    page.open(shared_fake.url + "/?live=off")
    yield lambda module, function, *arguments: page.evaluate(
        f"import('/{module}.js').then((m) => m.{function}(...{json.dumps(arguments)}))")
    page.close()


@pytest.mark.parametrize("part, whole, text", [
    (0, 100, "0 %"), (12.34, 100, "12.3 %"), (100, 100, "100 %"), (99.99, 100, "99.9 %"), (0.5, 100, "0.50 %"),
    (0.001, 100, "< 0.01 %"), (1, 0, "–"), (0, 0, "–"),
])
def test_formats_shares(call, part, whole, text):
    assert call("format", "formatShare", part, whole).replace("\u202f", " ") == text


@pytest.mark.parametrize("ns, text", [
    (0, "0 s"), (850, "850 ns"), (20e6, "20.0 ms"), (1.24e9, "1.24 s"), (59.999e9, "1 m"), (72e9, "1 m 12 s"),
    (3600e9, "1 h"), (7500e9, "2 h 5 m"), (90000e9, "1 d 1 h"), (20000 * 86400e9, "20,000 d"),
])
def test_formats_durations(call, ns, text):
    assert call("format", "formatDuration", ns) == text


@pytest.mark.parametrize("text, ms", [
    ("now", NOW_MS), ("now-5m", NOW_MS - 300_000), ("now - 1h", NOW_MS - 3_600_000), ("1893495600", NOW_MS),
    ("1893495600000", NOW_MS), ("1893495600000000", NOW_MS), ("1893495600000000000", NOW_MS),
    ("2030-01-01T11:00:00Z", NOW_MS), ("2030-01-01T12:00:00.5+01:00", NOW_MS + 500), ("2030-01-01 11:00:00", NOW_MS),
    ("2030-01-01 11:00", NOW_MS), ("", None), ("now-5", None), ("now+5m", None), ("2030-02-31 10:00:00", None), ("5m", None),
    ("2030-01-01T99:00:00Z", None), ("11:00", NOW_MS), ("10:59:30", NOW_MS - 30_000), (" 9:00:00.5 ", NOW_MS - 7_199_500), ("11:00:01", NOW_MS - 86_399_000),
    ("24:00", None), ("10:60", None), ("10:5", None), ("now-99999999999999m", None), ("NaN", None), ("1e9", None),
])
def test_parses_times(call, text, ms):
    assert call("time_range", "resolveTime", text, NOW_MS) == ms


@pytest.mark.parametrize("from_text, to_text, from_ms, to_ms", [
    ("10:42", "10:48", NOW_MS - 1_080_000, NOW_MS - 720_000), ("10:58", "11:03", NOW_MS - 120_000, NOW_MS + 180_000),
    ("23:50", "0:10", NOW_MS - 40_200_000, NOW_MS - 39_000_000), ("2029-12-30 14:00", "15:00", NOW_MS - 162_000_000, NOW_MS - 158_400_000),
    ("now-1h", "10:30", NOW_MS - 3_600_000, NOW_MS - 1_800_000),
])
def test_a_time_of_day_ends_after_it_begins(call, from_text, to_text, from_ms, to_ms):
    assert call("time_range", "resolveRange", from_text, to_text, NOW_MS) == {"from_ms": from_ms, "to_ms": to_ms}


@pytest.mark.parametrize("values, usual, top, shares", [
    ([0, 0] + [20] * 8 + [21] + [20] * 8 + [19, 10, 0], 20, 10, {20: 0, 10: 1, 21: 0.1}), ([20, 20, 20, 20, 21], 20, 5, {20: 0, 25: 1}),
    ([5, 0, 5, 0, 0, 5], None, 5, {5: 1, 0: 0}), ([1, 2, 3, 4, 8], None, 8, {4: 0.5}), ([], None, 0, {}),
])
def test_a_lane_that_hardly_varies_shows_changes(call, values, usual, top, shares):
    lane = call("heat_cells", "laneOf", {"type": TYPE.OFF_CPU, "unit": "nanoseconds", "slot_ns": 1, "values": values})["mean"]
    assert (lane["usual"], lane["top"]) == (usual, top)
    for value, share in shares.items():
        assert call("heat_cells", "scaleShare", value, lane) == share


@pytest.mark.parametrize("name, total, values, has_lane", [
    ("disk", 50, [50, 0, 0], True), ("disk", 50, [25, 25, 0], False), ("lock", 200, [20] * 10, True), ("idle", 9999, [9999], False),
])
def test_a_short_wait_has_a_lane(call, name, total, values, has_lane):
    series = [{"group": "sleep", "total": 10_000, "values": [1000] * 10}, {"group": name, "total": total, "values": values}]
    assert call("heat_queries", "classesOf", series, 1000, False) == ["sleep"] + [name] * has_lane


@pytest.mark.parametrize("text, matchers", [
    ("", []), ("{}", []), ("llm", [["service", "=", "llm"]]), ('{service="a", node=~"x.*"}', [["service", "=", "a"], ["node", "=~", "x.*"]]),
    (r'{a="q\"\\n"}', [["a", "=", 'q"\\n']]), ('{a!="b",c!~"d"}', [["a", "!=", "b"], ["c", "!~", "d"]]),
    ("{", None), ('{a="b"', None), ('{a="b" c="d"}', None), ('{a=b}', None), ("two words", None), ('{a="b"}x', None),
    ('{a="' + "\\" * 5000 + '"}', [["a", "=", "\\" * 2500]]),
])
def test_parses_selectors(call, text, matchers):
    read = call("selector", "parseSelector", text)
    assert (None if read is None else [[m["name"], m["op"], m["value"]] for m in read]) == matchers


@pytest.mark.parametrize("text, value, result", [
    ("", "a", '{service="a"}'), ("old", "new", '{service="new"}'), ('{node="n", service="old"}', "new", '{service="new", node="n"}'),
    ('{service="a", node="n"}', None, '{node="n"}'), ('{service!="a"}', 'q"\\', r'{service="q\"\\"}'), ("{broken", "new", '{service="new"}'),
])
def test_replaces_the_service_matcher(call, text, value, result):
    assert call("selector", "withValue", text, "service", value) == result


@pytest.mark.parametrize("query, field, value", [
    ("from=now-1h", "from", "now-1h"), ("from=junk", "from", "now-15m"), ("sort=-total", "sort", "-total"), ("sort=drop", "sort", "self"),
    ("layout=evil", "layout", "both"), ("zoom=XYZ", "zoom", ""), ("nodes=999999", "nodes", "32768"), ("nodes=0", "nodes", "32768"),
    ("type=a:b", "type", TYPE.CPU), ("search=" + "x" * 500, "search", ""), ("group=", "group", ""),
    ("group=a%20b", "group", "auto"), ("type=off-cpu", "type", TYPE.OFF_CPU),
    ("type=constructor", "type", TYPE.CPU), ("type=x:y:z:a:b", "type", "x:y:z:a:b"), ("idle=in", "idle", "in"), ("idle=maybe", "idle", "out"),
])
def test_reading_a_link_checks_fields(call, query, field, value):
    assert call("state", "readView", "?" + query)[field] == value


def test_links_omit_default_values(call):
    assert call("state", "writeView", call("state", "readView", "")) == ""
    assert call("state", "readView", "")["page"] == "services" and call("state", "readView", "?page=service")["page"] == "service"
    assert call("state", "writeView", call("state", "readView", "?page=service")) == "?page=service"
    assert call("state", "writeView", call("state", "readView", "?type=wall")) == "?type=wall"
    assert call("state", "writeView", {**call("state", "readView", ""), "from": "now-5m"}) == "?page=services&from=now-5m"
    view = {**call("state", "readView", ""), "type": "x:y:z:a:b", "query": '{a="b&c=d#"}', "from": "2030-01-01T11:00:00.000Z", "search": "100 %+x"}
    assert call("state", "readView", call("state", "writeView", view)) == view


@pytest.mark.parametrize("peak, top", [(0, 1), (0.07, 0.075), (1, 1), (7.3, 7.5), (24, 30), (1000, 1000)])
def test_axes_are_round_and_reach_the_peak(call, peak, top):
    ticks = call("axis_ticks", "valueTicks", peak)
    assert ticks["max"] >= peak and ticks["max"] == pytest.approx(top) and 2 <= len(ticks["values"]) <= 6


@pytest.mark.parametrize("peak, top", [(1000, 1000), (1.4 * 2**30, 1.5 * 2**30), (200 * 2**20, 200 * 2**20), (1023 * 2**10, 1500 * 2**10)])
def test_byte_axes_use_round_binary_units(call, peak, top):
    ticks = call("axis_ticks", "valueTicks", peak, 1024)
    assert ticks["max"] >= peak and ticks["max"] == pytest.approx(top)


BLOCKED, WALL, CPU = TYPE.OFF_CPU, TYPE.WALL, TYPE.CPU


@pytest.mark.parametrize("profile_type, query, group, label", [
    (CPU, "", "auto", "service"), (CPU, "llm", "auto", ""), (CPU, "llm", "node", "node"), (BLOCKED, "", "auto", "wait"), (BLOCKED, "llm", "auto", "wait"),
    (BLOCKED, '{wait="lock"}', "auto", "service"), (BLOCKED, '{wait="lock", service="llm"}', "auto", "wait"), (WALL, "llm", "auto", "state"),
    (BLOCKED, "", "", ""), ("new:thing:count:event:count", "", "auto", "service"),
])
def test_profile_types_have_a_default_group(call, profile_type, query, group, label):
    assert call("queries", "groupOf", {"type": profile_type, "query": query, "group": group}) == label


@pytest.mark.parametrize("profile_type, query, idle, excluded", [
    (BLOCKED, "", "out", True), (BLOCKED, "llm", "out", True), (BLOCKED, "llm", "in", False), (BLOCKED, '{wait=~"lock|idle"}', "out", False),
    (BLOCKED, '{wait!="sleep"}', "out", False), (BLOCKED, "{broken", "out", False), (CPU, "", "out", False), (WALL, "", "out", False),
])
def test_excludes_idle_by_default(call, profile_type, query, idle, excluded):
    assert call("queries", "excludesIdle", {"type": profile_type, "query": query, "idle": idle}) == excluded


@pytest.mark.parametrize("before, profile_type, query, group", [
    (('{service="a", wait="lock"}', "wait"), CPU, '{service="a"}', "auto"), (('{service="a", wait="lock"}', "node"), BLOCKED, '{service="a", wait="lock"}', "node"),
    (("a", "service"), WALL, "a", "service"), (('{state="running"}', "state"), BLOCKED, "", "auto"), (("{broken", "wait"), CPU, "{broken", "auto"),
])
def test_switching_type_keeps_its_own_labels(call, before, profile_type, query, group):
    change = call("queries", "showType", {"type": "x", "query": before[0], "group": before[1]}, profile_type)
    assert (change["query"], change["group"], change["type"], change["zoom"]) == (query, group, profile_type, "")


COPY, BUSY = TYPE.GPU_COPY, TYPE.GPU_BUSY


@pytest.mark.parametrize("label, profile_type, foreign", [
    ("direction", COPY, False), ("direction", CPU, True), ("memory", TYPE.GPU_COPIES, False), ("rank", TYPE.NCCL_SKEW, False),
    ("rank", BLOCKED, True), ("gpu_uuid", BUSY, False), ("gpu", CPU, True), ("knob", TYPE.SHEDDING, False), ("knob", CPU, True), ("service", CPU, False), ("wait", "new:thing:count:event:count", False),
])
def test_labels_belong_to_profile_types(call, label, profile_type, foreign):
    assert call("profile_type", "isForeign", label, profile_type) == foreign
    assert (label in call("queries", "labelsOfType", [label], profile_type)) != foreign


@pytest.mark.parametrize("label, value, title", [
    ("direction", "host_to_device", "host to GPU"), ("direction", "toString", "toString"), ("gpu", "0", "GPU 0"), ("gpu", "x", "x"), ("rank", "12", "rank 12"),
    ("rank", "", "(none)"), ("wait", "gil", "GIL"), ("node", "0", "0"), ("knob", "off_cpu_unwind", "Off-CPU stacks"), ("reason", "power_cap", "power cap"),
])
def test_label_values_have_titles(call, label, value, title):
    assert call("label_value", "valueTitle", label, value) == title


@pytest.mark.parametrize("value, unit, text", [(706_478, "count", "706,478"), (12_174_551, "count", "12.2 M"), (9.9999e8, "count", "1,000 M"), (2e9, "count", "2.00 G"),
                                               (5 << 30, "bytes", "5.00 GiB"), (2e9, "nanoseconds", "2.00 s")])
def test_formats_short_values(call, value, unit, text):
    assert call("format", "formatShort", value, unit) == text


def test_temperatures_are_averaged_not_summed(call):
    answer = {"type": TYPE.GPU_TEMPERATURE, "unit": "celsius", "first_step_ns": 0, "step_ns": 1e9,
              "series": [{"group": f"g{i}", "total": 50 + i, "values": [50 + i, 50 + i]} for i in range(10)]}
    chart = call("series_stack", "stackSeries", answer, {"from_ms": 0, "to_ms": 2000}, {"oldest_ms": 0, "newest_ms": 0})
    assert [list(s["tops"].values())[0] for s in chart["series"]] == [50, 51, 52, 53, 54, 55, 56, 58], "the last one is the mean of the rest"
    assert chart["facts"]["peak"] == 58 and chart["facts"]["mean"] == pytest.approx(54.5) and not chart["isStacked"]


@pytest.mark.parametrize("profile_type, unit, scale, word", [
    (CPU, "nanoseconds", 1 / 5e9, "cores"), (BLOCKED, "nanoseconds", 1 / 5e9, "threads"), (TYPE.RSS, "bytes", 1, ""),
    (TYPE.PAGE_FAULT, "bytes", 0.2, "per second"), (TYPE.OOM_KILLS, "count", 0.2, "per second"),
    (TYPE.GPU_PROCESS_BUSY, "percent", 1, "%"), (TYPE.GPU_POWER, "milliwatts", 0.001, "W"),
    (TYPE.GPU_SM_CLOCK, "hertz", 1e-6, "MHz"), (TYPE.GPU_TEMPERATURE, "celsius", 1, "°C"),
    (TYPE.GPU_PCIE_SENT, "bytes", 1, "per second"), ("new_thing:some_level:bytes:gauge:second", "bytes", 1, ""),
])
def test_profile_types_have_rates(call, profile_type, unit, scale, word):
    rate = call("format", "rateOf", profile_type, unit, 5e9)
    assert rate["scale"] == pytest.approx(scale) and rate["unit"] == word
    assert rate["axis"] == ("" if word in ("%", "W", "°C") else word), "short units stand beside each number"


@pytest.mark.parametrize("profile_type, title, has_stacks", [
    (CPU, "CPU time", True), (WALL, "Wall clock", False), ("new_thing:some_time:nanoseconds:wall:nanoseconds", "new thing some time", True),
    ("new_thing:some_level:bytes:gauge:second", "new thing some level", False),
    (TYPE.GPU_MEMORY, "GPU memory in use", True),
])
def test_shows_unknown_profile_types(call, profile_type, title, has_stacks):
    spec = call("profile_type", "specOf", profile_type)
    assert spec["title"] == title and ("noStacks" not in spec) == has_stacks


def test_lists_types_in_contract_order(call):
    sections = call("profile_type", "sectionsOf", ["new:thing:count:event:count", *reversed(list(SPECS))])
    assert [section["section"] for section in sections] == [*CONTRACT["sections"], "Others"]
    offered = [spec["type"] for section in sections for spec in section["specs"]]
    assert offered == [*SPECS, "new:thing:count:event:count"]


def answer_of(*series):
    return {"type": "t:t:nanoseconds:wall:nanoseconds", "unit": "nanoseconds", "first_step_ns": 0, "step_ns": 1e9,
            "series": [{"group": str(group), "labels": group, "total": sum(values), "values": values} if isinstance(group, dict) else
                       {"group": group, "total": sum(values), "values": values} for group, values in series]}


LESS, MORE = {"knob": "off_cpu_unwind", "step": "1/4"}, {"knob": "off_cpu_unwind", "step": "1/1"}


def test_hides_groups_without_a_value(call):
    stored, between = {"oldest_ms": 0, "newest_ms": 0}, {"from_ms": 0, "to_ms": 1000}
    groups = lambda *series: [s["group"] for s in call("series_stack", "stackSeries", answer_of(*series), between, stored)["series"]]
    assert groups(("a", [1]), ("b", [0])) == ["a"] and groups(("a", [0]), ("b", [0])) == ["a"] and groups() == []


def test_marks_match_event_times(call):
    answers = {"throttled": answer_of(("a", [0, 5e8, 0]), ("b", [0, 1e8, 2e9])), "changes": answer_of((LESS, [0, 0, 1]), (MORE, [1, 0, 0])),
               "shedding": answer_of()}
    marks = call("chart_marks", "marksOf", answers, {"from_ms": 0, "to_ms": 3000}, {"oldest_ms": 1000, "newest_ms": 0})
    assert [(s["from_ms"], s["to_ms"], s["cpus"]) for s in marks["throttled"]["steps"]] == [(1000, 2000, 0.5), (2000, 3000, 2)]
    assert marks["throttled"]["span_ms"] == 2000 and marks["throttled"]["total"] == 2.6e9
    assert [(c["time_ms"], c["text"]) for c in marks["changes"]] == [(500, "off-CPU stacks at 1/1"), (2500, "off-CPU stacks at 1/4")]


@pytest.mark.parametrize("what, values, gaps", [
    ("none", [5] * 30, []), ("one", [5] * 10 + [0] * 5 + [5] * 15, [(10000, 15000)]), ("no agents at all", [0] * 30, []),
    ("before the first sample and after the newest", [0, 0] + [5] * 18 + [0] * 10, []),
])
def test_gaps_are_steps_without_agents(call, what, values, gaps):
    answers = {"throttled": answer_of(), "changes": answer_of(), "shedding": answer_of(), "presence": answer_of(("", values))}
    marks = call("chart_marks", "marksOf", answers, {"from_ms": 0, "to_ms": 30000}, {"oldest_ms": 2000, "newest_ms": 29000})
    assert [(g["from_ms"], g["to_ms"]) for g in marks["gaps"]] == gaps, what


@pytest.mark.parametrize("what, values, spans, is_whole, to_end, agents", [
    ("all the time", [1e9] * 30, [(500, 29500)], True, True, 1),
    ("the last step is on its way", [1e9] * 29 + [0], [(500, 29000)], True, True, 1),
    ("begun and over", [0, 4e8, 1e9] + [0] * 27, [(1000, 3000)], False, False, 1),
    ("of two agents", [2e9] * 20 + [1e9] * 10, [(500, 29500)], True, True, 2),
    ("twice", [1e9] + [0] * 20 + [1e9] * 9, [(500, 1000), (21000, 29500)], False, True, 1),
])
def test_shedding_steps_have_time_spans(call, what, values, spans, is_whole, to_end, agents):
    answers = {"throttled": answer_of(), "changes": answer_of(), "shedding": answer_of((LESS, values), (MORE, [0] * 30))}
    [one] = call("chart_marks", "marksOf", answers, {"from_ms": 500, "to_ms": 29500}, {"oldest_ms": 0, "newest_ms": 29000})["shedding"]
    assert one == {"knob": "off_cpu_unwind", "step": "1/4", "text": "off-CPU stacks at 1/4", "isOff": False, "spans": [{"from_ms": a, "to_ms": b} for a, b in spans], "is_whole": is_whole, "to_end": to_end, "agents": agents}, what


@pytest.mark.parametrize("steps, sentence", [
    ([], ""), (["cpu_frequency 19Hz", "off_cpu_unwind 1/64"], "CPU sampled at 19 Hz; 1 of 64 off-CPU stacks kept, sums stay right"),
    (["page_faults off"], "page_faults off: not recorded meanwhile"), (["page_faults_unwind 1/4", "later 3"], "1 of 4 page faults kept, sums stay right; later 3: not recorded meanwhile"),
    (["off_cpu_unwind 1/4"] * 2 + [f"p{i} off" for i in range(5)], "1 of 4 off-CPU stacks kept, sums stay right; " + "; ".join(f"p{i} off: not recorded meanwhile" for i in range(3))),
])
def test_notices_say_what_of_a_figure_is_less(call, steps, sentence):
    assert call("knob", "keptSentence", [{"knob": text.split()[0], "step": text.split()[1], "text": text} for text in steps]) == sentence


def test_a_type_that_is_off_has_no_data(call):
    off = [{"knob": "off_cpu", "step": "off"}, {"knob": "process_off_cpu", "step": "off", "pid": "7"}]
    answers = {"throttled": answer_of(), "changes": answer_of(), "shedding": answer_of(*((labels, [1e9] * 30) for labels in off))}
    shedding = call("chart_marks", "marksOf", answers, {"from_ms": 0, "to_ms": 30000}, {"oldest_ms": 0, "newest_ms": 0})["shedding"]
    assert [one["isOff"] for one in shedding] == [True, False]  # of one process alone the others' data is there


@pytest.mark.parametrize("setting, sentence", [
    (LESS, "off-CPU stacks at 1/4"), ({"knob": "process_off_cpu", "step": "off", "pid": "7", "comm": "{step}"}, "off-CPU stacks of {step} (7) off"),
    ({"knob": "process_off_cpu", "step": "on", "pid": "7"}, "off-CPU stacks of process 7 on"), ({"knob": "from a newer agent", "step": "off"}, "from a newer agent off"),
    ({"knob": "constructor", "step": "off"}, "constructor off"),
])
def test_shedding_steps_have_sentences(call, setting, sentence):
    assert call("knob", "knobSentence", setting) == sentence


def test_every_knob_has_sentence_and_meaning(call):
    for knob in KNOBS:
        assert call("knob", "knobSentence", {"knob": knob, "step": "off", "pid": "7", "comm": "a"}) == knob_sentence(knob, "off", "7", "a")
        assert call("knob", "knobMeaning", knob), knob


def test_types_name_knobs_that_reduce_them(call):
    steps = [{"knob": knob} for knob in KNOBS]
    for profile_type, spec in SPECS.items():
        assert [one["knob"] for one in call("chart_marks", "reducedIn", steps, profile_type)] == spec["reducedBy"], profile_type
    assert {knob for spec in SPECS.values() for knob in spec["reducedBy"]} == set(KNOBS)
    assert SPECS[TYPE.OFF_WAKE]["reducedBy"][0] == "wakers", "what takes most stands first"


def test_short_words_map_to_types_and_back(call):
    for profile_type, spec in SPECS.items():
        word = spec.get("word", profile_type)
        assert call("profile_type", "typeOfWord", word) == profile_type and call("profile_type", "wordOfType", profile_type) == word


def test_no_events_make_no_marks(call):
    nothing = {"throttled": answer_of(), "changes": answer_of(), "shedding": answer_of()}
    between, stored = {"from_ms": 0, "to_ms": 3000}, {"oldest_ms": 0, "newest_ms": 0}
    assert call("chart_marks", "marksOf", nothing, between, stored) == {"throttled": None, "changes": [], "shedding": [], "gaps": []}
    free = {**nothing, "throttled": answer_of(("a", [0, 0, 0]))}
    assert call("chart_marks", "marksOf", free, between, stored)["throttled"] is None


@pytest.mark.parametrize("total_ns, text", [(108e9, "0.12 CPUs"), (1800e9, "2.00 CPUs")])
def test_formats_throttling(call, total_ns, text):
    assert call("chart_marks", "throttledCpus", total_ns, 900_000).replace("\u202f", " ") == text


def test_stacks_states_in_order_and_all_waits(call):
    states = answer_of(("blocked", [9e8]), ("running", [1e8]), ("run_queue", [2e8]))
    stored, between = {"oldest_ms": 0, "newest_ms": 0}, {"from_ms": 0, "to_ms": 1000}
    assert [s["group"] for s in call("series_stack", "stackSeries", states, between, stored, "state")["series"]] == ["running", "run_queue", "blocked"]
    waits = answer_of(*[(f"w{i}", [20 - i]) for i in range(13)])
    assert len(call("series_stack", "stackSeries", waits, between, stored, "wait")["series"]) == 13


@pytest.mark.parametrize("what, values, stored, mean, arrived", [
    ("all there", [2e9, 4e9, 6e9], (0, 0), 4, 4000), ("last step on its way", [2e9, 4e9, 1e9], (0, 3500), 2.8, 3000),
    ("begun in the second step", [0, 4e9, 6e9], (2000, 9000), 5, 4000), ("nothing arrived", [0, 0, 0], (0, 500), 0, 1000),
])
def test_means_are_over_stored_time(call, what, values, stored, mean, arrived):
    answer = {"unit": "nanoseconds", "first_step_ns": 1e9, "step_ns": 1e9, "series": [{"group": "", "total": sum(values), "values": values}]}
    chart = call("series_stack", "stackSeries", answer, {"from_ms": 1000, "to_ms": 4000}, {"oldest_ms": stored[0], "newest_ms": stored[1]})
    assert (chart["facts"]["mean"], chart["arrived_ms"]) == (mean, arrived), what
    part = call("series_stack", "stackSeries", answer, {"from_ms": 1500, "to_ms": 3500}, {"oldest_ms": 0, "newest_ms": 0})
    assert part["facts"]["mean"] == pytest.approx((values[0] / 2 + values[1] + values[2] / 2) / 2e9), "as that of a merged profile"
    assert chart["edges"] == [1000, 2000, 3000, 4000] and list(chart["series"][0]["rates"].values()) == [v / 1e9 for v in values]


def test_sums_series_beyond_the_colours(call):
    series = [{"group": f"g{i}", "total": 20 - i, "values": [20 - i]} for i in range(12)]
    answer = {"unit": "count", "first_step_ns": 0, "step_ns": 1e9, "series": series}
    chart = call("series_stack", "stackSeries", answer, {"from_ms": 0, "to_ms": 1000}, {"oldest_ms": 0, "newest_ms": 0})
    assert [s["group"] for s in chart["series"]] == [f"g{i}" for i in range(7)] + ["other"]
    assert chart["series"][-1]["total"] == sum(20 - i for i in range(7, 12))
    assert chart["facts"]["peak"] == sum(20 - i for i in range(12))


def tree_answer(parents, names, totals, selves):
    count = len(parents)
    return {"names": ["", *names], "kinds": ["unknown", "native"], "unit": "nanoseconds", "node_count": count,
            "nodes": {"parent": parents, "name": list(range(1, count + 1)), "module": [0] * count, "kind": [1] * count,
                      "self": selves, "total": totals}}


@pytest.fixture(scope="module")
def tree(browser, shared_fake):
    """tree(answer, expression): an expression over t, the FlameTree of @answer."""
    page = browser.page()
    page.open(shared_fake.url + "/?live=off")
    yield lambda answer, expression: page.evaluate(
        f"import('/flame_tree.js').then((m) => {{ const t = new m.FlameTree({json.dumps(answer)}); return {expression}; }})")
    page.close()


SMALL = tree_answer([0, 0, 0, 2], ["total", "zeta", "alpha", "beta"], [100, 30, 60, 20], [10, 30, 40, 20])


def test_children_are_sorted_by_name(tree):
    assert tree(SMALL, "[...t.start]") == [0, 60, 0, 0]
    assert tree(SMALL, "[...t.depth]") == [0, 1, 1, 2]
    assert tree(SMALL, "[t.nodeAt(1, 59), t.nodeAt(1, 60), t.nodeAt(1, 95), t.nodeAt(2, 19), t.nodeAt(2, 21), t.nodeAt(9, 0)]") == [2, 1, -1, 3, -1, -1]
    assert tree(SMALL, "[t.levelsBelow(0), t.levelsBelow(1), t.levelsBelow(2)]") == [3, 1, 2]


def test_counts_nested_matches_once(tree):
    assert tree(SMALL, "(({ value, count }) => [value, count])(t.find((name) => name.endsWith('ta') || name === 'alpha'))") == [90, 3]


def test_accepts_an_empty_tree(tree):
    assert tree(tree_answer([], [], [], []), "[t.value, t.levelCount, t.find(() => true).value]") == [0, 0, 0]


@pytest.mark.parametrize("broken, error", [
    ({"parent": [0, 2, 0, 2]}, "before its parent"), ({"total": [1]}, "does not have 4 values"), ({"name": [0, 1, 99, 1]}, "has no name"),
    ({"self": None}, "does not have 4 values"), ({"parent": [0, 1, 0, 2]}, "before its parent"),
])
def test_rejects_a_malformed_tree(tree, broken, error):
    with pytest.raises(BrowserError, match=error):
        tree({**SMALL, "nodes": {**SMALL["nodes"], **broken}}, "t.value")
