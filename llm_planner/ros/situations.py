# SPDX-License-Identifier: Apache-2.0
"""Where a robot stands when a segment has failed: ``Situation.msg``."""

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import Situation
from llm_planner.core.text import has_control_characters
from llm_planner.ros import poses

MAX_SCENE_BYTES = 65536
"""Of the scene: as much as of a goal's own, by default (``max_scene_bytes``)."""


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


def _checked(situation: Situation) -> Situation:
    scene, where = situation.scene, situation.pose
    size = len(scene) if len(scene) > MAX_SCENE_BYTES else len(scene.encode())
    if size > MAX_SCENE_BYTES or has_control_characters(scene):
        raise PlannerError(
            ErrorCode.INVALID_ARGUMENT,
            f"the scene of a report has {size} bytes; at most {MAX_SCENE_BYTES} are taken, without control characters",
        )
    if where is not None and not where.is_finite:
        raise PlannerError(ErrorCode.INVALID_POSE, f"the pose of a report is not finite: {where}")
    return situation
