# SPDX-License-Identifier: Apache-2.0
"""What happens to a message under disorder: now, later, twice, behind the next one, or never."""

import time

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("llm_planner.msg")

from llm_planner.ros.spinning import spinning
from llm_planner_lab.bench.chaos import journal
from llm_planner_lab.bench.chaos.journal import Journal
from llm_planner_lab.bench.chaos.messages import Disorder, Mangler
from tests.ros.nodes import wait_until

pytestmark = pytest.mark.ros
ORDER = Disorder(drop=0.0, delay=0.0, duplicate=0.0, reorder=0.0)


@pytest.fixture
def deliver(tmp_path, monkeypatch):
    """Returns a function that sends numbers through disorder and returns what has come, at once."""
    monkeypatch.setenv(journal.DIRECTORY, str(tmp_path))
    came, held = [], []
    with spinning("mangler") as node:

        def send(numbers, **shares):
            disorder = {"drop": 0.0, "delay": 0.0, "duplicate": 0.0, "reorder": 0.0, **shares}
            Disorder(until_s=time.monotonic() + 60.0, **disorder).write(tmp_path)
            mangler = Mangler(node, Journal.of("robot"), "seed")
            for number in numbers:
                mangler.deliver("topic", lambda number=number: came.append(number), held)
            return came

        yield send


def test_without_disorder_everything_comes_in_order(deliver):
    assert deliver(range(50)) == list(range(50))


def test_what_is_dropped_does_not_come_and_what_is_duplicated_comes_twice(deliver, tmp_path):
    assert deliver(range(20), drop=1.0) == []
    assert deliver(range(3), duplicate=1.0) == [0, 0, 1, 1, 2, 2]
    lines = list(journal.read(tmp_path / "robot.jsonl"))
    assert [line["how"] for line in lines] == ["drop"] * 20 + ["duplicate"] * 3


def test_what_is_delayed_or_overtaken_still_comes(deliver):
    came = deliver(range(200), delay=0.3, reorder=0.3)
    assert len(came) < 200
    wait_until(lambda: len(came) == 200)
    assert came != sorted(came)
    assert sorted(came) == list(range(200))
