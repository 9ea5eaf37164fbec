# SPDX-License-Identifier: Apache-2.0
"""The lanes beside CPU time: what each is shown as, what is left out of it, and what is marked in it."""

import re
import urllib.parse

import pytest

import fake_lanes as lanes
from fake_collector import Data, FakeCollector, SERVICES

SERVICE = "llm-gateway"


def shown(text):
    return text.replace("\u202f", " ").replace("\n", " ")


def view(page, name):
    return page.evaluate(f"cairn.view().{name}")


def address(url, lane="", **fields):
    return url + "/?live=off&" + urllib.parse.urlencode({**({"type": lane} if lane else {}), **fields})


def asked(fake, path):
    """The parameters of what was asked of @path so far."""
    split = [urllib.parse.urlsplit(request) for request in fake.server.requests]
    return [dict(urllib.parse.parse_qsl(s.query)) for s in split if s.path == "/api/v1/" + path]


def legend(page):
    """{name: share} of the chart's legend, in its order."""
    rows = page.evaluate("[...document.querySelectorAll('.legend-entry')].map((e) => [e.querySelector('.legend-name').textContent,"
                         " parseFloat(e.querySelector('b').textContent)])")
    return dict(rows)


def colors(page):
    return dict(page.evaluate("[...document.querySelectorAll('.legend-entry')].map((e) => [e.querySelector('.legend-name').textContent,"
                              " e.querySelector('.swatch').style.backgroundColor])"))


def pick_type(page, lane):
    page.evaluate(f"(() => {{ const s = document.querySelector('#type'); s.value = '{lane}'; s.dispatchEvent(new Event('change')); }})()")
    page.settle()


def choose_class(page, name):
    page.evaluate(f"[...document.querySelectorAll('button.legend-entry')].find((b) => b.innerText.startsWith('{name}')).click()")
    page.settle()


def hovered(page, time_ms, dy=40):
    """The tooltip's text with the pointer over @time_ms in the chart."""
    plot = page.evaluate("cairn.seriesChart.plot()")
    page.hover(plot["x"] + plot["width"] * (time_ms - plot["from_ms"]) / (plot["to_ms"] - plot["from_ms"]), plot["y"] + dy)
    page.wait("!document.querySelector('#tooltip').hidden", "a tooltip")
    return shown(page.text("#tooltip"))


def test_types_are_lanes_in_plain_words(fake, open_page):
    page = open_page(address(fake.url))
    groups = page.evaluate("[...document.querySelectorAll('#type optgroup')].map((g) => [g.label, [...g.children].map((o) => o.text)])")
    assert groups == [["Time of threads", ["CPU time", "Blocked (off-CPU)", "Waiting for a CPU", "Wall clock", "Throttled"]],
                      ["Memory", ["Memory growth", "Resident memory", "Major faults"]],
                      ["The profiler itself", ["Cost of profiling", "Changes by the governor", "Changes in force"]]]
    assert page.complaints() == []


def test_the_keyboard_goes_to_the_lanes_and_to_idle(fake, open_page):
    page = open_page(address(fake.url, lanes.BLOCKED))
    page.press("i")
    page.settle()
    assert view(page, "idle") == "in"
    page.press("w")
    assert page.evaluate("document.activeElement.id") == "type"
    page.open(address(fake.url))
    page.press("i")
    assert view(page, "idle") == "out", "CPU time has no idle"


def test_only_lanes_with_data_are_offered_and_the_one_in_the_link(fake, open_page):
    page = open_page(address(fake.url, lanes.OOM_KILLS, query="envoy"))
    offered = page.evaluate("[...document.querySelectorAll('#type option')].map((o) => o.text)")
    assert "OOM kills" in offered and "Cost of profiling" not in offered and "Throttled" not in offered
    assert page.evaluate("document.querySelector('#type').selectedOptions[0].text") == "OOM kills"


