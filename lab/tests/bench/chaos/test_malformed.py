# SPDX-License-Identifier: Apache-2.0
"""Messages of every interface can be drawn, and a seed draws the same again."""

import random
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("llm_planner.msg")

import llm_planner.msg as msgs
import llm_planner.srv as srvs
from llm_planner.action import PlanTask
from llm_planner_lab.bench.chaos.malformed import draw

pytestmark = pytest.mark.ros
ROOT = Path(__file__).parents[4]
KINDS = [
    *(getattr(msgs, path.stem) for path in sorted((ROOT / "msg").glob("*.msg"))),
    *(getattr(srvs, path.stem).Request for path in sorted((ROOT / "srv").glob("*.srv"))),
    PlanTask.Goal, PlanTask.Result, PlanTask.Feedback,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_seed_draws_the_same_message_again(kind):
    for seed in range(20):
        drawn = draw(kind, random.Random(seed), ("drone_1",))
        assert isinstance(drawn, kind)
        assert repr(drawn) == repr(draw(kind, random.Random(seed), ("drone_1",)))


def test_extremes_and_names_of_robots_are_drawn():
    rng = random.Random(0)
    reports = [draw(msgs.SegmentReport, rng, ("drone_1",)) for _ in range(300)]
    durations = [report.duration_s for report in reports]
    assert {float("inf"), float("-inf"), 1e308} < set(durations)
    assert any(duration != duration for duration in durations)  # NaN
    assert {0, 2**32 - 1} < {report.index for report in reports}
    assert {"", "drone_1"} < {report.goal_id for report in reports}
    assert max(len(report.reason) for report in reports) >= 100_000
