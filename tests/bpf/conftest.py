# SPDX-License-Identifier: Apache-2.0
"""Tests on other kernels use what the ground-truth tests know of stacks."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "truth"), str(HERE.parent / "e2e")]


def pytest_configure(config):
    config.addinivalue_line("markers", "whole: of the ground-truth tests, not of these")
