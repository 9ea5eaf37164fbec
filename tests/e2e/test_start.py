# SPDX-License-Identifier: Apache-2.0
"""What each start of the agent costs the node."""
import pathlib
import re

# That the verifier goes through, of the largest program and of all: 200 thousand take a quarter of a second of CPU time. A loop with
# a condition, or one more branch in a function that is inlined often, multiplies them.
LARGEST_MAX = 100_000
SUM_MAX = 350_000


def verified_instructions(pid):
    """By id of the program (bpf_prog_show_fdinfo() of the kernel, since Linux 5.16)."""
    programs = {}
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        text = path.read_text(encoding="ascii", errors="replace")
        found = dict(re.findall(r"^(prog_id|verified_insns):\s+(\d+)$", text, re.M))
        if len(found) == 2:
            programs[found["prog_id"]] = int(found["verified_insns"])
    return programs


def test_programs_verify_in_few_instructions(collector, start_agent):
    agent = start_agent(collector)
    programs = verified_instructions(agent.process.pid)
    print(sorted(programs.values()))
    assert len(programs) > 10, programs
    assert max(programs.values()) < LARGEST_MAX, programs
    assert sum(programs.values()) < SUM_MAX, programs
