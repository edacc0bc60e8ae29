# SPDX-License-Identifier: Apache-2.0
"""A segment fails on the robot, and the plan goes on another way: loop, session, gate, robot and book together."""

import random
from dataclasses import replace

import pytest

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.request import BudgetScope
from llm_planner.core.segment import ReportStatus, SegmentReport, Situation
from llm_planner.planning.failure_context import ReplanContext
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.prompt import PromptStyle
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import World, WorldObject
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.plan_preparer import PlanPreparer
from llm_planner.sim.kinematics import KinematicDriver
from llm_planner_lab.bench.replanning.field import CountingBackend, Field
from tests.serving.builders import make_request, succeeded

LIBRARY = RobotLibrary()
PLANS = {
    "go": "mf(100);g(cat);tc(90);mb(50);",
    "is not visible": "tc(45);mu(50);",
    "did not work": "tc(45);mu(50);",  # of another statement than the one that names the cat
    "chair_alone": "mf(100);mu(20);",
}
STANDING = Situation(scene="chair_1", pose=Pose(x_m=1.0, z_m=1.0))


def make_loop(
    plans=PLANS,
    *,
    policy="fcfs_segment",
    max_replans=2,
    num_kv_blocks=4096,
    context=ReplanContext.KEEP,
    checks=None,
    **backend,
) -> PlannerLoop:
    fake = CountingBackend(FakeBackend(plans=plans, num_kv_blocks=num_kv_blocks, **backend))
    tokenizer = fake._backend.tokenizer
    return PlannerLoop(
        backend=fake,
        scheduler=Scheduler(SchedulerConfig(policy=policy), make_policy(policy), fake.info),
        preparer=PlanPreparer(
            backend=fake,
            tokenizer=tokenizer,
            library=LIBRARY,
            style=PromptStyle.INSTRUCT,
            replan_context=context,
            checks=checks,
        ),
        max_replans=max_replans,
    )


def failed(index: int, situation: Situation | None = STANDING, reason: str = "g: cat is not visible") -> SegmentReport:
    return SegmentReport(
        request_id="r1", index=index, status=ReportStatus.FAILED, reason=reason, situation=situation, duration_s=0.1
    )


def written(loop: PlannerLoop, now_s: float = 0.0) -> list:
    """Returns the events until the loop has nothing more to do at once."""
    events = []
    while loop.next_wakeup_s(now_s) is not None and loop.next_wakeup_s(now_s) <= now_s:
        events += loop.step(now_s)
        loop._scheduler.check_integrity()
    assert not loop._is_kv_off
    return events


def texts(events: list) -> list[str]:
    return [event.segment.text for event in events if isinstance(event, SegmentReady)]


def carry_out(loop: PlannerLoop, **request):
    driver = KinematicDriver(
        LIBRARY.get("tello"), World([WorldObject(name="chair", position_m=(3, 0, 1))]), random.Random(0)
    )
    field = Field(loop, loop._backend, driver)
    return field.carry_out(make_request(**request)), field, driver


@pytest.mark.parametrize("policy", ["fcfs_segment", "fcfs", "tardiness", "a_min"])
@pytest.mark.parametrize("can_insert", [True, False])
def test_a_plan_goes_on_another_way(policy: str, can_insert: bool):
    loop = make_loop(policy=policy, can_insert=can_insert)
    attempt, field, driver = carry_out(loop)
    result = attempt.result
    assert result.error_code is ErrorCode.NONE
    assert result.error_msg == "replanned 1 time, because this failed: g(cat); (g: cat is not visible)"
    assert [done.call.name for done in field.calls] == ["mf", "g", "tc", "mu"]
    assert driver.state.pose.z_m == pytest.approx(1.5)
    assert [segment.index for segment in result.segments] == list(range(len(result.segments)))
    assert sum(segment.is_replan for segment in result.segments) == 1
    metrics = result.metrics
    assert metrics.num_replans == 1
    assert metrics.num_inserted_tokens > 0
    assert metrics.execution_time_s == pytest.approx(sum(done.end_s - done.start_s for done in field.calls), abs=0.1)
    assert written(loop, field.now_s) == []
    assert loop._scheduler.ledger.free_blocks == loop._backend._backend.num_free_blocks


