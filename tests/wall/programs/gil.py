# SPDX-License-Identifier: Apache-2.0
"""Threads that contend for the GIL: gil.py SECONDS THREADS. Time neither running nor in the run queue
is spent waiting for the GIL."""
import sys
import threading
import time

from story import Story, print_stories


def burn_with_gil(end):
    total = 0
    while time.monotonic() < end:
        for number in range(2000):
            total += number * number
    return total


def body(end, stories):
    story = Story("gil", "burn_with_gil", "gil")
    story.wait_begin()
    burn_with_gil(end)
    story.wait_end()
    story.end()
    stories.append(story)


def main():
    end = time.monotonic() + float(sys.argv[1])
    stories = []
    threads = [threading.Thread(target=body, args=(end, stories)) for _ in range(int(sys.argv[2]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print_stories(stories)


if __name__ == "__main__":
    main()
