# SPDX-License-Identifier: Apache-2.0
"""What the browser tests share: a Chromium, collectors to show, and a folder for screenshots."""

import os
import pathlib

import pytest

from browser import Browser
from fake_collector import Data, FakeCollector

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ARTEFACTS = REPOSITORY / "build" / "artefacts"


@pytest.fixture(scope="session")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="session")
def shared_fake():
    with FakeCollector(Data(16000)) as running:
        yield running


@pytest.fixture
def fake(shared_fake):
    """The test double with its usual data, answering at once."""
    shared_fake.server.away, shared_fake.server.delay_s = False, 0
    shared_fake.server.requests.clear()
    return shared_fake


@pytest.fixture
def open_page(browser):
    """open_page(url, width=..., dark=...): a tab there, closed after the test."""
    pages = []

    def open_at(url, **look):
        page = browser.page(**look)
        pages.append(page)
        page.open(url)
        return page

    yield open_at
    for page in pages:
        page.close()
    browser.events.clear()


@pytest.fixture
def collector_url(shared_fake):
    """A collector with data: the one at CAIRN_URL, or the test double."""
    return os.environ.get("CAIRN_URL", "").rstrip("/") or shared_fake.url


@pytest.fixture
def artefact():
    """artefact(name): where a picture of that name is kept."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    return lambda name: ARTEFACTS / f"{name}.png"
