# SPDX-License-Identifier: Apache-2.0
"""Processes of pods: real processes in cgroups as the kubelet makes them, described by a double of the API server."""
import contextlib
import os
import pathlib
import subprocess
import sys
import time

import pytest

from contract import TYPE
from fleet import unique, wait_until
from kubernetes_double import ApiServerDouble, new_id, pod

CPU_NS = 1_000_000_000
# It ends by its own CPU time, however busy the machine is. What it used before it entered the cgroup is some hundredths.
BURN = "import time\nwhile time.process_time() < 1: sum(range(1000))"
NEARLY = 0.1
IN_CGROUP = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def cgroup_root():
    """A hierarchy of either version."""
    for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        if os.path.exists(f"{root}/cgroup.procs"):
            return pathlib.Path(root)
    return None


@pytest.fixture
def cgroups():
    """make(uid, container id): the folder of a container's cgroup, below kubepods; all are removed at the end."""
    root = cgroup_root()
    if not root:
        pytest.skip("no cgroup can be made here")
    made = []

    def make(uid, container):
        folder = root / "kubepods" / "burstable" / f"pod{uid}" / container
        try:
            for parent in [*reversed(folder.parents), folder]:
                if not parent.exists():
                    parent.mkdir()
                    made.append(parent)
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        return folder

    yield make
    for folder in reversed(made):
        with contextlib.suppress(OSError):  # another test's pods are below it
            wait_until("the cgroup's end", 10, lambda: not (folder / "cgroup.procs").read_text().strip())
            folder.rmdir()


@pytest.fixture
def api_server(tmp_path):
    with ApiServerDouble(tmp_path / "kubernetes") as double:
        yield double


def start_in(folder, env=None):
    """A process that uses CPU_NS in this cgroup."""
    return subprocess.Popen(["sh", "-c", IN_CGROUP, str(folder), sys.executable, "-c", BURN],
                            env={**os.environ, **(env or {})})


def end(*processes):
    for process in processes:
        assert process.wait(120) == 0


def check_total(collector, selector, cpu_ns=CPU_NS):
    assert collector.api.wait_for_total(selector, cpu_ns) == pytest.approx(cpu_ns, rel=NEARLY)


def labels_of(api, selector):
    """All labels of the series: name to values."""
    names = api.get("labels", query=selector)["names"]
    return {name: api.get(f"labels/{name}/values", query=selector)["values"] for name in names}


def counted(api, counter):
    return api.total(f'{{service="cairn-agent",counter="{counter}"}}', type=TYPE.EVENTS)


def test_processes_have_labels_of_their_pod(collector, start_agent, api_server, cgroups):
    web, proxy, app = new_id(), new_id(), unique("web")
    shop = pod(f"{app}-7d4b9c-x2x4z", owner=("ReplicaSet", f"{app}-7d4b9c"), labels={"team": "core", "secret": "hunter2"},
               containers=[("web", "registry:5000/shop/web:1.2.3", web), ("proxy", "envoy@sha256:" + "ab" * 32, proxy)])
    api_server.put(shop)
    api_server.put(pod("one"))
    api_server.put(pod("two"))  # on a second page
    start_agent(collector, "--frequency", "499", *api_server.flags, "--pod-labels", "team")
    uid = shop["metadata"]["uid"]
    own = unique("own")
    end(start_in(cgroups(uid, web)), start_in(cgroups(uid, proxy), env={"OTEL_SERVICE_NAME": own}))
    check_total(collector, app)
    found = labels_of(collector.api, f'{{service="{app}"}}')
    assert found["namespace"] == ["shop"] and found["pod"] == [f"{app}-7d4b9c-x2x4z"] and found["pod_uid"] == [uid]
    assert found["workload"] == [app] and found["workload_kind"] == ["deployment"]
    assert found["container"] == ["web"] and found["container_id"] == [web] and found["version"] == ["1.2.3"]
    assert found["team"] == ["core"] and "secret" not in found
    # A process that names itself keeps its name, in the same pod.
    check_total(collector, own)
    found = labels_of(collector.api, f'{{service="{own}"}}')
    assert found["workload"] == [app] and found["container"] == ["proxy"] and found["version"] == ["sha256:" + "ab" * 6]
    assert api_server.refused == 0 and api_server.unauthorized == 0


