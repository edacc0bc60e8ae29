# SPDX-License-Identifier: Apache-2.0
"""Where a body or tool is, as every layer speaks of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pose:
    """Metres from home (ROS REP 103: x forward, y left, z up), and degrees counter-clockwise from the x axis."""

    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0
    yaw_deg: float = 0.0
