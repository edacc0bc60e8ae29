# SPDX-License-Identifier: Apache-2.0
"""The client library for robots (needs rclpy).

Example::

    with spinning("my_robot") as node:
        here = Pose(z_m=1.0)  # where the robot is now, from its home; the fence is counted from it
        handle = PlannerClient(node, "tello").plan("look for the chair", scene="chair, table", start_pose=here)
        for segment in handle:  # each exactly once and in order
            handle.report(segment, ReportStatus.STARTED)
            ...  # carry out segment.text, as examples/minimal_robot.py does
            handle.report(segment, ReportStatus.SUCCEEDED, duration_s=1.2)
        print(handle.result().error_code)
"""

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import ReportStatus, Segment, Situation
from llm_planner.ros.plan_handle import PlanHandle
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.spinning import spinning

__all__ = [
    "BudgetScope",
    "ErrorCode",
    "OverrunStrategy",
    "PlanHandle",
    "PlanRequest",
    "PlanResult",
    "PlannerClient",
    "PlannerError",
    "Pose",
    "ReportStatus",
    "Segment",
    "Situation",
    "Urgency",
    "spinning",
]
