# SPDX-License-Identifier: Apache-2.0
"""A fleet as a dashboard shows it: folded from what planner and robots say on their topics, and nothing else."""

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from llm_planner.core.errors import ErrorCode, code_name
from llm_planner.monitoring.alerts import MAX_TEXT, SILENT_S, Alert, Journal, conditions
from llm_planner.monitoring.pace import Pace
from llm_planner.monitoring.robot_view import RobotView
from llm_planner.monitoring.rows import WINDOW_S, Measured, RobotRows, RowSpan, integer, number
from llm_planner.serving.meter import Totals, have_fallen
from llm_planner.serving.planner_view import PlannerView

LATEST_S = 10.0
"""No view is later than others by more: the clock of its planner has gone back."""
MAX_MEASURED = 500
GONE_S = 60.0
"""A robot that is silent for this long has gone, and is no longer an alert."""
MAX_ROBOTS = 200
MAX_ENDS = 200
"""Most codes that ends are counted by: more than there are."""


@dataclass(slots=True)
class SeenRobot:
    """A robot, when its last message came, and whether that was shown since."""

    view: RobotView
    received_s: float
    num_lost: int = 0
    things_revision: int = 0
    is_resumed: bool = False  # there was no listener meanwhile: what was missed was not lost


@dataclass(slots=True, kw_only=True)
class Dialogue:
    """The last instruction of a robot, and what became of it.

    Attributes:
        answer: What the robot said or returned last; empty if nothing.
        ending: How the goal ended, in words; empty while it lasts.
        revision: Grows with every change.
    """

    request_id: str
    instruction: str
    answer: str = ""
    ending: str = ""
    revision: int = 0


