# SPDX-License-Identifier: Apache-2.0
"""Pools of workers that mostly wait for work: pools.py SECONDS. Each reports the time of its
tasks (sleep); the rest is idle."""
import asyncio
import concurrent.futures
import sys
import threading
import time

from story import Story, print_stories

WORKERS = 4
PERIOD_SECONDS = 0.05
TASK_SECONDS = 0.01


def work_that_sleeps(local):
    local.story.wait_begin()
    time.sleep(TASK_SECONDS)
    local.story.wait_end()


class Pool:
    """Workers of a ThreadPoolExecutor."""

    def __init__(self):
        self.local = threading.local()
        self.stories = []
        self.executor = concurrent.futures.ThreadPoolExecutor(WORKERS, initializer=self.begin)

    def begin(self):
        self.local.story = Story("executor", "work_that_sleeps", "sleep")
        self.stories.append(self.local.story)

    def submit(self):
        self.executor.submit(work_that_sleeps, self.local)

    def end(self):
        """Each worker reports for itself; a barrier gives each exactly one report."""
        together = threading.Barrier(len(self.stories))

        def report():
            self.local.story.end()
            together.wait()
        for future in [self.executor.submit(report) for _ in self.stories]:
            future.result()
        self.executor.shutdown()


async def task_that_sleeps():
    time.sleep(TASK_SECONDS)


async def sparse_tasks(end, story):
    while time.monotonic() < end:
        await asyncio.sleep(PERIOD_SECONDS)
        story.wait_begin()
        await task_that_sleeps()
        story.wait_end()


def run_loop(end, stories):
    story = Story("loop", "task_that_sleeps", "sleep")
    asyncio.run(sparse_tasks(end, story))
    story.end()
    stories.append(story)


def main():
    end = time.monotonic() + float(sys.argv[1])
    stories = []
    pool = Pool()
    loop = threading.Thread(target=run_loop, args=(end, stories))
    loop.start()
    while time.monotonic() < end:
        for _ in range(WORKERS):
            pool.submit()
        time.sleep(PERIOD_SECONDS)
    loop.join()
    pool.end()
    print_stories(stories + pool.stories)


if __name__ == "__main__":
    main()
