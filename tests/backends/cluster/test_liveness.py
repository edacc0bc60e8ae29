# SPDX-License-Identifier: Apache-2.0
"""Workers on other machines see whether their head lives, which vLLM does not tell them."""

import contextlib
import errno
import socket
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from llm_planner.backends.cluster import reach
from llm_planner.backends.cluster.description import Node
from llm_planner.backends.cluster.reach import check_reachable, show_head, wait_for_end, wait_for_head
from llm_planner.core.errors import ErrorCode, PlannerError

HERE = "127.0.0.1"


def never(timeout_s):
    time.sleep(timeout_s)
    return False


def count_open():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def port():
    with socket.socket() as taken:
        taken.bind((HERE, 0))
        return int(taken.getsockname()[1])


def test_a_worker_waits_for_the_head_and_sees_its_end(port):
    found = []
    waiting = threading.Thread(target=lambda: found.append(wait_for_head(HERE, port, never)))
    waiting.start()
    time.sleep(0.1)
    assert waiting.is_alive()
    listening = socket.create_server((HERE, port))
    connection, _ = listening.accept()
    waiting.join(10.0)
    ended = threading.Thread(target=lambda: wait_for_end(found[0], lambda: True))
    ended.start()
    time.sleep(0.1)
    assert ended.is_alive()
    connection.close()
    ended.join(10.0)
    assert not ended.is_alive()
    listening.close()
    found[0].close()


def test_a_worker_whose_engine_has_ended_does_not_wait_for_the_head(port):
    server = show_head(HERE, port)
    with wait_for_head(HERE, port, never) as connection:
        lives = iter([True, True, False])
        wait_for_end(connection, lambda: next(lives))
    server.close()


def test_checks_of_the_port_are_forgotten_and_take_nobody_off_the_head(port):
    server = show_head(HERE, port)
    with wait_for_head(HERE, port, never) as worker:
        num_open = count_open()
        for _ in range(50):
            socket.create_connection((HERE, port)).close()
        time.sleep(0.2)
        assert count_open() < num_open + 10
        worker.settimeout(0.1)
        with pytest.raises(TimeoutError):  # it is still held
            worker.recv(1)
    server.close()


def test_a_head_that_cannot_take_a_connection_keeps_the_others(monkeypatch):
    monkeypatch.setattr(reach, "POLL_S", 0.01)
    held, worker = socket.socketpair()
    accept = Mock(
        side_effect=[(held, ""), OSError(errno.EMFILE, "too many open files"), OSError(errno.EBADF, "closed")]
    )
    seen = []

    def fileno():
        worker.settimeout(0.01)
        with contextlib.suppress(TimeoutError):
            seen.append(worker.recv(1))
        return -1 if accept.call_count == 3 else 3

    reach._hold(Mock(accept=accept, fileno=fileno))
    assert accept.call_count == 3
    assert seen == []
    with worker:
        assert worker.recv(1) == b""


def test_who_is_stopped_waits_no_longer(port):
    assert wait_for_head(HERE, port, lambda _: True) is None


def test_a_port_that_is_taken_or_an_address_of_another_machine_is_named(port):
    server = show_head(HERE, port)
    with pytest.raises(PlannerError, match="nodes join") as caught:
        show_head(HERE, port)
    assert caught.value.code is ErrorCode.ADDRESS_IN_USE
    with pytest.raises(PlannerError, match="change engine") as caught:
        show_head("192.0.2.1", port)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    server.close()


@pytest.mark.parametrize(("address", "family"), [("10.0.0.1", socket.AF_INET), ("fd00::1", socket.AF_INET6)])
def test_the_head_listens_in_the_family_of_its_address(monkeypatch, address, family):
    create_server = Mock(return_value=Mock(fileno=Mock(return_value=-1)))  # closed at once
    monkeypatch.setattr(socket, "create_server", create_server)
    show_head(address, 29510)
    create_server.assert_called_once_with((address, 29510), family=family)


@pytest.mark.parametrize("address", ["192.168..10.1", "a" * 70])
def test_what_cannot_be_an_address_is_said_and_not_waited_for(address):
    with pytest.raises(PlannerError, match="is no address"):
        wait_for_head(address, 29_777, lambda _: False)
    with pytest.raises(PlannerError, match="cannot be reached"):
        check_reachable([Node(address=address, gpus=1)], 0.1)