@pytest.mark.parametrize("name, says", [
    ("CPU", "cores on average"), ("BLOCKED", "threads on average"), ("WAITING", "threads on average"), ("WALL", "threads on average"),
    ("GROWTH", "iB per second on average"), ("RESIDENT", "GiB on average"), ("FAULTS", "in this range"),
    ("THROTTLED", "CPUs held back on average"), ("COST", "cores on average"), ("CHANGE", "3 in this range"),
    ("IN_FORCE", "agents on average"),
])
def test_each_lane_has_its_unit_and_is_drawn_without_complaint(fake, open_page, artefact, name, says):
    page = open_page(address(fake.url, getattr(lanes, name)))
    page.screenshot(artefact(f"lane-{name.lower()}-light"))
    page.set_dark(True)
    page.screenshot(artefact(f"lane-{name.lower()}-dark"))
    assert says in shown(page.text("#chart-facts"))
    assert page.complaints() == []


@pytest.fixture(scope="module")
def gpu_fake():
    with FakeCollector(Data(2000, services={**SERVICES, **lanes.TRAINER})) as running:
        yield running


@pytest.mark.parametrize("name, says, row", [
    ("GPU_SPIN", "cores on average", None), ("GPU_WAIT", "threads on average", None), ("GPU_LAUNCH", "per second on average", None),
    ("GPU_KERNEL", "kernels at a time on average", None), ("GPU_COPY", "iB per second on average", "host to GPU"), ("GPU_MEMORY", "GiB on average", None),
    ("GPU_IDLE", "GPUs on average", None), ("GPU_IDLE_TIME", "GPUs on average", None), ("NCCL_SKEW", "ranks on average", "rank 1"),
    ("GPU_BUSY", "% on average", "GPU 1"), ("GPU_POWER", "W on average", "GPU 1"), ("GPU_TEMPERATURE", "°C on average", "GPU 0"),
    ("GPU_CLOCK", "MHz on average", "GPU 0"),
])
def test_each_lane_of_gpus_has_its_unit_and_its_words(gpu_fake, open_page, artefact, name, says, row):
    lane = getattr(lanes, name)
    page = open_page(address(gpu_fake.url, lane, **({"group": "gpu"} if lane in lanes.GPU_LEVELS else {})))
    page.screenshot(artefact(f"lane-{name.lower()}"))
    assert says in shown(page.text("#chart-facts"))
    assert row is None or row in legend(page)
    if name == "GPU_TEMPERATURE":
        mean = float(re.search(r"([\d.]+) °C", shown(page.text("#chart-facts")))[1])
        assert mean == pytest.approx(sum(lanes.GPU_LEVELS[lane]) / 2, rel=0.05), "two GPUs are not twice as hot"
    if name == "GPU_COPY":
        choose_class(page, "host to GPU")
        assert view(page, "query") == '{direction="host_to_device"}'
        pick_type(page, lanes.CPU)
        assert view(page, "query") == "" and page.evaluate("cairn.flameGraph.count()") > 10
    assert page.complaints() == []


def test_idle_waits_are_left_out_and_said_so(fake, open_page):
    page = open_page(address(fake.url, lanes.BLOCKED, query=SERVICE))
    told = shown(page.text("#chart-notices"))
    left_out_h, left_out_m = map(int, re.search(r"(\d+) h (\d+) m idle left out", told).groups())
    answer = fake.server.api.time_series({"type": lanes.BLOCKED, "query": f'{{service="{SERVICE}", wait="idle"}}'})
    assert left_out_h * 60 + left_out_m == pytest.approx(sum(s["total"] for s in answer["series"]) / 60e9, rel=0.05)
    assert "idle" not in legend(page) and sum(legend(page).values()) == pytest.approx(100, abs=1)
    for path in ("merge", "top"):
        assert [p["query"] for p in asked(fake, path)] == [f'{{service="{SERVICE}", wait!="idle"}}'], path
    fake.server.requests.clear()
    page.evaluate("document.querySelector('#chart-notices button').click()")
    page.settle()
    assert view(page, "idle") == "in" and "idle=in" in page.address()
    assert "idle waits are shown" in shown(page.text("#chart-notices")) and max(legend(page), key=legend(page).get) == "idle"
    assert [p["query"] for p in asked(fake, "merge")] == [f'{{service="{SERVICE}"}}']
    page.evaluate("history.back()")
    page.wait("cairn.view().idle === 'out'", "Back leaves them out again")


