# SPDX-License-Identifier: Apache-2.0
"""Profile types beside CPU time: titles, units, excluded idle time and marks."""

import re
import time
import urllib.parse

import pytest

import fake_profiles as profiles
from contract import CONTRACT, KNOBS, knob_sentence
from fake_collector import FakeCollector
from fake_data import Data, SERVICES

SERVICE = "llm-gateway"


def shown(text):
    return text.replace("\u202f", " ").replace("\n", " ")


def view(page, name):
    return page.evaluate(f"cairn.view().{name}")


def address(url, profile_type="", **fields):
    return url + "/?live=off&" + urllib.parse.urlencode({**({"type": profile_type} if profile_type else {}), **fields})


def requests_to(fake, path):
    """The parameters of the requests to @path so far."""
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


def pick_type(page, profile_type):
    page.evaluate(f"(() => {{ const s = document.querySelector('#type'); s.value = '{profile_type}'; s.dispatchEvent(new Event('change')); }})()")
    page.settle()


def pick_group(page, name):
    page.evaluate(f"[...document.querySelectorAll('button.legend-entry')].find((b) => b.innerText.startsWith('{name}')).click()")
    page.settle()


def hovered(page, time_ms, dy=40):
    """The tooltip's text with the pointer over @time_ms in the chart."""
    plot = page.evaluate("cairn.seriesChart.plot()")
    page.hover(plot["x"] + plot["width"] * (time_ms - plot["from_ms"]) / (plot["to_ms"] - plot["from_ms"]), plot["y"] + dy)
    page.wait("!document.querySelector('#tooltip').hidden", "a tooltip")
    return shown(page.text("#tooltip"))


def test_lists_types_by_section(fake, open_page):
    page = open_page(address(fake.url))
    groups = page.evaluate("[...document.querySelectorAll('#type optgroup')].map((g) => [g.label, [...g.children].map((o) => o.text)])")
    assert groups == [["Thread time", ["CPU time", "Blocked (off-CPU)", "Run queue", "Wall clock", "Throttled"]],
                      ["Memory", ["Memory growth", "Resident memory", "Major faults"]],
                      ["Profiler", ["Profiler overhead", "Load-shedding changes", "Active load shedding", "Profiler counters"]]]
    assert page.complaints() == []


def test_shortcuts_reach_types_and_idle(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED))
    page.press("i")
    page.settle()
    assert view(page, "idle") == "in"
    page.press("w")
    assert page.evaluate("document.activeElement.id") == "type"
    page.open(address(fake.url))
    page.press("i")
    assert view(page, "idle") == "out", "CPU time has no idle"


def test_lists_only_types_with_data(fake, open_page):
    page = open_page(address(fake.url, profiles.OOM_KILLS, query="envoy"))
    offered = page.evaluate("[...document.querySelectorAll('#type option')].map((o) => o.text)")
    assert "OOM kills" in offered and "Profiler overhead" not in offered and "Throttled" not in offered
    assert page.evaluate("document.querySelector('#type').selectedOptions[0].text") == "OOM kills"


UNITS = [
    ("CPU", "cores on average"), ("BLOCKED", "threads on average"), ("WAITING", "threads on average"), ("WALL", "threads on average"),
    ("GROWTH", "iB per second on average"), ("RESIDENT", "GiB on average"), ("FAULTS", "in this range"),
    ("THROTTLED", "CPUs throttled on average"), ("OVERHEAD", "cores on average"), ("SHEDDING_CHANGES", "3 in this range"),
    ("SHEDDING", "agents on average"),
]


def test_each_profile_type_has_its_unit(fake, open_page, artefact):
    page = open_page(address(fake.url, profiles.OVERHEAD))
    for name, text in UNITS:
        pick_type(page, getattr(profiles, name))
        page.set_dark(False)
        page.screenshot(artefact(f"profile-{name.lower()}-light"))
        page.set_dark(True)
        page.screenshot(artefact(f"profile-{name.lower()}-dark"))
        assert text in shown(page.text("#chart-facts")), name
    assert page.complaints() == []


