# SPDX-License-Identifier: Apache-2.0
"""What axe-core finds on the page: nothing serious. `make accessibility` gets axe-core; without it the tests are skipped."""

import json
import os
import pathlib

import pytest

from test_flame import address

AXE = pathlib.Path(__file__).resolve().parents[2] / os.environ.get("BUILD", "build") / "axe" / "package" / "axe.min.js"
VIOLATIONS = """axe.run(document, { resultTypes: ["violations"] }).then((found) => found.violations.map(({ id, impact, nodes }) =>
    [id, impact, nodes.slice(0, 3).map((node) => node.html.slice(0, 120))]))"""

pytestmark = pytest.mark.skipif(not AXE.is_file(), reason="axe-core is missing: make accessibility")


def open_menu(page):
    page.press("f")
    for _ in range(3):
        page.press("ArrowDown")
    page.press("m")


def select_bar(page):
    drawn = page.evaluate("cairn.timeline.shown().plot")
    page.click_at(drawn["x"] + drawn["width"] / 3, drawn["rows"][0]["y"])
    page.settle()
    assert page.shown(".timeline-stacks")


def open_with(key, selector):
    def act(page):
        page.press(key)
        page.wait(f"document.querySelector({json.dumps(selector)}) !== null")
    return act


@pytest.mark.parametrize("what, width, dark, view, act", [
    ("both panes", 1280, False, {"search": "forward"}, None),
    ("table", 1280, True, {"layout": "table", "columns": "on"}, open_with("v", "#options-popover input")),
    ("callers on a phone", 390, False, {"sandwich": "spin_inner"}, None),
    ("menu", 1280, True, {"hide": "spin_hot"}, open_menu),
    ("diagnosis", 1280, False, {}, open_with("d", "#diagnosis-popover h3")),
    ("heat map", 1280, True, {"over": "heat", "from": "now-5m"}, None),
    ("timeline", 1280, False, {"page": "timeline", "from": "now-20s"}, select_bar),
    ("services", 390, False, {"page": "services"}, None),
    ("fleet", 1280, True, {"page": "fleet"}, None),
], ids=lambda value: value if isinstance(value, str) else "")
def test_axe_finds_nothing_serious(fake, open_page, what, width, dark, view, act):
    page = open_page(address(fake.url, **view), width=width, dark=dark)
    if act:
        act(page)
    page.evaluate(AXE.read_text() + ";0")
    found = page.evaluate(VIOLATIONS)
    assert [violation for violation in found if violation[1] in ("serious", "critical")] == [], what
    assert "page-has-heading-one" not in [violation[0] for violation in found]
