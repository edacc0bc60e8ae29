# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with a server harms one goal at most, and is told in words."""

import dataclasses
import logging
import threading
from unittest.mock import Mock

import pytest

from llm_planner.backends.openai.backend import LONGEST_PAUSE_S
from llm_planner.backends.openai.remote_sequence import RemoteSequence
from llm_planner.core.errors import ErrorCode, PlannerError
from tests.backends.openai.builders import PLANS, Driver, make_backend, make_sequence

CLOSED_PORT = 9  # discard: no process listens on loopback


@pytest.fixture
def start(server):
    """Makes drivers, and closes their backends."""
    backends = []

    def make(at=server, **config) -> Driver:
        backends.append(make_backend(at, **config))
        return Driver(backends[-1])

    yield make
    for backend in backends:
        backend.close()


def plan_of(driver: Driver, name: str) -> str:
    driver.add(make_sequence(name))
    driver.run(name)
    return driver.text[name]


@pytest.mark.parametrize("fault", [{"drop_after": 4}, {"garbage_after": 4}, {"status": 503}, {"status": 429}])
def test_a_torn_stream_is_asked_for_again(start, server, fault, caplog):
    server.order(times=2, **fault)
    assert plan_of(start(), "square") == PLANS["square"]
    assert len(server.stats["requests"]) >= 3
    assert "asking again" in caplog.text


def test_the_rest_of_a_torn_statement_comes_without_grammar_and_the_next_with_it(start, server):
    server.order(times=1, drop_after=4)
    driver = start()
    plan_of(driver, "turn")
    has_grammar = ["structured_outputs" in request for request in server.stats["requests"]]
    assert has_grammar == [True, False, True]


def test_a_server_that_only_fails_ends_the_goal_with_its_words(start, server):
    driver = start(retry_s=0.5)
    server.order(times=1000, status=503)
    driver.add(make_sequence("turn"))
    driver.run()
    assert "answers 503: ordered by a test" in driver.failed["turn"]


@pytest.mark.parametrize("grammar", ["start: (", 'start: "a" undefined_rule\n'])
def test_a_malformed_grammar_ends_its_own_goal_at_once_and_no_other(start, server, grammar):
    driver = start()
    driver.add(make_sequence("turn"))
    driver.add(make_sequence("square", grammar=grammar))
    driver.run()
    assert "answers 400" in driver.failed["square"]
    assert "turn" in driver.finished
    assert len(server.stats["requests"]) == 2


def test_a_silent_server_is_asked_again(start, server):
    server.order(first_token_s=1.0)
    driver = start(stall_timeout_s=0.2)
    driver.add(make_sequence("turn"))
    while len(server.stats["requests"]) < 2:
        driver.step("turn")
    server.order(first_token_s=0.0)
    driver.run()
    assert "turn" in driver.finished


def test_a_prompt_that_was_sent_is_the_servers_to_read_and_keeps_no_other_from_being_sent(start, server):
    server.order(first_token_s=1.0)
    driver = start(stall_timeout_s=5.0)
    driver.add(make_sequence("turn"))
    driver.step("turn")
    assert driver.text["turn"] == ""
    assert driver.num_computed["turn"] == driver.num_tokens["turn"] - 1
    server.order(first_token_s=0.0)
    driver.run()
    assert "turn" in driver.finished


def test_a_full_context_ends_the_goal(start):
    driver = start()
    full = dataclasses.replace(make_sequence("turn"), prompt_token_ids=(5,) * driver.backend.info.max_model_len)
    driver.add(full)
    driver.step("turn")
    assert "fill the 4096 tokens" in driver.failed["turn"]


def test_a_name_twice_fails_the_second(start):
    driver = start()
    sequence = make_sequence("turn")
    driver.add(sequence)
    driver.step("turn")
    driver.waiting["turn"] = sequence
    driver.step("turn")
    assert "not released yet" in driver.failed["turn"]


def test_a_dead_server_ends_what_waits_and_the_next_one_serves_the_rest(start, own_server):
    server = own_server()
    driver = start(server, retry_s=0.5)
    server.order(token_s=0.05)
    driver.add(make_sequence("turn"))
    while not driver.text["turn"]:
        driver.step("turn")
    server.process.kill()
    server.process.wait()
    driver.run()
    assert "does not answer" in driver.failed["turn"]
    own_server("--port", str(server.port))
    assert plan_of(driver, "square")


