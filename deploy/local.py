# SPDX-License-Identifier: Apache-2.0
"""A collector and an agent on this machine: shared by `make run` and `make demo`."""
import argparse
import os
import subprocess
import sys
import time

from supervisor import StartFailed, Stopped, Supervisor, agents_seen, is_answering

COLLECTOR_READY_SECONDS = 20
AGENT_READY_SECONDS = 30

# What the agent's BPF programs may need, and what to mount where it is absent.
MOUNTS = [("bpf", "/sys/fs/bpf"), ("tracefs", "/sys/kernel/tracing")]


CLICKHOUSE = "/usr/sbin/clickhouse-server"
CLICKHOUSE_PORT = 18123
CLICKHOUSE_CONFIG = """<yandex>
<logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
<listen_host>127.0.0.1</listen_host><http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
<mark_cache_size>67108864</mark_cache_size><users_config>{folder}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
</yandex>
"""
CLICKHOUSE_USERS = """<yandex><profiles><default/></profiles><quotas><default/></quotas><users><default>
<password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>
</default></users></yandex>
"""


def parser_with_addresses(description):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", default=os.environ.get("BUILD", os.path.join(root, "build")),
                        help="folder with the programs")
    parser.add_argument("--http", default=os.environ.get("CAIRN_HTTP", "127.0.0.1:7070"),
                        metavar="ADDR", help="where the page is served (%(default)s)")
    parser.add_argument("--grpc", default=os.environ.get("CAIRN_GRPC", "127.0.0.1:7171"),
                        metavar="ADDR", help="where agents are heard (%(default)s)")
    parser.add_argument("--interval", default=os.environ.get("CAIRN_INTERVAL", "2s"),
                        metavar="TIME", help="how often the agent ships (%(default)s)")
    parser.add_argument("--data", default=os.environ.get("CAIRN_DATA"), metavar="DIR",
                        help="the collector's data (build/run/data)")
    parser.add_argument("--store", default=os.environ.get("STORE", "rocksdb"), metavar="NAME",
                        help="rocksdb, or clickhouse: on a server of its own (%(default)s)")
    return parser


def is_mounted(kind, place):
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        return any(line.split()[1:3] == [place, kind] for line in mounts)


def mount_file_systems():
    """Mount what is absent; it stays mounted, as a boot would have left it."""
    for kind, place in MOUNTS:
        if is_mounted(kind, place):
            continue
        done = subprocess.run(["mount", "-t", kind, kind, place], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            print(f"could not mount {kind} on {place} ({done.stderr.strip()}), going on without",
                  file=sys.stderr)
        else:
            print(f"mounted {kind} on {place}")


def start_clickhouse(supervisor, folder):
    """Start Debian's server on loopback, with all it has in the folder; returns the collector's options."""
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(CLICKHOUSE):
        raise StartFailed(f"there is no {CLICKHOUSE}: apt-get install clickhouse-server")
    with open(os.path.join(folder, "config.xml"), "w", encoding="utf-8") as config:
        config.write(CLICKHOUSE_CONFIG.format(folder=folder, http=CLICKHOUSE_PORT,
                                              tcp=CLICKHOUSE_PORT + 1))
    with open(os.path.join(folder, "users.xml"), "w", encoding="utf-8") as users:
        users.write(CLICKHOUSE_USERS)
    url = f"http://127.0.0.1:{CLICKHOUSE_PORT}"
    supervisor.start("clickhouse", [CLICKHOUSE, f"--config-file={folder}/config.xml"])
    supervisor.wait_until("ClickHouse", lambda: is_answering(f"{url}/ping"),
                          COLLECTOR_READY_SECONDS)
    return ["--store", "clickhouse", "--clickhouse", url]


def store_options(supervisor, store, data):
    if store == "clickhouse":
        return start_clickhouse(supervisor, os.path.join(os.path.abspath(data), "clickhouse"))
    return ["--store", store]


def start(supervisor, options, folder):
    """Start both; return when the agent's first data has reached the collector."""
    data = options.data or os.path.join(folder, "data")
    os.makedirs(data, exist_ok=True)
    if is_answering(f"http://{options.http}/healthz"):
        raise StartFailed(f"something already answers on http://{options.http}: is cairn running? "
                          "Stop it, or choose other addresses, as with "
                          "CAIRN_HTTP=127.0.0.1:7080 CAIRN_GRPC=127.0.0.1:7181 make run.")
    began = time.monotonic()
    supervisor.start("collector", [os.path.join(options.build, "cairn-collector"), "--data", data,
                                   "--grpc", options.grpc, "--http", options.http,
                                   *store_options(supervisor, options.store, data)])
    supervisor.wait_until("the collector's readiness",
                          lambda: is_answering(f"http://{options.http}/readyz"),
                          COLLECTOR_READY_SECONDS)
    supervisor.start("agent", [os.path.join(options.build, "cairn-agent"), "--collector",
                               options.grpc, "--interval", options.interval])
    supervisor.wait_until("the first data", lambda: agents_seen(options.http) > 0,
                          AGENT_READY_SECONDS)
    print(f"first data after {time.monotonic() - began:.1f} s; logs in {supervisor.log_folder}")


def run(options, folder, start_more=lambda supervisor: lambda: None):
    """The whole life; returns the exit code. start_more() returns what to do every second."""
    if os.geteuid() != 0:
        print("profiling the whole machine needs root: run this with sudo", file=sys.stderr)
        return 1
    mount_file_systems()
    try:
        with Supervisor(os.path.join(folder, "log")) as supervisor:
            start(supervisor, options, folder)
            on_second = start_more(supervisor)
            print(f"\n  open  http://{options.http}/\n\nCtrl-C stops everything.", flush=True)
            supervisor.watch(on_second)
    except Stopped:
        print("\nstopped")
        return 0
    except StartFailed as failure:
        print(f"cairn: {failure}", file=sys.stderr)
        return 1
