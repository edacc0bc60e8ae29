# SPDX-License-Identifier: Apache-2.0
"""What a gripper of Gazebo shall hold, and what it holds: DetachableJoint, ordered until it has obeyed.

DetachableJoint begins attached, however far away the thing is. It takes each order once, says ``attached`` or
``detached`` when something has changed, and nothing when it is so already (gz-sim,
``src/systems/detachable_joint/DetachableJoint.cc``).
"""

import math
from collections.abc import Callable, Iterable

from llm_planner.robots.model import RobotModel
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.things import Thing

MARGIN_M = 0.2  # beyond an arm's reach: things may be pushed, or handed on, this far
MAX_UNANSWERED = 20  # after this many unanswered orders to release, the thing was free already


def graspable(model: RobotModel, home: Home, things: Iterable[Thing]) -> list[str]:
    """Returns the names of what an arm's gripper has joints for: loose things that begin in its reach, or nearly.

    All that has a joint begins attached, so arms that are far away leave it alone.
    """
    reach_m = (model.workspace.reach_m[1] if model.workspace else math.inf) + MARGIN_M
    near = (t for t in things if t.is_loose and math.dist(t.known.position_m[:2], (home.x_m, home.y_m)) <= reach_m)
    return [thing.known.name for thing in near]


class Gripper:
    """Brings the joints between a gripper and things to what is wanted.

    Args:
        things: That could be held, by name.
        order: Sends attach (True) or detach (False) for a thing; may be lost on the way.

    Attributes:
        held: What it is known to hold because that was wanted.
    """

    def __init__(self, things: Iterable[str], order: Callable[[str, bool], None]) -> None:
        self._order = order
        self._is_attached: dict[str, bool | None] = dict.fromkeys(things)  # None: unknown
        self._num_unanswered = dict.fromkeys(self._is_attached, 0)
        self._wanted: str | None = None
        self.held: str | None = None

    @property
    def is_clear(self) -> bool:
        """Whether nothing hangs on the arm, or might, but what shall: else moving would drag it along."""
        return all(state is False for name, state in self._is_attached.items() if name != self._wanted)

    def want(self, name: str | None) -> None:
        """Begins to hold one thing, or nothing."""
        if name is None and self._wanted is not None and self.held is None:
            self._is_attached[self._wanted] = None  # an order to attach may be obeyed yet
        self._wanted = name
        self._num_unanswered = dict.fromkeys(self._is_attached, 0)
        self.urge()

    def note(self, name: str, *, is_attached: bool) -> None:
        """Takes what Gazebo says of a joint; of things that are not known it is ignored."""
        if name not in self._is_attached:
            return
        self._is_attached[name] = is_attached
        if is_attached and name == self._wanted:
            self.held = name
        elif not is_attached and name == self.held:
            self.held = None

    def urge(self) -> None:
        """Sends the orders that have not been obeyed; call it a few times per second while Gazebo sends messages."""
        for name, is_attached in self._is_attached.items():
            is_wanted = name == self._wanted
            if is_attached is is_wanted:
                continue
            if is_attached is None and not is_wanted and self._num_unanswered[name] >= MAX_UNANSWERED:
                self._is_attached[name] = False
                continue
            self._num_unanswered[name] += 1
            self._order(name, is_wanted)
