# SPDX-License-Identifier: Apache-2.0
"""A loop that takes goals over from one that died: it goes on behind the segments that were delivered."""

import pytest

from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import Urgency
from llm_planner.serving.events import Finished
from llm_planner.serving.goal_record import GoalRecord
from tests.serving.builders import make_loop, make_request, make_segment, succeeded
from tests.serving.loop_run import Run


def test_goes_on_behind_delivered_segments():
    plan = "a(1);b(2);c(3);d(4);"
    run = Run(make_loop({"go": plan}))
    delivered = tuple(make_segment(i, text) for i, text in enumerate(("a(1);", "b(2);")))
    record = GoalRecord(
        request=make_request(delivered=delivered),
        arrival_s=-2.0,
        delivered_at_s=(-1.5, -0.5),
        reports=((-0.5, succeeded("r1", 0)),),
    )
    run.take(run.loop.open(record, 0.0))
    run.go()
    assert run.texts() == ["c(3);", "d(4);"]
    result = run.result()
    assert result.plan == plan
    assert result.metrics.response_time_s == pytest.approx(0.5)


def test_a_complete_plan_only_waits_for_its_robot():
    run = Run(make_loop({"go": "a(1);"}), reports=False)
    request = make_request(delivered=(make_segment(0, "a(1);"),))
    run.take(run.loop.open(GoalRecord(request=request, arrival_s=0.0, delivered_at_s=(0.5,), is_complete=True), 1.0))
    run.take(run.loop.step(1.0))
    assert run.events == []
    run.take(run.loop.report(succeeded("r1", 0), 1.6))
    assert run.result().error_code is ErrorCode.NONE


def test_nothing_is_generated_behind_a_delivered_return():
    run = Run(make_loop({"go": "a(1);->1;"}), reports=False)
    delivered = (make_segment(0, "a(1);"), make_segment(1, "->1;"))
    run.take(run.loop.submit(make_request(delivered=delivered), 0.0))
    run.take(run.loop.report(succeeded("r1", 1), 1.0))
    assert [type(e) for _, e in run.events] == [Finished]
    assert run.result().error_code is ErrorCode.NONE


def test_reports_from_before_a_restart_count():
    run = Run(make_loop({"go": "a(1);b(2);"}), reports=False)
    delivered = (make_segment(0, "a(1);"), make_segment(1, "b(2);"))
    record = GoalRecord(
        request=make_request(delivered=delivered),
        arrival_s=-3.0,
        delivered_at_s=(-2.5, -1.5),
        reports=((-1.4, succeeded("r1", 0)), (-0.4, succeeded("r1", 1))),
        is_complete=True,
    )
    run.take(run.loop.open(record, 0.0))
    assert run.result().error_code is ErrorCode.NONE
    assert run.result().metrics.response_time_s == pytest.approx(0.5)


def test_delivered_tokens_count_as_tokens():
    delivered = tuple(make_segment(i, "a(1);") for i in range(3))  # 15 bytes: 5 tokens
    run = Run(make_loop({"go": "a(1);" * 40}), seconds=0.0)
    run.take(run.loop.submit(make_request(delivered=delivered, max_tokens=20), 0.0))
    run.go()
    assert run.result().error_code is ErrorCode.PLAN_TRUNCATED
    assert run.result().error_msg == "the plan had 20 tokens and no end; raise max_tokens"
    assert run.result().metrics.num_output_tokens == 15


@pytest.mark.parametrize("policy", ["fcfs_segment", "tardiness_safe", "a_min"])
def test_a_goal_that_had_written_all_it_may_ends_and_harms_no_other(policy):
    run = Run(make_loop({"go": "a(1);" * 40, "other": "b(2);c(3);"}, policy=policy), seconds=0.0)
    run.submit("other", "other")
    delivered = tuple(make_segment(i, "a(1);") for i in range(6))  # 30 bytes: 10 tokens
    request = make_request(delivered=delivered, max_tokens=10)
    run.take(run.loop.open(GoalRecord(request=request, arrival_s=0.0, delivered_at_s=(0.0,) * 6), 0.0))
    run.go()
    assert run.result().error_code is ErrorCode.PLAN_TRUNCATED
    assert run.result().error_msg == "the plan had 10 tokens and no end; raise max_tokens"
    assert run.result().segments == delivered
    assert run.result("other").error_code is ErrorCode.NONE


def test_a_complete_plan_of_all_the_tokens_that_it_may_have_waits_for_its_robot():
    run = Run(make_loop({"go": "a(1);"}, policy="tardiness_safe"), reports=False)
    request = make_request(delivered=tuple(make_segment(i, "a(1);") for i in range(6)), max_tokens=10)
    record = GoalRecord(request=request, arrival_s=0.0, delivered_at_s=(0.0,) * 6, is_complete=True)
    run.take(run.loop.open(record, 1.0))
    run.submit("other", "go")
    run.take(run.loop.step(1.0))
    run.take(run.loop.report(succeeded("r1", 5), 1.6))
    assert run.result().error_code is ErrorCode.NONE


def test_what_was_delivered_before_counts_where_goals_are_ranked():
    """A robot that is busy for a minute waits for nothing, however long ago its goal came."""
    run = Run(make_loop({"go": "a(1);b(2);"}, policy="tardiness", max_num_seqs=1))
    delivered = (make_segment(0, "a(1);", seconds=60.0),)
    record = GoalRecord(request=make_request(delivered=delivered), arrival_s=-95.0, delivered_at_s=(-1.0,))
    run.take(run.loop.open(record, 0.0))
    (generation,) = run.loop._scheduler.generations
    assert generation.num_segments == 1
    assert generation.robot_idle_at_s == pytest.approx(59.0, abs=0.1)
    run.submit("urgent", "go", urgency=Urgency.URGENT)
    run.go(until_s=0.5)
    assert next(event.request_id for _, event in run.events) == "urgent"
