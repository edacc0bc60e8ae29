# SPDX-License-Identifier: Apache-2.0
"""Evaluation: counts executed plans, not words; the card shows what was counted."""

from dataclasses import replace
from pathlib import Path

import pytest

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanMetrics, PlanResult
from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.events import Finished
from llm_planner_lab.tasks.frames import corpus
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.training import evaluate as module
from llm_planner_lab.training.card import PAPER_FAMILIES, People, model_card
from llm_planner_lab.training.network import planner_config
from llm_planner_lab.training.understanding import Answer, Begun, Understanding, Verdict, ask, begun, risk_coverage


class NoLoop:
    def close(self):
        self.is_closed = True


def result(plan, code=ErrorCode.NONE):
    segment = Segment(index=0, text=plan, calls=(), expected=ZERO_DURATION)
    return PlanResult(request_id="0", error_code=code, segments=(segment,))


@pytest.fixture
def measured(monkeypatch):
    """Returns a function that evaluates a model which answers each task by ``answer(task)``."""

    def measure(answer, families=("look_for", "stack")):
        monkeypatch.setattr(module, "build_loop", lambda *_, **__: NoLoop())
        monkeypatch.setattr(module, "plan_all", lambda _, tasks: [answer(task) for task in tasks])
        return module.evaluate(Path("somewhere/model"), per_family=4, families=families)

    return measure


def test_reference_plans_score_full_marks(measured):
    evaluation = measured(lambda task: result(task.plan))
    assert evaluation.total.success == 1.0
    assert evaluation.total.num_tasks == evaluation.total.num_exact == 8
    assert evaluation.model == "model"


def test_another_way_counts_though_it_is_not_exact(measured):
    evaluation = measured(lambda task: result(task.plan.replace("stop();", "stop();stop();")), ("arm_stop",))
    assert evaluation.total.num_achieved == 4
    assert evaluation.total.num_exact == 0


def test_failures_are_counted_and_kept(measured):
    evaluation = measured(lambda _: result("mf(20);" if _.robot == "tello" else "home();"))
    assert evaluation.total.num_achieved == 0
    assert len(evaluation.scores["stack"].failures) == 4
    assert evaluation.scores["stack"].failures[0].plan == "home();"


def test_a_plan_that_ended_in_an_error_never_counts(measured):
    evaluation = measured(lambda task: result(task.plan, ErrorCode.PLAN_TRUNCATED))
    assert evaluation.total.num_achieved == 0


def test_who_cannot_is_right_to_say_so_and_only_then(measured):
    def sorry(_task):
        return PlanResult(request_id="0", error_code=ErrorCode.NOT_ACHIEVED, error_msg="I can't do that")

    assert measured(sorry, ("cannot",)).total.success == 1.0
    assert measured(sorry, ("take_off",)).total.success == 0.0


def test_the_card_shows_every_family_with_its_numbers(measured):
    evaluation = measured(lambda task: result(task.plan))
    card = model_card(
        {"short": evaluation},
        People(
            shares={"all": {"n": 4, "right": 0.75, "wrong": 0.0, "not understood": 0.25}},
            begun=Begun(0.125, 0.1),
            curve=[{"threshold": 0.9, "coverage": 0.5, "right": 0.5, "wrong": 0.0, "risk": 0.0}],
            min_confidence=0.9,
        ),
        network=planner_config(),
        num_parameters=3_640_064,
        training="Trained.",
        command="measure it",
    )
    assert "| look_for (Look for the cat) | 100 % (4/4) |" in card
    assert "| **all** | 100 % (8/8) |" in card
    assert "| all | 4 | 75.0 % | 0.0 % | 25.0 % |" in card
    assert "| 0.9 | 50.0 % | 50.0 % | 0.0 % | 0.0 % |" in card
    assert "12.5 % of the sentences" in card
    assert "in 10.0 %" in card
    assert "measure it" in card
    assert "are sentences of authors (lab/corpus)" in card, "how many, only the sentences on the run know"
    assert "3.6 M parameters" in card


