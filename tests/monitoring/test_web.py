# SPDX-License-Identifier: Apache-2.0
"""The dashboard over HTTP: what it serves, to which clients, and what it refuses."""

import asyncio
import contextlib
import json
import re
import socket
import time
import urllib.error
import urllib.request

import pytest

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring import web
from llm_planner.monitoring.board import Board
from llm_planner.monitoring.hub import MAX_BEHIND, Hub
from llm_planner.monitoring.web import STATIC, StopButton, WebServer, build_app
from tests.monitoring.test_robot_view import make_view as make_robot

HOSTILE = "<script>alert(1)</script>\n\ndata: {}"


@pytest.fixture
def board():
    return Board(ManualClock())


@pytest.fixture
def server(board):
    server = WebServer(build_app(Hub(board.whole), lambda: board.whole()[1], ["fleet.example"]), "127.0.0.1", 0)
    yield server
    server.close()


def get(server, path="", method="GET", body=None, **headers):
    request = urllib.request.Request(f"{server.url}{path}", body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read().decode()


def test_the_page_and_everything_that_it_names_is_served_from_here(server):
    status, headers, page = get(server)
    assert status == 200
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "set-cookie" not in headers
    assert "access-control-allow-origin" not in headers
    named = re.findall(r'(?:href|src)="/([^"]+)"', page)
    assert {"static/main.js", "static/style.css"} <= set(named)
    imported = {
        f"static/{name}" for path in STATIC.glob("*.js") for name in re.findall(r'"\./(\w+\.js)"', path.read_text())
    }
    for path in {*named, *imported}:
        assert get(server, path)[0] == 200, path


def test_nothing_comes_from_elsewhere():
    for path in STATIC.iterdir():
        found = re.findall(r"(?:https?:)?//[a-z][\w.-]+\.\w+", path.read_text().replace("http://www.w3.org", ""))
        assert not found, path.name


def test_no_script_turns_text_of_others_into_markup():
    for path in STATIC.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text()), (
            path.name
        )


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:80", 200),
        ("localhost", 200),
        ("[::1]:8080", 200),
        ("192.168.10.2:8080", 200),
        ("Fleet.Example:8080", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_a_host_name_that_is_not_expected_is_refused(server, host, status):
    assert get(server, "state.json", Host=host)[0] == status


def test_a_page_of_another_site_gets_nothing(server):
    assert get(server, "state.json", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"})[0] == 403
    assert get(server, "", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_there_is_nothing_to_change(server, method):
    assert get(server, "state.json", method)[0] == 405


class Stops:
    def __init__(self):
        self.names = []

    def __call__(self, robot):
        self.names.append(robot)
        return {"": {"drone_1": "", "arm_1": "no answer"}, "drone_1": {"drone_1": ""}}.get(robot, {})


@pytest.fixture
def stops():
    return Stops()


@pytest.fixture
def armed(board, stops):
    button = StopButton(stops)
    server = WebServer(build_app(Hub(board.whole), lambda: board.whole()[1], button=button), "127.0.0.1", 0)
    server.token = button.token
    yield server
    server.close()


def press(server, robot, token, **headers):
    return get(server, "stop", "POST", robot.encode(), Authorization=f"Bearer {token}", **headers)


def test_a_client_with_the_token_stops_a_robot_or_all(armed, stops):
    assert json.loads(press(armed, "drone_1", armed.token)[2]) == {"drone_1": ""}
    assert json.loads(press(armed, "", armed.token)[2]) == {"drone_1": "", "arm_1": "no answer"}
    assert press(armed, "unicorn", armed.token)[0] == 404
    assert stops.names == ["drone_1", "", "unicorn"]


def test_a_client_without_the_token_stops_nothing(armed, server, stops):
    refused = [
        press(armed, "", "")[0],
        press(armed, "", "wrong")[0],
        press(armed, "", armed.token + "x")[0],
        get(armed, "stop", "POST", b"")[0],
        get(armed, f"stop?token={armed.token}", "POST", b"")[0],
        press(armed, "", armed.token, **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"})[0],
        press(server, "", armed.token)[0],  # a dashboard without a button
    ]
    assert refused == [403] * 7
    assert get(armed, "stop", "GET")[0] == 405
    assert press(armed, "", armed.token, Host="evil.example")[0] == 421
    assert press(armed, "x" * 10_000, armed.token)[0] == 413
    assert stops.names == []


def test_the_token_is_in_nothing_that_is_served(armed):
    assert all(armed.token not in get(armed, path)[2] for path in ("", "state.json", "static/stops.js"))
    assert len(armed.token) >= 32


@pytest.mark.parametrize("path", ["static/../web.py", "static/%2e%2e/web.py", "static//etc/passwd", "nothing"])
def test_no_other_file_is_served(server, path):
    assert get(server, path)[0] == 404


def test_hostile_names_stay_text(server, board):
    with board.changing() as (state, now_s):
        state.receive_robot(make_robot(HOSTILE), now_s)
    _, headers, text = get(server, "state.json")
    assert headers["content-type"] == "application/json"
    assert "\n" not in text  # an event of the stream is one line
    assert json.loads(text)["robots"][0]["robot_id"] == HOSTILE


def test_the_state_is_shown(server, board):
    with board.changing() as (state, now_s):
        state.receive_robot(make_robot("drone_1"), now_s)
    assert json.loads(get(server, "state.json")[2])["robots"][0]["robot_id"] == "drone_1"


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", None), ("192.0.2.1", 0)])
def test_an_address_that_cannot_be_listened_on_is_a_numbered_error(board, host, port):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if port is None else port
        with pytest.raises(PlannerError, match=host) as refused:
            WebServer(build_app(Hub(board.whole), str), host, port)
    assert refused.value.code is ErrorCode.ADDRESS_IN_USE


def test_a_closed_server_frees_its_port(board):
    server = WebServer(build_app(Hub(board.whole), str), "127.0.0.1", 0)
    port = int(server.url.rsplit(":", 1)[1].strip("/"))
    server.close()
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_news_follow_the_whole_and_none_twice():
    async def scenario():
        numbers = iter([3])
        hub = Hub(lambda: (next(numbers), "whole"))
        listener = hub.listen()
        received = [await anext(listener)]
        for number, text in ((3, "known"), (4, "news"), (5, "more")):
            hub.publish(number, text)
        received += [await anext(listener), await anext(listener)]
        await listener.aclose()
        return received, hub.num_clients

    assert asyncio.run(scenario()) == (["whole", "news", "more"], 0)


def test_a_hub_that_closes_ends_every_stream_and_begins_none():
    async def scenario():
        hub = Hub(lambda: (0, "whole"))
        received = hub.listen()
        await anext(received)
        hub.close()
        rest = [text async for text in received]
        return rest, [text async for text in hub.listen()]

    assert asyncio.run(scenario()) == ([], [])


def test_a_slow_browser_is_disconnected_and_delays_no_other():
    async def scenario():
        hub = Hub(lambda: (0, "whole"))
        slow, quick = hub.listen(), hub.listen()
        await anext(slow)
        await anext(quick)
        for number in range(1, 3 * MAX_BEHIND):
            hub.publish(number, f"{number}")
            assert await anext(quick) == f"{number}"
        rest = [text async for text in slow]
        return len(rest), hub.num_clients

    num_received, num_left = asyncio.run(scenario())
    assert num_received < MAX_BEHIND
    assert num_left == 1


def test_a_browser_that_takes_nothing_is_cut_off(monkeypatch):
    monkeypatch.setattr(web, "STALL_S", 0.3)
    hub = Hub(lambda: (0, "whole"))
    server = WebServer(build_app(hub, str), "127.0.0.1", 0)
    port = int(server.url.rsplit(":", 1)[1].strip("/"))
    with contextlib.closing(server), socket.create_connection(("127.0.0.1", port), timeout=10.0) as raw:
        raw.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert raw.recv(12) == b"HTTP/1.1 200"
        while hub.num_clients == 0:
            time.sleep(0.01)
        number = 0
        while hub.num_clients:  # until it is too far behind
            number += 1
            hub.publish(number, "x" * 1_000_000)
            time.sleep(0.01)
        until_s = time.monotonic() + 30.0  # the kernel does it, and tells the other side nothing
        while server._server.server_state.connections and time.monotonic() < until_s:
            time.sleep(0.05)
        assert not server._server.server_state.connections


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HTTP/1.1\r\nHost: local", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET"],
    ids=["nothing", "half a question", "no other question"],
)
def test_a_client_that_asks_for_nothing_is_sent_away(board, monkeypatch, begun):
    monkeypatch.setattr(web, "REQUEST_S", 0.2)
    server = WebServer(build_app(Hub(board.whole), str), "127.0.0.1", 0)
    address = "127.0.0.1", int(server.url.rsplit(":", 1)[1].strip("/"))
    with (
        contextlib.closing(server),
        socket.create_connection(address, timeout=10.0) as browser,
        socket.create_connection(address, timeout=10.0) as idle,
    ):
        browser.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        idle.sendall(begun)
        while idle.recv(65536):
            pass
        time.sleep(0.5)
        assert len(server._server.server_state.connections) == 1  # who listens stays


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\0" * 70_000,
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * 400_000 + b"\r\n",
        b"GET /static/../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /static/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere.example\r\n\r\n",
        b"POST /state.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 100_000,
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    ],
)
def test_hostile_requests_get_no_file_and_harm_no_other_client(server, request_bytes):
    port = int(server.url.rsplit(":", 1)[1].strip("/"))
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=5.0) as raw, contextlib.suppress(OSError):
        raw.sendall(request_bytes)
        answer = raw.recv(65536)
    assert not answer.startswith(b"HTTP/1.1 2")
    assert b"root:" not in answer
    assert get(server)[0] == 200
