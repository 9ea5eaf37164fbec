# SPDX-License-Identifier: Apache-2.0
"""BPF call chains fit the stack limit, which Linux 6.1 enforces and newer kernels may not check."""
import pytest

from recording import build_folder
from stack_bytes import deepest_chain, read_functions

STACK_BYTES = 512  # MAX_BPF_STACK, include/linux/filter.h
OBJECTS = sorted((build_folder() / "bpf").glob("*.bpf.o"))


def test_finds_bpf_objects():
    assert len(OBJECTS) >= 8


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_call_chains_fit_512_bytes(path):
    functions = read_functions(path)
    chains = [deepest_chain(functions, key) for key in functions]
    for size, chain in sorted(chains, key=lambda found: -found[0])[:3]:
        print(size, " > ".join(f"{function.name} {function.stack_bytes}" for function in chain))
    assert max(size for size, _ in chains) <= STACK_BYTES
