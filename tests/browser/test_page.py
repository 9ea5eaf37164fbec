# SPDX-License-Identifier: Apache-2.0
"""The page against the fake collector: each control, and each failure."""

import re
import time
import urllib.parse

import pytest

from fake_collector import FakeCollector
from fake_data import Data, SERVICES

HOT_TOTAL_PERCENT = 3.0  # spin_hot, which calls itself, is 3 % of each service in the fake collector


def boxes(page):
    return page.evaluate("cairn.flameGraph.boxes()")


def click_box(page, box, **how):
    page.click_at(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, **how)
    page.settle()


def visible_rows(page):
    return page.evaluate("[...document.querySelectorAll('#table-body tr[data-name]')].map((row) => row.dataset.name)")


def view(page, name):
    return page.evaluate(f"cairn.view().{name}")


# The worst contrast of what is written with what is below it.
CONTRAST = """(async () => {
        const { readPalette } = await import("/palette.js");
        const palette = readPalette(), ctx = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        const luminance = (color) => {
            ctx.fillStyle = color;
            ctx.fillRect(0, 0, 1, 1);
            const [r, g, b] = [...ctx.getImageData(0, 0, 1, 1).data].map((c) => c / 255)
                .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
        const pairs = [...palette.kinds.map((kind) => [palette["frame-ink"], kind]), [palette["match-ink"], palette.match],
                       [palette["dim-ink"], palette.dim], [palette.ink, palette.surface], [palette["ink-muted"], palette.surface]];
        return Math.min(...pairs.map(([ink, ground]) => contrast(ink, ground)));
    })()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_draws_both_themes_legibly(fake, open_page, artefact, dark):
    page = open_page(fake.url, dark=dark)
    page.screenshot(artefact("page-dark" if dark else "page-light"))
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == dark
    assert page.evaluate(CONTRAST) >= 4.5, "of names on every colour"
    requested = page.requested()
    assert requested and all(url.startswith(fake.url + "/") for url in requested), f"nothing from other origins: {requested}"
    assert page.complaints() == []


def test_picker_sorts_services_by_share_and_filters(fake, open_page):
    page = open_page(fake.url)
    page.press("s")
    rows = page.evaluate("[...document.querySelectorAll('.service-row')].map((row) => row.title)")
    assert rows[0] == "All services" and set(rows[1:]) == set(SERVICES)
    shares = page.evaluate("[...document.querySelectorAll('.service-row-share')].map((e) => parseFloat(e.textContent))")
    assert shares[1:] == sorted(shares[1:], reverse=True) and sum(shares[1:]) == pytest.approx(100, abs=0.5)
    page.type("e")
    page.press("ArrowDown")
    second = page.evaluate("document.querySelector('.service-row.active').title")
    page.press("Enter")
    page.settle()
    assert page.text("#service-name") == second and view(page, "query") == f'{{service="{second}"}}'


def test_picking_a_service_keeps_other_matchers(fake, open_page):
    page = open_page(fake.url + "/?query=" + urllib.parse.quote('{service="envoy", node="gpu-a1"}'))
    page.press("s")
    page.type("kubelet")
    page.press("Enter")
    page.settle()
    assert view(page, "query") == '{service="kubelet.service", node="gpu-a1"}'


def test_picker_reports_an_unknown_service(fake, open_page):
    page = open_page(fake.url)
    page.press("s")
    page.type("nonesuch")
    assert "No service contains" in page.text("#service-list")
    page.press("Enter")
    page.press("Escape")
    assert view(page, "query") == ""


def test_click_zooms_in_path_and_escape_out(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway&live=off")
    deep = next(b for b in boxes(page) if b["depth"] == 6 and b["width"] > 30)
    click_box(page, deep)
    assert page.evaluate("cairn.flameGraph.zoomed()") == deep["name"]
    page.evaluate("document.querySelector('#breadcrumb button:nth-of-type(2)').click()")
    page.settle()
    assert page.evaluate("cairn.flameGraph.zoomed()") == "<module> (serve.py)"
    page.evaluate("history.back()")
    page.wait("cairn.settled()")
    page.wait(f"cairn.flameGraph.zoomed() === {deep['name']!r}", "Back goes to the zoom before")
    page.press("Escape")
    page.settle()
    assert page.evaluate("cairn.flameGraph.zoomed()") == "total" and view(page, "zoom") == ""


def test_zoom_survives_refresh_and_reports_missing_frames(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway")
    box = next(b for b in boxes(page) if b["depth"] == 5 and b["width"] > 30)
    click_box(page, box)
    first = page.evaluate("cairn.seriesChart.plot()")["to_ms"]
    page.wait(f"cairn.settled() && cairn.seriesChart.plot().to_ms > {first}", "a live refresh")
    assert page.evaluate("cairn.flameGraph.zoomed()") == box["name"]
    gone = open_page(fake.url + "/?query=envoy&zoom=0123456789abcdef")
    assert gone.evaluate("cairn.flameGraph.zoomed()") == "total"
    assert "no samples here" in gone.text("#breadcrumb")


def test_search_counts_each_stack_once(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway&nodes=131072")
    page.press("/")
    page.type("spin_")
    text = page.text("#search-share")
    # spin_hot > spin_inner > spin_hot: three frames, all of it under the first.
    assert re.search(r"matched: 3\.0\s?% of total in 3 frames", text), text
    assert {b["name"] for b in boxes(page) if b["matched"]} == {"spin_hot", "spin_inner"}
    page.press("Escape")
    assert page.text("#search-share") == "" and view(page, "search") == ""


def test_search_syntax(fake, open_page):
    page = open_page(fake.url + "/?nodes=131072&query=llm-gateway&live=off&search=" + urllib.parse.quote('"spin_hot"'))
    assert "in 2 frames" in page.text("#search-share"), "of the link"
    for text, result in [("/^spin_(hot|inner)$/", "in 3 frames"), ("SPIN_INNER", "in 1 frame"), ("nothing like it", "no match"),
                         ("/(/", "Invalid regular expression")]:
        page.evaluate("document.querySelector('#search').select()")
        page.type(text)
        page.settle()
        assert result in page.text("#search-share"), text
    assert page.complaints() == []


def test_hovering_a_box_shows_its_shares(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway")
    box = next(b for b in boxes(page) if b["kind"] == "python" and b["width"] > 30)
    page.hover(box["x"] + box["width"] / 2, box["y"] + 8)
    page.wait("!document.querySelector('#tooltip').hidden", "a tooltip")
    text = page.text("#tooltip")
    for part in [box["name"], "Python", "python3.11", "Total", "Self", "Of parent", "cores"]:
        assert part in text, text


def test_arrow_keys_move_in_flame_graph(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway&live=off")
    page.press("f")
    page.press("ArrowDown")
    assert page.text("#flame-focus").startswith("total,")
    page.press("ArrowDown")
    page.press("ArrowDown")
    parent = page.text("#flame-focus")
    page.press("ArrowDown")
    focused = page.text("#flame-focus")
    assert "Python" in focused and "% of all" in focused.replace("\u202f", " ")
    page.press("Enter")
    page.settle()
    assert page.evaluate("cairn.flameGraph.zoomed()") == focused.split(", Python")[0]
    page.press("Backspace")
    page.settle()
    assert page.evaluate("cairn.flameGraph.zoomed()") == parent.split(", Python")[0]


def test_flame_orientation_puts_root_at_bottom(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway&root=bottom")
    root = next(b for b in boxes(page) if b["depth"] == 0)
    child = next(b for b in boxes(page) if b["depth"] == 1)
    scroller = page.rect("#flame-scroller")
    assert child["y"] < root["y"] <= scroller["y"] + scroller["height"] - root["height"]
    click_box(page, next(b for b in boxes(page) if b["depth"] == 4))
    assert page.text("#orientation-text") == "Flame"
    page.click("#orientation")
    page.settle()
    assert view(page, "root") == "top"


def test_drag_zooms_range_and_double_click_returns(fake, open_page):
    page = open_page(fake.url)
    before = page.evaluate("cairn.seriesChart.plot()")
    page.drag(before["x"] + 100, before["x"] + 300, before["y"] + 40)
    page.wait("cairn.view().to !== 'now'")
    page.settle()
    plot = page.evaluate("cairn.seriesChart.plot()")
    assert plot["to_ms"] - plot["from_ms"] == pytest.approx((before["to_ms"] - before["from_ms"]) * 200 / before["width"], rel=0.02)
    assert page.text("#live-text") == "Paused"
    page.click_at(plot["x"] + 200, plot["y"] + 40, clicks=2)
    page.wait("cairn.view().to === 'now'", "the range before")
    page.settle()
    assert view(page, "from") == "now-15m" and page.text("#live-text") == "Live"


def test_click_on_chart_selects_no_range(fake, open_page):
    page = open_page(fake.url)
    plot = page.evaluate("cairn.seriesChart.plot()")
    page.click_at(plot["x"] + 100, plot["y"] + 40)
    assert view(page, "from") == "now-15m"


def test_chart_shows_the_spike(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway")
    mean, peak = (float(n) for n in re.findall(r"([\d.]+) (?:cores|at peak)", page.text("#chart-facts").replace("\n", " ")))
    assert peak > 2 * mean


def test_rejects_invalid_ranges(fake, open_page):
    page = open_page(fake.url)
    page.press("t")
    assert "local, UTC" in page.text("#range-form .hint")
    for value, error in [("yesterday-ish", "is not a time"), ("2030-02-31 10:00", "is not a time"), ("now", "before To")]:
        page.evaluate(f"document.querySelector('#range-from').value = '{value}'")
        page.evaluate("document.querySelector('#range-form').requestSubmit()")
        assert error in page.text("#range-error"), value
    page.evaluate("document.querySelector('#range-from').value = 'now-3m'")
    page.evaluate("document.querySelector('#range-form').requestSubmit()")
    page.settle()
    assert view(page, "from") == "now-3m"


def test_table_sorts_filters_and_selects(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway&nodes=131072&live=off")
    by_self = visible_rows(page)
    page.click("th[data-sort=total] button")
    assert visible_rows(page)[0] in ("<module> (serve.py)", "main", "_start") and visible_rows(page) != by_self
    page.click("th[data-sort=total] button")
    assert view(page, "sort") == "-total"
    page.click("#table-filter")
    page.type("spin_")
    assert set(visible_rows(page)) == {"spin_hot", "spin_inner"}
    share = page.evaluate("document.querySelector('tr[data-name=spin_hot] td:nth-child(3) .share').textContent")
    assert float(share.split("\u202f")[0]) == pytest.approx(HOT_TOTAL_PERCENT, abs=0.1)
    page.click("tr[data-name=spin_hot]")
    assert view(page, "search") == '"spin_hot"' and "3.0" in page.text("#search-share")
    assert page.evaluate("document.querySelector('tr[data-name=spin_hot]').ariaSelected") == "true"


def test_table_renders_visible_rows_only(open_page):
    with FakeCollector(Data(16000)) as large:
        page = open_page(large.url + "/?page=service&layout=table&live=off")
        assert int(re.search(r"([\d,]+) of", page.text("#table-facts"))[1].replace(",", "")) >= 5000
        assert len(visible_rows(page)) < 80
        first = visible_rows(page)
        page.evaluate("document.querySelector('#table-scroller').scrollTop = 60000")
        page.wait(f"document.querySelector('#table-body tr[data-name]').dataset.name !== {first[0]!r}", "other rows")
        assert len(visible_rows(page)) < 80


def test_legend_click_adds_a_matcher(fake, open_page):
    page = open_page(fake.url + "/?group=node")
    page.evaluate("[...document.querySelectorAll('.legend-entry')].find((e) => e.innerText.includes('db-1')).click()")
    page.settle()
    assert view(page, "query") == '{node="db-1"}'
    assert {b["name"] for b in boxes(page) if b["depth"] == 1} == {"db-1"}


def test_reports_truncated_and_undrawn_frames(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway&nodes=500")
    text = page.text("#coverage")
    assert "in truncated stacks" in text and "not drawn: the smallest" in text and "Not drawn" in page.text("#legend")
    page.evaluate("document.querySelector('#coverage .link').click()")
    page.settle()
    assert "every frame drawn" in page.text("#coverage")
    shares = page.evaluate("[...document.querySelectorAll('#legend b')].map((e) => parseFloat(e.textContent))")
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_explains_an_invalid_selector_while_typing(fake, open_page):
    page = open_page(fake.url)
    page.click("#selector")
    page.type('{service="envoy"')
    page.wait("document.querySelector('#selector-error').textContent.includes('column 17')", "the error of the whole text")
    assert page.shown("#selector-error")
    page.press("Enter")
    page.settle()
    assert "Invalid selector" in page.text("#flame-message")
    page.type("}")
    page.press("Enter")
    page.settle()
    assert not page.shown("#selector-error") and not page.shown("#flame-message")
    assert page.text("#service-name") == "envoy"


def test_empty_collector_shows_agent_command(open_page, artefact):
    with FakeCollector(Data(empty=True)) as empty:
        page = open_page(empty.url)
        page.screenshot(artefact("page-empty"))
        assert "No samples in this range." in page.text("#flame-message") and "no agent connected" in page.text("#status-bar")
        assert "cairn-agent --collector 127.0.0.1" in page.text("#flame-message code")
        assert page.complaints() == []


@pytest.mark.parametrize("age_s, expected", [(30, "now-1m"), (60, "now-5m"), (300, "now-15m"), (800, "now-15m")])
def test_new_collector_defaults_to_a_short_range(open_page, age_s, expected):
    with FakeCollector(Data(300, age_s=age_s)) as young:
        page = open_page(young.url)
        assert view(page, "from") == expected
        assert page.shown("#flame-foot"), "samples are shown"
        assert view(open_page(young.url + "/?from=now-1h"), "from") == "now-1h"


def test_empty_range_links_to_newest_samples(fake, open_page):
    page = open_page(fake.url + "/?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z")
    assert "Newest sample of any service:" in page.text("#flame-message")
    page.evaluate("document.querySelector('#flame-message button').click()")
    page.settle()
    assert not page.shown("#flame-message") and page.evaluate("cairn.flameGraph.count()") > 1


def test_banner_shows_while_collector_is_unreachable(fake, open_page, artefact):
    page = open_page(fake.url + "/?live=off")
    before = page.evaluate("cairn.flameGraph.count()")
    fake.server.away = True
    page.click("[data-layout=table]")
    page.evaluate("document.querySelector('#live').click()")
    page.wait("!document.querySelector('#banner').hidden", "the banner")
    page.screenshot(artefact("page-collector-away"))
    assert page.evaluate("cairn.flameGraph.count()") == before, "the last picture stays"
    fake.server.away = False
    page.wait("document.querySelector('#banner').hidden", "the banner goes")
    page.settle()
    assert visible_rows(page)


def test_slow_query_shows_progress_and_cancels(fake, open_page):
    page = open_page(fake.url + "/?live=off")
    fake.server.delay_s = 6
    page.press("t")
    page.evaluate("document.querySelector('.preset[data-from=\"now-5m\"]').click()")
    page.wait("!document.querySelector('#flame-progress').hidden", "progress")
    page.wait("document.querySelector('#flame-progress .link') !== null", "how long it takes")
    assert "Loading for" in page.text("#flame-progress")
    page.evaluate("document.querySelector('#flame-progress .link').click()")
    assert not page.shown("#flame-progress")
    fake.server.delay_s = 0


def test_shows_only_the_latest_answer(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway&live=off")
    fake.server.delay_s = 0.8
    page.evaluate("document.querySelector('.preset[data-from=\"now-1h\"]').click()")
    time.sleep(0.2)
    fake.server.delay_s = 0
    page.evaluate("document.querySelector('.preset[data-from=\"now-5m\"]').click()")
    time.sleep(1.5)  # the first answer would have come by now
    page.settle()
    now_s = time.time()
    of_five_minutes = sum(fake.server.api.data.usage("llm-gateway", now_s - 300, now_s))
    assert boxes(page)[0]["total"] == pytest.approx(of_five_minutes, rel=0.1)
    assert page.complaints() == []


def test_past_range_pauses_live(fake, open_page):
    merges = lambda: sum("/merge" in request for request in fake.server.requests)
    past = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age_s)) for age_s in (1200, 600)]
    page = open_page(f"{fake.url}/?from={past[0]}&to={past[1]}")
    assert page.text("#live-text") == "Paused" and view(page, "live") == "on"
    time.sleep(6)
    assert merges() == 1
    page.click("#live")
    page.settle()
    assert page.text("#live-text") == "Live" and view(page, "to") == "now" and merges() == 2


def test_a_gap_is_no_zero(fake, open_page, artefact):
    started_s = fake.server.api.data.started_s
    fake.server.api.data.silent = (started_s - 700, started_s - 500)
    page = open_page(f"{fake.url}/?query=llm-gateway&live=off&from={int(started_s - 1000)}&to={int(started_s - 400)}")
    plot = page.evaluate("cairn.seriesChart.plot()")
    page.hover(plot["x"] + plot["width"] * 400 / 600, plot["y"] + 30)
    assert "No data: no agent sent any" in page.text("#tooltip")
    page.screenshot(artefact("chart-gap"))
    page.hover(plot["x"] + plot["width"] * 100 / 600, plot["y"] + 30)
    assert " cores" in page.text("#tooltip")


def test_the_selector_is_reachable_on_a_phone(fake, open_page, artefact):
    page = open_page(fake.url + "/?query=llm-gateway&live=off", width=390, height=844)
    page.click("#selector")
    page.evaluate("document.querySelector('#selector').select()")
    page.type("envoy")
    page.press("Enter")
    page.settle()
    assert view(page, "query") == "envoy" and page.text("#service-name") == "envoy"
    page.screenshot(artefact("page-390-selector"))
    page.click("#range-button")
    page.click('.preset[data-from="now-7d"]')
    page.settle()
    assert page.text("#range-text") == "Last 7 days"


def test_header_and_tooltip_average_the_same_time(fake, open_page):
    page = open_page(fake.url + "/?query=llm-gateway&live=off&layout=flame&from=now-3h")  # the store begins within it
    root = boxes(page)[0]
    page.hover(root["x"] + root["width"] / 2, root["y"] + root["height"] / 2)
    header = float(re.match(r"([\d.]+) cores on average", page.text("#chart-facts"))[1])
    tooltip = float(re.search(r"On average\s+([\d.]+) cores", page.text("#tooltip"))[1])
    assert tooltip == pytest.approx(header, rel=0.02)


def test_copied_link_pins_the_range(fake, open_page):
    page = open_page(fake.url + "/?query=envoy&search=spin")
    page.evaluate("window.copied = ''; navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click("#share")
    page.wait("window.copied", "a link")
    link = urllib.parse.urlsplit(page.evaluate("window.copied"))
    params = dict(urllib.parse.parse_qsl(link.query))
    assert params["query"] == "envoy" and params["search"] == "spin" and "Z" in params["from"] and "Z" in params["to"]
    assert "Link copied" in page.text("#toast")


def test_downloads_match_the_view(fake, open_page):
    page = open_page(fake.url + "/?query=envoy")
    page.click("#download-button")
    links = page.evaluate("[...document.querySelectorAll('#download-popover a')].map((a) => a.href)")
    formats = [dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(link).query)) for link in links]
    assert [f["format"] for f in formats] == ["pprof", "collapsed", "svg"]
    assert all(f["query"] == '{service="envoy"}' and int(f["from"]) < int(f["to"]) for f in formats)


def test_the_header_keeps_its_places(fake, open_page):
    page = open_page(fake.url + "/?live=off", width=1440)
    places = lambda: [page.rect(selector) for selector in ("#type", "#range-button", "#live")]
    before = places()
    for preset in ("now-1m", "now-24h"):
        page.evaluate(f"document.querySelector('.preset[data-from=\"{preset}\"]').click()")
        page.settle()
        assert places() == before, preset
    page.open(fake.url + "/?from=2026-01-31T10:00:00.123Z&to=2026-01-31T11:00:00.456Z")
    assert places() == before and "2026" in page.evaluate("document.querySelector('#range-button').title")


def test_theme_choice_persists(fake, open_page):
    page = open_page(fake.url)
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.open(fake.url)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.click("#theme")
    page.evaluate("localStorage.clear()")


def test_nothing_overflows_the_window(fake, open_page, artefact):
    windows = [(390, 844), (1024, 720), (1440, 900), (3840, 2160)]
    page = open_page(fake.url + "/?query=llm-gateway&live=off&search=forward", width=windows[0][0], height=windows[0][1])
    for width, height in windows:
        page.resize(width, height)
        page.wait(f"cairn.settled() && document.querySelector('#flame').getBoundingClientRect().width > {width} * 0.4", "the flame graph grows")
        page.screenshot(artefact(f"page-{width}x{height}"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width
        assert [b for b in boxes(page) if b["width"] > 20], width


def test_hostile_names_stay_text(open_page):
    evil = '<img src=x onerror="window.pwned=1">'
    data = Data(300, services={evil: (1.0, ["<b>node</b>"], ["p"], "python", False)})
    for tree in data.trees.values():
        tree.frame = [(evil if at > 3 else f[0], '"><script>window.pwned=1</script>', f[2]) for at, f in enumerate(tree.frame)]
    with FakeCollector(data) as hostile:
        page = open_page(f"{hostile.url}/?search={urllib.parse.quote(evil)}&query={urllib.parse.quote('{a=' + evil)}")
        page.open(hostile.url + "/?page=service")
        page.press("s")
        box = next(b for b in boxes(page) if b["depth"] == 1)
        page.hover(box["x"] + 30, box["y"] + 8)
        page.press("Enter")
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.querySelectorAll('img, #tooltip b b, script:not([src])').length") == 0
        assert evil in page.text("#service-list") or evil in page.text("#service-name") + page.text("#chart-legend")


@pytest.mark.alone
def test_draws_100k_frames_within_a_frame_time(open_page, artefact):
    with FakeCollector(Data(56000)) as large:
        page = open_page(f"{large.url}/?nodes=131072&live=off&layout=flame")
        assert page.evaluate("cairn.flameGraph.count()") >= 100_000
        for _ in range(6):  # on a machine that does other work, too, some rounds have the CPU to themselves
            before = page.evaluate("cairn.flameGraph.drawTimes_ms()")
            for depth in (6, 9):
                click_box(page, next(b for b in boxes(page) if b["depth"] == depth and b["width"] > 30))
            page.press("Escape")
            page.settle()
            after = page.evaluate("cairn.flameGraph.drawTimes_ms()")
            same = next(n for n in range(len(before) + 1) if before[n:] == after[:len(before) - n])  # only the last draws are kept
            times = sorted(after[len(before) - same:])
            if len(times) >= 10 and times[len(times) // 2] < 16:
                break
        page.screenshot(artefact("page-100k-frames"))
        print(f"\n100k frames: {len(times)} draws in motion, median {times[len(times) // 2]:.1f} ms, largest {times[-1]:.1f} ms")
        assert len(times) >= 10 and times[len(times) // 2] < 16
