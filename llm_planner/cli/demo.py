# SPDX-License-Identifier: Apache-2.0
"""``llm-planner demo``: a small fleet, each robot its own process, flies goals that are held out from training."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from llm_planner.cli.options import ModelOption, PolicyOption, SeedOption
from llm_planner.cli.output import console, writing
from llm_planner.cli.simulator import SimOption, Simulator, physical_world
from llm_planner.configuration import load_config
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.extras import has_extra
from llm_planner.core.request import PlanMetrics
from llm_planner.demo.embodied import as_left, waypoints
from llm_planner.demo.goal_tests import judge
from llm_planner.demo.goals import DemoGoal, DemoOutcome, ReflexTimes, SegmentTimes, draw_goals, write_report
from llm_planner.demo.outcome import Executed, distinct
from llm_planner.demo.task import DEFAULT_SEED
from llm_planner.robots.interpreter import Outcome
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.reflex import nearest
from llm_planner.robots.world import WorldObject

if TYPE_CHECKING:
    from llm_planner.msg import PlanOutcome
    from llm_planner.ros.commander import Commander
    from llm_planner.srv import Instruct

START_TIMEOUT_S = 90.0
GOAL_TIMEOUT_S = 90.0


def demo(
    out: Annotated[Path, typer.Option(help="Where summary.json, timeline.png and .json, and the logs go.")] = Path(
        "demo_out"
    ),
    model: ModelOption = None,
    policy: PolicyOption = None,
    seed: SeedOption = DEFAULT_SEED,
    sim: SimOption = Simulator.KINEMATIC,
) -> None:
    """Start a planner, three drones and an arm, and let them carry out thirteen goals, three of them emergencies.

    Two emergencies have a time budget that the planner keeps; the third one's is so short that it refuses, and the
    drone's reflex acts.

    The tasks are drawn from what the templates of training hold out. The bundled model solves all goals of the default
    seed; other seeds show its success rate (models/planner-small/README.md). With --sim mujoco robots have bodies, and
    things are solid and hide each other. Exit status 0 if every goal ended as it should.

    Example: llm-planner demo

    Example: llm-planner demo --sim mujoco
    """
    from llm_planner.assembly import require_usable
    from llm_planner.ros.commander import Commander
    from llm_planner.ros.composition import PLANNER, Composition, Fleet
    from llm_planner.ros.spinning import spinning

    overrides = {name: value for name, value in (("engine.model", model), ("scheduler.policy", policy)) if value}
    require_usable(settings := load_config(overrides=overrides))
    world = physical_world(sim, "")
    goals = draw_goals(seed)
    if world is not None:
        goals = {
            name: [replace(goal, task=goal.task.embodied(), has_body=True) for goal in row]
            for name, row in goals.items()
        }
    composition = Composition(drones=3, arms=1, seed=seed, planner=overrides, world=world)
    logs = out / "logs"
    with writing(out):
        logs.mkdir(parents=True, exist_ok=True)
    with Fleet(composition.commands(), log_dir=logs) as fleet, spinning("llm_planner_demo") as node:
        commander = Commander(node, list(goals))
        with console.status("starting the planner and four robots, each a ROS 2 process"):
            try:
                commander.wait_until_ready(START_TIMEOUT_S, sign_of_life_s=START_TIMEOUT_S)
            except PlannerError as error:
                reason = fleet.last_words(PLANNER) or error
                raise PlannerError(reason.code, f"the fleet did not start: {reason.message}; see {logs}") from error
        show = _Progress(goals)
        outcomes = _run(commander, goals, show)
        status = commander.status
        if (ended := fleet.first_ended()) is not None:
            console.print(f"[red]process {ended[0]} ended with status {ended[1]}[/]; see {logs}")
    assert status is not None
    write_report(
        outcomes,
        out,
        policy=status.policy,
        model=status.model,
        seed=seed,
        network_latency_s=settings.scheduler.network_latency_s,
    )
    num_good = sum(outcome.is_as_expected for outcome in outcomes)
    for outcome in outcomes:
        if not outcome.is_as_expected:
            asked = f"{outcome.goal.tag}: {outcome.goal.task.instruction!r}"
            got = f"{outcome.plan} {outcome.error_msg} {outcome.reason}"
            console.print(f"{asked}\n    {got}", style="red", markup=False, soft_wrap=True)
    drawn = out / ("timeline.png" if has_extra("matplotlib") else "timeline.json")
    console.print(f"{num_good} of {len(outcomes)} goals ended as they should; look at {drawn}")
    raise typer.Exit(0 if num_good == len(outcomes) == sum(map(len, goals.values())) else 1)


def _run(commander: "Commander", goals: dict[str, list[DemoGoal]], show: "_Progress") -> list[DemoOutcome]:
    """Returns the outcomes of all goals; each robot works through its own list in a thread of its own."""
    outcomes: dict[str, DemoOutcome] = {}
    start_s = time.time()
    errors: list[PlannerError] = []

    def work(robot: str) -> None:
        try:
            for outcome in _work_through(commander, goals[robot], start_s, show):
                outcomes[outcome.goal.tag] = outcome
        except PlannerError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(robot,), daemon=True) for robot in goals]
    with (
        Live(get_renderable=show.table, console=console, refresh_per_second=4) if console.is_terminal else nullcontext()
    ):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return [outcomes[goal.tag] for robot in goals.values() for goal in robot if goal.tag in outcomes]


def _work_through(
    commander: "Commander", goals: list[DemoGoal], start_s: float, show: "_Progress"
) -> Iterator[DemoOutcome]:
    """Yields the outcomes of one robot's goals; an emergency does not wait for the goal before it."""
    waiting: list[DemoGoal] = []
    begun_s = time.monotonic()
    for number, goal in enumerate(goals):
        time.sleep(max(0.0, begun_s + goal.at_s - time.monotonic()))
        show.set(goal, "sent")
        commander.instruct(goal.robot, _order(goal))
        waiting.append(goal)
        is_overtaken = number + 1 < len(goals) and goals[number + 1].at_s > 0
        while waiting and not is_overtaken:
            first = waiting.pop(0)
            asked_s = time.monotonic() - begun_s
            message = commander.outcome(first.tag, GOAL_TIMEOUT_S)
            outcome = _read(first, message, start_s) if message is not None else _silent(first, asked_s)
            show.end(outcome)
            yield outcome