def test_one_question_has_the_waits_and_what_is_left_out(fake, open_page):
    open_page(address(fake.url, lanes.BLOCKED))
    of_blocked = [p for p in asked(fake, "series") if p["type"] == lanes.BLOCKED]
    assert sorted(p.get("group_by", "") for p in of_blocked) == ["service", "wait"]  # the picker's and the chart's
    fake.server.requests.clear()
    page = open_page(address(fake.url, lanes.BLOCKED, group="node"))
    assert "idle left out" in page.text("#chart-notices")
    assert '{wait="idle"}' in [p.get("query") for p in asked(fake, "series")]


def test_cpu_time_has_no_idle_and_asks_for_none(fake, open_page):
    page = open_page(address(fake.url))
    assert "idle" not in page.text("#chart-notices")
    assert not any("wait" in p.get("query", "") for path in ("series", "merge", "top") for p in asked(fake, path))


def test_a_selector_that_names_waits_is_taken_literally(fake, open_page):
    page = open_page(address(fake.url, lanes.BLOCKED, query='{wait="idle"}', group="wait"))
    assert legend(page) == {"idle": 100} and "left out" not in page.text("#chart-notices")


def test_a_class_of_waits_has_a_name_and_a_colour_of_its_own(fake, open_page):
    page = open_page(address(fake.url, lanes.BLOCKED, query=SERVICE))
    before = colors(page)
    assert {"lock", "GIL", "page fault", "GPU"} <= set(before) and len(set(before.values())) == len(before)
    groups = page.evaluate("cairn.flameGraph.boxes().filter((b) => b.depth === 1).map((b) => [b.name, b.kind])")
    assert ["GIL", "group"] in groups and ["gil", "group"] not in groups
    choose_class(page, "GIL")
    assert view(page, "query") == f'{{wait="gil", service="{SERVICE}"}}'
    assert colors(page) == {"GIL": before["GIL"]} and "only GIL" in shown(page.text("#chart-notices"))
    page.evaluate("[...document.querySelectorAll('#chart-notices button')].find((b) => b.innerText === 'show all').click()")
    page.settle()
    assert view(page, "query") == f'{{service="{SERVICE}"}}' and colors(page) == before


def test_a_frame_named_as_a_class_keeps_its_name(fake, open_page):
    page = open_page(address(fake.url, lanes.BLOCKED, query=SERVICE))
    named = page.evaluate("""import('/flame_tree.js').then((m) => {
        const t = new m.FlameTree({ names: ['', 'total', 'gil'], kinds: ['unknown', 'native'], unit: 'nanoseconds', node_count: 3,
            nodes: { parent: [0, 0, 1], name: [1, 2, 2], module: [0, 0, 0], kind: [0, 0, 1], self: [0, 0, 5], total: [5, 5, 5] } },
            true, (name) => name.toUpperCase());
        return [t.nameOf(1), t.nameOf(2)]; })""")
    assert named == ["GIL", "gil"]