@pytest.fixture(scope="module")
def gpu_fake():
    with FakeCollector(Data(2000, services={**SERVICES, **profiles.TRAINER})) as running:
        yield running


@pytest.mark.parametrize("name, text, row", [
    ("GPU_SPIN", "cores on average", None), ("GPU_WAIT", "threads on average", None), ("GPU_LAUNCH", "per second on average", None),
    ("GPU_KERNEL", "GPU kernels at a time on average", None), ("GPU_COPY", "iB per second on average", "host to GPU"), ("GPU_MEMORY", "GiB on average", None),
    ("GPU_IDLE", "GPUs on average", None), ("GPU_IDLE_TIME", "GPUs on average", None), ("NCCL_SKEW", "ranks on average", "rank 1"),
    ("GPU_BUSY", "% on average", "GPU 1"), ("GPU_POWER", "W on average", "GPU 1"), ("GPU_TEMPERATURE", "°C on average", "GPU 0"),
    ("GPU_CLOCK", "MHz on average", "GPU 0"),
])
def test_each_gpu_profile_type_has_its_unit(gpu_fake, open_page, artefact, name, text, row):
    profile_type = getattr(profiles, name)
    page = open_page(address(gpu_fake.url, profile_type, **({"group": "gpu"} if profile_type in profiles.GPU_LEVELS else {})))
    page.screenshot(artefact(f"profile-{name.lower()}"))
    assert text in shown(page.text("#chart-facts"))
    assert row is None or row in legend(page)
    if name == "GPU_TEMPERATURE":
        mean = float(re.search(r"([\d.]+) °C", shown(page.text("#chart-facts")))[1])
        assert mean == pytest.approx(sum(profiles.GPU_LEVELS[profile_type]) / 2, rel=0.05), "two GPUs are not twice as hot"
    if name == "GPU_COPY":
        pick_group(page, "host to GPU")
        assert view(page, "query") == '{direction="host_to_device"}'
        pick_type(page, profiles.CPU)
        assert view(page, "query") == "" and page.evaluate("cairn.flameGraph.count()") > 10
    assert page.complaints() == []


def test_excludes_idle_time_and_shows_how_much(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED, query=SERVICE))
    notice = shown(page.text("#chart-notices"))
    idle_h, idle_m = map(int, re.search(r"(\d+) h (\d+) m idle excluded", notice).groups())
    answer = fake.server.api.time_series({"type": profiles.BLOCKED, "query": f'{{service="{SERVICE}", wait="idle"}}'})
    assert idle_h * 60 + idle_m == pytest.approx(sum(s["total"] for s in answer["series"]) / 60e9, rel=0.05)
    assert "idle" not in legend(page) and sum(legend(page).values()) == pytest.approx(100, abs=1)
    for path in ("merge", "top"):
        assert [p["query"] for p in requests_to(fake, path)] == [f'{{service="{SERVICE}", wait!="idle"}}'], path
    fake.server.requests.clear()
    page.evaluate("document.querySelector('#chart-notices button').click()")
    page.settle()
    assert view(page, "idle") == "in" and "idle=in" in page.address()
    assert "idle time included" in shown(page.text("#chart-notices")) and max(legend(page), key=legend(page).get) == "idle"
    assert [p["query"] for p in requests_to(fake, "merge")] == [f'{{service="{SERVICE}"}}']
    page.evaluate("history.back()")
    page.wait("cairn.view().idle === 'out'", "Back excludes idle time again")


def test_wait_groups_need_one_query_with_idle(fake, open_page):
    open_page(address(fake.url, profiles.BLOCKED))
    of_blocked = [p for p in requests_to(fake, "series") if p["type"] == profiles.BLOCKED]
    # The picker's and the chart's; live, the page may ask again.
    assert {p.get("group_by", "") for p in of_blocked} == {"service", "wait"}
    fake.server.requests.clear()
    page = open_page(address(fake.url, profiles.BLOCKED, group="node"))
    assert "idle excluded" in page.text("#chart-notices")
    assert '{wait="idle"}' in [p.get("query") for p in requests_to(fake, "series")]


