# SPDX-License-Identifier: Apache-2.0
"""The smallest robot: asks for a plan, pretends to carry it out, and reports. Needs a planner (`llm-planner up`)."""

import sys
import time

from llm_planner.client import PlannerClient, Pose, ReportStatus, spinning
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.skill import SkillCall
from llm_planner.language.parser import parse
from llm_planner.robots.driver import SkillResult, SkillStatus
from llm_planner.robots.interpreter import Interpreter
from llm_planner.robots.library import RobotLibrary

CLOCK = MonotonicClock()


class PretendedDriver:
    """Carries out one skill at a time (a ``SkillDriver``); replace what is marked by your motors and sensors."""

    def start(self, call: SkillCall, _now_s: float) -> None:
        """Begins a call."""
        print("carries out", call.name, *call.arguments)  # start the motors here

    def tick(self, _now_s: float) -> SkillResult:
        """Returns how the call stands: RUNNING, SUCCEEDED with the value that it returns, or FAILED with a reason."""
        return SkillResult(SkillStatus.SUCCEEDED)  # without a value: True, so that it sees all that it looks for

    def halt(self, _now_s: float) -> None:
        """Ends the call at once; stop the motors here."""


def run(interpreter: Interpreter, text: str) -> SkillResult:
    """Carries out one segment: its conditions, loops and variables too."""
    interpreter.start(parse(text), CLOCK.now_s())
    while (result := interpreter.tick(CLOCK.now_s())).status is SkillStatus.RUNNING:
        time.sleep(0.02)
    return result


def main(instruction: str = "look for the chair, then take a picture", planner: str = "/planner") -> int:
    """Has one instruction planned and carried out; returns the error code, 0 if all went well."""
    interpreter = Interpreter(RobotLibrary().get("tello"), PretendedDriver())  # one for each plan: it has the variables
    with spinning("minimal_robot") as node:
        here = Pose(z_m=1.0)  # read your odometry here, before every goal: the fence is counted from where the robot is
        client = PlannerClient(node, "tello", planner=planner)
        handle = client.plan(instruction, scene="chair, table", start_pose=here)
        for segment in handle:  # each exactly once and in order; none after a cancel, or once one has failed
            handle.report(segment, ReportStatus.STARTED)
            started_s = CLOCK.now_s()
            result = run(interpreter, segment.text)
            handle.report(
                segment,
                ReportStatus[result.status.name],
                duration_s=CLOCK.now_s() - started_s,
                value=result.value,
                reason=result.reason,
                is_permanent=result.is_permanent,
            )
        end = handle.result()
        print(end.error_msg or "done")
        return int(end.error_code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
