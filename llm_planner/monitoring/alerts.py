# SPDX-License-Identifier: Apache-2.0
"""What an operator should look at: conditions that hold now, and a journal of what happened."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llm_planner.core.errors import code_name
from llm_planner.serving.planner_view import PlannerView

SILENT_S = 2.0  # eight views of a planner, ten of a robot
FULL_KV = 0.95
SOON_S = 2.0
MAX_ENTRIES = 200
MAX_TEXT = 300
DIAGNOSIS_AGE_S = 5.0


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that holds.

    Attributes:
        level: ``bad`` or ``warn``.
        about: The robot or node; empty for the planner.
    """

    level: str
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened.

    Attributes:
        is_on_receipt: Whether its time is that at which it was heard of, on a clock that may be known better later.
    """

    number: int
    at_s: float
    level: str
    text: str
    about: str
    is_on_receipt: bool

    def as_json(self, now_s: float) -> dict[str, Any]:
        """Returns the entry, with its age instead of a time of this process."""
        age_s = round(now_s - self.at_s, 1)
        return {"number": self.number, "age_s": age_s, "level": self.level, "text": self.text, "about": self.about}


class Journal:
    """The last things that happened, and the last message of every diagnosing node."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._diagnoses: dict[str, tuple[float, int, str]] = {}
        self.revision = 0

    def note(self, at_s: float, level: str, text: str, about: str = "", *, is_on_receipt: bool = False) -> None:
        """Adds something that happened."""
        self.revision += 1
        self._entries.append(Entry(self.revision, at_s, level, text[:MAX_TEXT], about[:MAX_TEXT], is_on_receipt))

    def put_later(self, by_s: float) -> None:
        """Moves what was noted on receipt: the clock on which it is kept was not known until now."""
        moved = (replace(e, at_s=e.at_s + by_s) if e.is_on_receipt else e for e in self._entries)
        self._entries = deque(moved, maxlen=MAX_ENTRIES)

    def since(self, number: int) -> Iterator[Entry]:
        """Yields the entries behind a number."""
        return (entry for entry in self._entries if entry.number > number)

    def diagnose(self, name: str, level: int, message: str, now_s: float) -> None:
        """Notes how something is, by its own diagnosis."""
        self._diagnoses[name[:MAX_TEXT]] = (now_s, level, message[:MAX_TEXT])
        if len(self._diagnoses) > MAX_ENTRIES:
            del self._diagnoses[next(iter(self._diagnoses))]

    def diagnoses(self, now_s: float) -> Iterator[Alert]:
        """Yields the diagnoses that are not well, as long as they are fresh."""
        for name, (at_s, level, message) in self._diagnoses.items():
            if level > 0 and now_s - at_s < DIAGNOSIS_AGE_S:
                yield Alert("bad" if level > 1 else "warn", message, name)


def conditions(planner: PlannerView | None, silent_s: float, robots_silent_s: Mapping[str, float]) -> Iterator[Alert]:
    """Yields what is wrong, or soon will be.

    Args:
        planner: Its last view; None before the first.
        silent_s: For how long the planner has said nothing.
        robots_silent_s: For how long each robot that was ever seen has said nothing.
    """
    if planner is None or silent_s > SILENT_S:
        silent = f"the planner has been silent for {silent_s:.0f} s: what is shown of it is old"
        yield Alert("bad", "no planner is known; start one with llm-planner up" if planner is None else silent)
    elif planner.error_code:
        yield Alert("bad", f"{planner.error_msg} [{code_name(planner.error_code)} {planner.error_code}]")
    elif not planner.is_ready:
        yield Alert("warn", "the engine is starting")
    for robot, robot_silent_s in robots_silent_s.items():
        if robot_silent_s > SILENT_S:
            yield Alert("bad", f"has been silent for {robot_silent_s:.0f} s", robot)
    if planner is not None and planner.loop is not None and silent_s <= SILENT_S:
        yield from _of_loop(planner)


def _of_loop(planner: PlannerView) -> Iterator[Alert]:
    loop = planner.loop
    assert loop is not None
    if planner.age_s is not None and planner.age_s > SILENT_S:
        yield Alert("warn", f"the engine has not answered for {planner.age_s:.0f} s: a long step?")
    total = loop.status.num_kv_blocks
    if total and 1 - loop.status.num_free_kv_blocks / total > FULL_KV:
        yield Alert("warn", f"{100 * (1 - loop.status.num_free_kv_blocks / total):.0f} % of the KV cache is in use")
    for goal in loop.goals:
        if goal.ends_in_s is not None and goal.ends_in_s < SOON_S:
            yield Alert("bad", f"its goal ends in error in {max(0.0, goal.ends_in_s):.1f} s", goal.robot_id)
