# SPDX-License-Identifier: Apache-2.0
"""What a record of a request becomes in the picture."""

from llm_planner.core.errors import ErrorCode
from llm_planner.core.time_utility import NORMAL
from llm_planner.monitoring.timeline import ENGINE_ROW, SpanKind
from llm_planner_lab.bench.run_timeline import spans_of, spans_of_run
from llm_planner_lab.simulation.records import RequestRecord, RunRecord, SegmentTimes, StepTimes

SEGMENTS = [SegmentTimes(1.5, 1.6, 3.0, 0.5), SegmentTimes(2.9, 3.2, 5.0, 0.1), SegmentTimes(3.1, 5.0, 6.0, 0.1)]


def make_record(segments=(), **changes):
    fields = {"urgency": "normal", "task": 3, "time_utility": NORMAL, "arrival_s": 1.0, "bound_s": 0.1} | changes
    return RequestRecord(request_id="r1", robot_id="drone_1", segments=list(segments), **fields)


def shown(record, *kinds):
    spans = (span for span in spans_of(record) if span.kind in kinds)
    return [(span.start_s, span.end_s, span.is_interrupted) for span in spans]


def test_waiting_and_execution_in_turns_and_generation_before_delivery():
    record = make_record(SEGMENTS, finished_s=6.0)
    assert shown(record, SpanKind.EXECUTION) == [(1.6, 3.0, False), (3.2, 5.0, False), (5.0, 6.0, False)]
    assert shown(record, SpanKind.WAITING) == [(1.0, 1.6, False), (3.0, 3.2, False)]
    assert shown(record, SpanKind.GENERATION)[0] == (1.0, 1.5, False)
    assert len(shown(record, SpanKind.GENERATION)) == 3


def test_a_goal_that_ends_in_mid_execution_interrupts_it_and_what_follows_is_not_carried_out():
    record = make_record(SEGMENTS, finished_s=4.0, error_code=ErrorCode.SUPERSEDED)
    assert shown(record, SpanKind.EXECUTION) == [(1.6, 3.0, False), (3.2, 4.0, True)]
    assert len(shown(record, SpanKind.GENERATION)) == 3


def test_a_goal_that_got_nothing_waited_in_vain():
    record = make_record(finished_s=2.0, error_code=ErrorCode.BUDGET_EXCEEDED)
    assert shown(record, SpanKind.WAITING) == [(1.0, 2.0, True)]
    assert list(spans_of(make_record())) == []


def test_the_engine_has_its_steps():
    steps = (StepTimes(1.0, 0.2, 114, 0), StepTimes(1.2, 0.02, 0, 1))
    run = RunRecord(requests=[make_record(SEGMENTS)], busy_s=0.22, end_s=6.0, num_steps=2, steps=steps)
    engine = [span for span in spans_of_run(run) if span.row == ENGINE_ROW]
    assert [(s.start_s, s.end_s, s.details["prompt tokens"]) for s in engine] == [(1.0, 1.2, 114), (1.2, 1.22, 0)]