def test_a_server_that_comes_back_in_time_costs_no_goal(start, own_server, caplog):
    server = own_server()
    driver = start(server, retry_s=60.0)
    server.order(token_s=0.05)
    driver.add(make_sequence("square"))
    while not driver.text["square"]:
        driver.step("square")
    server.process.kill()
    server.process.wait()
    while "asking again" not in caplog.text:
        driver.step("square")
    own_server("--port", str(server.port))
    driver.run()
    assert driver.text["square"] == PLANS["square"]


class TestAtTheStart:
    @staticmethod
    def error_of(start, **config) -> PlannerError:
        with pytest.raises(PlannerError) as caught:
            start(**config)
        return caught.value

    def test_no_server_there(self, start):
        error = self.error_of(start, base_url=f"http://127.0.0.1:{CLOSED_PORT}/v1")
        assert error.code is ErrorCode.SERVER_UNREACHABLE
        assert "start it" in error.message

    @pytest.mark.parametrize("key", [None, "wrong-key-4711"])
    def test_wrong_key(self, start, own_server, key, caplog):
        server = own_server("--api-key", "right")
        caplog.set_level(logging.DEBUG)
        error = self.error_of(start, at=server, api_key=key)
        assert error.code is ErrorCode.INVALID_CONFIG
        assert "OPENAI_API_KEY" in error.message
        assert "4711" not in error.message + caplog.text
        assert start(server, api_key="right").backend.info.model == "planner-small"

    def test_unknown_model(self, start):
        error = self.error_of(start, model="other")
        assert error.code is ErrorCode.MODEL_NOT_FOUND
        assert "planner-small" in error.message

    @pytest.mark.parametrize(
        ("base_url", "hint"),
        [
            ("{root}", "/v1"),
            ("{root}/stats/..", "/v1"),
            ("no address", "http://"),
            ("ftp://127.0.0.1/v1", "http://"),
            ("http://me:secret@127.0.0.1/v1", "environment"),
            ("http:/me:secret@127.0.0.1/v1", "environment"),
            ("http://127.0.0.1/v1?key=secret", "environment"),
            ("http://127.0.0.1/v1#secret", "environment"),
            ("http://127.0.0.1:port/v1", "address"),
        ],
    )
    def test_wrong_address(self, start, server, base_url, hint):
        error = self.error_of(start, base_url=base_url.format(root=server.root))
        assert error.code is ErrorCode.INVALID_CONFIG
        assert hint in error.message
        assert "secret" not in error.message

    @pytest.mark.parametrize("variable", ["sk-secret", "secret key", "", "1secret", "SECRET\n"])
    def test_a_key_in_the_place_of_the_name_of_its_variable(self, start, variable):
        error = self.error_of(start, api_key_variable=variable)
        assert error.code is ErrorCode.INVALID_CONFIG
        assert "environment variable" in error.message
        assert "secret" not in error.message.lower()

    def test_a_key_with_a_line_break(self, start):
        error = self.error_of(start, api_key="a\nb")
        assert error.code is ErrorCode.INVALID_CONFIG

    def test_unknown_dialect(self, start):
        error = self.error_of(start, server="vlm")
        assert error.code is ErrorCode.INVALID_CONFIG
        assert "llamacpp" in error.message


def test_a_sequence_that_was_preempted_goes_on_where_it_was(start):
    """Its tokens so far come back with it, in the midst of a statement."""
    driver = start()
    tokenizer, first = driver.backend.tokenizer, make_sequence("turn")
    ids = tuple(tokenizer.encode(PLANS["turn"]))[:3]
    driver.add(dataclasses.replace(first, output_token_ids=ids))
    driver.num_tokens["turn"] += len(ids)
    driver.run()
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() + driver.text["turn"] == PLANS["turn"]


class Dropped:
    """A sequence whose stream is gone once it was looked at."""

    def __init__(self, stream):
        self._streams = [stream]

    @property
    def stream(self):
        return self._streams.pop() if self._streams else None


def test_a_stream_that_is_dropped_while_it_is_left_is_left(start):
    left = threading.Event()
    states = start().backend._states
    states["dropped"] = Dropped(Mock(leave=left.set))
    assert left.wait(10)
    del states["dropped"]


def test_a_server_may_fail_for_an_hour(start):
    backend = start().backend
    state = RemoteSequence(sequence=make_sequence("turn"), stream=Mock(failure=None), num_failures=1024)
    state.failing_since_s = now_s = backend._clock.now_s()
    backend._bear("turn", state, failed := {})
    assert not failed
    assert state.retry_at_s == pytest.approx(now_s + LONGEST_PAUSE_S, abs=1.0)