def test_cpu_time_queries_no_idle(fake, open_page):
    time.sleep(1)  # requests of the page before, which was closed just now
    fake.server.requests.clear()
    page = open_page(address(fake.url))
    assert "idle" not in page.text("#chart-notices")
    assert not any("wait" in p.get("query", "") for path in ("series", "merge", "top") for p in requests_to(fake, path))


def test_wait_selector_overrides_idle_exclusion(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED, query='{wait="idle"}', group="wait"))
    assert legend(page) == {"idle": 100} and "excluded" not in page.text("#chart-notices")


def test_wait_classes_have_titles_and_colours(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED, query=SERVICE))
    before = colors(page)
    assert {"lock", "GIL", "page fault", "GPU"} <= set(before) and len(set(before.values())) == len(before)
    groups = page.evaluate("cairn.flameGraph.boxes().filter((b) => b.depth === 1).map((b) => [b.name, b.kind])")
    assert ["GIL", "group"] in groups and ["gil", "group"] not in groups
    pick_group(page, "GIL")
    assert view(page, "query") == f'{{wait="gil", service="{SERVICE}"}}'
    assert colors(page) == {"GIL": before["GIL"]} and "only GIL" in shown(page.text("#chart-notices"))
    page.evaluate("[...document.querySelectorAll('#chart-notices button')].find((b) => b.innerText === 'show all').click()")
    page.settle()
    assert view(page, "query") == f'{{service="{SERVICE}"}}' and colors(page) == before


def test_frame_named_like_a_group_keeps_its_name(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED, query=SERVICE))
    named = page.evaluate("""import('/flame_tree.js').then((m) => {
        const t = new m.FlameTree({ names: ['', 'total', 'gil'], kinds: ['unknown', 'native'], unit: 'nanoseconds', node_count: 3,
            nodes: { parent: [0, 0, 1], name: [1, 2, 2], module: [0, 0, 0], kind: [0, 0, 1], self: [0, 0, 5], total: [5, 5, 5] } },
            true, (name) => name.toUpperCase());
        return [t.nameOf(1), t.nameOf(2)]; })""")
    assert named == ["GIL", "gil"]


def test_wall_clock_shows_states_and_links_stacks(fake, open_page):
    page = open_page(address(fake.url, profiles.WALL, query=SERVICE))
    assert list(legend(page)) == ["running", "run queue", "blocked"]
    assert sum(legend(page).values()) == pytest.approx(100, abs=0.2)
    assert not page.shown("#flame-scroller") and not page.shown("#table") and not page.shown("#search")
    assert "without stacks" in page.text("#stackless")
    idle, busy = profiles.WAITS["python"]["idle"], sum(profiles.WAITS["python"].values()) - profiles.WAITS["python"]["idle"]
    percent = float(re.search(r"([\d.]+) % idle", shown(page.text("#chart-notices")))[1])
    assert percent == pytest.approx(100 * idle / (1 + profiles.QUEUE + idle + busy), abs=4)  # the spike adds to the rest
    assert requests_to(fake, "merge") == [] and requests_to(fake, "top") == []
    links = page.evaluate("[...document.querySelectorAll('#stackless button')].map((b) => b.innerText)")
    assert links == ["CPU time", "Run queue", "Blocked (off-CPU)"]
    page.evaluate("document.querySelectorAll('#stackless button')[2].click()")
    page.settle()
    assert view(page, "type") == profiles.BLOCKED and view(page, "query") == SERVICE
    assert page.shown("#flame-scroller") and not page.shown("#stackless") and page.evaluate("cairn.flameGraph.count()") > 10


