# SPDX-License-Identifier: Apache-2.0
"""Fuzzed plans by the million: gate, interpreter and kinematic world against an independent check.

    python -m tests.planning.campaign --plans 1000000 --seed 0 --processes 2

Every plan has a number; with the seed it determines the plan, the robot and its world, so that one plan can be run
again (``--first 4711 --plans 1``). A plan escapes if the robot makes a call that the gate has not admitted, with an
argument outside its range, or too many calls; if it is anywhere outside its geofence or workspace, at any sampled
moment; if its driver has to stop a motion at the fence that the gate has judged; or if anything is raised but the
errors of the plan language.
"""

import argparse
import math
import multiprocessing
import random
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, replace

from llm_planner.core.errors import PlannerError
from llm_planner.core.skill import ArgumentType
from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.limits import MAX_CALLS
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.effect import Home, Land, TakeOff, Translate
from llm_planner.robots.interpreter import Interpreter
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import Pose, RobotKind
from llm_planner.robots.world import ObjectRole, World, WorldObject
from llm_planner.sim.kinematics import KinematicDriver
from tests.planning.plans import NAMES, Hostile

MODELS = tuple(map(RobotLibrary().get, ("tello", "indy7")))
NUM_SAMPLES = 12  # per motion
TOLERANCE_M = 1e-5
CHUNK = 500  # plans per task of a worker process
PIECES = ("", "0", "9", "-", ".", "5{", "}", "{", ";", ",", "(", ")", "mf(500);", "pick(cup);", "'", "_1", "_1=", "->")
WORDS = ("ld();", "home();", "?iv(cat){", "g(", "100{", "1e9", "500.0001", "19.999", "0500", "|", "&", "==", "\n", "\\")


class EscapeError(Exception):
    """A plan did what the gate should have prevented."""


class Boundary(Hostile):
    """Hostile plans whose numbers are next to the limits of their arguments."""

    def number(self, argument):
        low, high = argument.minimum, argument.maximum
        near = (low, high, math.nextafter(low, -math.inf), math.nextafter(high, math.inf), (low + high) / 2)
        return self.rng.choice(near) if self.poisoned() else self.rng.choice((low, high, (low + high) / 2, low + 1))


def plan_of(rng, model):
    """Returns a plan: a walk through the grammar, the same with boundary numbers, or as damaged text."""
    kind = rng.random()
    maker = Boundary if kind < 0.3 else Hostile
    plan = maker(rng, model, rng.choice((0.0, 0.0, 0.01, 0.1))).plan(max_statements=rng.choice((2, 4, 8)))
    try:
        text = to_text(plan)
    except (ValueError, OverflowError):  # numbers that no text spells
        return plan
    if kind < 0.7:
        return text
    for _ in range(rng.randint(1, 3)):
        i, j = sorted(rng.choices(range(len(text) + 1), k=2))
        j = min(j, i + 12)
        text = text[:i] + rng.choice((*PIECES, *WORDS, text[i:j] * 2)) + text[rng.choice((i, j)) :]
    return text


def world_of(rng, model, start):
    """Returns the names that plans use, as things around an arm, or around a drone and mostly before it."""
    is_arm = model.kind is RobotKind.ARM
    centre = (0.0, 0.0) if is_arm else (start.x_m, start.y_m)
    things = []
    for name in (*NAMES, "cup"):
        role = rng.choice(tuple(ObjectRole)) if is_arm else ObjectRole.THING
        size_m = (rng.uniform(0.02, 0.4), rng.uniform(0.02, 0.4), 0.0 if role is ObjectRole.AREA else 0.1)
        bearing = math.radians(start.yaw_deg + rng.uniform(-30.0, 30.0))
        if is_arm or rng.random() < 0.3:
            bearing = rng.uniform(-math.pi, math.pi)
        distance_m = rng.uniform(0.0, 1.0 if is_arm else 8.0)
        z = rng.choice((0.0, rng.uniform(0.0, 0.3), rng.uniform(0.0, 2.0)))
        position_m = (centre[0] + distance_m * math.cos(bearing), centre[1] + distance_m * math.sin(bearing), z)
        things.append(WorldObject(name=name, position_m=position_m, size_m=size_m, role=role))
    return World(things)


