# SPDX-License-Identifier: Apache-2.0
"""Poses on the wire: ``geometry_msgs/Pose`` (ROS REP 103).

``geometry_msgs`` is imported in the functions, because it takes longer than all else that a command line loads of ROS.
"""

import math
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose

MAX_NORM_ERROR = 0.01
"""How far the norm of a quaternion may be from 1."""
YAW_DIGITS = 9
"""Of degrees: a yaw comes out of a quaternion as it went in, without the rounding of sine and cosine."""


def yaw_of(turn: Any) -> float:
    """Returns the yaw of a quaternion in radians."""
    x, y, z, w = turn.x, turn.y, turn.z, turn.w
    return math.atan2(2.0 * (w * z + x * y), w * w + x * x - y * y - z * z)


def from_yaw(yaw_rad: float) -> Any:
    """Returns the quaternion of a turn to the left; of one that is not finite, one that is not finite either."""
    from geometry_msgs.msg import Quaternion

    yaw_rad = yaw_rad if math.isfinite(yaw_rad) else math.nan  # there is no sine of infinity
    return Quaternion(z=math.sin(yaw_rad / 2.0), w=math.cos(yaw_rad / 2.0))


def from_pose(pose: Pose) -> Any:
    """Returns the ``geometry_msgs/Pose`` of a pose."""
    from geometry_msgs.msg import Point
    from geometry_msgs.msg import Pose as StandardPose

    return StandardPose(
        position=Point(x=pose.x_m, y=pose.y_m, z=pose.z_m), orientation=from_yaw(math.radians(pose.yaw_deg))
    )


def to_pose(message: Any) -> Pose:
    """Returns the pose in a ``geometry_msgs/Pose``, its position as it is; roll and pitch are left out.

    Raises:
        PlannerError: INVALID_POSE for an orientation that is no unit quaternion.
    """
    place, turn = message.position, message.orientation
    if not abs(math.hypot(turn.x, turn.y, turn.z, turn.w) - 1.0) <= MAX_NORM_ERROR:  # so that NaN is refused too
        what = f"the orientation of a pose must be a unit quaternion; got ({turn.x}, {turn.y}, {turn.z}, {turn.w})"
        raise PlannerError(ErrorCode.INVALID_POSE, what)
    return Pose(x_m=place.x, y_m=place.y, z_m=place.z, yaw_deg=round(math.degrees(yaw_of(turn)), YAW_DIGITS))