def test_wall_clock_lists_services_then_threads(fake, open_page):
    page = open_page(address(fake.url, profiles.WALL))
    rows = "[...document.querySelectorAll('.states-table tbody tr')].map((r) => [...r.querySelectorAll('td:not(.bar)')].map((c) => c.innerText))"
    shares = {row[0]: [float(shown(cell).split()[0]) for cell in row[1:5]] for row in page.evaluate(rows)}
    assert set(shares) == set(SERVICES) and all(sum(row) == pytest.approx(100, abs=0.3) for row in shares.values())
    waits = profiles.WAITS["native"]
    assert shares["envoy"][3] == pytest.approx(100 * waits["idle"] / (1 + profiles.QUEUE + sum(waits.values())), abs=0.5)
    page.evaluate("[...document.querySelectorAll('.states-table button')].find((b) => b.innerText === 'envoy').click()")
    page.settle()
    assert view(page, "query") == '{service="envoy"}'
    assert [row[0] for row in page.evaluate(rows)] in (["main", "background"], ["background", "main"])
    pick_type(page, profiles.RESIDENT)
    assert not page.shown(".states-table")


def test_switching_type_drops_foreign_labels(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED, query=f'{{service="{SERVICE}", wait="lock"}}', group="wait"))
    pick_type(page, profiles.CPU)
    assert view(page, "query") == f'{{service="{SERVICE}"}}' and view(page, "group") == "auto"
    assert page.evaluate("cairn.flameGraph.count()") > 10
    assert "wait" not in page.evaluate("[...document.querySelectorAll('#group option')].map((o) => o.value)")


def test_resident_memory_is_a_level(fake, open_page):
    page = open_page(address(fake.url, profiles.RESIDENT))
    answer = fake.server.api.time_series({"type": profiles.RESIDENT})
    peak = max(map(sum, zip(*[s["values"] for s in answer["series"]])))
    peak_gib = float(re.search(r"([\d.]+) GiB at peak", shown(page.text("#chart-facts")))[1])
    assert peak_gib == pytest.approx(peak / 2**30, rel=0.02)
    assert re.search(r"llm-gateway [\d.]+ GiB", shown(page.text("#chart-legend")))


def test_every_type_shows_throttling(fake, open_page, artefact):
    page = open_page(address(fake.url, query=profiles.THROTTLED_SERVICE))
    page.screenshot(artefact("profile-throttled-notice"))
    notice = shown(page.text(".notice-throttled"))
    cpus = profiles.THROTTLED_S * profiles.THROTTLED_SHARE / 900
    assert float(re.search(r"Throttled ([\d.]+) CPUs: the container’s CPU quota", notice)[1]) == pytest.approx(cpus, rel=0.05)
    begin_ms = (fake.server.api.data.started_s - profiles.THROTTLED_AGE_S) * 1000
    assert "Throttled by the CPU quota: 0.62 CPUs" in hovered(page, begin_ms + profiles.THROTTLED_S * 500)
    assert "Throttled" not in hovered(page, begin_ms - 60000)
    pick_type(page, profiles.GROWTH)
    assert page.shown(".notice-throttled")
    page.evaluate("document.querySelector('.notice-throttled button').click()")
    page.settle()
    assert view(page, "type") == profiles.THROTTLED and view(page, "query") == profiles.THROTTLED_SERVICE
    assert not page.shown(".notice-throttled")


def test_a_reached_quota_of_series_is_noticed(fake, open_page):
    assert not open_page(address(fake.url)).shown(".notice-excess")
    fake.server.api.data.excess = True
    page = open_page(address(fake.url))
    assert "Labels missing: too many series" in shown(page.text(".notice-excess"))
    page.evaluate("document.querySelector('.notice-excess button').click()")
    page.settle()
    assert view(page, "query") == '{other!=""}' and not page.shown(".notice-excess")


def test_throttling_notice_names_the_service(fake, open_page):
    assert f"{profiles.THROTTLED_SERVICE} " in shown(open_page(address(fake.url)).text(".notice-throttled"))
    assert not open_page(address(fake.url, query="envoy")).shown(".notice-throttled")


def test_thread_selectors_keep_the_throttling_notice(fake, open_page):
    query = f'{{service="{profiles.THROTTLED_SERVICE}", thread="worker-0", wait="gil"}}'
    assert open_page(address(fake.url, profiles.BLOCKED, query=query)).shown(".notice-throttled")


STACKS_AT = KNOBS["off_cpu_unwind"]["sentence"].format


