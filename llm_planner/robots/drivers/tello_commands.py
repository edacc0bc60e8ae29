# SPDX-License-Identifier: Apache-2.0
"""Motions as Tello commands: whole centimetres and degrees, within what the SDK takes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from llm_planner.robots.drivers.tello_line import Command, Proof
from llm_planner.robots.model import Pose
from llm_planner.robots.motion import Motion, wrapped_deg

LEAST_CM, MOST_CM = 20, 500  # published: Tello SDK 2.0
MOST_DEG = 360
DIRECTIONS = ("forward", "back", "left", "right", "up", "down")
MARGIN_S = 5.0  # over twice the time that the robot model expects: the air, a slow answer
TAKE_OFF_LIMIT_S = 20.0  # it sometimes takes long to find its place (djitellopy, TAKEOFF_TIMEOUT)
STOP_LIMIT_S = 3.0
SETTING_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Leg:
    """One command and the motion that it should bring about, counted from when it is sent."""

    command: Command
    motion: Motion


def legs(motion: Motion, begin: Pose, speed_cm_s: int, latency_s: float) -> Iterator[Leg]:
    """Yields the commands for a turn or a straight way; none where it is shorter than a Tello flies (20 cm).

    Args:
        motion: As planned.
        begin: Where the drone really is: it flies the same way in its own frame.
        speed_cm_s: Of ways that are along no axis.
        latency_s: From a command to its motion.
    """
    if motion.turn_deg:
        yield from _turn(motion, begin, latency_s)
    else:
        yield from _straight(motion, begin, speed_cm_s, latency_s)


def is_too_short(motion: Motion) -> bool:
    """Returns whether a straight way is one, though shorter than a Tello flies."""
    return 0 < max(map(abs, _part_cm(motion)[1])) < LEAST_CM


def take_off(motion: Motion) -> Leg:
    """Returns a take-off."""
    # It is never repeated: a drone may have taken it for a late one.
    return Leg(Command(text="takeoff", proof=Proof.FLYING, limit_s=TAKE_OFF_LIMIT_S), _counted(motion))


def land(motion: Motion) -> Leg:
    """Returns a landing."""
    return Leg(land_at_once(), _counted(motion))


def land_at_once() -> Command:
    """Returns the order to land."""
    return Command(text="land", proof=Proof.LANDED, limit_s=TAKE_OFF_LIMIT_S)


def stop() -> Command:
    """Returns an order to hover, which is sent until the drone is seen hovering."""
    return Command(text="stop", proof=Proof.STANDING, limit_s=STOP_LIMIT_S, is_repeatable=True)


def enter_sdk_mode(limit_s: float) -> Command:
    """Returns the order after which a Tello takes orders, repeated for ``limit_s``."""
    return Command(text="command", proof=Proof.NONE, limit_s=limit_s, is_repeatable=True)


def set_speed(speed_cm_s: int) -> tuple[Command, Command]:
    """Returns an order to fly at a speed, and a question that only this speed answers: a lost order is noticed."""
    order = Command(text=f"speed {speed_cm_s}", proof=Proof.NONE, limit_s=SETTING_LIMIT_S, is_repeatable=True)
    question = Command(
        text="speed?",
        proof=Proof.NONE,
        limit_s=SETTING_LIMIT_S,
        answer=lambda text: _is_number(text, speed_cm_s),
        is_repeatable=True,
    )
    return order, question


def _is_number(text: str, value: float) -> bool:
    try:
        return math.isclose(float(text), value, abs_tol=0.5)
    except ValueError:
        return False


def _turn(motion: Motion, begin: Pose, latency_s: float) -> Iterator[Leg]:
    """Splits what is more than a Tello turns at once."""
    whole_deg = round(abs(motion.turn_deg))
    name, sign = ("ccw", 1) if motion.turn_deg > 0 else ("cw", -1)
    for done_deg in range(0, whole_deg, MOST_DEG):
        part_deg = min(MOST_DEG, whole_deg - done_deg)
        end = replace(begin, yaw_deg=wrapped_deg(begin.yaw_deg + sign * part_deg))
        command = Command(
            text=f"{name} {part_deg}", proof=Proof.TURNED, limit_s=_limit_s(motion), turn_deg=float(part_deg)
        )
        length_s = (motion.end_s - motion.start_s) * part_deg / whole_deg
        yield Leg(command, Motion(latency_s, latency_s + length_s, begin, end, float(sign * part_deg), motion.ramp))
        begin = end


def _straight(motion: Motion, begin: Pose, speed_cm_s: int, latency_s: float) -> Iterator[Leg]:
    """Splits what is farther than a Tello flies at once."""
    num_parts, part = _part_cm(motion)
    if max(map(abs, part)) < LEAST_CM:
        return
    length_s = (motion.end_s - motion.start_s) / num_parts
    for _ in range(num_parts):
        end = _moved(begin, part)
        command = Command(text=_text(part, speed_cm_s), proof=Proof.MOVED, limit_s=_limit_s(motion))
        yield Leg(command, Motion(latency_s, latency_s + length_s, begin, end, ramp=motion.ramp))
        begin = end


def _part_cm(motion: Motion) -> tuple[int, tuple[int, int, int]]:
    """Returns in how many equal parts a Tello flies a straight way, and one of them in the body frame."""
    x, y, z = _in_body_cm(motion.begin, motion.end)
    num_parts = math.ceil(max(abs(x), abs(y), abs(z)) / MOST_CM) or 1
    return num_parts, (round(x / num_parts), round(y / num_parts), round(z / num_parts))


def _counted(motion: Motion) -> Motion:
    """Returns a motion with its time counted from its own start."""
    return replace(motion, start_s=0.0, end_s=motion.end_s - motion.start_s)


def _text(way_cm: tuple[int, int, int], speed_cm_s: int) -> str:
    """Returns the plain command for a way along one axis, and ``go`` for any other."""
    if sum(map(bool, way_cm)) > 1:
        return "go {} {} {} {}".format(*way_cm, speed_cm_s)
    axis = next(i for i, n in enumerate(way_cm) if n)
    return f"{DIRECTIONS[2 * axis + (way_cm[axis] < 0)]} {abs(way_cm[axis])}"


def _limit_s(motion: Motion) -> float:
    return MARGIN_S + 2.0 * (motion.end_s - motion.start_s)


def _in_body_cm(begin: Pose, end: Pose) -> tuple[float, float, float]:
    dx, dy, dz = (100.0 * d for d in (end.x_m - begin.x_m, end.y_m - begin.y_m, end.z_m - begin.z_m))
    yaw = math.radians(begin.yaw_deg)
    return dx * math.cos(yaw) + dy * math.sin(yaw), dy * math.cos(yaw) - dx * math.sin(yaw), dz


def _moved(pose: Pose, way_cm: tuple[int, int, int]) -> Pose:
    x, y, z = (n / 100.0 for n in way_cm)
    yaw = math.radians(pose.yaw_deg)
    return replace(
        pose,
        x_m=pose.x_m + x * math.cos(yaw) - y * math.sin(yaw),
        y_m=pose.y_m + x * math.sin(yaw) + y * math.cos(yaw),
        z_m=pose.z_m + z,
    )
