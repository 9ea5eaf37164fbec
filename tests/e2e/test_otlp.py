# SPDX-License-Identifier: Apache-2.0
"""What `cairn-agent --otlp` sends: OpenTelemetry's own decoder reads it, and what that encodes anew is, in another collector, what
cairn's own protocol brought to the first."""
import json
import os
import subprocess
import time

from contract import TYPE
from fleet import Collector, free_port, unique, wait_until, workload


def test_otlp_equals_the_own_protocol(otlp_client, collector, start_agent, tmp_path):
    received, headers = tmp_path / "received.json", tmp_path / "headers"
    headers.write_text("# a tenant\nX-Scope-OrgID: shop\n", encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    services = {name: unique(name) for name in ["otlp-python", "otlp-c"]}
    with Collector(tmp_path / "other", tmp_path / "other.log") as other:
        with subprocess.Popen([otlp_client, "serve", address, received, other.grpc]) as server:
            agent = start_agent(collector, "--otlp", address, "--otlp-headers", str(headers), "--label", "env=test")
            for name, program in [("otlp-python", "burn_python.py"), ("otlp-c", "burn_c")]:
                with workload(program, "--seconds", "1.5", env={"OTEL_SERVICE_NAME": services[name]}) as running:
                    running.truth()
            wait_until("a request", 20, received.exists)
            time.sleep(1.2)  # an export interval
            agent.stop()
            server.terminate()
        assert "all batches sent" in agent.log() and "OTLP endpoint" not in agent.log(), agent.log()
        for service in services.values():
            for kind in [TYPE.CPU, TYPE.OFF_CPU, TYPE.SCHED_DELAY, TYPE.PAGE_FAULT]:
                query = {"query": f'{{service="{service}"}}', "type": kind, "format": "collapsed"}
                own = collector.api.fetch("/api/v1/merge", **query).decode()
                assert own == other.api.fetch("/api/v1/merge", **query).decode(), (service, kind)
                assert kind != TYPE.CPU or own, service
        assert "process" in other.api.get("labels")["names"]
    decoded = json.loads(received.read_text(encoding="utf-8"))
    assert decoded["Headers"]["x-scope-orgid"] == ["shop"] and decoded["Early"] == 0
    cpu = decoded["Values"][services["otlp-python"]][TYPE.CPU]
    assert any("(burn_python.py:" in stack and stack.startswith("_start;") for stack in cpu), list(cpu)[:3]
    assert any(stack.split(";")[-1].endswith("_[k]") for values in decoded["Values"].values()
               for stacks in values.values() for stack in stacks), "kernel frames"
    attributes = decoded["Resource"][services["otlp-c"]]
    assert attributes["process.executable.name"] == "burn_c" and attributes["host.name"] == os.uname().nodename
    assert attributes["env"] == "test"
    assert "burn_c" in decoded["Threads"][services["otlp-c"]]
    burn = next(build_id for file, build_id in decoded["BuildIDs"].items() if file.endswith("/burn_c"))
    assert len(burn) == 40
