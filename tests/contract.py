# SPDX-License-Identifier: Apache-2.0
"""What base/contract/ declares, for tests: profile types, labels and their values."""

import json
import os
import pathlib
import subprocess
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
WEB = BUILD / "gen" / "web"  # the page's generated files

PATH = BUILD / "gen" / "contract.json"
if not PATH.exists():
    subprocess.run(["make", f"BUILD={BUILD.relative_to(ROOT)}", str(PATH.relative_to(ROOT))], cwd=ROOT, check=True)
CONTRACT = json.loads(PATH.read_text())

# TYPE.OFF_CPU is "off_cpu:blocked:nanoseconds:wall:nanoseconds".
TYPE = types.SimpleNamespace(**{spec["id"]: spec["type"] for spec in CONTRACT["profileTypes"]})
SPECS = {spec["type"]: spec for spec in CONTRACT["profileTypes"]}
KNOBS = CONTRACT["knobs"]


def title(profile_type):
    return SPECS[profile_type]["title"]


def knob_sentence(knob, step, pid=None, comm=None):
    """As base/contract/knobs.c and collector/web/knob.js make it."""
    process = f"{comm} ({pid})" if comm else f"process {pid}"
    return KNOBS[knob]["sentence"].format(step=step, process=process)
