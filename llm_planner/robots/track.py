# SPDX-License-Identifier: Apache-2.0
"""Where a robot was, as far back as it is asked for."""

import bisect

from llm_planner.robots.model import Pose


class Track:
    """Poses by time, which never runs backwards.

    Args:
        pose: Before the first one that is noted.
    """

    def __init__(self, pose: Pose) -> None:
        self._poses: list[tuple[float, Pose]] = [(float("-inf"), pose)]

    def note(self, time_s: float, pose: Pose) -> None:
        """Notes where the robot is from a time on."""
        self._poses.append((time_s, pose))

    def at(self, time_s: float) -> Pose:
        """Returns where the robot was at a time."""
        return self._poses[self._index(time_s)][1]

    def forget(self, before_s: float) -> None:
        """Drops the poses that are needed for times before ``before_s`` only."""
        del self._poses[: self._index(before_s)]

    def _index(self, time_s: float) -> int:
        return max(0, bisect.bisect_right(self._poses, time_s, key=lambda entry: entry[0]) - 1)
