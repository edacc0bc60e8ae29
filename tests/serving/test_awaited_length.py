# SPDX-License-Identifier: Apache-2.0
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.length import LengthDistribution
from llm_planner.serving import awaited_length
from llm_planner.serving.awaited_length import AwaitedLength
from llm_planner.serving.events import Finished
from llm_planner.serving.fake import FakeBackend
from tests.serving.builders import StubPreparer, make_loop, make_request

FORTY = LengthDistribution.from_buckets([1.0] * 40, 1)


def test_a_prediction_is_made_in_a_thread_and_taken_when_it_is_there():
    gate = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as executor:
        awaited = AwaitedLength.begin(lambda: FORTY if gate.wait(5) else None, executor)
        assert not awaited.is_here
        gate.set()
        assert awaited.wait() is FORTY
        assert awaited.is_here


def test_who_cannot_wait_for_the_others_predicts_at_once():
    gate, threads = threading.Event(), []

    def predict():
        threads.append(threading.current_thread())
        return FORTY

    with ThreadPoolExecutor(max_workers=1) as executor:
        executor.submit(gate.wait, 5)
        awaited = AwaitedLength.begin(predict, executor)
        assert awaited.wait() is FORTY
        gate.set()
    assert threads == [threading.current_thread()]


def test_a_prediction_that_fails_is_none(caplog):
    def predict():
        raise PlannerError(ErrorCode.ENGINE_FAILED, "no such token")

    with ThreadPoolExecutor(max_workers=1) as executor:
        assert AwaitedLength.begin(predict, executor).wait() is None
    assert "no such token" in caplog.text


def test_a_prediction_that_raises_anything_is_none(caplog):
    with ThreadPoolExecutor(max_workers=1) as executor:
        assert AwaitedLength.begin(lambda: 1 / 0, executor).wait() is None
    assert "ZeroDivisionError" in caplog.text


def test_a_prediction_that_hangs_is_none(caplog, monkeypatch):
    monkeypatch.setattr(awaited_length, "LONGEST_WAIT_S", 0.01)
    begun, gate = threading.Event(), threading.Event()

    def hang():
        begun.set()
        gate.wait(30)

    with ThreadPoolExecutor(max_workers=1) as executor:
        awaited = AwaitedLength.begin(hang, executor)
        begun.wait(30)
        assert awaited.wait() is None
        gate.set()


def test_what_is_taken_back_is_not_made():
    gate, made = threading.Event(), []
    with ThreadPoolExecutor(max_workers=1) as executor:
        executor.submit(gate.wait, 30)
        awaited = AwaitedLength.begin(lambda: made.append(1), executor)
        awaited.cancel()
        gate.set()
    assert made == []


def test_what_is_known_is_there():
    assert AwaitedLength.known(FORTY).is_here
    assert AwaitedLength.known(FORTY).wait() is FORTY


LENGTHS = {f"r{number}": number for number in (50, 40, 30, 20, 10, 5)}


class KnowingPreparer(StubPreparer):
    """Predicts the length that the number of a goal says, and is asked for it after the goal was queued."""

    def prepare(self, request):
        prepared, num_tokens = super().prepare(request), LENGTHS.get(request.request_id)
        if num_tokens is None:
            return prepared
        weights = [0.0] * (num_tokens - 1) + [1.0] + [0.0] * (60 - num_tokens)
        return replace(prepared, length=AwaitedLength.known(LengthDistribution.from_buckets(weights, 1)))


@pytest.mark.parametrize("policy", ["a_min", "adaptive"])
def test_goals_are_ranked_by_lengths_that_were_predicted_after_they_were_queued(policy):
    backend = FakeBackend(plans={"go": "fast();" * 3})
    loop = make_loop(backend=backend, policy=policy, do_clients_report=False, max_num_seqs=1)
    loop._preparer = KnowingPreparer(backend)
    loop.submit(make_request("first", "go"), 0.0)
    loop.step(0.0)
    for request_id in LENGTHS:
        loop.submit(make_request(request_id, "go"), 0.0)
    events = [event for number in range(200) for event in loop.step(0.01 * number)]
    ended = [event.request_id for event in events if isinstance(event, Finished)]
    assert ended == ["first", *reversed(LENGTHS)]