def test_wall_clock_says_where_all_time_went_and_where_stacks_are(fake, open_page):
    page = open_page(address(fake.url, lanes.WALL, query=SERVICE))
    assert list(legend(page)) == ["running", "waiting for a CPU", "blocked"]
    assert sum(legend(page).values()) == pytest.approx(100, abs=0.2)
    assert not page.shown("#flame-scroller") and not page.shown("#table") and not page.shown("#search")
    assert "no stacks" in page.text("#stackless")
    idle, busy = lanes.WAITS["python"]["idle"], sum(lanes.WAITS["python"].values()) - lanes.WAITS["python"]["idle"]
    told = float(re.search(r"([\d.]+) % of it idle", shown(page.text("#chart-notices")))[1])
    assert told == pytest.approx(100 * idle / (1 + lanes.QUEUE + idle + busy), abs=4)  # the spike adds to the rest
    assert asked(fake, "merge") == [] and asked(fake, "top") == []
    links = page.evaluate("[...document.querySelectorAll('#stackless button')].map((b) => b.innerText)")
    assert links == ["CPU time", "Waiting for a CPU", "Blocked (off-CPU)"]
    page.evaluate("document.querySelectorAll('#stackless button')[2].click()")
    page.settle()
    assert view(page, "type") == lanes.BLOCKED and view(page, "query") == SERVICE
    assert page.shown("#flame-scroller") and not page.shown("#stackless") and page.evaluate("cairn.flameGraph.count()") > 10


def test_wall_clock_tells_services_and_then_threads_apart(fake, open_page):
    page = open_page(address(fake.url, lanes.WALL))
    rows = "[...document.querySelectorAll('.states-table tbody tr')].map((r) => [...r.querySelectorAll('td:not(.bar)')].map((c) => c.innerText))"
    told = {row[0]: [float(shown(cell).split()[0]) for cell in row[1:5]] for row in page.evaluate(rows)}
    assert set(told) == set(SERVICES) and all(sum(shares) == pytest.approx(100, abs=0.3) for shares in told.values())
    waits = lanes.WAITS["native"]
    assert told["envoy"][3] == pytest.approx(100 * waits["idle"] / (1 + lanes.QUEUE + sum(waits.values())), abs=0.5)
    page.evaluate("[...document.querySelectorAll('.states-table button')].find((b) => b.innerText === 'envoy').click()")
    page.settle()
    assert view(page, "query") == '{service="envoy"}'
    assert [row[0] for row in page.evaluate(rows)] in (["main", "background"], ["background", "main"])
    pick_type(page, lanes.RESIDENT)
    assert not page.shown(".states-table")


def test_what_only_one_lane_knows_is_dropped_on_the_way_to_another(fake, open_page):
    page = open_page(address(fake.url, lanes.BLOCKED, query=f'{{service="{SERVICE}", wait="lock"}}', group="wait"))
    pick_type(page, lanes.CPU)
    assert view(page, "query") == f'{{service="{SERVICE}"}}' and view(page, "group") == "auto"
    assert page.evaluate("cairn.flameGraph.count()") > 10
    assert "wait" not in page.evaluate("[...document.querySelectorAll('#group option')].map((o) => o.value)")


def test_a_level_of_memory_is_no_rate(fake, open_page):
    page = open_page(address(fake.url, lanes.RESIDENT))
    answer = fake.server.api.time_series({"type": lanes.RESIDENT})
    peak = max(map(sum, zip(*[s["values"] for s in answer["series"]])))
    told = float(re.search(r"([\d.]+) GiB at peak", shown(page.text("#chart-facts")))[1])
    assert told == pytest.approx(peak / 2**30, rel=0.02)
    assert re.search(r"llm-gateway [\d.]+ GiB", shown(page.text("#chart-legend")))