def _order(goal: DemoGoal) -> "Instruct.Request":
    """Returns the goal as a request. An overtaking emergency meets the robot in the world where it is."""
    from llm_planner.ros.snapshot import Snapshot
    from llm_planner.srv import Instruct

    world = goal.world
    threats = (goal.threat,) if goal.threat is not None else ()
    snapshot = Snapshot(objects=(*world.objects.values(), *threats), answers=world.answers)
    return Instruct.Request(
        instruction=goal.task.instruction,
        scene=goal.task.scene or " ",  # blank: the task brings no scene, and the robot shall not describe its own
        urgency=goal.urgency.value,
        time_budget_s=goal.time_budget_s or 0.0,
        world="" if goal.at_s > 0 else snapshot.to_json(),
        tag=goal.tag,
    )


def _read(goal: DemoGoal, message: "PlanOutcome", start_s: float) -> DemoOutcome:
    """Returns the outcome with the verdict of the goal test on what the robot really did."""
    from llm_planner.ros.conversions import to_error
    from llm_planner.ros.metrics import to_metrics
    from llm_planner.ros.robot_control import ReflexCause

    def seconds(stamp: object) -> float:
        return float(stamp.sec + stamp.nanosec * 1e-9 - start_s)  # type: ignore[attr-defined]

    segments = tuple(
        SegmentTimes(
            text=s.segment.text,
            generation_time_s=s.segment.generation_time_s,
            received_s=seconds(s.received_at),
            started_s=seconds(s.started_at) if s.started_at.sec else None,
            finished_s=seconds(s.finished_at) if s.finished_at.sec else None,
            is_interrupted=bool(s.started_at.sec) and s.status != s.SUCCEEDED,
        )
        for s in message.segments
    )
    code, error_msg = to_error(message.error_code, message.error_msg)
    if goal.threat is not None:
        is_success, reason = _kept_away(goal.threat, message.world)
    else:
        is_success, reason = (False, "") if code is not ErrorCode.NONE else _verdict(goal, message)
    metrics: PlanMetrics = to_metrics(message.metrics)
    return DemoOutcome(
        goal=goal,
        error_code=code,
        error_msg=error_msg,
        plan=message.plan,
        metrics=metrics,
        asked_s=seconds(message.asked_at),
        ended_s=seconds(message.finished_at),
        segments=segments,
        reflexes=tuple(
            ReflexTimes(
                cause=ReflexCause(reflex.cause).name,
                reason=reflex.reason,
                action=reflex.action,
                started_s=seconds(reflex.started_at),
                finished_s=seconds(reflex.finished_at),
            )
            for reflex in message.reflexes
        ),
        is_success=is_success,
        reason=reason,
    )


