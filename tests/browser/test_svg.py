# SPDX-License-Identifier: Apache-2.0
"""The SVG flame graph, opened in a browser."""

import json
import subprocess

import pytest

from conftest import REPOSITORY, fleet

SHARES = {"all": 100, "python3": 70, "Loop.run": 70, "gemm": 60, "memcpy": 10, "bash": 30, "write_[k]": 25, "gemm_small": 5}
MARGINS = 20  # pixels, left and right together


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("svg")
    program, file = folder / "svg_sample", folder / "known.svg"
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", f"-I{REPOSITORY}", REPOSITORY / "tests/browser/svg_sample.c",
                    fleet.program("lib/base.a"), "-lxxhash", "-o", program], check=True)
    file.write_bytes(subprocess.run([program], check=True, capture_output=True).stdout)
    return file.as_uri()


@pytest.fixture
def page(browser, picture, request):
    page = browser.page(width=1020, **getattr(request, "param", {}))
    page.call("Page.navigate", {"url": picture})
    page.wait("Boolean(document.querySelector('#search input'))", "the picture is there")
    yield page
    assert page.complaints() == []
    page.close()
    browser.events.clear()


def boxes(page, name):
    """The shown boxes of a name, the lowest first."""
    return page.evaluate(f"""[...document.querySelectorAll('#frames g')]
        .filter((g) => g.style.display !== 'none' && g.children[0].textContent.split('\\n')[0] === {json.dumps(name)})
        .map((g) => {{
            const {{x, y, width, height}} = g.children[1].getBoundingClientRect();
            return {{x, y, width, height, text: g.children[2].textContent, hit: g.classList.contains('hit')}};
        }}).sort((a, b) => b.y - a.y)""")


def click(page, name):
    box = boxes(page, name)[0]
    page.click_at(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def type_search(page, pattern):
    page.evaluate("document.querySelector('#search input').focus()")
    page.type(pattern)


def matched(page):
    return page.evaluate("document.getElementById('matched').textContent")


@pytest.mark.parametrize("page", [{"dark": False}, {"dark": True}], ids=["light", "dark"], indirect=True)
def test_box_widths_match_shares(page, artefact, request):
    for name, percent in SHARES.items():
        assert boxes(page, name)[0]["width"] == pytest.approx(percent / 100 * (1020 - MARGINS), abs=1.5), name
    page.screenshot(artefact("svg-" + request.node.callspec.id))
    page.resize(620, 800)
    page.wait("document.getElementById('frames').getAttribute('width') === '600'", "the texts follow the window")
    assert boxes(page, "gemm")[0]["width"] == pytest.approx(0.6 * (620 - MARGINS), abs=1.5)


def test_root_is_at_the_bottom(page):
    heights = [boxes(page, name)[0]["y"] for name in ("all", "python3", "Loop.run", "gemm")]
    assert heights == sorted(heights, reverse=True)


def test_click_zooms_and_button_resets(page):
    click(page, "Loop.run")
    assert boxes(page, "gemm")[0]["width"] == pytest.approx(60 / 70 * (1020 - MARGINS), abs=1.5)
    assert boxes(page, "python3")[0]["width"] == pytest.approx(1020 - MARGINS, abs=1.5)
    assert boxes(page, "bash") == []
    page.click("#reset")
    assert boxes(page, "bash")[0]["width"] == pytest.approx(0.3 * (1020 - MARGINS), abs=1.5)
    assert not page.shown("#reset")


def test_escape_resets_zoom(page):
    click(page, "bash")
    assert boxes(page, "Loop.run") == []
    page.press("Escape")
    assert boxes(page, "Loop.run")


@pytest.mark.parametrize("pattern, share, count", [
    ("gemm", "65.00", 3),  # the gemm within gemm counts once
    ("GEMM$", "60.00", 2),
    ("write|memcpy", "35.00", 2),
    ("nowhere", "0.00", 0),
    ("Loop.run (", "0.00", 0),  # no expression: searched as it is written
    ("_[k", "25.00", 1),
])
def test_search_shows_share_of_total(page, pattern, share, count):
    type_search(page, pattern)
    frames = "frame" if count == 1 else "frames"
    assert matched(page) == f"matched {share} % of total in {count} {frames}"
    page.press("Escape")
    assert matched(page) == ""


def test_marks_matches(page):
    type_search(page, "memcpy")
    assert boxes(page, "memcpy")[0]["hit"] and not boxes(page, "gemm")[0]["hit"]


def test_ctrl_f_focuses_search(page):
    page.evaluate("window.dispatchEvent(new KeyboardEvent('keydown', {key: 'f', ctrlKey: true, cancelable: true}))")
    page.type("bash")
    assert matched(page) == "matched 30.00 % of total in 1 frame"


def test_hovering_shows_details(page):
    box = boxes(page, "memcpy")[0]
    page.hover(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.evaluate("document.getElementById('details').textContent") == "memcpy   100 ms (10.00 %), native"


def test_hostile_names_stay_text(page):
    assert boxes(page, "</title><script>window.harmed=1</script>")[0]["text"].startswith("</title><script>")
    assert page.evaluate("window.harmed === undefined")
    assert [address for address in page.requested() if not address.startswith("file:")] == []