def sentences(changes=profiles.CHANGES):
    return [knob_sentence(**setting) for _, _, setting in changes]


def test_marks_load_shedding_changes(fake, open_page, artefact):
    page = open_page(address(fake.url, profiles.BLOCKED))
    at_ms = (fake.server.api.data.started_s - profiles.CHANGES[0][0]) * 1000
    first = sentences()[0]
    assert page.text("#changes-text").startswith("cairn-agent: ") and page.text("#changes-text").endswith("3 load-shedding changes")
    assert first in hovered(page, at_ms)
    assert first not in hovered(page, at_ms - 40000)
    page.click("#changes-button")
    page.screenshot(artefact("profile-changes"))
    listed = page.text("#changes-popover")
    assert "not of your services" in listed
    assert all(text in listed for text in sentences()) and "Profiler overhead: 0.0" in listed
    assert CONTRACT["labelValues"]["knob"]["off_cpu_unwind"]["meaning"] in listed
    page.press("Escape")
    assert not page.shown("#changes-popover")


def test_shows_shedding_that_reduces_the_type(fake, open_page):
    page = open_page(address(fake.url, profiles.BLOCKED))
    assert page.text("#changes-text") == "cairn-agent: 1 of 4 off-CPU stacks kept, sums stay right; off-CPU stacks of llm-gateway (4211) off: not recorded meanwhile; 3 load-shedding changes"
    at_ms = (fake.server.api.data.started_s - profiles.CHANGES[0][0]) * 1000
    assert "Active: off-CPU stacks at 1/4" in hovered(page, at_ms + 60000), "for as long as it is active, not only where that began"
    assert "Active" not in hovered(page, at_ms - 60000)
    pick_type(page, profiles.CPU)
    assert page.text("#changes-text") == "cairn-agent: CPU sampled at 49 Hz, sums stay right; 3 load-shedding changes"
    assert "Active" not in hovered(page, at_ms + 60000)
    pick_type(page, profiles.GROWTH)
    assert page.text("#changes-text") == "cairn-agent: 3 load-shedding changes, not of Memory growth"


def shedding_page(open_page, profile_type, shedding):
    """The page of a collector with @shedding: (node, knob, step, seconds ago since when, and until when)."""
    data = Data(300)
    data.changes = []
    data.shedding = [(node, {"knob": knob, "step": step}, data.started_s - since_s, data.started_s - until_s)
                     for node, knob, step, since_s, until_s in shedding]
    collector = FakeCollector(data)
    return collector, lambda: open_page(address(collector.url, profile_type, **{"from": "now-15m"}))


NOT_YET = -3600  # it is active for longer than the test takes


def test_shows_old_shedding_steps_while_active(open_page):
    collector, opened = shedding_page(open_page, profiles.BLOCKED, [
        ("gpu-a1", "off_cpu_unwind", "1/16", 3 * 86400, NOT_YET), ("gpu-a1", "cpu_frequency", "19Hz", 7200, 3600)])
    with collector:
        page = opened()
        assert page.text("#changes-text") == "cairn-agent: 1 of 16 off-CPU stacks kept, sums stay right"
        page.click("#changes-button")
        assert shown(page.text("#changes-popover .changes")) == f"all the time {STACKS_AT(step='1/16')}"
        assert "Wall clock stays exact" in page.text("#changes-popover")


def test_counts_agents_with_the_same_step(open_page):
    collector, opened = shedding_page(open_page, profiles.BLOCKED, [
        ("gpu-a1", "off_cpu_unwind", "1/4", 9000, NOT_YET), ("db-1", "off_cpu_unwind", "1/4", 9000, 400), ("db-1", "overhead_budget", "exceeded", 700, 600)])
    with collector:
        page = opened()
        assert page.text("#changes-text") == "cairn-agent: 1 of 4 off-CPU stacks kept, sums stay right"
        page.click("#changes-button")
        listed = shown(page.text("#changes-popover .changes"))
        assert listed.startswith(f"all the time {STACKS_AT(step='1/4')}, on 2 agents ") and listed.endswith("overhead budget exceeded")


