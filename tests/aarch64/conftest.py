# SPDX-License-Identifier: Apache-2.0
"""What is emulated comes from the tests on other kernels, what is right from the ground-truth tests."""
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("bpf", "truth", "e2e")]


def pytest_configure(config):
    config.addinivalue_line("markers", "whole: of the ground-truth tests, not of these")