class FleetState:
    """Everything that is known now. Not thread-safe; every method takes the time of one clock of this process.

    What happened is kept on the planner's clock, which may be that of another machine; the offset between the clocks is
    the least that was ever seen between an event and its arrival. That clock goes on if the planner is started again,
    wherever that is.

    Args:
        keeps_all: Whether all spans and durations of segments are kept, for a recording; else the last ones.

    Attributes:
        num_restarts: How often the planner was started again.
    """

    def __init__(self, *, keeps_all: bool = False) -> None:
        self.rows = RobotRows(None) if keeps_all else RobotRows()
        self.journal = Journal()
        self.planner: PlannerView | None = None
        self.planner_received_s = -math.inf
        self.robots: dict[str, SeenRobot] = {}
        self.dialogues: dict[str, Dialogue] = {}  # by robot, the oldest instruction first
        self.ended: Counter[str] = Counter()
        self.num_lost_events = 0
        self.num_broken = 0
        self.num_restarts = 0
        self._pace = Pace()
        self._totals = Totals()  # as the planner counted them last
        self._measured: deque[tuple[int, Measured]] = deque(maxlen=None if keeps_all else MAX_MEASURED)
        self._offset_s = math.inf
        self._skew_s = 0.0  # of the first planner's clock from that of the one which runs now
        self._next_number: int | None = None
        self._revision = 0

    # What is received

    def receive_planner(self, view: PlannerView, now_s: float) -> None:
        """Takes a planner's view of itself."""
        before = self.planner
        self.planner, self.planner_received_s = view, now_s
        if before is not None and view.num_restarts > before.num_restarts:
            self._note(now_s, "bad", "the engine was restarted")
        self._pace.take(view.loop)
        if view.loop is None:
            return
        time_s = view.loop.at_s + (view.age_s or 0.0)
        if have_fallen(self._totals, view.loop.totals):
            self._restart(time_s, now_s)
            self._next_number = None  # its events begin again too: that is the same restart
        self._totals = view.loop.totals
        if now_s - time_s - self._skew_s > self._offset_s + LATEST_S:
            self._offset_s = math.inf
        self._meet(time_s + self._skew_s, now_s)
        at_s = view.loop.at_s + self._skew_s
        for goal in view.loop.goals:
            self.rows.working(goal.request_id, at_s)
            if goal.state == "planned":
                self.rows.complete(goal.request_id)

    def receive_event(self, line: Mapping[str, Any], now_s: float) -> None:
        """Takes a line of a planner's goal events; one that is broken is counted and passed over."""
        try:
            if self._count(line.get("number")):
                self._restart(number(line["time_s"]), now_s)
            line = {**line, "time_s": number(line["time_s"]) + self._skew_s}
            self._meet(line["time_s"], now_s)
            robot_id = self.rows.robot_of(str(line["request_id"]))
            measured = self.rows.take(line)
            self._note_dialogue(line, robot_id)
            if line["event"] == "finished":
                self._note_end(line, robot_id)
            elif line["event"] == "report":
                self._note_findings(line, robot_id)
        except (KeyError, TypeError, ValueError):
            self.receive_broken("the planner", now_s)
            return
        if measured is not None:
            self._revision += 1
            self._measured.append((self._revision, measured))

    def receive_robot(self, view: RobotView, now_s: float) -> None:
        """Takes a robot's view of itself."""
        seen = self.robots.get(view.robot_id)
        if seen is None:
            if len(self.robots) < MAX_ROBOTS:
                self._revision += 1
                self.robots[view.robot_id] = SeenRobot(view, now_s, things_revision=self._revision)
            return
        if view.number > seen.view.number + 1 and not seen.is_resumed:
            seen.num_lost += view.number - seen.view.number - 1
        if view.things != seen.view.things:
            self._revision += 1
            seen.things_revision = self._revision
        seen.view, seen.received_s, seen.is_resumed = view, now_s, False

    def receive_reflex(self, robot_id: str, reason: str, action: str, *, is_over: bool, now_s: float) -> None:
        """Takes the beginning or the end of a robot's reflex."""
        self.rows.reflex(robot_id, self.planner_now_s(now_s), action, is_over=is_over)
        if not is_over:
            self._note(now_s, "bad", f"reflex: {reason}", robot_id)

    def receive_diagnostic(self, name: str, level: int, message: str, now_s: float) -> None:
        """Takes a line of /diagnostics: 0 is well, 1 a warning, 2 and 3 are errors."""
        self.journal.diagnose(name, level, message, now_s)

    def receive_broken(self, sender: str, now_s: float) -> None:
        """Counts a message that made no sense."""
        self.num_broken += 1
        self._note(now_s, "warn", "a message that makes no sense was passed over", sender)

    def resume(self, now_s: float) -> None:
        """Ignores the silence of a time in which there was no listener."""
        self.planner_received_s = now_s
        for robot in self.robots.values():
            robot.received_s, robot.is_resumed = now_s, True

    # What is shown

    @property
    def measured(self) -> tuple[Measured, ...]:
        """The last segments whose duration is known."""
        return tuple(measured for _, measured in self._measured)

    @property
    def num_lost(self) -> int:
        """Messages that did not come, by their numbers."""
        return self.num_lost_events + sum(robot.num_lost for robot in self.robots.values())

    @property
    def revisions(self) -> dict[str, int]:
        """How far a document that is made now goes: ``document`` tells what came since."""
        return {"rows": self.rows.revision, "log": self.journal.revision, "other": self._revision}

    def planner_now_s(self, now_s: float) -> float:
        """Returns what the planner's clock shows now, as far as known."""
        return now_s if math.isinf(self._offset_s) else now_s - self._offset_s

    def forget(self, now_s: float) -> None:
        """Drops what is too old to be shown, and says nothing. Call it regularly while no client looks."""
        self.rows.forget(self.planner_now_s(now_s) - WINDOW_S)
        for name in self._gone(now_s):
            self.rows.lost(name, self.planner_now_s(self.robots.pop(name).received_s))

    def document(self, now_s: float, since: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Returns the fleet as JSON: whole, or only what changed since the ``revisions`` of an earlier document."""
        since = since or {}
        for name in self._gone(now_s):
            self._note(now_s, "warn", f"silent for {GONE_S:g} s: taken off the map", name)
        self.forget(now_s)
        view = self.planner
        rates = self._pace.rates
        silent_s = now_s - self.planner_received_s
        return {
            "now_s": round(self.planner_now_s(now_s), 3),
            "revisions": self.revisions,
            "is_whole": not since,
            "planner": None if view is None else _head(view, max(0.0, silent_s)),
            "rates": None if rates is None else _plain(asdict(rates)),
            "loop": None if view is None or view.loop is None else _plain(asdict(view.loop)),
            "robots": [self._robot(robot, now_s, since.get("other", -1)) for robot in self.robots.values()],
            "dialogues": {
                name: {key: value for key, value in asdict(dialogue).items() if key != "revision"}
                for name, dialogue in self.dialogues.items()
                if dialogue.revision > since.get("other", -1)
            },
            "spans": [_span(span) for span in self.rows.changed(since.get("rows", -1))],
            "measured": [
                {"number": revision, **_plain(asdict(m))}
                for revision, m in self._measured
                if revision > since.get("other", -1)
            ],
            "alerts": [asdict(alert) for alert in self.alerts(now_s)],
            "log": [entry.as_json(self.planner_now_s(now_s)) for entry in self.journal.since(since.get("log", -1))],
            "ended": dict(self.ended),
            "num_lost": self.num_lost,
            "num_broken": self.num_broken,
        }

    def alerts(self, now_s: float) -> list[Alert]:
        """Returns what an operator should look at now, the worst first."""
        silent_s = {name: now_s - robot.received_s for name, robot in self.robots.items()}
        found = [*conditions(self.planner, now_s - self.planner_received_s, silent_s), *self.journal.diagnoses(now_s)]
        found += [Alert("bad", "acts by reflex", robot) for robot in self._reflexes()]
        return sorted(found, key=lambda alert: alert.level != "bad")

    def _gone(self, now_s: float) -> list[str]:
        return [name for name, robot in self.robots.items() if now_s - robot.received_s > GONE_S]

    def _reflexes(self) -> Iterator[str]:
        return (name for name, robot in self.robots.items() if robot.view.is_in_reflex)

    def _robot(self, robot: SeenRobot, now_s: float, since: int) -> dict[str, Any]:
        view = asdict(robot.view)
        things = view.pop("things")
        shown = {**_plain(view), "silent_s": round(now_s - robot.received_s, 2), "num_lost": robot.num_lost}
        return {**shown, "things": _plain(things)} if robot.things_revision > since else shown

    def _meet(self, time_s: float, now_s: float) -> None:
        """Learns of the planner's clock: what came latest is the nearest to the truth."""
        by_s = self._offset_s - (now_s - time_s)
        if 0.0 < by_s < math.inf:
            self.rows.put_reflexes_later(by_s)
            self.journal.put_later(by_s)
        self._offset_s = min(self._offset_s, now_s - time_s)

    def _count(self, event_number: object) -> bool:
        """Counts the events between two numbers; returns whether they begin again, as the planner does."""
        if not isinstance(event_number, int):
            return False
        expected = event_number if self._next_number is None else self._next_number
        self.num_lost_events += max(0, event_number - expected)
        self._next_number = event_number + 1
        return event_number < expected

    def _restart(self, time_s: float, now_s: float) -> None:
        """Goes on with a planner that was started again: its goals are others, and its clock may be another."""
        self.rows.interrupt()
        self.num_restarts += 1
        self._totals = Totals()
        self._skew_s = self.planner_now_s(now_s) - time_s
        self._note(now_s, "bad", "the planner was restarted")

    def _note(self, now_s: float, level: str, text: str, about: str = "") -> None:
        """Notes what happened now; the journal is kept on the planner's clock, as events of the past come late."""
        self.journal.note(self.planner_now_s(now_s), level, text, about, is_on_receipt=True)

    def _note_end(self, line: Mapping[str, Any], robot_id: str) -> None:
        code, why = integer(line["error_code"]), str(line.get("error_msg", ""))
        name = code_name(code)
        if name in self.ended or len(self.ended) < MAX_ENDS:
            self.ended[name] += 1
        if code not in (ErrorCode.NONE, ErrorCode.CANCELLED):
            text = f"{why[:MAX_TEXT]} [{name} {code}]" if why else f"a goal failed [{name} {code}]"
            self.journal.note(number(line["time_s"]), "warn", text, robot_id)

    def _note_dialogue(self, line: Mapping[str, Any], robot_id: str) -> None:
        """Notes what a robot was told, what it answered, and how that ended."""
        if line["event"] == "accepted":
            robot_id, request_id = str(line["robot_id"])[:MAX_TEXT], str(line["request_id"])[:MAX_TEXT]
            self.dialogues.pop(robot_id, None)
            if len(self.dialogues) >= MAX_ROBOTS:
                del self.dialogues[next(iter(self.dialogues))]
            instruction = str(line.get("instruction", ""))[:MAX_TEXT]
            self.dialogues[robot_id] = Dialogue(request_id=request_id, instruction=instruction)
        dialogue = self.dialogues.get(robot_id)
        if dialogue is None or dialogue.request_id != str(line["request_id"])[:MAX_TEXT]:
            return
        if line["event"] == "report":
            said = [str(text) for text in line.get("said", ())]
            said += [f"{line['value']}"] if "value" in line else []
            dialogue.answer = said[-1][:MAX_TEXT] if said else dialogue.answer
        elif line["event"] == "finished":
            code = integer(line["error_code"])
            why = str(line.get("error_msg", "")) or code_name(code)
            dialogue.ending = "done" if code == ErrorCode.NONE else f"failed: {why}"[:MAX_TEXT]
        self._revision += 1
        dialogue.revision = self._revision

    def _note_findings(self, line: Mapping[str, Any], robot_id: str) -> None:
        """Notes what a robot said, found or measured, and why a segment failed."""
        found = [f"says: {text}" for text in line.get("said", ())]
        found += [f"segment {integer(line['index'])} returned {line['value']}"] if "value" in line else []
        for text in found:
            self.journal.note(number(line["time_s"]), "good", text[:MAX_TEXT], robot_id)
        if line.get("status") == "failed":
            text = f"segment {integer(line['index'])} failed: {str(line.get('reason', 'no reason given'))[:MAX_TEXT]}"
            self.journal.note(number(line["time_s"]), "warn", text, robot_id)


def _head(view: PlannerView, silent_s: float) -> dict[str, Any]:
    names = ("planner", "state", "model", "policy", "is_ready", "num_restarts", "num_goals", "error_code", "error_msg")
    idle = [asdict(robot) for robot in view.idle_robots]
    known = {"age_s": _plain(view.age_s), "idle_robots": _plain(idle)}
    known |= {"silent_s": round(silent_s, 2), "is_silent": silent_s > SILENT_S}
    return {name: getattr(view, name) for name in names} | known


def _span(span: RowSpan) -> list[Any]:
    """Returns number, robot, kind, start, end, label, whether urgent, whether interrupted."""
    end_s = None if span.end_s is None else round(span.end_s, 3)
    flags = [int(span.is_urgent), int(span.is_interrupted)]
    return [span.number, span.robot_id, span.kind.value, round(span.start_s, 3), end_s, span.label, *flags]


def _plain(value: Any) -> Any:
    """Returns a value with its numbers shortened; those that JSON lacks become null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    return value
