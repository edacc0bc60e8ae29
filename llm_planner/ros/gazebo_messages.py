# SPDX-License-Identifier: Apache-2.0
"""What several ports to Gazebo read out of its messages."""

import math
from typing import Any


def yaw_of(odometry: Any) -> float:  # noqa: ANN401 (a generated message)
    """Returns the heading of an odometry message in radians."""
    turn = odometry.pose.pose.orientation
    return math.atan2(2.0 * (turn.w * turn.z + turn.x * turn.y), 1.0 - 2.0 * (turn.y**2 + turn.z**2))