def test_throttling_is_seen_on_every_lane(fake, open_page, artefact):
    page = open_page(address(fake.url, query=lanes.THROTTLED_SERVICE))
    page.screenshot(artefact("lane-throttled-notice"))
    told = shown(page.text(".notice-throttled"))
    share = 100 * lanes.THROTTLED_S * lanes.THROTTLED_SHARE / 900
    assert float(re.search(r"Throttled ([\d.]+) % of the time: the container’s CPU quota", told)[1]) == pytest.approx(share, rel=0.05)
    begin_ms = (fake.server.api.data.started_s - lanes.THROTTLED_AGE_S) * 1000
    assert "Throttled by the CPU quota: 62.0 % of this time" in hovered(page, begin_ms + lanes.THROTTLED_S * 500)
    assert "Throttled" not in hovered(page, begin_ms - 60000)
    pick_type(page, lanes.GROWTH)
    assert page.shown(".notice-throttled")
    page.evaluate("document.querySelector('.notice-throttled button').click()")
    page.settle()
    assert view(page, "type") == lanes.THROTTLED and view(page, "query") == lanes.THROTTLED_SERVICE
    assert not page.shown(".notice-throttled")


def test_throttling_names_the_service_and_spares_the_others(fake, open_page):
    assert f"{lanes.THROTTLED_SERVICE} " in shown(open_page(address(fake.url)).text(".notice-throttled"))
    assert not open_page(address(fake.url, query="envoy")).shown(".notice-throttled")


def test_throttling_outlives_selectors_of_threads(fake, open_page):
    query = f'{{service="{lanes.THROTTLED_SERVICE}", thread="worker-0", wait="gil"}}'
    assert open_page(address(fake.url, lanes.BLOCKED, query=query)).shown(".notice-throttled")


def test_changes_by_the_agent_are_marked_where_they_were_made(fake, open_page, artefact):
    page = open_page(address(fake.url, lanes.BLOCKED))
    age_s, _, text = lanes.CHANGES[0]
    at_ms = (fake.server.api.data.started_s - age_s) * 1000
    assert page.text("#changes-text").endswith("3 changes by the agent")
    assert text in hovered(page, at_ms)
    assert text not in hovered(page, at_ms - 40000)
    page.click("#changes-button")
    page.screenshot(artefact("lane-changes"))
    listed = page.text("#changes-popover")
    assert all(text in listed for _, _, text in lanes.CHANGES) and "Profiling took 0.0" in listed
    page.press("Escape")
    assert not page.shown("#changes-popover")


def test_a_lane_says_what_it_has_less_of(fake, open_page):
    page = open_page(address(fake.url, lanes.BLOCKED))
    assert page.text("#changes-text") == "stacks of waits at 1/4 and 1 more; 3 changes by the agent"
    age_s, _, text = lanes.CHANGES[0]
    at_ms = (fake.server.api.data.started_s - age_s) * 1000
    assert f"In force: {text}" in hovered(page, at_ms + 60000), "where there is less, not only where that began"
    assert "In force" not in hovered(page, at_ms - 60000)
    pick_type(page, lanes.CPU)
    assert page.text("#changes-text") == "sampling at 49 Hz; 3 changes by the agent"
    assert "In force" not in hovered(page, at_ms + 60000)
    pick_type(page, lanes.GROWTH)
    assert page.text("#changes-text") == "3 changes by the agent"


def reduced_page(open_page, lane, in_force):
    """The page of a collector whose agents told @in_force: (node, text, seconds ago since when, and until when)."""
    data = Data(300)
    data.changes, data.in_force = [], [(node, text, data.started_s - since_s, data.started_s - until_s) for node, text, since_s, until_s in in_force]
    collector = FakeCollector(data)
    return collector, lambda: open_page(address(collector.url, lane, **{"from": "now-15m"}))


NOT_YET = -3600  # it is in force for longer than the test takes


def test_what_was_changed_days_ago_and_is_in_force_is_told(open_page):
    collector, opened = reduced_page(open_page, lanes.BLOCKED, [
        ("gpu-a1", "stacks of waits at 1/16", 3 * 86400, NOT_YET), ("gpu-a1", "sampling at 19 Hz", 7200, 3600)])
    with collector:
        page = opened()
        assert page.text("#changes-text") == "stacks of waits at 1/16"
        page.click("#changes-button")
        assert shown(page.text("#changes-popover .changes")) == "all the time stacks of waits at 1/16"
        assert "Wall clock stays exact" in page.text("#changes-popover")


