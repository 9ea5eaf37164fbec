# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium driven by the Chrome DevTools protocol over a pipe: no driver, no port."""

import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         "--disable-default-apps", "--no-default-browser-check", "--mute-audio", "--remote-debugging-pipe"]
WAIT_S = 120  # generous, for a busy machine
CLOSE_S = 1  # then it is killed: what it would write is deleted
KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Backspace": 8, "Tab": 9, "PageUp": 33,
        "PageDown": 34}


class BrowserError(Exception):
    pass


class Browser:
    """One Chromium with a profile of its own, ended with everything it started."""

    def __init__(self):
        program = shutil.which("chromium")
        if not program:
            raise BrowserError("chromium is not installed; it is in packages.txt")
        self.folder = tempfile.mkdtemp(prefix="cairn-browser-")
        to_read, self.out = os.pipe()
        self.into, to_write = os.pipe()

        def hand_over():
            # Chromium reads commands from descriptor 3 and writes events to 4; move ours out of the way first.
            read, write = os.dup(to_read), os.dup(to_write)
            high = [os.dup2(read, 60), os.dup2(write, 61)]
            os.dup2(high[0], 3, inheritable=True)
            os.dup2(high[1], 4, inheritable=True)

        self.process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={self.folder}", "about:blank"],
                                        preexec_fn=hand_over, close_fds=False, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.rest = b""
        self.number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        try:
            self.call("Browser.close")
        except (BrowserError, OSError):
            pass
        try:
            self.process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own session, so its own group
            self.process.wait()
        os.close(self.into)
        os.close(self.out)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, params=None, session=None):
        """Send a command and return its result; events that arrive before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = self.receive(deadline)
            if answer is None:
                raise BrowserError(f"{method}: no answer within {WAIT_S} s")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def receive(self, deadline):
        while b"\0" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.into], [], [], left)[0]:
                return None
            block = os.read(self.into, 1 << 20)
            if not block:
                raise BrowserError("chromium ended")
            self.rest += block
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def page(self, width=1440, height=900, scale=1, dark=False):
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        return Page(self, target, width, height, scale, dark)


class Page:
    """A tab, driven by mouse and keyboard."""

    def __init__(self, browser, target, width, height, scale, dark):
        self.browser, self.target = browser, target
        self.session = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")
        self.set_look(width, height, scale, dark)

    def call(self, method, params=None):
        return self.browser.call(method, params, self.session)

    def close(self):
        self.browser.call("Target.closeTarget", {"targetId": self.target})

    def set_look(self, width=1440, height=900, scale=1, dark=False):
        self.call("Page.bringToFront")  # a hidden tab draws nothing
        self.resize(width, height, scale)
        self.set_dark(dark)

    def leave(self, url):
        """End what the document does, and forget where the pointer is. @url: of an empty document of the same site, as the
        renderer process changes with the site."""
        self.hover(0, 0)
        self.call("Page.navigate", {"url": url})
        self.complaints()  # its last events have arrived

    def resize(self, width, height, scale=1, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile})

    def set_dark(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def evaluate(self, expression):
        """The value of a JavaScript expression (awaited when a promise)."""
        answer = self.call("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, expression, what="", wait_s=WAIT_S):
        """Wait until @expression is true, and return its value."""
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            try:
                value = self.evaluate(expression)
            except BrowserError:
                value = None  # the page is still loading
            if value:
                return value
            time.sleep(0.04)
        raise AssertionError(f"still false after {wait_s} s: {what or expression}")

    def open(self, url):
        self.evaluate("window.cairn = null")  # of the document before
        self.call("Page.navigate", {"url": url})
        self.settle()

    def settle(self):
        self.wait("window.cairn?.settled() === true", "the page settles")

    def mouse(self, kind, x, y, button="none", clicks=0, buttons=0, modifiers=0):
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": button, "buttons": buttons,
                                               "clickCount": clicks, "modifiers": modifiers})

    def hover(self, x, y):
        self.mouse("mouseMoved", x, y)

    def click_at(self, x, y, clicks=1, modifiers=0):
        self.hover(x, y)
        for count in range(1, clicks + 1):
            self.mouse("mousePressed", x, y, "left", count, 1, modifiers)
            self.mouse("mouseReleased", x, y, "left", count, 0, modifiers)

    def click(self, selector):
        box = self.rect(selector)
        self.click_at(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def drag(self, from_x, to_x, y):
        self.hover(from_x, y)
        self.mouse("mousePressed", from_x, y, "left", 1, 1)
        for part in range(1, 6):
            self.mouse("mouseMoved", from_x + (to_x - from_x) * part / 5, y, "left", 0, 1)
        self.mouse("mouseReleased", to_x, y, "left", 1, 0)

    def type(self, text):
        for char in text:
            self.call("Input.dispatchKeyEvent", {"type": "keyDown", "text": char, "key": char, "unmodifiedText": char})
            self.call("Input.dispatchKeyEvent", {"type": "keyUp", "key": char})

    def press(self, key):
        event = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]} if key in KEYS else {"key": key, "text": key}
        if key == "Enter":
            event["text"] = "\r"
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **event})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", **{k: v for k, v in event.items() if k != "text"}})

    def rect(self, selector):
        rect = self.evaluate(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                             " if (!e) return null; const { x, y, width, height } = e.getBoundingClientRect();"
                             " return { x, y, width, height }; })()")
        if not rect or rect["width"] == 0:
            raise AssertionError(f"{selector} is not visible")
        return rect

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def shown(self, selector):
        return self.evaluate(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                             " return Boolean(e && e.getClientRects().length); })()")

    def address(self):
        return self.evaluate("location.href")

    def screenshot(self, path):
        image = self.call("Page.captureScreenshot", {"format": "png"})["data"]
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_bytes(base64.b64decode(image))

    def complaints(self):
        """Errors and warnings of the console, exceptions and failed requests so far."""
        self.evaluate("0")  # so that all events before now have arrived
        complaints = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            params, method = event.get("params", {}), event.get("method")
            if method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                complaints.append("exception: " + details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                complaints.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                complaints.append(f"log: {params['entry']['text']} {params['entry'].get('url', '')}")
        return complaints

    def requested(self):
        """Addresses the page has requested."""
        self.evaluate("0")
        return [e["params"]["request"]["url"] for e in self.browser.events
                if e.get("sessionId") == self.session and e.get("method") == "Network.requestWillBeSent"]
