# SPDX-License-Identifier: Apache-2.0
"""Lines of the event log: what a recorder, or a robot team's own tool, can rely on."""

import json

from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanMetrics, PlanResult, Urgency
from llm_planner.core.segment import ExpectedDuration, ReportStatus, Segment, SegmentReport
from llm_planner.serving import event_log
from tests.serving.builders import make_request


def test_every_event_is_one_line_of_json_with_time_and_goal():
    request = make_request(urgency=Urgency.URGENT, start_pose=Pose(x_m=1.0))
    expected = ExpectedDuration(min_s=0.5, p50_s=1.5, p90_s=2.0)
    segment = Segment(index=0, text="mf(50);", calls=(), expected=expected, num_tokens=5, generation_time_s=0.2)
    report = SegmentReport(request_id="r1", index=0, status=ReportStatus.SUCCEEDED, duration_s=1.25)
    metrics = PlanMetrics(num_prompt_tokens=60, num_cached_tokens=48)
    lines = [
        event_log.accepted(request, 1.0),
        event_log.segment_sent("r1", segment, 2.0),
        event_log.reported(report, 3.0),
        event_log.finished(PlanResult(request_id="r1", error_code=ErrorCode.NONE, metrics=metrics), 4.0),
    ]
    assert [line["event"] for line in lines] == ["accepted", "segment", "report", "finished"]
    assert [line["time_s"] for line in lines] == [1.0, 2.0, 3.0, 4.0]
    assert {line["request_id"] for line in lines} == {"r1"}
    assert [json.loads(json.dumps(line)) for line in lines] == lines
    assert (lines[0]["urgency"], lines[0]["start_pose"]["x_m"]) == ("urgent", 1.0)
    assert (lines[1]["text"], lines[1]["expected_s"], lines[1]["generation_s"]) == ("mf(50);", 1.5, 0.2)
    assert (lines[2]["status"], lines[2]["duration_s"]) == ("succeeded", 1.25)
    assert (lines[3]["error_code"], lines[3]["num_cached_tokens"]) == (0, 48)
