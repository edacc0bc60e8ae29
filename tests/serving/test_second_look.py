# SPDX-License-Identifier: Apache-2.0
"""Goals whose first plan must not be executed: another one is written, before the robot has anything."""

from dataclasses import dataclass, field, replace

import pytest

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import Urgency
from llm_planner.core.segment import Situation
from llm_planner.core.step import TokenChoice
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import EOS_TOKEN_ID, FakeBackend, FakeTokenizer
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from tests.planning.test_second_look import Model, RulesOut
from tests.serving.builders import failed, make_request, started

PLANS = {"mf(100);": 0.6, "mb(100);tp();": 0.35, "ld();": 0.05}


@dataclass(slots=True, kw_only=True)
class ForkingBackend(FakeBackend):
    """Writes the likeliest plan that begins as it is told to, and says how sure it is of each token."""

    model: Model
    choices: dict[str, list[TokenChoice]] = field(default_factory=dict)
    opened: list[tuple[int, ...]] = field(default_factory=list)

    def _open(self, sequence):
        assert FakeBackend._open(self, sequence)
        begun = sequence.output_token_ids
        token_ids, choices = self.model.write(begun)
        self._states[sequence.request_id].plan_token_ids = [*begun, *token_ids, EOS_TOKEN_ID]
        self.choices[sequence.request_id] = list(choices)
        self.opened.append(begun)
        return True

    def execute(self, scheduled):
        output = FakeBackend.execute(self, scheduled)
        ran = {*output.token_ids, *output.finished}
        return replace(output, choices={name: (self.choices[name].pop(0),) for name in ran if self.choices.get(name)})


class Run:
    """One goal, step by step."""

    def __init__(self, request=None, *, model=None, ruled_out=("mf",), least=0.7, policy="tardiness", **options):
        self.backend = ForkingBackend(tokenizer=FakeTokenizer(1), model=model or Model(PLANS))
        self.scheduler = Scheduler(SchedulerConfig(), make_policy(policy), self.backend.info)
        preparer = PlanPreparer(
            backend=self.backend,
            tokenizer=self.backend.tokenizer,
            library=RobotLibrary(),
            min_confidence=least,
            checks=lambda *_: [RulesOut(*ruled_out)],
        )
        self.loop = PlannerLoop(
            backend=self.backend,
            scheduler=self.scheduler,
            preparer=preparer,
            max_replans=1,
            **{"waits_for_plan_s": 9.0, "second_look_s": 9.0} | options,
        )
        self.now_s = 0.0
        self.events = self.loop.submit(request or make_request("r"), 0.0)

    def steps(self, most=1000):
        """Runs until there is nothing to do before the robot says something; returns what the robot got."""
        for _ in range(most):
            wakeup_s = self.loop.next_wakeup_s(self.now_s)
            if wakeup_s is None or wakeup_s > self.now_s + 1.0:
                break
            self.now_s = max(self.now_s, wakeup_s) + 0.01
            self.events += self.loop.step(self.now_s)
            self.scheduler.check_integrity()
        assert not self.loop._is_kv_off
        return [event.segment.text for event in self.events if isinstance(event, SegmentReady)]

    @property
    def result(self):
        (finished,) = (event for event in self.events if isinstance(event, Finished))
        return finished.result


def test_the_robot_gets_the_plan_that_is_not_contradicted_and_nothing_else():
    run = Run()
    assert run.steps() == ["mb(100);", "tp();"]
    assert [FakeTokenizer(1).decode(begun) for begun in run.backend.opened] == ["", "mb", "l"]
    (goal,) = run.loop._goals.values()
    assert goal.generation.output_token_ids == FakeTokenizer(1).encode("mb(100);tp();"), "as if it had written no other"
    assert goal.session.confidence == pytest.approx(0.35 / 0.4)


def test_what_is_not_sure_either_can_be_confirmed():
    run = Run(ruled_out=(), least=0.9)
    assert run.steps() == []
    assert (run.result.error_code, run.result.candidates) == (
        ErrorCode.NOT_UNDERSTOOD,
        ("mf(100);", "mb(100);tp();", "ld();"),
    )
    assert run.result.metrics.confidence == pytest.approx(0.6)
    assert run.result.metrics.num_output_tokens > len("mf(100);") + len("mb(100);tp();"), "all that was written"


def test_a_plan_that_is_only_shown_is_looked_at_again_too():
    run = Run(make_request("r", plan_only=True))
    assert run.steps() == []
    assert (run.result.error_code, run.result.candidates) == (ErrorCode.NONE, ("mb(100);tp();",))


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"urgency": Urgency.URGENT}, {}),
        ({"time_budget_s": 60.0}, {}),
        ({}, {"second_look_s": 0.0}),
    ],
)
def test_none_is_taken_in_a_hurry_or_where_it_is_switched_off(changes, options):
    run = Run(make_request("r", **changes), **options)
    assert run.steps() == []
    assert run.result.error_code is ErrorCode.NOT_UNDERSTOOD
    assert len(run.backend.opened) == 1


def test_none_is_taken_once_the_robot_has_something():
    for wait_s, reached in ((0.0, ["mf(100);"]), (9.0, ["mf(100);", "ld();"])):
        model = Model({"mf(100);tp();": 0.6, "mf(100);ld();": 0.4})
        run = Run(model=model, ruled_out=("tp",), policy="fcfs_stream", waits_for_plan_s=wait_s)
        assert run.steps() == reached
    run = Run(model=model, ruled_out=("tp",), policy="fcfs_stream", waits_for_plan_s=0.0)
    run.steps()
    assert run.result.error_code is ErrorCode.NOT_UNDERSTOOD


def test_when_time_is_over_what_is_written_decides():
    run = Run(model=Model({f"m{d}(100);": 0.19 for d in "fblru"}), second_look_s=0.15)
    run.steps()
    assert 1 < len(run.backend.opened) < 5
    assert run.result.error_code is ErrorCode.NOT_UNDERSTOOD


@pytest.mark.parametrize("num_steps", range(1, 40, 3))
def test_it_can_be_cancelled_at_any_moment(num_steps):
    run = Run()
    run.steps(num_steps)
    run.events += run.loop.cancel("r")
    run.now_s += 1.0
    run.loop.step(run.now_s)
    run.scheduler.check_integrity()
    assert run.result.error_code is ErrorCode.CANCELLED
    assert run.scheduler.ledger.free_blocks == run.backend.num_free_blocks


def test_what_fails_on_the_robot_is_replanned_behind_the_plan_that_it_has():
    run = Run()
    run.steps()
    run.events += run.loop.report(started("r", 0), run.now_s)
    run.backend.model = Model({"ld();": 1.0})
    failure = replace(failed("r", 0, "wind"), situation=Situation(scene="", pose=None))
    run.events += run.loop.report(failure, run.now_s)
    assert run.steps() == ["mb(100);", "tp();", "", "ld();"]
    (goal,) = run.loop._goals.values()
    read = FakeTokenizer(1).decode(goal.generation.sequence.prompt_token_ids)
    assert "mb(100);tp();" in read
    assert "mf(100)" not in read, "which it wrote first"
