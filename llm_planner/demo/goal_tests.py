# SPDX-License-Identifier: Apache-2.0
"""Goal tests: did the executed plan do what the instruction asked? One function per kind of goal.

A test judges the final world, where the robot is, what it said and photographed, not the words of the plan. Tasks
without a sharper test must leave the same outcome as their reference plan.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping

from llm_planner.core.errors import PlannerError
from llm_planner.demo.outcome import Executed, execute, is_near
from llm_planner.demo.task import Task, kind_of
from llm_planner.robots.model import RobotModel
from llm_planner.robots.world import WorldObject

NEAR_M = 1.0
FACING_DEG = 30.0  # half the field of view: what is faced is in the picture
SAME_M = 0.15
SAME_DEG = 5.0
_FIRST_ESCAPE_M = 0.5
_THREATS_M = {
    "left": (0.0, 1.0, 0.0),
    "right": (0.0, -1.0, 0.0),
    "front": (1.0, 0.0, 0.0),
    "behind": (-1.0, 0.0, 0.0),
    "above": (0.0, 0.0, 0.6),
    "below": (0.0, 0.0, -0.6),
}


def is_achieved(task: Task, plan: str, model: RobotModel) -> tuple[bool, str]:
    """Returns whether a plan does what a task asks, and if not, why."""
    try:
        done = execute(task, plan, model)
    except PlannerError as error:
        return False, f"refused: {error}"
    return judge(task, done, model)


def judge(task: Task, done: Executed, model: RobotModel) -> tuple[bool, str]:
    """Returns whether what a robot did is what a task asks, and if not, why."""
    if not (done.outcome.is_success or done.outcome.has_given_up):
        return False, f"failed: {done.outcome.reason}"
    kind, *parameters = task.goal
    if kind == "same_outcome":
        return _same_outcome(done, execute(task, task.plan, model))
    if done.outcome.has_given_up and kind not in _MAY_GIVE_UP:
        return False, f"gave up: {done.outcome.reason}"
    return GOALS[kind](done, parameters)


_MAY_GIVE_UP = frozenset(("reached", "reached_picture", "reached_any", "facing", "refused"))


Verdict = tuple[bool, str]


def _verdict(*checks: tuple[bool, str]) -> Verdict:
    failed = [reason for passed, reason in checks if not passed]
    return not failed, "; ".join(failed)


def _same_outcome(done: Executed, wanted: Executed) -> Verdict:
    same_way = len(done.waypoints) == len(wanted.waypoints) and all(
        is_near(one, two, SAME_M, SAME_DEG) for one, two in zip(done.waypoints, wanted.waypoints, strict=True)
    )
    same_pictures = len(done.pictures) == len(wanted.pictures) and all(
        is_near(one, two, SAME_M, SAME_DEG) for one, two in zip(done.pictures, wanted.pictures, strict=True)
    )
    return _verdict(
        (done.outcome.has_given_up == wanted.outcome.has_given_up, "gave up, or should have"),
        (_same_value(done, wanted), f"answered {done.outcome.value}, not {wanted.outcome.value}"),
        (same_way, "went another way"),
        (same_pictures, "took other pictures"),
        (_plain(done.said) == _plain(wanted.said), f"said {done.said}, not {wanted.said}"),
        (done.held == wanted.held, f"holds {done.held}, not {wanted.held}"),
        (_supports(done) == _supports(wanted), "objects lie elsewhere"),
        (_positions_agree(done, wanted), "objects stand elsewhere"),
        (math.isclose(done.waited_s, wanted.waited_s, abs_tol=0.01), "waited for another time"),
    )


def _same_value(done: Executed, wanted: Executed) -> bool:
    """Whether a plan that answers a question gives the same answer; an answer in words may be worded freely.

    Distances in centimetres may differ by one; shares of the picture and small numbers may not.
    """
    one, two = done.answer, wanted.answer
    if isinstance(one, float) and isinstance(two, float):
        is_distance = min(abs(one), abs(two)) >= _LEAST_DISTANCE_CM
        return math.isclose(one, two, rel_tol=0.01, abs_tol=1.0 if is_distance else 0.005)
    return one == two


_LEAST_DISTANCE_CM = 10.0


def _plain(texts: Iterable[str]) -> list[str]:
    return [" ".join(re.findall(r"\w+", text.lower())) for text in texts]


def _reached(done: Executed, parameters: list[str]) -> Verdict:
    (name,) = parameters
    if name not in done.world.objects:
        return _not_found(done, name)
    return _verdict(
        (done.distance_m(name) <= NEAR_M, f"ended {done.distance_m(name):.1f} m from {name}"),
        (done.bearing_deg(name) <= FACING_DEG, f"does not face {name}"),
    )


def _reached_picture(done: Executed, parameters: list[str]) -> Verdict:
    (name,) = parameters
    if name not in done.world.objects:
        return _not_found(done, name)
    photographed = any(is_near(pose, done.pose, SAME_M, FACING_DEG) for pose in done.pictures)
    return _verdict(_reached(done, parameters), (photographed, "no picture of it"))


def _reached_any(done: Executed, parameters: list[str]) -> Verdict:
    suitable = [name for name in done.world.objects if kind_of(name) in parameters]
    if not suitable:
        return _verdict((done.outcome.has_given_up, "did not say that there is nothing"))
    return _verdict((any(_reached(done, [name])[0] for name in suitable), f"reached none of {suitable}"))


def _facing(done: Executed, parameters: list[str]) -> Verdict:
    (name,) = parameters
    if name not in done.world.objects:
        return _not_found(done, name)
    return _verdict((done.bearing_deg(name) <= FACING_DEG, f"does not face {name}"))


def _reported(done: Executed, parameters: list[str]) -> Verdict:
    (name,) = parameters
    is_there = name in done.world.objects
    return _verdict((done.answer in ((True, name) if is_there else (False,)), f"answered {done.answer}"))


def _reported_one(done: Executed, parameters: list[str]) -> Verdict:
    present = [name for name in parameters if name in done.world.objects]
    return _verdict((done.answer in (present or (False,)), f"answered {done.answer}, there is {present}"))


def _not_found(done: Executed, name: str) -> Verdict:
    says_so = f"{name} not found".lower().replace("_", " ") in _plain(text.replace("_", " ") for text in done.said)
    return _verdict((done.outcome.has_given_up or says_so, f"did not say that there is no {name}"))


def _fled(done: Executed, parameters: list[str]) -> Verdict:
    side, *number = parameters
    threat = _THREATS_M[side]
    start, first = done.waypoints[0], done.waypoints[min(1, len(done.waypoints) - 1)]
    origin = (start.x_m, start.y_m, start.z_m)
    danger = tuple(o + t for o, t in zip(origin, threat, strict=True))
    ways = [
        math.dist(danger, (pose.x_m, pose.y_m, pose.z_m)) - math.dist(danger, origin) for pose in (first, done.pose)
    ]
    wanted_m = float(number[0]) / 100 if number else _FIRST_ESCAPE_M
    # Climbing out of an animal's reach leads away at once, but not along the line to it.
    first_m = 0.3 if not number else 0.9 * wanted_m
    return _verdict(
        (_first_skill(done).startswith("m"), "does not start with a motion"),
        (ways[0] >= first_m, f"only {ways[0]:.1f} m away after the first skill"),
        (ways[1] >= 0.9 * wanted_m, f"only {ways[1]:.1f} m away in the end"),
        (len(done.outcome.calls) <= 3, "too long for an emergency"),
    )


def _stopped(done: Executed, _: list[str]) -> Verdict:
    return _verdict((_first_skill(done) == "stop", "does not stop at once"), (len(done.waypoints) == 1, "moved on"))


def _first_skill(done: Executed) -> str:
    return done.outcome.calls[0].call.name if done.outcome.calls else ""


def _refused(done: Executed, _: list[str]) -> Verdict:
    return _verdict(
        (done.outcome.has_given_up, "did not say that it cannot"),
        (len(done.waypoints) == 1 and _supports(done) == _supports_of(done.start.objects), "did something"),
    )


def _stacked(done: Executed, parameters: list[str]) -> Verdict:
    objects = done.world.objects
    pairs = itertools.pairwise(parameters)
    return _verdict(*((objects[upper].support == lower, f"{upper} is not on {lower}") for lower, upper in pairs))


def _stacked_all(done: Executed, parameters: list[str]) -> Verdict:
    names = set(parameters)
    supports = [done.world.objects[name].support for name in parameters]
    inside = [support for support in supports if support in names]
    is_tower = len(inside) == len(names) - 1 == len(set(inside))
    return _verdict((is_tower, f"no tower: {dict(zip(parameters, supports, strict=True))}"))


def _sorted(done: Executed, parameters: list[str]) -> Verdict:
    pairs = [(thing, place) for thing, _, place in (pair.partition(">") for pair in parameters)]
    present = [pair for pair in pairs if pair[0] in done.world.objects]
    wanted = {thing for thing, _ in present}
    moved = {name for name, thing in done.world.objects.items() if thing != done.start.objects[name]}
    return _verdict(
        *((done.world.is_on(thing, place), f"{thing} is not in {place}") for thing, place in present),
        (moved <= wanted, f"moved {moved - wanted} too"),
        (done.held is None, f"still holds {done.held}"),
    )


def _supports(done: Executed) -> dict[str, str | None]:
    return _supports_of(done.world.objects)


def _supports_of(objects: Mapping[str, WorldObject]) -> dict[str, str | None]:
    return {name: thing.support for name, thing in objects.items()}


def _positions_agree(one: Executed, two: Executed) -> bool:
    return all(
        math.dist(thing.position_m, two.world.objects[name].position_m) <= SAME_M
        for name, thing in one.world.objects.items()
    )


GOALS: dict[str, Callable[[Executed, list[str]], Verdict]] = {
    "reached": _reached,
    "reached_picture": _reached_picture,
    "reached_any": _reached_any,
    "facing": _facing,
    "reported": _reported,
    "reported_one": _reported_one,
    "fled": _fled,
    "stopped": _stopped,
    "refused": _refused,
    "stacked": _stacked,
    "stacked_all": _stacked_all,
    "sorted": _sorted,
}
