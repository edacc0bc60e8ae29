# SPDX-License-Identifier: Apache-2.0
"""Workers on other machines see whether their head lives, which vLLM does not tell them."""

import socket
import threading
import time
from unittest.mock import Mock

import pytest

from llm_planner.backends.cluster.reach import show_head, wait_for_end, wait_for_head
from llm_planner.core.errors import ErrorCode, PlannerError

HERE = "127.0.0.1"


def never(timeout_s):
    time.sleep(timeout_s)
    return False


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
    create_server = Mock(return_value=Mock(accept=Mock(side_effect=OSError)))
    monkeypatch.setattr(socket, "create_server", create_server)
    show_head(address, 29510)
    create_server.assert_called_once_with((address, 29510), family=family)
