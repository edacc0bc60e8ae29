# SPDX-License-Identifier: Apache-2.0
"""Encounters: drawn by seed, the same again each time, and what becomes of the planner's answers in them."""

import json
import math

import pytest

pytest.importorskip("mujoco")

from llm_planner.configuration import load_config
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanMetrics, PlanResult
from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros.robot_control import RobotControl
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady
from llm_planner_lab.bench.encounters.answering import Planner
from llm_planner_lab.bench.encounters.benchmark import run_encounters
from llm_planner_lab.bench.encounters.kinds import Asking, Begin, Kind
from llm_planner_lab.bench.encounters.outcome import Use
from llm_planner_lab.bench.encounters.scenario import OUTSIDE_M, draw_encounter
from llm_planner_lab.bench.encounters.trial import run_trial
from llm_planner_lab.reports import write_report

TELLO = RobotLibrary().get("tello")


class Script:
    """A planner that answers every question after a time with one plan, or refuses."""

    def __init__(self, plan="", after_s=0.1, *, is_slow_to_end=False):
        self.plan, self.after_s, self.questions, self.events = plan, after_s, [], []
        self.end_after_s = 4.0 if is_slow_to_end else 0.0

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
        at_s = now_s + self.after_s
        told = [(at_s, SegmentReady(name, segment)), (at_s + self.end_after_s, PlanComplete(name, 1))]
        self.events += told if self.plan else [(at_s, Finished(refused))]

    def report(self, report, now_s):
        pass

    def take(self, now_s):
        due = [event for at_s, event in self.events if at_s <= now_s]
        self.events = [(at_s, event) for at_s, event in self.events if at_s > now_s]
        return due


def trial(seed=1, planner=Planner.IN_TIME, script=None, asking=Asking.COMES, **encounter):
    drawn = draw_encounter(seed, **encounter)
    return run_trial(drawn, planner, script or Script("mu(100);"), TELLO, RobotControl, asking)


@pytest.mark.parametrize("begin", Begin)
@pytest.mark.parametrize("seed", range(20))
def test_a_person_walks_to_where_the_drone_will_be(seed, begin):
    encounter = draw_encounter(seed, begin=begin)
    assert encounter == draw_encounter(seed, begin=begin)
    comer = encounter.comer
    assert 1.0 <= math.hypot(*comer.velocity_m_per_s) <= 2.0
    assert math.hypot(*comer.position_m[:2]) == pytest.approx(encounter.begins_m)
    assert encounter.begins_m >= (2.0 if begin is Begin.NEAR else OUTSIDE_M - 0.5)
    ways = [comer.position_at(t / 10) for t in range(int(10 * encounter.ends_s))]
    least_m = min(math.hypot(x, y) for x, y, _ in ways) if seed % 2 else min(abs(y) for _, y, _ in ways)
    assert least_m < 0.8


def test_a_person_who_begins_out_of_range_is_not_noticed_at_once():
    script = Script("mu(100);")
    times_s = [trial(seed, script=script, begin=Begin.FAR).alarm_s for seed in (1, 3)]
    assert min(times_s) > 0.3


def test_without_anybody_they_collide():
    met = trial(planner=Planner.NEITHER)
    assert met.collided_with == ("person",)
    assert met.alarm_s is None
    assert not met.reflexes
    assert met.use is None


@pytest.mark.parametrize("is_slow_to_end", [False, True])
def test_an_answer_in_time_is_used_and_there_is_no_collision(is_slow_to_end):
    script = Script("mf(150);", is_slow_to_end=is_slow_to_end)
    met = trial(script=script)
    (question,) = script.questions
    assert met.instruction == question.instruction == "a person is walking toward you from the left"
    assert 0.1 <= question.time_budget_s <= 4.0
    assert met.is_in_time
    assert met.use is Use.ENDED
    assert met.plan == "mf(150);"
    assert met.flown_m > 1.0
    assert not met.collided_with
    assert all(at_s > met.ended_s for at_s, *_ in met.reflexes)


@pytest.mark.parametrize("script", [Script("mf(20);", after_s=9.0), Script("", after_s=0.1)], ids=["silent", "refused"])
def test_without_an_answer_the_reflex_acts_and_there_is_no_collision(script):
    met = trial(script=script)
    assert met.reflexes
    assert met.begun_s is None
    assert not met.collided_with


def test_an_answer_that_does_not_help_is_overridden():
    met = trial(script=Script("ml(100);"))  # towards the mover from the left
    assert met.reflexes
    assert met.use is Use.OVERRIDDEN
    assert met.broken_off_s < met.nearest_s
    assert not met.collided_with
    alone = trial(script=Script("ml(100);"), planner=Planner.ALONE)
    assert alone.collided_with
    assert not alone.reflexes


@pytest.mark.parametrize("kind", Kind)
def test_whatever_comes_is_avoided_without_a_planner(kind):
    met = trial(planner=Planner.DEAD, script=Script("mu(100);", after_s=99.0), kind=kind, begin=Begin.FAR)
    assert met.reflexes
    assert not met.collided_with


def test_the_same_seed_gives_the_same_encounter():
    assert trial(seed=3) == trial(seed=3)


@pytest.mark.slow
def test_the_bundled_model_answers_and_what_comes_of_it_is_written(tmp_path):
    document = run_encounters(
        load_config(None, {"engine.num_threads": 1}),
        RobotControl,
        seeds=range(2),
        profile="planner-small-cpu",
        on_progress=lambda _what, _share: None,
        begins=[Begin.NEAR],
    )
    rows = {(row["planner"], row["asking"]): row for row in document["conditions"]}
    in_time = rows["in time", "passes"]
    assert in_time["answered_in_time"] == in_time["used"] == 2
    assert all(rows[name, "passes"]["answered_in_time"] == 0 for name in ("late", "dead"))
    assert [rows[name, "passes"]["collisions"] for name in ("in time", "late", "dead", "neither")] == [0, 0, 0, 2]
    out, page = write_report("encounters", document, tmp_path / "e.json", tmp_path / "e.md")
    assert json.loads(out.read_text())["setup"]["num_seeds"] == 2
    assert set(document["questions"]) == {"passes", "comes from"}
    text = page.read_text()
    assert "| near | neither |  | 2 | 2 (34 to 100 %) | 1 |" in text
    assert "| near | dead | passes | 2 | 0 (0 to 66 %) |" in text
    assert "were known (seeds below" in text