def test_a_container_that_is_described_late_has_one_series(collector, start_agent, api_server, cgroups):
    container, app = new_id(), unique("late")
    late = pod(f"{app}-0", owner=("StatefulSet", app))
    start_agent(collector, "--frequency", "499", *api_server.flags)
    process = start_in(cgroups(late["metadata"]["uid"], container))
    time.sleep(1.5)  # more than an export interval: its first samples wait
    api_server.put(late)
    time.sleep(1)  # it may have ended before its container has a name
    late["status"]["containerStatuses"] = [{"name": "web", "containerID": f"containerd://{container}"}]
    api_server.put(late)
    end(process)
    check_total(collector, f'{{service="{app}",container="web"}}')
    in_pod = f'{{pod_uid="{late["metadata"]["uid"]}"}}'
    assert collector.api.get("labels/service/values", query=in_pod)["values"] == [app]
    assert collector.api.get("labels/container/values", query=in_pod)["values"] == ["web"]
    assert counted(collector.api, "pods_late") == 0


def test_excluded_pods_are_not_shipped(collector, start_agent, api_server, cgroups):
    containers = [new_id() for _ in range(3)]
    apps = [unique(name) for name in ("private", "system", "public")]
    private = pod("private", owner=("DaemonSet", apps[0]), annotations={"cairn.dev/profile": "false"},
                  containers=[("c", "i", containers[0])])
    system = pod("system", "kube-system", owner=("DaemonSet", apps[1]), containers=[("c", "i", containers[1])])
    public = pod("public", "kube-system", owner=("DaemonSet", apps[2]), annotations={"cairn.dev/profile": "true"},
                 containers=[("c", "i", containers[2])])
    start_agent(collector, "--frequency", "499", *api_server.flags, "--exclude-namespaces", "kube-*")
    processes = [start_in(cgroups(p["metadata"]["uid"], c)) for p, c in zip((private, system, public), containers)]
    time.sleep(3)  # nobody knows them yet: nothing may be shipped
    for each in (private, system, public):
        api_server.put(each)
    end(*processes)
    check_total(collector, apps[2])
    wait_until("the counter", 20, lambda: counted(collector.api, "samples_excluded") > 0)
    for each in (private, system):
        for kind in (TYPE.CPU, TYPE.RSS):
            selector = f'{{pod_uid="{each["metadata"]["uid"]}"}}'
            assert collector.api.total(selector, type=kind) == 0, labels_of(collector.api, selector)


def settle_on(collector, api_server, cgroups, name):
    """A pod that comes now is labelled."""
    container, app = new_id(), unique(name)
    new = pod(app, owner=("Job", app), containers=[("c", "image:7", container)])
    api_server.put(new)
    end(start_in(cgroups(new["metadata"]["uid"], container)))
    check_total(collector, f'{{service="{app}",workload_kind="job",version="7"}}')


def test_pods_are_labelled_after_every_fault(collector, start_agent, api_server, cgroups):
    agent = start_agent(collector, "--frequency", "499", *api_server.flags)
    settle_on(collector, api_server, cgroups, "first")
    watches = api_server.watches
    api_server.drop_connections()
    wait_until("another watch", 20, lambda: api_server.watches > watches)
    lists = api_server.lists
    api_server.forget_events()
    wait_until("another list", 20, lambda: api_server.lists > lists)
    settle_on(collector, api_server, cgroups, "gone")
    for garbage in (b"}}}}", b"\0\xff{" * 100, b'{"type":"ERROR","object":{"code":500}}\n'):
        lists = api_server.lists
        api_server.send_garbage(garbage)
        wait_until("another list", 60, lambda: api_server.lists > lists)
        time.sleep(0.5)  # the next watch is there
    api_server.send_garbage(b'{"type":"ADDED","object":{"metadata":{"uid":"../../x"}}}\n')
    settle_on(collector, api_server, cgroups, "garbage")
    api_server.rotate_token()  # the watch that runs goes on; the next request has the new one
    api_server.drop_connections()
    settle_on(collector, api_server, cgroups, "rotated")
    assert api_server.unauthorized == 0
    assert agent.is_running()


def test_an_absent_api_server_costs_no_sample(collector, start_agent, api_server, cgroups):
    container, app = new_id(), unique("known")
    known = pod(app, owner=("Job", app), containers=[("c", "image:7", container)])
    api_server.put(known)
    agent = start_agent(collector, "--frequency", "499", *api_server.flags)
    folder = cgroups(known["metadata"]["uid"], container)
    end(start_in(folder))
    check_total(collector, app)
    api_server.stop()
    wait_until("the warning", 60, lambda: "new pods stay without labels" in agent.log())
    # A new process of a known container, and one of a pod that nobody describes: its wait is bounded.
    unknown_uid = pod("unknown")["metadata"]["uid"]
    end(start_in(folder), start_in(cgroups(unknown_uid, new_id())))
    check_total(collector, app, 2 * CPU_NS)
    check_total(collector, f'{{pod_uid="{unknown_uid}"}}')
    wait_until("the failures' counter", 20, lambda: counted(collector.api, "pod_requests_failed") > 0)
    api_server.start()
    wait_until("an answer", 60, lambda: "answers again" in agent.log())
    settle_on(collector, api_server, cgroups, "back")