def test_only_what_is_inserted_is_computed():
    costs = []
    for can_insert in (True, False):
        attempt, _, _ = carry_out(make_loop(can_insert=can_insert))
        costs.append(attempt.num_tokens_on[0] - attempt.num_tokens_then[0])
        num_prompt = attempt.result.metrics.num_prompt_tokens - attempt.result.metrics.num_cached_tokens
    assert costs[0] < costs[1] < costs[0] + num_prompt + 10


def test_a_fresh_context_holds_the_new_scene_and_what_is_done():
    loop = make_loop(context=ReplanContext.FRESH, policy="fcfs_stream")
    loop.submit(make_request(instruction="go to all of them"), 0.0)
    before = len(written(loop))
    loop.report(succeeded("r1", 0), 0.5)
    loop.report(failed(1, Situation(scene="chair_alone", pose=Pose(x_m=1.0, z_m=1.0))), 1.0)
    generation = loop._goals["r1"].generation
    prompt = loop._backend._backend.tokenizer.decode(generation.sequence.prompt_token_ids)
    assert prompt.endswith("scene: chair_alone\ntask: go to all of them\nplan:\nmf(100);")
    assert "g(cat)" not in prompt[-60:]
    assert generation.sequence.num_cached_tokens > 0
    assert before
    assert texts(written(loop)) == ["mu(20);"]
    (end,) = loop.report(succeeded("r1", 5), 3.0)
    assert end.result.error_code is ErrorCode.NONE
    assert end.result.metrics.num_prompt_tokens == len(generation.sequence.prompt_token_ids)
    assert end.result.metrics.num_inserted_tokens == 0


def test_the_last_segment_may_fail_although_the_plan_is_complete():
    loop = make_loop({"go": "mf(100);g(cat);", "is not visible": "tc(45);"})
    attempt, field, _ = carry_out(loop)
    assert attempt.result.error_code is ErrorCode.NONE
    assert [done.call.name for done in field.calls] == ["mf", "g", "tc"]


def test_tries_are_bounded_and_the_result_says_what_happened():
    loop = make_loop({"go": "mf(100);g(cat);", "is not visible": "g(dog);"})
    attempt, field, _ = carry_out(loop)
    assert attempt.result.error_code is ErrorCode.SKILL_FAILED
    assert attempt.result.error_msg == (
        "segment 5 (g(dog);) failed on the robot: g: dog is not visible; replanned 2 times, because this failed: "
        "g(cat); (g: cat is not visible); g(dog); (g: dog is not visible)"
    )
    assert [done.call.name for done in field.calls] == ["mf", "g", "g", "g"]
    assert written(loop) == []
    assert loop._backend._backend.num_free_blocks == loop._scheduler.ledger.free_blocks


@pytest.mark.parametrize("replan", ["h();", "tc(45);h();", "->False;"])
def test_a_plan_that_only_stops_behind_a_failure_has_not_achieved_its_task(replan: str):
    loop = make_loop({"go": "mf(100);g(cat);", "is not visible": replan})
    attempt, _, _ = carry_out(loop)
    has_given_up = replan != "->False;"
    assert (attempt.result.error_code is ErrorCode.NOT_ACHIEVED) is has_given_up
    if has_given_up:
        assert "g(cat); (g: cat is not visible)" in attempt.result.error_msg
        assert attempt.result.metrics.time_utility == 0.0


def test_a_plan_that_was_to_stop_is_done_when_it_has_stopped():
    attempt, _, _ = carry_out(make_loop({"go": "mf(100);h();"}))
    assert attempt.result.error_code is ErrorCode.NONE
    assert attempt.result.metrics.time_utility > 0


def test_what_was_delivered_before_a_fail_is_carried_out_before_the_goal_ends():
    loop = make_loop({"go": "mf(100);tc(90);fail('there is no door');"}, policy="fcfs_stream")
    loop.submit(make_request(), 0.0)
    events = written(loop)
    assert texts(events) == ["mf(100);", "tc(90);"]
    assert not any(isinstance(event, Finished) for event in events)
    assert loop.report(succeeded("r1", 0), 1.0) == []
    (end,) = loop.report(succeeded("r1", 1), 2.0)
    assert (end.result.error_code, end.result.error_msg) == (ErrorCode.NOT_ACHIEVED, "there is no door")
    assert end.result.metrics.time_utility == 0.0


def test_a_fail_with_nothing_before_it_ends_the_goal_at_once():
    loop = make_loop({"go": "fail('there is no door');"})
    loop.submit(make_request(), 0.0)
    (end,) = [event for event in written(loop) if isinstance(event, Finished)]
    assert (end.result.error_code, end.result.error_msg) == (ErrorCode.NOT_ACHIEVED, "there is no door")