def test_one_agent_back_to_all_leaves_the_others_as_they_are(open_page):
    collector, opened = reduced_page(open_page, lanes.BLOCKED, [
        ("gpu-a1", "stacks of waits at 1/4", 9000, NOT_YET), ("db-1", "stacks of waits at 1/4", 9000, 400), ("db-1", "cost above the budget", 700, 600)])
    with collector:
        page = opened()
        assert page.text("#changes-text") == "stacks of waits at 1/4"
        page.click("#changes-button")
        listed = shown(page.text("#changes-popover .changes"))
        assert listed.startswith("all the time stacks of waits at 1/4, in 2 agents ") and listed.endswith("cost above the budget")


def test_a_gap_that_is_over_is_explained_all_the_same(open_page):
    collector, opened = reduced_page(open_page, lanes.WALL, [("gpu-a1", "wall clock and waits off", 500, 200)])
    with collector:
        page = opened()
        assert re.fullmatch(r"wall clock and waits off until \d\d:\d\d:\d\d", page.text("#changes-text"))
        page.click("#changes-button")
        told = page.text("#changes-popover")
        assert "What is off has a gap." in told and "exact" not in told


def test_changes_elsewhere_are_not_told(fake, open_page):
    page = open_page(address(fake.url, query="kubelet.service"))  # on gpu-a1 and gpu-b7
    assert page.text("#changes-text") == "2 changes by the agent", "none is of CPU time"
    assert not open_page(address(fake.url, query='{node="gpu-b7"}')).shown("#changes-button")


def test_a_quiet_fleet_has_no_marks(open_page):
    data = Data(300, services={"calm": (1.0, ["n"], ["p"], "native", False)})
    data.changes = []
    with FakeCollector(data) as calm:
        page = open_page(address(calm.url, lanes.BLOCKED))
        assert not page.shown(".notice-throttled") and not page.shown("#changes-button")
        assert not [p for p in asked(calm, "series") if p["type"] == lanes.COST], "cost is asked for only beside changes"


def test_hostile_changes_stay_text(open_page):
    evil = '<img src=x onerror="window.pwned=1">'
    data = Data(300)
    data.changes = [(data.started_s - 60, "gpu-a1", evil)]
    with FakeCollector(data) as hostile:
        page = open_page(address(hostile.url, lanes.CHANGE))
        page.click("#changes-button")
        assert evil in page.text("#changes-popover")
        page.press("Escape")
        assert evil in hovered(page, (data.started_s - 60) * 1000)
        assert evil in page.text("#stackless")
        assert page.evaluate("window.pwned") is None and page.evaluate("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("width, height", [(390, 844), (880, 700), (1024, 720)])
@pytest.mark.parametrize("lane", [lanes.BLOCKED, lanes.WALL], ids=["blocked", "wall"])
def test_lanes_fit_small_windows(fake, open_page, artefact, lane, width, height):
    page = open_page(address(fake.url, lane), width=width, height=height)
    page.screenshot(artefact(f"lane-{lane.split(':')[0]}-{width}x{height}"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    notice = page.rect(".notice-throttled")
    assert notice["x"] + notice["width"] <= width
    button = page.rect("#diagnosis-button")
    assert notice["y"] >= button["y"] + button["height"] or notice["x"] + notice["width"] <= button["x"], "they do not lie on each other"
    assert page.rect("#share")["y"] < 60, "the tools are in the first row"
    for fact in ("#chart-facts b", ".states-table tbody td:nth-last-child(2)") if lane == lanes.WALL else ("#chart-facts b",):
        box = page.rect(fact)
        assert box["width"] > 20 and box["x"] + box["width"] <= width, "figures are not cut off"
    assert page.evaluate("(() => { const f = document.querySelector('#chart-facts'); return f.scrollWidth <= f.clientWidth; })()")
