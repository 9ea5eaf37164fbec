# SPDX-License-Identifier: Apache-2.0
"""The page's flame graph with 100,000 frames in headless Chromium: time to lay it out, and frames per second while it is
dragged and scaled. Chromium draws on the CPU here: a machine with a GPU is faster."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "browser"), str(ROOT / "tests")]
from browser import Browser  # noqa: E402
from fake_collector import Data, FakeCollector  # noqa: E402

ROUNDS = 5
FRAMES = 180  # of each round
# Each animation frame moves the pointer once, as a hand does, and the page draws once.
MOTION = """(async () => {
    const canvas = document.querySelector("#flame"), corner = canvas.getBoundingClientRect(), times = [];
    const send = (type, x, y, more = {}) => canvas.dispatchEvent(new PointerEvent(type, { clientX: corner.x + x, clientY: corner.y + y, bubbles: true, pointerId: 1, ...more }));
    canvas.setPointerCapture = () => {};
    for (let i = 0; i < 12; i++)
        canvas.dispatchEvent(new WheelEvent("wheel", { clientX: corner.x + 500, clientY: corner.y + 100, deltaY: -80, ctrlKey: true, cancelable: true }));
    send("pointerdown", 700, 150, { button: 0 });
    let last = await new Promise(requestAnimationFrame);
    for (let i = 0; i < %d; i++) {
        send("pointermove", 700 - 300 * Math.sin(i / 20), 150 - 120 * Math.sin(i / 33));
        const now = await new Promise(requestAnimationFrame);
        times.push(now - last);
        last = now;
    }
    send("pointerup", 700, 150);
    return times.slice(1);
})()""" % FRAMES
LAYOUT = """(async () => {
    const { FlameTree } = await import("/flame_tree.js"), { shapeAnswer } = await import("/flame_shape.js");
    const answer = await (await fetch("/api/v1/merge?max_nodes=131072&lines=none")).json();
    const began = performance.now();
    const shaped = shapeAnswer(answer, { fold: true, recursion: false, libraries: false, hide: [], focus: "" });
    const folded = performance.now();
    new FlameTree(shaped);
    return { count: answer.nodes.parent.length, fold: folded - began, layout: performance.now() - folded };
})()"""


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def main():
    with FakeCollector(Data(64000)) as large, Browser() as browser:
        page = browser.page(width=1600, height=1000)
        page.open(f"{large.url}/?nodes=131072&live=off&layout=flame&group=")
        made = [page.evaluate(LAYOUT) for _ in range(ROUNDS)]
        print(f"flame graph of {made[0]['count']:,} frames; fold {quantile([m['fold'] for m in made], 0.5):.0f} ms, "
              f"lay out {quantile([m['layout'] for m in made], 0.5):.0f} ms")
        for number in range(ROUNDS):
            times = page.evaluate(MOTION)
            draws = page.evaluate("cairn.flameGraph.drawTimes_ms()")[-FRAMES:]
            print(f"round {number + 1}: {1000 * len(times) / sum(times):5.1f} frames/s while dragged; a frame takes "
                  f"{quantile(times, 0.5):.1f} ms, p99 {quantile(times, 0.99):.1f}; of it drawing {quantile(draws, 0.5):.1f} ms, p99 {quantile(draws, 0.99):.1f}")
            page.press("Escape")
            page.settle()


if __name__ == "__main__":
    main()