@pytest.mark.parametrize(
    ("verdict", "plan", "code", "is_begun"),
    [
        (Verdict.WRONG, "tc(90);", ErrorCode.NOT_UNDERSTOOD, True),
        (Verdict.WRONG, "tc(90);", ErrorCode.GEOFENCE_VIOLATED, True),
        (Verdict.WRONG, "tc(90);", ErrorCode.NONE, False),
        (Verdict.RIGHT, "tc(90);", ErrorCode.NOT_UNDERSTOOD, False),
        (Verdict.NOT_UNDERSTOOD, "", ErrorCode.NOT_UNDERSTOOD, False),
    ],
)
def test_begun_is_what_stopped_behind_its_first_steps(verdict, plan, code, is_begun):
    def answered(verdict, plan, code=ErrorCode.NONE, meant="tc(90);mf(100);"):
        task = Task("spoken", "tello", "turn right and go", "", meant, (), ("same_outcome",))
        return Answer(frame=None, task=task, plan=plan, verdict=verdict, reason="", result=result(plan, code))

    done = answered(Verdict.RIGHT, "ld();")
    assert begun([answered(verdict, plan, code), done]) == (Begun(0.5, 0.5) if is_begun else Begun(0.0, 0.0))
    assert begun([answered(verdict, plan, code, "tu(90);"), done]).as_meant == 0.0


def test_the_paper_has_eleven_tasks():
    assert len(PAPER_FAMILIES) == 11


def test_what_should_not_be_done_is_right_if_the_model_is_not_sure():
    def answered(*, may_stand_still):
        task = Task("spoken", "tello", "go to the chair", "", "unclear('which chair');", (), ("same_outcome",))
        unsure = replace(result("mf(100);", ErrorCode.NONE), metrics=PlanMetrics(confidence=0.5))
        return Answer(
            frame=None, task=task, plan="mf(100);", verdict=Verdict.WRONG, reason="", result=unsure,
            may_stand_still=may_stand_still,
        )  # fmt: skip

    answers = [answered(may_stand_still=True), answered(may_stand_still=False)]
    bold, careful = risk_coverage(Understanding(answers, answers), (0.4, 0.6))
    assert (bold["right"], bold["wrong"], bold["coverage"]) == (0.0, 1.0, 1.0)
    assert (careful["right"], careful["wrong"], careful["coverage"]) == (0.5, 0.0, 0.5)


@pytest.mark.parametrize(
    ("threshold", "verdict"),
    [(0.4, Verdict.WRONG), (0.6, Verdict.RIGHT), (0.75, Verdict.NOT_UNDERSTOOD)],
)
def test_a_second_look_counts_where_the_first_plan_is_not_sure_and_it_is(threshold, verdict):
    def answered(verdict, confidence, **options):
        task = Task("spoken", "tello", "go", "", "mf(100);", (), ("same_outcome",))
        unsure = replace(result("mf(100);", ErrorCode.NONE), metrics=PlanMetrics(confidence=confidence))
        return Answer(frame=None, task=task, plan="", verdict=verdict, reason="", result=unsure, **options)

    looked = Understanding([answered(Verdict.WRONG, 0.5)], [answered(Verdict.RIGHT, 0.7, is_offered=True)])
    assert [answer.verdict for answer in looked.at(threshold)] == [verdict]


@pytest.mark.parametrize("counts_offers", [True, False])
def test_what_can_be_confirmed_counts_as_executed_only_where_that_is_asked(counts_offers):
    frame = next(frame for frame in corpus() if frame.plan == "ld();" and not frame.is_danger)

    class Unsure:
        def submit(self, request, _now_s):
            code = ErrorCode.NOT_UNDERSTOOD
            ended = PlanResult(request_id=request.request_id, error_code=code, candidates=("ld();",))
            return [Finished(ended)]

        def step(self, _now_s):
            return []

    (answer,) = ask(Unsure(), {frame.robot: RobotLibrary().get(frame.robot)}, [frame], counts_offers=counts_offers)
    assert (answer.verdict, answer.is_executed) == (
        (Verdict.RIGHT, True) if counts_offers else (Verdict.NOT_UNDERSTOOD, False)
    )