def _silent(goal: DemoGoal, asked_s: float) -> DemoOutcome:
    return DemoOutcome(
        goal=goal,
        error_code=ErrorCode.ROBOT_SILENT,
        error_msg=f"no outcome within {GOAL_TIMEOUT_S:g} s",
        plan="",
        metrics=PlanMetrics(),
        asked_s=asked_s,
        ended_s=asked_s + GOAL_TIMEOUT_S,
        segments=(),
        is_success=False,
        reason="",
    )


def _kept_away(threat: WorldObject, world_json: str) -> tuple[bool, str]:
    """Returns whether a robot ended farther from a threat than its reflex distance, and why not."""
    from llm_planner.ros.snapshot import Snapshot

    pose = Snapshot.from_json(world_json).pose
    rule = RobotLibrary().get("tello").reflex
    assert pose is not None
    assert rule is not None
    came = nearest(pose, [threat], threat.moves_for_s)
    is_away = came is None or came.distance_m > rule.distance_m
    return is_away, "" if is_away else f"{threat.name} came as near as {came.distance_m:.2f} m" if came else ""


def _verdict(goal: DemoGoal, message: "PlanOutcome") -> tuple[bool, str]:
    from llm_planner.ros.conversions import to_value
    from llm_planner.ros.snapshot import Snapshot

    snapshot = Snapshot.from_json(message.world)
    values = [value for segment in message.segments if (value := to_value(segment.value)) is not None]
    assert snapshot.pose is not None
    outcome = Outcome(is_success=True, reason="", value=None, calls=snapshot.calls, duration_s=0.0, wants_replan=False)
    start, poses = goal.world, list(snapshot.waypoints)
    done = Executed(
        outcome=outcome,
        world=as_left(snapshot.world.objects, start) if goal.has_body else snapshot.world,
        start=start,
        pose=snapshot.pose,
        held=snapshot.held,
        said=snapshot.said,
        pictures=snapshot.pictures,
        waypoints=waypoints(poses) if goal.has_body else distinct(poses),
        answer=values[-1] if values and "->" in message.plan else None,
    )
    return judge(goal.task, done, RobotLibrary().get(goal.task.robot))


@dataclass(slots=True)
class _Progress:
    """What the terminal shows while the demo runs."""

    goals: dict[str, list[DemoGoal]]
    states: dict[str, str] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)

    def set(self, goal: DemoGoal, state: str) -> None:
        """Notes a state of a goal."""
        self.states[goal.tag] = state

    def end(self, outcome: DemoOutcome) -> None:
        """Notes how a goal ended."""
        mark = "[green]as it should[/]" if outcome.is_as_expected else "[red]not as it should[/]"
        response_s = outcome.metrics.response_time_s
        shown = f"first segment after {1000 * response_s:.0f} ms" if response_s is not None else "no segment"
        if outcome.goal.time_budget_s is not None:
            shown += f" of {1000 * outcome.goal.time_budget_s:.0f} ms"
        if outcome.reflexes:
            shown += f", reflex {outcome.reflexes[0].action}"
        self.states[outcome.goal.tag] = f"{mark} ({outcome.error_code.name.lower()}), {shown}"
        self.plans[outcome.goal.tag] = outcome.plan
        if not console.is_terminal:
            console.print(f"{outcome.goal.tag}: {outcome.plan}  {self.states[outcome.goal.tag]}", soft_wrap=True)

    def table(self) -> Table:
        """Returns the table of all goals."""
        table = Table("robot", "goal", "plan", "state", title="llm_planner demo")
        for robot, goals in self.goals.items():
            for goal in goals:
                style = "bold red" if goal.urgency.name == "URGENT" else ""
                instruction = json.dumps(goal.task.instruction, ensure_ascii=False)[1:-1].replace("[", "\\[")
                plan = self.plans.get(goal.tag, "").replace("[", "\\[")
                table.add_row(
                    robot, f"[{style}]{instruction}[/]" if style else instruction, plan, self.states.get(goal.tag, "")
                )
            table.add_section()
        return table
