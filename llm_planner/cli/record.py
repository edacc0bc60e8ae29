# SPDX-License-Identifier: Apache-2.0
"""``llm-planner record``: a running planner and its robots into an MCAP file."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.options import PlannerOption
from llm_planner.cli.output import console, error_console
from llm_planner.cli.stop_signal import StopSignal
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import counted


def record(
    path: Annotated[Path, typer.Argument(help="The file to write, e.g. run.mcap; it must not exist yet.")],
    planner: PlannerOption = "/planner",
    duration: Annotated[float | None, typer.Option(min=0.1, help="Seconds; until Ctrl-C if not given.")] = None,
) -> None:
    """Record all topics of a running planner and its robots until Ctrl-C, for `replay`, Foxglove and `ros2 bag`.

    What was received is written every second: a recording that is killed can be read as far as it goes. `trace record`
    writes a planner's goals alone, to be replayed under another policy. Exit status 1 and no file if no message came.

    Example: llm-planner record flight.mcap
    """
    from llm_planner.monitoring.recorder import McapRecorder
    from llm_planner.ros.fleet_recorder import FleetRecorder
    from llm_planner.ros.spinning import spinning

    stop = StopSignal()
    with (
        error_console.status(f"waiting for {planner}; Ctrl-C ends") as status,
        spinning("llm_planner_recorder") as node,
    ):
        file = McapRecorder(path)  # not before: where ROS cannot start, there is no file
        recorder = FleetRecorder(node, planner, file, lambda n: status.update(f"{counted(n, 'message')}; Ctrl-C ends"))
        waited_s = 0.0
        while recorder.failure is None and not stop.wait(0.2) and (duration is None or waited_s < duration):
            waited_s += 0.2
    if recorder.failure is not None:
        raise recorder.failure
    file.close()
    if not file.num_messages:
        path.unlink()
        hint = "start one with `llm-planner up`, or give its name with --planner"
        raise PlannerError(
            ErrorCode.SERVER_UNREACHABLE, f"nothing was recorded: no message of {planner} or a robot came; {hint}"
        )
    wrote = f"{counted(file.num_messages, 'message')} of {counted(len(recorder.topics), 'topic')}"
    console.print(f"wrote {wrote} to {path}", soft_wrap=True)
