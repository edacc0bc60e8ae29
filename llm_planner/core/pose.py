# SPDX-License-Identifier: Apache-2.0
"""Where a body or tool is, as every layer speaks of it."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pose:
    """Metres from home (ROS REP 103: x forward, y left, z up), and degrees counter-clockwise from the x axis.

    Numbers of any type become floats: in any other, such as int, a ROS message would send a wrong one.
    """

    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0
    yaw_deg: float = 0.0

    def __post_init__(self) -> None:
        for name in ("x_m", "y_m", "z_m", "yaw_deg"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def is_finite(self) -> bool:
        """Whether it says where something is."""
        return all(map(math.isfinite, (self.x_m, self.y_m, self.z_m, self.yaw_deg)))
