"""Where a robot stands when a segment has failed, as the text of ``SegmentReport.value``: JSON, and back."""

import dataclasses
import json
import math
import unicodedata

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.segment import Situation

MAX_SCENE_BYTES = 65536
"""Of the scene: as much as of a goal's own, by default (``max_scene_bytes``)."""


def from_situation(situation: Situation) -> str:
    """Returns the text of a situation."""
    return json.dumps(dataclasses.asdict(situation))


def to_situation(text: str) -> Situation | None:
    """Returns what a text says of a situation; None if it is some other text, such as a value that was returned.

    Raises:
        PlannerError: INVALID_ARGUMENT for a scene or pose that is not as ``SegmentReport.msg`` says, INVALID_POSE for a
            pose that is not finite.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or "scene" not in fields:
        return None
    try:
        pose = fields.get("pose")
        where = None if pose is None else Pose(**{name: float(value) for name, value in pose.items()})
        scene, size = fields["scene"], len(fields["scene"].encode())
    except (ValueError, TypeError, AttributeError) as error:
        example = '{"scene": "cat_1", "pose": {"x_m": 0.0, "y_m": 0.0, "z_m": 1.0, "yaw_deg": 0.0}}'
        message = f"value of a failed report is no situation such as {example}: {error}"
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, message) from error
    if size > MAX_SCENE_BYTES or any(unicodedata.category(c) in {"Cc", "Cs"} and c not in "\t\n\r" for c in scene):
        raise PlannerError(
            ErrorCode.INVALID_ARGUMENT,
            f"the scene of a report has {size} bytes; at most {MAX_SCENE_BYTES} are taken, without control characters",
        )
    if where is not None and not all(map(math.isfinite, dataclasses.astuple(where))):
        raise PlannerError(ErrorCode.INVALID_POSE, f"the pose of a report is not finite: {where}")
    return Situation(scene=scene, pose=where)
