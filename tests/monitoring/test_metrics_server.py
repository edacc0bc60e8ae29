# SPDX-License-Identifier: Apache-2.0
"""Prometheus is served although others hold connections open and say nothing, or anything."""

import contextlib
import socket
import threading
import time
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from llm_planner.monitoring import metrics_server
from llm_planner.monitoring.metrics_server import MAX_CONNECTIONS, MetricsServer


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.5)
    registry = CollectorRegistry()
    Counter("goals", "Goals.", registry=registry).inc(3)
    server = MetricsServer(registry, "127.0.0.1", 0)
    yield server
    server.close()


def scrape(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=5) as answer:
        return answer.read().decode()


def connect(server):
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=5.0)


def test_figures_are_served(server):
    assert "goals_total 3.0" in scrape(server)


def test_who_says_nothing_takes_few_threads_and_not_for_long(server):
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(MAX_CONNECTIONS + 4)]
        assert idle[-1].recv(1) == b""  # closed at once: there is no place
        assert threading.active_count() <= before + MAX_CONNECTIONS
        until_s = time.monotonic() + 20.0
        while time.monotonic() < until_s:
            with contextlib.suppress(OSError):  # the places are given back when their time is over
                assert "goals_total 3.0" in scrape(server)
                return
            time.sleep(0.05)
    pytest.fail("the server does not answer any more")


def test_threads_that_cannot_be_started_take_no_places(server, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(MAX_CONNECTIONS):
            with connect(server) as closed:
                assert closed.recv(1) == b""
    assert "goals_total 3.0" in scrape(server)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\0" * 1000,
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 1000 + b"\r\n",
        b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET /../../etc/passwd HTTP/9.9\r\n\r\n",
        b"GET /metrics?name[]=" + b"%ff" * 1000 + b" HTTP/1.0\r\n\r\n",
    ],
)
def test_hostile_requests_harm_no_other_client(server, request_bytes):
    with connect(server) as raw, contextlib.suppress(OSError):
        raw.sendall(request_bytes)
        raw.recv(65536)
    assert "goals_total 3.0" in scrape(server)
