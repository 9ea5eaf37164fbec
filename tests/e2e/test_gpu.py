# SPDX-License-Identifier: Apache-2.0
"""GPUs, with doubles of the driver's libraries: no device is needed."""
import subprocess

import pytest

from fleet import CPU, Workload, build_folder, unique

SPIN = "gpu_wait:spin:nanoseconds:cpu:nanoseconds"
CPU_SECONDS = 3


@pytest.fixture(scope="session", autouse=True)
def doubles():
    names = ["libcuda.so.1", "spinning_client"]
    if not all((build_folder() / "tests/gpu" / name).exists() for name in names):
        subprocess.run(["make", *(f"{build_folder()}/tests/gpu/{name}" for name in names)],
                       check=True)


def test_a_loop_that_waits_for_the_gpu_is_a_wait_and_not_hot_code(fleet):
    """The client's CPU time is partly its own work and partly the driver's waiting loop."""
    service = unique("spin")
    folder = build_folder() / "tests/gpu"
    truth = Workload([str(folder / "spinning_client"), str(CPU_SECONDS)],
                     {"OTEL_SERVICE_NAME": service, "LD_LIBRARY_PATH": str(folder)}).truth()
    worked = fleet.api.wait_for_total(service, truth["work_ns"])
    spun = fleet.api.total(service, type_=SPIN)
    assert worked == pytest.approx(truth["work_ns"], rel=0.1)
    assert spun == pytest.approx(truth["wait_ns"], rel=0.1)

    waits = fleet.api.merge(service, type_=SPIN)
    assert waits.total_of("cuStreamSynchronize") > 0.95 * waits.total, waits.names
    work = fleet.api.merge(service, type_=CPU)
    assert work.total_of("cuStreamSynchronize") == 0
    assert work.total_of("prepare_batch") > 0.9 * work.total, work.names
