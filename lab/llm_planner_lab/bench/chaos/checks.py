# SPDX-License-Identifier: Apache-2.0
"""What must hold whatever happens: journals and goals in, violations out. Needs no ROS."""

import bisect
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from llm_planner.core.errors import ErrorCode
from llm_planner.robots.model import RobotModel
from llm_planner_lab.bench.chaos import machine
from llm_planner_lab.bench.chaos.calls import NotFlatError, Words, flat_calls
from llm_planner_lab.bench.chaos.goals import SCRIPT, Goal
from llm_planner_lab.bench.chaos.journal import Line

INVARIANTS = {
    "goals_lost": "every goal that a living robot took has an outcome within the bound",
    "segments_twice": "no segment of a goal is begun twice",
    "foreign_calls": "no robot makes a call of another goal than its current one",
    "calls_not_admitted": "every call is the next one of a segment that the gate admitted for that goal",
    "ended_without_code": "every goal ends with a numbered code",
    "false_success": "a scripted goal that ended with NONE was carried out, call by call; no segment succeeds without "
    "its calls",
    "robots_unsafe": "the silence rule begins within 0.5 s of its time",
    "engine_late": "after a SIGKILL the engine admits segments again within its load time + 5 s",
    "processes_ended": "no process ends that no fault has ended",
    "hangs_at_stop": "every process ends by itself when the fleet is stopped",
    "orphans": "no process is left behind",
    "shared_memory": "nothing is left in /dev/shm",
    "memory_growth": "no process grows by more than 1 % per hour",
}
SILENCE_MARGIN_S = 0.5
EARLY_S = 0.25
"""How much earlier a robot may begin its silence steps than a journal says: a line is written after what it says."""
ENGINE_MARGIN_S = 5.0
ENGINE_REPLACED_S = 60.0
"""From a fault to the birth of the next engine, at most: its planner may start again first, on a busy machine."""
_OWNER = re.compile(r"(g\d+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An invariant that did not hold.

    Attributes:
        at_s: CLOCK_MONOTONIC.
        what: In words.
    """

    invariant: str
    at_s: float
    what: str


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a robot cannot be asked for anything, because a fault has hit its own process."""

    begin_s: float
    end_s: float


@dataclass(slots=True)
class _Segment:
    """The segment at work."""

    index: int
    expected: tuple[Words, ...] | None  # None: they depend on the robot
    num_calls: int = 0

    @property
    def wanted(self) -> Words | None:
        """The next call that was admitted, if there is one and it is known."""
        calls = self.expected or ()
        return calls[self.num_calls] if self.num_calls < len(calls) else None


@dataclass(slots=True, kw_only=True)
class RobotCheck:
    """Follows the journal of one robot, line by line.

    Args:
        robot: Its name.
        model: Its model.
        time_scale: How much faster than real time it lives.
        admitted: By goal id, the texts that its gate admitted.
        faulted: When the robot itself was stopped, killed or starved. It counts for the process that was hit.

    Attributes:
        failed: Tags of the goals of which a segment failed.
    """

    robot: str
    model: RobotModel
    time_scale: float
    admitted: Mapping[str, set[str]]
    faulted: Sequence[Span] = ()
    violations: list[Violation] = field(default_factory=list)
    silence_delays_s: list[float] = field(default_factory=list)
    calls_of: dict[str, list[Words]] = field(default_factory=lambda: defaultdict(list))
    failed: set[str] = field(default_factory=set)
    num_calls: int = 0
    num_segments: int = 0
    longest_starved_s: float = 0.0
    _pid: int = 0
    _born_s: float = 0.0
    _goal: str = ""
    _is_chat: bool = False
    _is_active: bool = False
    _owners: dict[str, str] = field(default_factory=dict)
    _received: dict[tuple[str, int], str] = field(default_factory=dict)
    _begun: set[tuple[str, int]] = field(default_factory=set)
    _segment: _Segment | None = None
    _quiet_since_s: float = 0.0
    _is_silence_kept: bool = True
    _starved_s: float = 0.0
    _starvations: list[Line] = field(default_factory=list)
    _last_s: float = 0.0

    def follow(self, lines: Iterable[Line], until_s: float) -> None:
        """Reads a journal to its end; the robot lived until then.

        Several threads write it. Its lines are taken in the order of their times: a thread may lose the processor
        between reading the clock and writing. What is said of time without a processor also holds for what other
        threads wrote in that time, though they came to write first.
        """
        ordered = sorted(lines, key=itemgetter("at_s"))
        self._starvations = [line for line in ordered if line["kind"] == "starved"]
        for line in ordered:
            if line["pid"] != self._pid:
                self._pid, self._born_s = line["pid"], line["at_s"]
                self._goal, self._is_active, self._segment = "", False, None
                self._begun.clear()
            elif line["kind"] != "starved":  # written before the tick that it delayed
                self._require_silence_kept(line["at_s"])
            self._last_s = line["at_s"]
            handler = getattr(self, f"_on_{line['kind']}", None)
            if handler is not None:
                handler(line)
        self._require_silence_kept(until_s)

    # Lines

    def _on_asked(self, line: Line) -> None:
        script = str(line["instruction"])
        owner = _OWNER.search(script)
        self._owners[line["goal"]] = owner[1] if script.startswith(SCRIPT) and owner else ""

    def _on_begin(self, line: Line) -> None:
        self._goal, self._is_chat, self._segment = line["goal"], line["is_chat"], None
        self._is_active = True
        self._live(line["at_s"])

    def _on_received(self, line: Line) -> None:
        self._received.setdefault((line["goal"], line["index"]), line["text"])
        if line["goal"] == self._goal:
            self._live(line["at_s"])

    def _on_complete(self, line: Line) -> None:
        if line["goal"] == self._goal:
            self._live(line["at_s"])

    def _on_life(self, line: Line) -> None:
        if line["received_s"] > self._quiet_since_s:
            self._live(line["received_s"])

    def _on_inactive(self, line: Line) -> None:
        if line["goal"] == self._goal:
            self._is_active = False

    def _on_report(self, line: Line) -> None:
        if line["status"] == "STARTED":
            self._begin_segment(line)
            return
        segment, self._segment = self._segment, None
        self._live(line["at_s"])
        if line["status"] == "FAILED":
            self.failed.add(self._owners.get(line["goal"], ""))
        elif segment is not None and segment.expected and segment.num_calls < len(segment.expected):
            missing = segment.expected[segment.num_calls]
            self._violate("false_success", f"segment {segment.index} of {line['goal']} succeeded without {missing}")

    def _begin_segment(self, line: Line) -> None:
        goal, index = line["goal"], line["index"]
        self.num_segments += 1
        if goal != self._goal:
            self._violate("foreign_calls", f"segment {index} of {goal} was begun during {self._goal or 'no goal'}")
        if (goal, index) in self._begun:
            self._violate("segments_twice", f"segment {index} of {goal} was begun twice")
        self._begun.add((goal, index))
        text = self._received.get((goal, index))
        self._segment = _Segment(index, None if self._is_chat else ())
        if text is None:
            self._violate("calls_not_admitted", f"segment {index} of {goal} was begun and never received")
        elif self._is_chat or not text:
            return
        elif text not in self.admitted.get(goal, ()):
            self._violate("calls_not_admitted", f"{text!r} was never admitted for {goal}")
        else:
            try:
                self._segment.expected = flat_calls(text, self.model)
            except NotFlatError:
                self._segment.expected = None

    def _on_call(self, line: Line) -> None:
        call, segment = tuple(line["call"]), self._segment
        is_wanted = segment is not None and call == segment.wanted
        if call[0] in self._own_skills and not is_wanted:
            self._note_own_call(line["at_s"])
            return
        self.num_calls += 1
        owner, current = self._owner(call), self._owners.get(self._goal, "")
        if owner and owner != current:
            self._violate("foreign_calls", f"{call} of {owner} during {current or self._goal}")
            return
        self.calls_of[current].append(call)
        if segment is None:
            self._violate("calls_not_admitted", f"{call} outside of any segment")
        elif segment.expected is not None:
            if not is_wanted:
                self._violate(
                    "calls_not_admitted", f"{call} where {segment.wanted} was admitted, segment {segment.index}"
                )
            segment.num_calls += 1

    @staticmethod
    def _owner(call: Words) -> str:
        owners = (_OWNER.match(word) for word in call[1:] if isinstance(word, str))
        return next((owner[1] for owner in owners if owner), "")

    @property
    def _own_skills(self) -> set[str]:
        """What a robot also does without being told."""
        return {self.model.stop_skill, *(step.skill for step in self.model.silence)}

    # Silence

    def _on_starved(self, line: Line) -> None:
        self._starved_s += line["seconds"]
        self.longest_starved_s = max(self.longest_starved_s, line["seconds"])

    def _starved_until_s(self, now_s: float) -> float:
        """Returns for how long the robot had no processor since it was quiet, at least."""
        index = bisect.bisect_right(self._starvations, now_s, key=itemgetter("at_s"))
        later = self._starvations[index] if index < len(self._starvations) else None
        if later is None or later["pid"] != self._pid:
            return self._starved_s
        quiet_s = max(later["since_s"], self._quiet_since_s)
        rest_s = (later["at_s"] - later["since_s"]) - (now_s - quiet_s)  # it may have had none in all of that
        return self._starved_s + max(0.0, later["seconds"] - rest_s)

    def _live(self, at_s: float) -> None:
        self._quiet_since_s, self._is_silence_kept = max(self._quiet_since_s, at_s), False
        self._starved_s = 0.0

    @property
    def _is_waiting(self) -> bool:
        return self._is_active and self._segment is None and not self._is_silence_kept

    @property
    def _due_s(self) -> float:
        return self._quiet_since_s + self.model.silence[0].after_s / self.time_scale

    def _note_own_call(self, at_s: float) -> None:
        if self._is_waiting and at_s >= self._due_s - EARLY_S:
            self._is_silence_kept = True
            if not self._is_faulted(self._quiet_since_s, at_s):
                self.silence_delays_s.append(max(0.0, at_s - self._due_s - self._starved_s))

    def _require_silence_kept(self, now_s: float) -> None:
        """Notes a robot that had nothing to do and did not begin its silence steps in time."""
        latest_s = self._due_s + self._starved_until_s(now_s) + SILENCE_MARGIN_S
        if not self._is_waiting or now_s <= latest_s:
            return
        if not self._is_faulted(self._quiet_since_s, now_s):
            self._violate("robots_unsafe", f"no message for {now_s - self._quiet_since_s:.2f} s, nothing done")
        self._is_silence_kept = True  # counts once

    def _is_faulted(self, begin_s: float, end_s: float) -> bool:
        return any(self._born_s <= span.begin_s <= end_s and span.end_s >= begin_s for span in self.faulted)

    def _violate(self, invariant: str, what: str) -> None:
        self.violations.append(Violation(invariant=invariant, at_s=self._last_s, what=f"{self.robot}: {what}"))


def check_goals(
    goals: Iterable[Goal], now_s: float, bound_s: float, alive: Mapping[str, Sequence[tuple[int, float]]]
) -> list[Violation]:
    """Returns the goals that are lost, or ended without a code; writes the verdict of each goal that has no outcome.

    Args:
        goals: All.
        now_s: End of the campaign.
        bound_s: Longest time from acceptance to outcome.
        alive: By robot, its processes and when each ended (infinity while it lives).
    """
    found = []
    for goal in goals:
        if goal.code is not None:
            if goal.code not in set(ErrorCode):
                what = f"{goal.tag} of {goal.robot} ended with {goal.code}"
                found.append(Violation(invariant="ended_without_code", at_s=goal.ended_s or now_s, what=what))
            continue
        ended_s = dict(alive.get(goal.robot, ())).get(goal.pid, 0.0)
        if goal.accepted_s is None:
            goal.verdict = goal.verdict or "no answer"
        elif min(now_s, ended_s) - goal.accepted_s <= bound_s:
            goal.verdict = "robot ended" if ended_s <= now_s else "campaign ended"
        else:
            goal.verdict = "lost"
            what = f"{goal.tag} of {goal.robot} has no outcome after {now_s - goal.accepted_s:.0f} s"
            found.append(Violation(invariant="goals_lost", at_s=goal.accepted_s + bound_s, what=what))
    return found


def check_success(goals: Iterable[Goal], robots: Mapping[str, RobotCheck]) -> list[Violation]:
    """Returns the scripted goals that ended with NONE and did not make exactly the calls of their plan.

    A goal of a model has no plan to compare with, and is passed over.
    Where a segment failed, the plan goes on another way, and calls before it may be made again.
    """
    found = []
    for goal in goals:
        if goal.code != ErrorCode.NONE or goal.robot not in robots or not goal.plan:
            continue
        check = robots[goal.robot]
        made, wanted = Counter(check.calls_of.get(goal.tag, [])), Counter(flat_calls(goal.plan, check.model))
        if wanted - made or (made - wanted and goal.tag not in check.failed):
            what = f"{goal.tag} of {goal.robot} ended with NONE after {made.total()} of {wanted.total()} calls"
            found.append(Violation(invariant="false_success", at_s=goal.ended_s or 0.0, what=what))
    return found


def admitted_texts(lines: Iterable[Line]) -> dict[str, set[str]]:
    """Returns, by goal id, the texts that the gate admitted, from the journal of the engines."""
    texts: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        if line["kind"] == "admitted":
            texts[line["goal"]].add(line["text"])
    return texts


@dataclass(frozen=True, slots=True)
class Recovery:
    """How the engine came back after a fault.

    Attributes:
        after_s: From the end of the old engine process to the first segment that the new one admitted.
        load_s: Of that, from the birth of the new process until it was ready.
    """

    at_s: float
    after_s: float
    load_s: float


def recoveries(lines: Sequence[Line], ends_s: Sequence[float]) -> list[Recovery]:
    """Returns how the engine came back each time, by the journal of the engines.

    Args:
        lines: Of the journal.
        ends_s: When an engine process had ended. Where another end follows before it is back, the last one counts.
    """
    found = []
    for end_s, next_s in itertools.pairwise([*sorted(ends_s), float("inf")]):
        after = [line for line in lines if end_s < line["at_s"] < next_s]
        load_s = {line["pid"]: line["load_s"] for line in after if line["kind"] == "ready"}
        served = (line for line in after if line["kind"] == "admitted" and line["pid"] in load_s)
        first = next(served, None)
        if first is not None:
            found.append(Recovery(end_s, first["at_s"] - end_s, load_s[first["pid"]]))
    return found


def is_disturbed(begin_s: float, end_s: float, faults: Iterable[Span]) -> bool:
    """Returns whether a fault was in the way in a time, other than one that the time began with."""
    return any(f.begin_s < end_s and f.end_s > begin_s and abs(f.begin_s - begin_s) > 0.1 for f in faults)


def check_engine(
    lines: Sequence[Line], kills_s: Sequence[float], faults: Sequence[Span], until_s: float
) -> tuple[int, list[Violation]]:
    """Returns how many kills of the engine can be judged, and after which of them it was not back in time.

    A kill is judged if no other fault was in the way until the engine was back. If it never came back, it is late
    wherever it then had the longest load time of all engines and the margin without a fault.

    Args:
        lines: Of the journal of the engines.
        kills_s: When an engine was killed.
        faults: Of engine, planner and network.
        until_s: When nothing more was asked for.
    """
    longest_s = max((line["load_s"] for line in lines if line["kind"] == "ready"), default=0.0) + ENGINE_MARGIN_S
    back = {recovery.at_s: recovery for recovery in recoveries(lines, kills_s)}
    num_judged, found = 0, []
    for at_s, next_s in itertools.pairwise([*sorted(kills_s), until_s]):
        if (recovery := back.get(at_s)) is not None:
            is_judged = not is_disturbed(at_s, at_s + recovery.after_s, faults)
            is_late = is_judged and recovery.after_s > recovery.load_s + ENGINE_MARGIN_S
            what = f"served after {recovery.after_s:.1f} s, load {recovery.load_s:.1f} s"
        else:
            begins_s = [at_s, *(fault.end_s for fault in faults if fault.end_s > at_s)]
            quiet = (s for s in begins_s if s + longest_s < next_s and not is_disturbed(s, s + longest_s, faults))
            is_judged = is_late = any(True for _ in quiet)
            what = f"did not serve again, though it had {longest_s:.1f} s for it"
        num_judged += is_judged
        found += [Violation(invariant="engine_late", at_s=at_s, what=what)] if is_late else []
    return num_judged, found


def check_engine_starts(lines: Iterable[Line], faults_s: Iterable[float]) -> list[Violation]:
    """Returns the engines that replaced one which no fault had ended: each fault explains one engine that became ready.

    Args:
        lines: Of the journal of the engines.
        faults_s: When a fault hit engine or planner.
    """
    unused_s, found = sorted(faults_s), []
    births_s = sorted(line["at_s"] - line["load_s"] for line in lines if line["kind"] == "ready")
    for born_s in births_s[1:]:
        reason_s = next((s for s in unused_s if born_s - ENGINE_REPLACED_S < s < born_s + 0.1), None)
        if reason_s is None:
            what = "an engine replaced one that no fault had ended"
            found.append(Violation(invariant="processes_ended", at_s=born_s, what=what))
        else:
            unused_s.remove(reason_s)
    return found


def check_stop(statuses: Mapping[str, int], alive: Collection[str], now_s: float) -> list[Violation]:
    """Returns the processes that did not end by themselves.

    Args:
        statuses: Of their exits, by name.
        alive: Names of those that had not ended when they were told to.
        now_s: When they had ended.
    """
    return [
        Violation(invariant="hangs_at_stop", at_s=now_s, what=f"{name} had to be killed")
        for name, status in statuses.items()
        if name in alive and machine.had_to_be_killed(status)
    ]