def test_explains_a_past_gap(open_page):
    collector, opened = shedding_page(open_page, profiles.WALL, [("gpu-a1", "off_cpu", "off", 500, 200)])
    with collector:
        page = opened()
        assert re.fullmatch("cairn-agent: " + knob_sentence("off_cpu", "off") + r": not recorded meanwhile \(until \d\d:\d\d:\d\d\)", page.text("#changes-text"))
        page.click("#changes-button")
        listed = page.text("#changes-popover")
        assert "these profiles have a gap" in listed and "exact" not in listed


def test_notices_stay_in_one_line(fake, open_page):
    page = open_page(address(fake.url, query=profiles.THROTTLED_SERVICE), width=1280)
    assert page.shown(".notice-throttled") and page.shown("#changes-button")
    assert page.rect("#chart-panel .panel-head")["height"] == 40
    assert page.text("#changes-text") in page.evaluate("document.querySelector('#changes-button').title")


def test_hides_load_shedding_of_other_nodes(fake, open_page):
    page = open_page(address(fake.url, query="kubelet.service"))  # on gpu-a1 and gpu-b7
    assert page.text("#changes-text") == "cairn-agent: 2 load-shedding changes, not of CPU time"
    assert not open_page(address(fake.url, query='{node="gpu-b7"}')).shown("#changes-button")


def test_no_events_show_no_notices(open_page):
    data = Data(300, services={"calm": (1.0, ["n"], ["p"], "native", False)})
    data.changes = []
    with FakeCollector(data) as calm:
        page = open_page(address(calm.url, profiles.BLOCKED))
        assert not page.shown(".notice-throttled") and not page.shown("#changes-button")
        # In steps of its own it is always queried, to see which agents sent.
        assert not [p for p in requests_to(calm, "series") if p["type"] == profiles.OVERHEAD and "step" not in p], \
            "overhead is queried only with load shedding"


def test_hostile_process_names_stay_text(open_page):
    evil = '<img src=x onerror="window.pwned=1">'
    data = Data(300)
    data.changes = [(data.started_s - 60, "gpu-a1", {"knob": "process_off_cpu", "step": "off", "pid": "7", "comm": evil}),
                    (data.started_s - 60, "gpu-a1", {"knob": evil, "step": evil})]
    with FakeCollector(data) as hostile:
        page = open_page(address(hostile.url, profiles.SHEDDING_CHANGES))
        page.click("#changes-button")
        assert page.text("#changes-popover").count(evil) >= 3
        page.press("Escape")
        assert evil in hovered(page, (data.started_s - 60) * 1000)
        assert evil in page.text("#stackless")
        assert page.evaluate("window.pwned") is None and page.evaluate("document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("profile_type", [profiles.BLOCKED, profiles.WALL], ids=["blocked", "wall"])
def test_profile_types_fit_small_windows(fake, open_page, artefact, profile_type):
    page = open_page(address(fake.url, profile_type), width=390, height=844)
    for width, height in [(390, 844), (880, 700), (1024, 720)]:
        page.resize(width, height)
        page.wait("cairn.settled()")
        expect_fit(page, artefact, profile_type, width, height)


def expect_fit(page, artefact, profile_type, width, height):
    page.screenshot(artefact(f"profile-{profile_type.split(':')[0]}-{width}x{height}"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    notice = page.rect(".notice-throttled")
    assert notice["x"] + notice["width"] <= width
    button = page.rect("#diagnosis-button")
    assert notice["y"] >= button["y"] + button["height"] or notice["x"] + notice["width"] <= button["x"], "they do not lie on each other"
    assert page.rect("#share")["y"] < 60, "the tools are in the first row"
    for fact in ("#chart-facts b", ".states-table tbody td:nth-last-child(2)") if profile_type == profiles.WALL else ("#chart-facts b",):
        box = page.rect(fact)
        assert box["width"] > 20 and box["x"] + box["width"] <= width, "figures are not cut off"
    assert page.evaluate("(() => { const f = document.querySelector('#chart-facts'); return f.scrollWidth <= f.clientWidth; })()")
