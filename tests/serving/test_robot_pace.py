# SPDX-License-Identifier: Apache-2.0
"""The loop learns how slow a robot is, and says so with the segments that it sends: the next goal profits too."""

import pytest

from llm_planner.core.request import Urgency
from llm_planner.core.segment import ReportStatus, SegmentReport
from llm_planner.serving.events import SegmentReady
from tests.serving.builders import make_loop, make_request


def carry_out(loop, request, seconds, now_s=0.0):
    """Returns the expected medians of a plan's segments, each of which takes the robot the given time."""
    events, expected = loop.submit(request, now_s), []
    while loop.request_ids:
        for event in events:
            if isinstance(event, SegmentReady):
                expected.append(event.segment.expected.p50_s)
                now_s += seconds
                report = SegmentReport(
                    request_id=request.request_id,
                    index=event.segment.index,
                    status=ReportStatus.SUCCEEDED,
                    duration_s=seconds,
                )
                loop.report(report, now_s)
        now_s = max(now_s, loop.next_wakeup_s(now_s) or now_s)
        events = loop.step(now_s)
    return expected, now_s


def test_a_slow_robot_is_learned_and_others_are_not():
    loop = make_loop({"go": "a();" * 12})
    expected, now_s = carry_out(loop, make_request("r1", robot_id="slow"), 2.0)
    assert expected[:2] == [1.0, 1.0]
    assert expected[-1] == pytest.approx(2.0)
    again, now_s = carry_out(loop, make_request("r2", robot_id="slow"), 2.0, now_s)
    assert again == pytest.approx([2.0] * 12)
    other, _ = carry_out(loop, make_request("r3", robot_id="quick"), 1.0, now_s)
    assert other == [1.0] * 12


def test_what_a_person_reads_is_not_the_robots_pace():
    loop = make_loop({"go": "a();" * 6})
    expected, _ = carry_out(loop, make_request("r1", robot_id="r", urgency=Urgency.CHAT), 3.0)
    assert expected == [1.0] * 6
