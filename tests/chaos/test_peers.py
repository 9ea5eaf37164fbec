# SPDX-License-Identifier: Apache-2.0
"""Peers that stall, flood, lie or vanish: only they suffer."""
import gzip
import time

import pytest

from chaos import HTTP2_PREFACE, Load, Network, Peer, Victim, http2_headers, random_bytes
from fleet import wait_until

STALLED = 100
GROWTH_MIB_MAX = 200


@pytest.mark.parametrize("beginning", [b"", HTTP2_PREFACE, "headers", "half a message"],
                         ids=["silent", "preface", "headers", "half a message"])
def test_stalled_peers_block_nobody(victim, keep, seconds, beginning):
    if isinstance(beginning, str):
        data = HTTP2_PREFACE + http2_headers(victim.grpc)
        if beginning == "half a message":  # DATA with 10 of 1,000 bytes
            data += (10).to_bytes(3, "big") + b"\0\0" + (1).to_bytes(4, "big") + b"\0" + (1000).to_bytes(4, "big") + b"12345"
        beginning = data
    peers = []
    for _ in range(STALLED):
        peers.append(keep(Peer(victim.grpc)))
        peers[-1].send(beginning)
    load = keep(Load(victim.grpc, seconds))
    load.check(victim)
    assert victim.is_ready()


def test_random_bytes_harm_nobody(victim, keep, seconds):
    load = keep(Load(victim.grpc, seconds))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for address, start in ((victim.grpc, b""), (victim.grpc, HTTP2_PREFACE), (victim.http, b"GET /"),
                               (victim.grpc, HTTP2_PREFACE + http2_headers(victim.grpc))):
            peer = Peer(address)
            peer.send(start + random_bytes(2000))
            peer.close()
    load.check(victim)
    assert victim.is_ready()


def test_compressed_bombs_harm_nobody(victim, keep, seconds):
    bomb = gzip.compress(bytes(200 << 20), 9)
    head = HTTP2_PREFACE + http2_headers(victim.grpc)
    message = b"\1" + len(bomb).to_bytes(4, "big") + bomb
    frames = b"".join(len(piece).to_bytes(3, "big") + bytes([0, index + 16000 >= len(message)]) + (1).to_bytes(4, "big") + piece
                      for index in range(0, len(message), 16000) for piece in [message[index:index + 16000]])
    load = keep(Load(victim.grpc, seconds))
    before = victim.rss_mib()
    peers = [keep(Peer(victim.grpc)) for _ in range(20)]
    for peer in peers:
        peer.send(head + frames)
    highest = 0
    while load.process.poll() is None:
        highest = max(highest, victim.rss_mib())
        time.sleep(0.1)
    assert highest - before < GROWTH_MIB_MAX
    assert victim.metric("cairn_ingest_too_large_total"), "refused by name"
    load.check(victim)


def test_slow_readers_harm_nobody(victim, keep, seconds):
    load = keep(Load(victim.grpc, 2, "--agents", "50", "--interval-ms", "200", "--samples", "1000"))
    load.check(victim)
    before = victim.rss_mib()
    for _ in range(STALLED):
        peer = keep(Peer(victim.http))
        peer.send(b"GET /api/v1/series?step=20ms&group_by=node&from=now-1h HTTP/1.1\r\nHost: " + victim.http.encode() + b"\r\n\r\n")
    after = keep(Load(victim.grpc, seconds))
    after.check(victim)
    assert victim.rss_mib() - before < GROWTH_MIB_MAX
    wait_until("an answer to an honest reader", 60, lambda: after.stored(victim) > 0)


def test_lossy_and_cut_networks_delay_only(tmp_path, keep, seconds):
    networks = [keep(Network(number)) for number in range(2)]
    victim = Victim(tmp_path, flags=["--insecure"])
    victim.argv[victim.argv.index("--grpc") + 1] = f"0.0.0.0:{victim.grpc_port}"
    keep(victim).start()
    loads = [keep(Load(f"{network.host}:{victim.grpc_port}", 2 * seconds + 4, prefix=network.prefix()))
             for network in networks]
    networks[0].lose_packets(True)
    time.sleep(seconds)
    networks[1].cut(True)
    time.sleep(seconds)
    networks[1].cut(False)
    networks[0].lose_packets(False)
    for load in loads:
        load.check(victim)
