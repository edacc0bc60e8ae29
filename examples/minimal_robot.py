# SPDX-License-Identifier: Apache-2.0
"""The smallest robot: asks for a plan, pretends to carry it out, and reports. Needs a planner (`llm-planner up`)."""

import sys

from llm_planner.client import PlannerClient, ReportStatus, spinning


def main(instruction: str = "look for the chair, then take a picture", planner: str = "/planner") -> int:
    """Has one instruction planned and carried out; returns the error code, 0 if all went well."""
    with spinning("minimal_robot") as node:
        handle = PlannerClient(node, "tello", planner=planner).plan(instruction, scene="chair, table")
        for segment in handle:  # each exactly once and in order, as soon as it is planned; none after a cancel
            handle.report(segment, ReportStatus.STARTED)
            print("carries out", segment.text)  # a robot would run segment.calls here
            handle.report(segment, ReportStatus.SUCCEEDED, duration_s=0.01)
        result = handle.result()
        print(result.error_msg or "done")
        return int(result.error_code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
