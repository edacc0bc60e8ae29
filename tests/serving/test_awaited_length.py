# SPDX-License-Identifier: Apache-2.0
import threading
from concurrent.futures import ThreadPoolExecutor

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.length import LengthDistribution
from llm_planner.serving import awaited_length
from llm_planner.serving.awaited_length import AwaitedLength

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