def test_a_failure_for_good_is_not_replanned():
    loop = make_loop()
    loop.submit(make_request(), 0.0)
    written(loop)
    (end,) = loop.report(replace(failed(0, None, "there is no camera"), is_permanent=True), 1.0)
    assert end.result.error_code is ErrorCode.NOT_ACHIEVED
    assert "segment 0 (mf(100);) failed on the robot: there is no camera" in end.result.error_msg


@pytest.mark.parametrize(
    ("max_replans", "situation", "request_"),
    [
        (0, STANDING, {}),
        (2, None, {}),
        (2, STANDING, {"time_budget_s": 60.0, "budget_scope": BudgetScope.WHOLE_PLAN}),
    ],
)
def test_who_does_not_wait_or_may_not_ends(max_replans: int, situation: Situation | None, request_: dict):
    loop = make_loop(max_replans=max_replans)
    loop.submit(make_request(**request_), 0.0)
    written(loop)
    (end,) = loop.report(failed(0, situation), 1.0)
    assert end.result.error_code is ErrorCode.SKILL_FAILED
    assert "replanned" not in end.result.error_msg


def test_a_plan_that_was_closed_in_time_stays_closed():
    loop = make_loop()
    loop.submit(make_request(), 0.0)
    written(loop)
    loop._goals["r1"].is_partial = True
    (end,) = loop.report(failed(0), 1.0)
    assert end.result.error_code is ErrorCode.SKILL_FAILED


def test_no_room_for_another_plan_is_said():
    loop = make_loop(max_model_len=0)
    loop = make_loop(max_model_len=40 + _prompt_tokens(loop))
    loop.submit(make_request(), 0.0)
    written(loop)
    (end,) = loop.report(failed(0), 1.0)
    assert end.result.error_code is ErrorCode.SKILL_FAILED
    assert "no room for another plan" in end.result.error_msg


def _prompt_tokens(loop: PlannerLoop) -> int:
    return len(loop._preparer.prepare(make_request()).sequence.prompt_token_ids)


def test_no_plan_is_no_way():
    loop = make_loop({"go": "mf(100);g(cat);", "is not visible": ""})
    attempt, _, _ = carry_out(loop)
    assert attempt.result.error_code is ErrorCode.EMPTY_PLAN


def test_a_step_that_was_decided_belongs_to_the_plan_that_failed():
    loop = make_loop(policy="fcfs_stream")
    loop.submit(make_request(), 0.0)
    events = []
    while len(texts(events)) < 2:
        events += loop.step(0.0)
    loop._scheduled = loop._scheduler.schedule(0.1)
    assert "r1" in loop._scheduled.num_scheduled_tokens
    assert loop.report(failed(1), 0.1) == []
    late = loop.step(0.1)
    assert texts(late)[-1] == ""
    assert texts(written(loop)) == ["tc(45);", "mu(50);"]


def test_one_of_two_failures_while_a_decided_step_waits_counts():
    loop = make_loop(policy="fcfs_stream")
    loop.submit(make_request(), 0.0)
    events = []
    while len(texts(events)) < 3:
        events += loop.step(0.0)
    loop._scheduled = loop._scheduler.schedule(0.1)
    assert loop.report(failed(0), 0.1) == []
    assert loop.report(failed(1), 0.1) == []
    assert loop.report(succeeded("r1", 2), 0.1) == []
    events += [*loop.step(0.1), *written(loop)]
    assert texts(events) == ["mf(100);", "g(cat);", "tc(90);", "", "tc(45);", "mu(50);"]
    assert loop._goals["r1"].failures == [failed(0)]


@pytest.mark.parametrize("late", [succeeded("r1", 3), failed(3)])
def test_a_plan_whose_last_segment_failed_does_not_end_well_while_a_decided_step_waits(late: SegmentReport):
    loop = make_loop(policy="fcfs_stream")
    loop.submit(make_request(), 0.0)
    written(loop)
    loop.submit(make_request("r2"), 0.0)
    loop._scheduled = loop._scheduler.schedule(0.1)
    assert loop.report(failed(3), 0.1) == []
    assert loop.report(late, 0.1) == []
    assert "" in texts(loop.step(0.1))


