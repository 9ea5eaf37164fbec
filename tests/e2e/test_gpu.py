# SPDX-License-Identifier: Apache-2.0
"""GPUs, with doubles of the driver's libraries: no device is needed."""
import pytest

from contract import TYPE
from fleet import CPU, Workload, unique, wait_until
from gpu_double import DOUBLES, make_doubles

SPIN = TYPE.GPU_SPIN
CPU_SECONDS = 3


@pytest.fixture(scope="session", autouse=True)
def doubles():
    make_doubles("libcuda.so.1", "libnvidia-ml.so.1", "spinning_client")


def test_gpu_busy_wait_is_not_cpu_time(fleet):
    """The client's CPU time is partly its own work and partly the driver's waiting loop."""
    service = unique("spin")
    truth = Workload([str(DOUBLES / "spinning_client"), str(CPU_SECONDS)],
                     {"OTEL_SERVICE_NAME": service, "LD_LIBRARY_PATH": str(DOUBLES)}).truth()
    worked = fleet.api.wait_for_total(service, truth["work_ns"])
    spun = fleet.api.total(service, type_=SPIN)
    assert worked == pytest.approx(truth["work_ns"], rel=0.1)
    assert spun == pytest.approx(truth["wait_ns"], rel=0.1)

    waits = fleet.api.merge(service, type_=SPIN)
    assert waits.total_of("cuStreamSynchronize") > 0.95 * waits.total, waits.names
    work = fleet.api.merge(service, type_=CPU)
    assert work.total_of("cuStreamSynchronize") == 0
    assert work.total_of("prepare_batch") > 0.9 * work.total, work.names


def test_gpus_are_gauges_with_their_labels(collector, start_agent, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(DOUBLES))
    monkeypatch.setenv("NVML_DOUBLE_GPUS", "2")
    agent = start_agent(collector)
    busy = TYPE.GPU_BUSY

    def series():
        return collector.api.get("series", query="gpu", type=busy, from_="now-1m", step="1s",
                                 group_by="gpu_model")["series"]
    answer = wait_until("GPUs", 20, lambda: len(series()) == 2 and series())
    assert {one["group"] for one in answer} == {"Double of a GPU 0", "Double of a GPU 1"}
    for one in answer:
        assert set(one["values"]) <= {0, 64} and 64 in one["values"], one
    assert "GPU" not in agent.log(), "a GPU that works is no news"
    used = collector.api.get("series", query='{gpu="1"}', from_="now-1m", step="1s",
                             type=TYPE.GPU_MEMORY_USED)["series"]
    assert max(used[0]["values"]) == 5 << 30
