import threading
from concurrent.futures import ThreadPoolExecutor

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.length import LengthDistribution
from llm_planner.serving.awaited_length import AwaitedLength

FORTY = LengthDistribution.from_buckets([1.0] * 40, 1)


def test_a_prediction_is_made_beside_and_taken_when_it_is_there():
    gate = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as beside:
        awaited = AwaitedLength.begin(lambda: FORTY if gate.wait(5) else None, beside)
        assert not awaited.is_here
        gate.set()
        assert awaited.wait() is FORTY
        assert awaited.is_here


def test_who_cannot_wait_for_the_others_predicts_at_once():
    gate, threads = threading.Event(), []

    def predict():
        threads.append(threading.current_thread())
        return FORTY

    with ThreadPoolExecutor(max_workers=1) as beside:
        beside.submit(gate.wait, 5)
        awaited = AwaitedLength.begin(predict, beside)
        assert awaited.wait() is FORTY
        gate.set()
    assert threads == [threading.current_thread()]


def test_a_prediction_that_fails_is_none(caplog):
    def predict():
        raise PlannerError(ErrorCode.ENGINE_FAILED, "no such token")

    with ThreadPoolExecutor(max_workers=1) as beside:
        assert AwaitedLength.begin(predict, beside).wait() is None
    assert "no such token" in caplog.text


def test_what_is_known_is_there():
    assert AwaitedLength.known(FORTY).is_here
    assert AwaitedLength.known(FORTY).wait() is FORTY
