# SPDX-License-Identifier: Apache-2.0
"""One thread whose wait sites share the native stack but not the Python functions: places.py SECONDS.
Each call path blocks for a different time, so a mixed-up stack shows. Prints the blocked time of each."""
import asyncio
import json
import random
import sys
import time

from story import Story

# Long enough that the agent samples each wait's stack.
MS = 0.004


def nap(seconds):
    time.sleep(seconds)


def way_straight():
    nap(1 * MS)


def way_of_recursion(depth=20):
    if depth:
        way_of_recursion(depth - 1)
    else:
        nap(2 * MS)


def naps(seconds):
    for length in (seconds, 2 * seconds):
        yield nap(length)


def way_of_generators():
    list(naps(1 * MS))


def way_of_delegation():
    def outer():
        yield from naps(1.5 * MS)
    for _ in outer():
        pass


async def task_that_naps(seconds):
    await asyncio.sleep(0)
    nap(seconds)


def way_of_tasks(loop):
    loop.run_until_complete(task_that_naps(6 * MS))


def way_of_coroutines(loop):
    async def await_it():
        await task_that_naps(7 * MS)
    loop.run_until_complete(await_it())


def way_of_compiled():
    """New code each time, at the address of the previous code."""
    names = {"nap": nap}
    exec(f"def made():\n{chr(10) * random.randrange(4)} nap({8 * MS})\n", names)
    names["made"]()


def way_of_comprehension():
    return [nap(seconds) for seconds in (4 * MS, 5 * MS)]


def main():
    end = time.monotonic() + float(sys.argv[1])
    story = Story("places", "nap", "sleep")
    loop = asyncio.new_event_loop()
    ways = [way_straight, way_of_recursion, way_of_generators, way_of_delegation,
            lambda: way_of_tasks(loop), lambda: way_of_coroutines(loop), way_of_compiled,
            way_of_comprehension]
    names = ["way_straight", "way_of_recursion", "way_of_generators", "way_of_delegation",
             "way_of_tasks", "way_of_coroutines", "way_of_compiled", "way_of_comprehension"]
    blocked = dict.fromkeys(names, 0)
    order = list(range(len(ways)))
    while time.monotonic() < end:
        random.shuffle(order)
        for number in order:
            before = story.tell_waits()
            story.wait_begin()
            ways[number]()
            story.wait_end()
            blocked[names[number]] += story.tell_waits() - before
    story.end()
    loop.close()
    print(json.dumps({"threads": [story.report()], "ways": [blocked]}), flush=True)


if __name__ == "__main__":
    main()