def start_of(rng, model):
    """Returns a pose inside the robot's space, often on its border; for a drone sometimes on the floor."""
    if model.workspace is not None:
        reach = rng.choice((*model.workspace.reach_m, rng.uniform(*model.workspace.reach_m)))
        bearing = rng.uniform(-math.pi, math.pi)
        # a hair inside, because of the rounding of sine and cosine
        reach = min(max(reach, model.workspace.reach_m[0] + 1e-9), model.workspace.reach_m[1] - 1e-9)
        z = rng.choice((*model.workspace.z_m, rng.uniform(*model.workspace.z_m)))
        return Pose(x_m=reach * math.cos(bearing), y_m=reach * math.sin(bearing), z_m=z)
    fence = model.geofence
    x, y, z = (rng.choice((*side, rng.uniform(*side))) for side in (fence.x_m, fence.y_m, fence.z_m))
    return Pose(x_m=x, y_m=y, z_m=rng.choice((0.0, z, z)), yaw_deg=rng.choice((0.0, 90.0, rng.uniform(-180.0, 180.0))))


class WatchedDriver(KinematicDriver):
    """A kinematic robot that compares each call with what was admitted, and each pose with its space."""

    admitted = ()
    num_calls = num_poses = 0
    _effect = None

    def start(self, call, now_s):
        self.num_calls += 1
        self.require(self.num_calls <= MAX_CALLS, f"{self.num_calls} calls")
        self.require(any(_is_admitted(call, admitted) for admitted in self.admitted), f"{call} was not admitted")
        skill = self.model.skills.get(call.name)
        self.require(skill is not None, f"there is no skill {call.name}")
        for argument, value in zip(skill.arguments, call.arguments, strict=True):
            is_number = argument.type is ArgumentType.NUMBER
            fits = argument.minimum <= value <= argument.maximum if is_number else isinstance(value, str | bool)
            self.require(fits, f"{call}: {value!r} is out of range")
        self._effect = skill.effect
        super().start(call, now_s)

    def check_way(self, now_s):
        """Follows the call at work through time, up to its end, and looks where the robot is."""
        end_s = self.end_s
        if end_s is None or not self._course.motions:
            self.check_pose(self.state.pose)
            return
        for step in range(1, NUM_SAMPLES + 1):
            self.check_pose(self._body_pose_at(now_s + (end_s - now_s) * step / NUM_SAMPLES))

    def _body_pose_at(self, time_s):
        begun = [motion for motion in self._course.motions if motion.start_s <= time_s]
        return begun[-1].pose_at(time_s) if begun else self.state.pose

    def check_pose(self, pose):
        self.num_poses += 1
        x, y, z = pose.x_m, pose.y_m, pose.z_m
        if self.model.workspace is not None:
            self.require(self.model.workspace.excess_m((x, y, z)) <= TOLERANCE_M, f"the tool is at {pose}")
            return
        fence = self.model.geofence
        is_free = z == 0.0 or isinstance(self._effect, Land | TakeOff)  # on the floor, and between it and the fence
        low, high = (0.0 if is_free else fence.z_m[0], fence.z_m[1])
        sides = ((x, *fence.x_m), (y, *fence.y_m), (z, low, high))
        is_inside = all(low - TOLERANCE_M <= value <= high + TOLERANCE_M for value, low, high in sides)
        self.require(is_inside, f"the robot is at {pose}")

    def check_result(self, result):
        """A motion that the gate has judged needs no driver that stops it at the fence."""
        is_judged = isinstance(self._effect, Translate | TakeOff | Home)
        self.require(not (is_judged and "geofence" in result.reason), f"{result.reason}, although it was admitted")

    def require(self, is_met, problem):
        if not is_met:
            raise EscapeError(problem)


def _is_admitted(call, admitted):
    """Returns whether a call is one that was admitted, whose variables and inner calls now have their values."""
    if call.name != admitted.name or len(call.arguments) != len(admitted.arguments):
        return False
    pairs = zip(call.arguments, admitted.arguments, strict=True)
    return all(
        value == given or (isinstance(given, str) and ("(" in given or given[0] == "_")) for value, given in pairs
    )


