# SPDX-License-Identifier: Apache-2.0
"""Ground truth: programs that know their own stacks, sampled by the real agent. A quick part runs by
default; `--whole` (make truth) runs every compiler, option and interpreter."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]


def pytest_addoption(parser):
    parser.addoption("--whole", action="store_true", help="run the whole matrix")


def pytest_configure(config):
    config.addinivalue_line("markers", "whole: only with --whole")
    config.addinivalue_line("markers", "alone: disturbs other tests")


def missing_requirement():
    if os.geteuid() != 0:
        return "sampling the machine needs root"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "this kernel has no BTF (/sys/kernel/btf/vmlinux)"
    return None


def pytest_collection_modifyitems(config, items):
    reason = missing_requirement()
    if reason:
        print(f"# SKIP truth: {reason}")
    for item in items:
        if not str(item.path).startswith(str(HERE)):
            continue
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif "whole" in item.keywords and not config.getoption("--whole"):
            item.add_marker(pytest.mark.skip(reason="only with --whole"))
