#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python functions that burn known shares of CPU: 60 and 40 percent on average, in random rounds.

    burn_python.py [--seconds S] [--seed X]
"""
import argparse
import json
import random
import time


def spin(until_ns):
    begin = time.thread_time_ns()
    total = 0
    while time.thread_time_ns() - begin < until_ns:
        for i in range(2000):
            total += i * i % 7
    return time.thread_time_ns() - begin


def burn_parse(ns):
    return spin(ns)


def burn_render(ns):
    return spin(ns)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    rounds = random.Random(options.seed)
    used = {"burn_parse": 0, "burn_render": 0}
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        function = burn_parse if rounds.random() < 0.6 else burn_render
        used[function.__name__] += function(rounds.randrange(10_000_000, 70_000_000))
    print(json.dumps({"process_cpu_ns": time.process_time_ns(), "functions": used}), flush=True)


if __name__ == "__main__":
    main()