@dataclass(frozen=True)
class Verdict:
    """What became of one plan."""

    model: str
    outcome: str
    num_calls: int
    num_poses: int
    escape: str = ""
    plan: str = ""


def judge(seed, number):
    """Runs one plan; returns what became of it."""
    rng = random.Random(f"{seed}/{number}")
    model = MODELS[number % len(MODELS)]
    plan = plan_of(rng, model)
    start = start_of(rng, model)
    driver = WatchedDriver(model, world_of(rng, model, start), rng, pose=start)
    try:
        outcome, escape = run(rng, plan, driver), ""
    except EscapeError as error:
        outcome, escape = "escaped", str(error)
    except Exception:  # noqa: BLE001 (whatever is raised has escaped)
        outcome, escape = "escaped", traceback.format_exc(limit=-4)
    return Verdict(model.name, outcome, driver.num_calls, driver.num_poses, escape, str(plan) if escape else "")


def run(rng, plan, driver):
    """Carries out a plan, segment by segment; one that fails goes on from there with the rest of the plan, or ends."""
    gate = SafetyGate(driver.model, start_pose=driver.state.pose)
    interpreter = Interpreter(driver.model, driver)
    try:
        plan = parse(plan) if isinstance(plan, str) else plan
    except PlanSyntaxError:
        return "no plan"
    now_s, num_failed = 0.0, 0
    for statement in plan:
        mark = gate.mark
        try:
            driver.admitted = gate.admit(statement)
        except PlannerError as refusal:
            return f"refused: {refusal.code.name}"
        segment = parse(to_text(statement))
        driver.require(segment == (statement,), f"{to_text(statement)!r} reads otherwise on the robot")
        interpreter.start(segment, now_s)
        driver.check_way(now_s)
        while (result := interpreter.tick(now_s)).status is SkillStatus.RUNNING:
            now_s = max(now_s, now_s if driver.end_s is None else driver.end_s)
            result = interpreter.tick(now_s)
            driver.check_way(now_s)
        if result.status is SkillStatus.FAILED:
            driver.check_result(result)
            num_failed += 1
            if rng.random() < 0.3:
                return "failed"
            gate.restart(mark, replace(driver.state.pose))
            interpreter.forgive()
    return "failed in part" if num_failed else "carried out"


def judge_many(seed, first, count):
    """Returns counts of outcomes, calls and poses of some plans, and those that escaped."""
    counts, escapes = Counter(), []
    for number in range(first, first + count):
        verdict = judge(seed, number)
        counts[verdict.model, verdict.outcome] += 1
        counts["calls"] += verdict.num_calls
        counts["poses"] += verdict.num_poses
        if verdict.escape:
            escapes.append((number, verdict))
    return counts, escapes


def _judge_task(task):
    return judge_many(*task)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first plan")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    ends = range(options.first, options.first + options.plans, CHUNK)
    tasks = [(options.seed, first, min(CHUNK, options.first + options.plans - first)) for first in ends]
    counts, escapes, begin_s = Counter(), [], time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool, Progress() as progress:
        bar = progress.add_task("plans", total=options.plans)
        for some, escaped in pool.imap_unordered(_judge_task, tasks):
            counts += some
            escapes += escaped
            progress.update(bar, advance=sum(n for key, n in some.items() if isinstance(key, tuple)))
    elapsed_s = time.monotonic() - begin_s
    table = Table("robot", "outcome", "plans")
    for (model, outcome), number in sorted(item for item in counts.items() if isinstance(item[0], tuple)):
        table.add_row(model, outcome, f"{number:,}")
    console = Console()
    console.print(table)
    console.print(
        f"{options.plans:,} plans of seed {options.seed}: {counts['calls']:,} calls, {counts['poses']:,} poses, "
        f"{len(escapes):,} escapes; {options.plans / elapsed_s:,.0f} plans/s",
        highlight=False,
    )
    for number, verdict in escapes[:10]:
        console.print(f"plan {number} ({verdict.model}): {verdict.escape}\n  {verdict.plan}", markup=False)
    return 1 if escapes else 0


if __name__ == "__main__":
    sys.exit(main())
