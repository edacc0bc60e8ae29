# SPDX-License-Identifier: Apache-2.0
"""How much slower, or faster, a robot is than its model says: learned from what it reports, outliers aside."""

import statistics
from collections import OrderedDict, deque

from llm_planner.core.segment import ExpectedDuration, ReportStatus, SegmentReport
from llm_planner.scheduling.execution_tracker import is_uncertain

MEMORY = 9
"""Latest segments that count. The median of nine bears four that are off, and follows a change after five."""
NUM_NOMINAL = 2
"""As many segments as expected are presumed before the first one, so that one outlier alone says nothing."""
SHORTEST_S = 0.3
"""Expected time from which on a segment tells something: below it, the robot's clock and the network do."""
SLOWEST, FASTEST = 4.0, 0.25
"""Beyond these factors a robot is not slow but broken, or its model another robot's."""
AS_EXPECTED = 0.1
"""Factors so near to 1 are the noise of the model itself."""
MAX_ROBOTS = 4096


class RobotPace:
    """The factor between reported and expected times of each robot: the median over its latest segments.

    A low battery, a load or wind make all of a robot's segments slower alike, so one factor stands for all skills.
    Segments whose length is unknown beforehand (searches, conditions) teach nothing. A median, because a robot that
    was held up once is no slower for that: its breakdown point is one half (Huber, Robust Statistics, 1981).
    """

    def __init__(self) -> None:
        self._ratios: OrderedDict[str, deque[float]] = OrderedDict()

    def observe(self, robot_id: str, expected: ExpectedDuration, report: SegmentReport) -> None:
        """Learns from a segment's end.

        Args:
            robot_id: Whose.
            expected: By the robot's model, as ``scaled`` left it out.
            report: The robot's word; only a success with a duration counts.
        """
        measured_s = report.measured_s
        if report.status is not ReportStatus.SUCCEEDED or measured_s is None:
            return
        if expected.p50_s < SHORTEST_S or is_uncertain(expected):
            return
        ratios = self._ratios.setdefault(robot_id, deque(maxlen=MEMORY))
        self._ratios.move_to_end(robot_id)
        ratios.append(measured_s / expected.p50_s)
        while len(self._ratios) > MAX_ROBOTS:
            self._ratios.popitem(last=False)

    def factor(self, robot_id: str) -> float:
        """Returns by how much a robot's times are longer than expected; 1 for one that nothing is known of."""
        ratios = self._ratios.get(robot_id, ())
        num_nominal = min(NUM_NOMINAL, max(0, 2 * NUM_NOMINAL - len(ratios)))
        factor = statistics.median([*ratios, *[1.0] * num_nominal]) if ratios else 1.0
        return 1.0 if abs(factor - 1.0) < AS_EXPECTED else min(SLOWEST, max(FASTEST, factor))

    def scaled(self, robot_id: str, expected: ExpectedDuration) -> ExpectedDuration:
        """Returns what a robot will take for what its model says."""
        factor = self.factor(robot_id)
        return ExpectedDuration(
            min_s=expected.min_s * factor, p50_s=expected.p50_s * factor, p90_s=expected.p90_s * factor
        )
