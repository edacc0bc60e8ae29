"""Encounters: drawn by seed, the same again each time, and what is said of them."""

import json
import math

import pytest

pytest.importorskip("mujoco")

from llm_planner.bench.encounters.answering import Planner
from llm_planner.bench.encounters.benchmark import run_encounters, write_encounters
from llm_planner.bench.encounters.scenario import draw_encounter
from llm_planner.bench.encounters.trial import run_trial
from llm_planner.configuration import load_config
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanMetrics, PlanResult
from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros.robot_control import RobotControl
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady

TELLO = RobotLibrary().get("tello")


class Script:
    """A planner that answers every question after a time with one plan, or refuses."""

    def __init__(self, plan="", after_s=0.1):
        self.plan, self.after_s, self.questions, self.events = plan, after_s, [], []

    def begin(self):
        self.questions, self.events = [], []

    def ask(self, request, now_s, planner):
        self.questions.append(request)
        name = request.request_id
        segment = Segment(index=0, text=self.plan, calls=(), expected=ZERO_DURATION)
        refused = PlanResult(
            request_id=name, segments=(), metrics=PlanMetrics(), error_code=ErrorCode.BUDGET_INFEASIBLE,
            error_msg="",
        )  # fmt: skip
        told = [SegmentReady(name, segment), PlanComplete(name, 1)] if self.plan else [Finished(refused)]
        self.events += [(now_s + self.after_s, event) for event in told]

    def report(self, report, now_s):
        pass

    def take(self, now_s):
        due = [event for at_s, event in self.events if at_s <= now_s]
        self.events = [(at_s, event) for at_s, event in self.events if at_s > now_s]
        return due


def trial(seed=1, planner=Planner.IN_TIME, script=None):
    return run_trial(draw_encounter(seed), planner, script or Script("mu(100);"), TELLO, RobotControl)


@pytest.mark.parametrize("seed", range(20))
def test_somebody_walks_where_the_drone_will_be(seed):
    encounter = draw_encounter(seed)
    assert encounter == draw_encounter(seed)
    person = encounter.person
    assert 1.0 <= math.hypot(*person.velocity_m_per_s) <= 2.0
    assert math.hypot(*person.position_m[:2]) >= 2.0
    ways = [person.position_at(t / 10) for t in range(int(10 * encounter.ends_s))]
    least_m = min(math.hypot(x, y) for x, y, _ in ways) if seed % 2 else min(abs(y) for _, y, _ in ways)
    assert least_m < 0.8


def test_without_anybody_they_collide():
    met = trial(planner=Planner.NOBODY)
    assert met.collided_with == ("person",)
    assert met.alarm_s is None
    assert not met.reflexes


def test_an_answer_in_time_is_used_and_nobody_is_hit():
    script = Script("mf(150);")
    met = trial(script=script)
    (question,) = script.questions
    assert question.instruction == "a person is walking toward you from the left"
    assert 0.1 <= question.time_budget_s <= 4.0
    assert met.is_in_time
    assert met.used_s is not None
    assert met.plan == "mf(150);"
    assert met.flown_m > 1.0
    assert not met.collided_with
    assert all(at_s > met.used_s for at_s, *_ in met.reflexes)


@pytest.mark.parametrize("script", [Script("mf(20);", after_s=9.0), Script("", after_s=0.1)], ids=["silent", "refused"])
def test_without_an_answer_the_reflex_acts_and_nobody_is_hit(script):
    met = trial(script=script)
    assert met.reflexes
    assert met.used_s is None
    assert not met.collided_with


def test_an_answer_that_does_not_help_is_interrupted():
    encounter = draw_encounter(1)  # from the left
    met = run_trial(encounter, Planner.IN_TIME, Script("ml(100);"), TELLO, RobotControl)
    assert met.reflexes
    assert not met.collided_with


def test_the_same_seed_gives_the_same_encounter():
    assert trial(seed=3) == trial(seed=3)


@pytest.mark.slow
def test_the_bundled_model_answers_and_what_comes_of_it_is_written(tmp_path):
    config = load_config(None, {"engine.num_threads": 1})
    document = run_encounters(
        config, RobotControl, num_seeds=2, profile="planner-small-cpu", on_progress=lambda _what, _share: None
    )
    rows = {row["planner"]: row for row in document["conditions"]}
    assert rows["in time"]["answered_in_time"] == rows["in time"]["flown"] == 2
    assert rows["late"]["answered_in_time"] == rows["dead"]["answered_in_time"] == 0
    assert [rows[name]["collisions"] for name in ("in time", "late", "dead", "nobody")] == [0, 0, 0, 2]
    out, page = write_encounters(document, tmp_path / "e.json", tmp_path / "e.md")
    assert json.loads(out.read_text())["setup"]["num_seeds"] == 2
    assert "| nobody | 2 | 2 | 0 of 0 | 1 |" in page.read_text()
