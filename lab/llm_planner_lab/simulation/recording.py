# SPDX-License-Identifier: Apache-2.0
"""How the lines of a planner's event log (``serving.event_log``) become requests of a trace.

The planner publishes the lines, ``llm-planner trace record`` appends them to a file, ``read_trace`` folds them.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_planner.language.prose import ProseUnit, split_prose
from llm_planner.serving.event_log import Line

CHARACTERS_PER_TOKEN = 4
"""Of a prompt whose tokens were not counted, because its goal was ended from outside."""


@dataclass(slots=True)
class _Goal:
    """The lines of one goal."""

    accepted: Line
    segments: dict[int, Line] = field(default_factory=dict)
    reports: dict[tuple[int, str], Line] = field(default_factory=dict)
    finished: Line | None = None

    @property
    def is_gapless(self) -> bool:
        """Whether no segment is missing in between."""
        is_whole = sorted(self.segments) == list(range(len(self.segments)))
        return is_whole and (self.accepted["urgency"] != "chat" or self.prose_unit is not None)

    @property
    def statements(self) -> list[list[int]]:
        """The segments that count, by statement: with a replan, neither what failed nor what was void behind it.

        A condition that came part by part is one statement; a recorded plan is replayed in whole statements.
        """
        failed = [index for index, status in self.reports if status == "failed"]
        kept: list[list[int]] = []
        num_open = 0
        for index in sorted(self.segments):
            if self.segments[index].get("is_replan", False):
                last, num_open = max((f for f in failed if f < index), default=index), 0
                kept = [parts for parts in kept if parts[-1] < last]
                continue
            if num_open:
                kept[-1].append(index)
            else:
                kept.append([index])
            num_open += _edge(self.segments[index])
        return kept

    @property
    def text(self) -> str:
        """What was delivered, and carried out; a block that has no end ends with the plan."""
        indices = [index for parts in self.statements for index in parts]
        num_open = sum(_edge(self.segments[index]) for index in indices)
        return "".join(self.segments[index]["text"] for index in indices) + "}" * num_open

    @property
    def prose_unit(self) -> ProseUnit | None:
        """What a segment of this answer in words is; None if none fits."""
        fitting = (unit for unit in ProseUnit if len(split_prose(self.text, unit)) == len(self.segments))
        return next(fitting, None)

    def duration_s(self, index: int) -> float:
        """Returns how long the robot took for a segment: between its reports, else as it said, else as expected."""
        if (index, "skipped") in self.reports:
            return 0.0
        started = self.reports.get((index, "started"))
        ended = self.reports.get((index, "succeeded")) or self.reports.get((index, "failed"))
        if started is not None and ended is not None:
            return max(0.0, float(ended["time_s"]) - float(started["time_s"]))
        said_s = 0.0 if ended is None else float(ended["duration_s"])  # 0 is what was not measured
        return said_s or float(self.segments[index]["expected_s"])


def fold(lines: Iterable[Mapping[str, Any]]) -> tuple[list[Line], dict[str, int]]:
    """Returns the requests that the lines of a recording amount to, as rows of a trace, and what is not among them.

    A goal counts if it ended and brought at least one segment: its plan is what was delivered, without replans and the
    attempts that they replaced. Lines about goals that began before the recording are ignored. Times count from the
    first line.

    Raises:
        KeyError, TypeError or ValueError: If a line is not as the event log writes it.
    """
    goals: dict[str, _Goal] = {}
    origin_s: float | None = None
    for line in lines:
        time_s = float(line["time_s"])
        if not math.isfinite(time_s):
            raise ValueError(f"time_s is {time_s}")
        origin_s = time_s if origin_s is None else origin_s
        _take(dict(line), goals)
    ended = [goal for goal in goals.values() if goal.finished is not None]
    planned = [goal for goal in ended if goal.statements and goal.is_gapless]
    planned.sort(key=lambda goal: float(goal.accepted["time_s"]))
    counts = Counter(
        num_unfinished=len(goals) - len(ended),
        num_without_plan=sum(not goal.statements for goal in ended),
        num_with_gaps=sum(not goal.is_gapless for goal in ended),
    )
    return [_row(goal, origin_s or 0.0) for goal in planned], dict(counts)


def _take(line: Line, goals: dict[str, _Goal]) -> None:
    request_id, event = str(line["request_id"]), line["event"]
    if event == "accepted":
        goals[request_id] = _Goal(line)
        return
    goal = goals.get(request_id)
    if goal is None:
        return
    if event == "segment":
        goal.segments.setdefault(int(line["index"]), line)
    elif event == "report":
        goal.reports.setdefault((int(line["index"]), str(line["status"])), line)
    elif event == "finished":
        goal.finished = line
    else:
        raise ValueError(f"unknown event {event!r}")


def _row(goal: _Goal, origin_s: float) -> Line:
    asked, statements = goal.accepted, goal.statements
    num_prompt, num_cached = _prompt_tokens(goal)
    names = ("request_id", "robot_id", "robot_model", "urgency", "time_utility", "instruction", "scene", "start_pose")
    tokens = [sum(int(goal.segments[index]["num_tokens"]) for index in parts) for parts in statements]
    return {
        **{name: asked[name] for name in names},
        "time_s": max(0.0, float(asked["time_s"]) - origin_s),
        "task": 0,
        "plan": goal.text,
        **({"chat_segments": goal.prose_unit.value} if asked["urgency"] == "chat" and goal.prose_unit else {}),
        "num_static_tokens": num_cached,
        "num_dynamic_tokens": max(1, num_prompt - num_cached),
        "durations_s": [sum(map(goal.duration_s, parts)) for parts in statements],
        "segment_tokens": tokens if any(tokens) else [],
    }


def _prompt_tokens(goal: _Goal) -> tuple[int, int]:
    """Returns the length of the prompt and of its shared part."""
    end = goal.finished or {}
    if end.get("num_prompt_tokens"):
        return int(end["num_prompt_tokens"]), int(end["num_cached_tokens"])
    text = goal.accepted["instruction"] + goal.accepted["scene"]
    return len(text) // CHARACTERS_PER_TOKEN, 0


def _edge(line: Line) -> int:
    """Returns by how many blocks more are open behind a segment."""
    return {"opens": 1, "closes": -1}.get(line.get("block_edge", ""), 0)
