# SPDX-License-Identifier: Apache-2.0
"""Robots whose reports come twice, late, out of order or never: nothing is lost, and every goal ends once."""

import heapq

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady
from tests.serving.builders import failed, make_loop, make_request, started, succeeded

SILENCE_S = 20.0
PLAN = "a();scan();fast();b();"
NUM_SEGMENTS = 4

fates = st.lists(  # of each report: how often it arrives, and how late each time
    st.lists(st.floats(0.0, 6.0), max_size=3), min_size=2 * NUM_SEGMENTS, max_size=2 * NUM_SEGMENTS
)


class Robot:
    """Takes a second and a half per segment; its network does what it likes with the reports."""

    def __init__(self, fates):
        self.fates = fates
        self.idle_at_s = 0.0
        self.letters = []  # heap of (arrival, number, report)

    def take(self, segment, now_s):
        start_s = max(now_s, self.idle_at_s)
        self.idle_at_s = start_s + 1.5
        self._post(start_s, 2 * segment.index, started("r1", segment.index))
        self._post(self.idle_at_s, 2 * segment.index + 1, succeeded("r1", segment.index, 1.5))

    def _post(self, sent_s, number, report):
        for delay_s in self.fates[number]:
            heapq.heappush(self.letters, (sent_s + delay_s, number, len(self.letters), report))


def run(fates, policy="fcfs_segment"):
    """Returns the events, and the numbers of the letters that came while the goal lived."""
    loop = make_loop({"go": PLAN}, policy=policy, silence_timeout_s=SILENCE_S)
    robot, events, received, now_s = Robot(fates), [], [], 0.0

    def note(new):
        events.extend(new)
        for event in new:
            if isinstance(event, SegmentReady):
                robot.take(event.segment, now_s)

    note(loop.submit(make_request("r1", "go"), now_s))
    for _ in range(10_000):
        wakeup_s = loop.next_wakeup_s(now_s)
        if robot.letters and (wakeup_s is None or robot.letters[0][0] <= wakeup_s):
            at_s, number, _, report = heapq.heappop(robot.letters)
            now_s = max(now_s, at_s)
            received += [number] if loop.request_ids else []
            note(loop.report(report, now_s))
        elif wakeup_s is None:
            return events, received
        else:
            now_s = max(wakeup_s, now_s + 0.01)
            note(loop.step(now_s))
    raise AssertionError("the goal never ends")


@settings(max_examples=150)
@given(fates=fates, policy=st.sampled_from(("fcfs", "fcfs_stream", "fcfs_segment", "pud", "tardiness")))
def test_whatever_becomes_of_reports_the_plan_is_delivered_and_the_goal_ends_once(fates, policy):
    events, received = run(fates, policy)
    ends = [event for event in events if isinstance(event, Finished)]
    assert len(ends) == 1
    assert events[-1] is ends[0]
    result = ends[0].result
    delivered = [event.segment.index for event in events if isinstance(event, SegmentReady)]
    assert delivered == list(range(len(delivered)))
    assert [segment.index for segment in result.segments] == delivered
    if result.error_code is ErrorCode.NONE:
        assert 2 * NUM_SEGMENTS - 1 in received  # the end of the last segment implies all before it
        assert len(delivered) == NUM_SEGMENTS
        assert sum(isinstance(event, PlanComplete) for event in events) == 1
    else:
        assert result.error_code is ErrorCode.ROBOT_SILENT
        assert 2 * NUM_SEGMENTS - 1 not in received


def test_a_robot_that_never_reports_gets_its_whole_plan_and_then_counts_as_silent():
    events, _ = run([[]] * 2 * NUM_SEGMENTS)
    assert sum(isinstance(event, SegmentReady) for event in events) == NUM_SEGMENTS
    assert events[-1].result.error_code is ErrorCode.ROBOT_SILENT


def test_reports_of_a_goal_that_has_ended_count_nothing():
    loop = make_loop({"go": "a();"})
    loop.submit(make_request("r1", "go"), 0.0)
    loop.cancel("r1")
    for report in (started("r1", 0), succeeded("r1", 0), failed("r1", 0, "too late")):
        assert loop.report(report, 1.0) == []
