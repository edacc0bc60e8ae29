# SPDX-License-Identifier: Apache-2.0
"""Where a robot stands when a segment has failed: ``Situation.msg``, and its old form as a JSON text."""

import dataclasses
import json
import math

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.segment import Situation
from llm_planner.core.text import has_control_characters
from llm_planner.ros import poses

MAX_SCENE_BYTES = 65536
"""Of the scene: as much as of a goal's own, by default (``max_scene_bytes``)."""
MAX_REASON = 200
MAX_TEXT_LENGTH = 4 * MAX_SCENE_BYTES
"""Characters of a text that a robot reports: in one that is JSON, escapes need three for a byte at most."""


def from_situation(situation: Situation) -> msgs.Situation:
    """Returns the message of a situation.

    Raises:
        PlannerError: As ``to_situation``.
    """
    pose = _checked(situation).pose
    message = msgs.Situation(scene=situation.scene, has_pose=pose is not None)
    if pose is not None:
        message.robot_pose = poses.from_pose(pose)
    return message


def to_situation(message: msgs.Situation) -> Situation:
    """Returns the situation in a message.

    Raises:
        PlannerError: INVALID_ARGUMENT for a scene that is too long or holds control characters, INVALID_POSE for a pose
            that is not finite, or whose orientation is no unit quaternion.
    """
    pose = poses.to_pose(message.robot_pose) if message.has_pose else None
    return _checked(Situation(scene=message.scene, pose=pose))


def situation_in_text(text: str) -> Situation | None:
    """Returns what a text says of a situation; None if it is some other text, such as a value that was returned.

    Raises:
        PlannerError: INVALID_ARGUMENT for a scene or pose that is not as ``SegmentReport.msg`` says, INVALID_POSE for a
            pose that is not finite.
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise PlannerError(
            ErrorCode.INVALID_ARGUMENT, f"value of a report has {len(text)} characters; {MAX_TEXT_LENGTH} at most"
        )
    try:
        fields = json.loads(text, parse_int=float)  # an integer may have any number of digits
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or "scene" not in fields:
        return None
    try:
        where = _to_pose(fields.get("pose"))
        scene = fields["scene"]
        scene.encode()
    except (ValueError, TypeError, AttributeError) as error:
        example = '{"scene": "cat_1", "pose": {"x_m": 0.0, "y_m": 0.0, "z_m": 1.0, "yaw_deg": 0.0}}'
        message = f"value of a failed report is no situation such as {example}: {str(error)[:MAX_REASON]}"
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, message) from error
    return _checked(Situation(scene=scene, pose=where))


def _checked(situation: Situation) -> Situation:
    scene, where = situation.scene, situation.pose
    size = len(scene) if len(scene) > MAX_SCENE_BYTES else len(scene.encode())
    if size > MAX_SCENE_BYTES or has_control_characters(scene):
        raise PlannerError(
            ErrorCode.INVALID_ARGUMENT,
            f"the scene of a report has {size} bytes; at most {MAX_SCENE_BYTES} are taken, without control characters",
        )
    if where is not None and not all(map(math.isfinite, dataclasses.astuple(where))):
        raise PlannerError(ErrorCode.INVALID_POSE, f"the pose of a report is not finite: {where}")
    return situation


def _to_pose(fields: dict[str, object] | None) -> Pose | None:
    """Returns a pose whose fields are numbers, maybe not finite ones."""
    if fields is None:
        return None
    if not all(isinstance(value, float) for value in fields.values()):
        raise TypeError("the fields of a pose are numbers")
    return Pose(**fields)  # type: ignore[arg-type] # checked above