def test_the_end_of_a_plan_that_has_failed_is_not_read():
    loop = make_loop({"go": "mf(100);", "did not work": "tc(45);"}, policy="fcfs_stream")
    loop.submit(make_request(), 0.0)
    events = []
    while not texts(events):
        events += loop.step(0.0)
    loop._scheduled = loop._scheduler.schedule(0.1)  # yields the end of the plan
    assert loop.report(failed(0), 0.1) == []
    (replan,) = loop.step(0.1)
    assert replan.segment.is_replan
    assert texts(written(loop)) == ["tc(45);"]


def test_a_segment_fails_while_a_statement_behind_it_is_held_back():
    instruction = "go to the chair, fly forward, then fly up 70 cm and say done"
    plans = {instruction: "g(chair);mf(100);mu(70);l('done');", "did not work": "mu(70);l('done');"}
    loop = make_loop(plans, policy="fcfs_stream", checks=instruction_checks)
    loop.submit(make_request(instruction=instruction, scene="chair"), 0.0)
    events = []
    while not loop._goals["r1"].session._plan.session._held:  # how far forward, the end of the plan may say
        events += loop.step(0.0)
    events += loop.report(failed(0, Situation(scene="chair", pose=Pose(z_m=1.0)), reason="g: did not work"), 0.1)
    assert texts(events) == ["g(chair);", ""]
    assert texts(written(loop, 0.1))[-1] == "l('done');"


def test_a_replan_that_cannot_be_sent_ends_that_goal_and_no_other():
    loop = make_loop(policy="fcfs_stream")
    for request_id in ("r1", "r2"):
        loop.submit(make_request(request_id), 0.0)
    written(loop)
    loop._goals["r1"].execution.deliver = lambda *_: 1 / 0
    (end,) = loop.report(failed(1), 1.0)
    assert end.result.error_code is ErrorCode.ENGINE_FAILED
    assert tuple(loop.request_ids) == ("r2",)


def test_an_exception_while_replanning_ends_that_goal_and_no_other():
    loop = make_loop(policy="fcfs_stream")
    for request_id in ("r1", "r2"):
        loop.submit(make_request(request_id), 0.0)
    written(loop)
    loop._goals["r1"].begin_replan = lambda _: 1 / 0
    (end,) = loop.report(failed(1), 1.0)
    assert end.result.error_code is ErrorCode.ENGINE_FAILED
    assert tuple(loop.request_ids) == ("r2",)


def test_a_goal_that_ended_meanwhile_takes_no_replan():
    loop = make_loop(policy="fcfs_stream")
    loop.submit(make_request(), 0.0)
    events = []
    while not texts(events):
        events += loop.step(0.0)
    loop._scheduled = loop._scheduler.schedule(0.1)
    assert loop.report(failed(0), 0.1) == []
    loop.cancel("r1")
    assert not [e for e in (*loop.step(0.1), *written(loop)) if isinstance(e, SegmentReady | Finished)]


@pytest.mark.parametrize(
    ("pose", "code"),
    [
        (Pose(x_m=1.0, z_m=1.0), None),
        (Pose(x_m=9.5, z_m=1.0), ErrorCode.GEOFENCE_VIOLATED),  # a metre on would be outside
        (None, ErrorCode.GEOFENCE_VIOLATED),  # it could be anywhere
    ],
)
def test_the_gate_goes_on_from_where_the_robot_is(pose: Pose | None, code: ErrorCode | None):
    loop = make_loop({"go": "g(cat);", "is not visible": "mf(100);"})
    loop.submit(make_request(), 0.0)
    written(loop)
    loop.report(failed(0, Situation(pose=pose)), 1.0)
    events = written(loop)
    ends = [event.result.error_code for event in events if isinstance(event, Finished)]
    assert ends == ([] if code is None else [code])


def test_variables_are_known_as_far_as_they_were_assigned():
    new_plan = "?_1==True{mu(50);}->_2;"
    plans = {"go": "_1=iv(dog);g(cat);_2=iv(dog);", "is not visible": new_plan}
    loop = make_loop(plans, policy="fcfs_stream")
    loop.submit(make_request(), 0.0)
    written(loop)
    loop.report(succeeded("r1", 0), 0.5)
    loop.report(failed(1), 1.0)
    events = written(loop)
    assert texts(events) == ["?_1==True{mu(50);}"]
    assert events[-1].result.error_code is ErrorCode.INVALID_ARGUMENT  # _2 was in what is void
