# SPDX-License-Identifier: Apache-2.0
"""One command at a time to a Tello, and when to believe its answer. No sockets, no clock.

The protocol has no numbers: an ``ok`` does not say what it answers. So no answer is believed alone. A motion has
succeeded once there was an ``ok`` *and* the state stream has shown the drone moving since the command was sent *and*
shows it standing again; of a turn, the whole angle. An ``ok`` that is late or doubled can then end no command that was
lost, and none too early. A ``stop`` that is late would end the motion after it, and its ``ok`` be taken for that
motion's: while a stop without an answer may still be on its way, nothing but another stop is sent.

Deviation: djitellopy (2.5.0) is not used. It takes the first datagram that it has not read for the answer to whatever
it sent last, sends a motion again when nothing came for 7 s or an ``error`` did (``send_control_command``), waits by
sleeping, and binds two fixed ports on every address for a whole process. A motion is never sent twice here.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Protocol

from llm_planner.robots.drivers.tello_state import MOVING_DM_S, State, Telemetry, apart_deg, is_steady, turned_deg

GAP_S = 0.1  # between datagrams: faster ones are ignored (djitellopy, TIME_BTW_COMMANDS)
REPEAT_S = 0.5  # after which a command that may be repeated is sent again
KEEP_ALIVE_S = 4.0  # three of them fit into the 15 s after which the drone lands by itself
STALE_S = 2.0  # without a state for this long, it is unknown what the drone does
PROMPT_S = 0.5  # within which an answer to a stop is believed to be one
LATE_S = 2.5  # after which no datagram comes any more: assumed
BLIND_S = 0.5  # without a state for this long, it may have begun to move
FALLEN_M = 0.15
NUM_GOODBYES = 3
KEEP_ALIVE = "battery?"  # a question: its answer is a number and can never be taken for an ``ok``


_OK = "ok"
_TURN_TOLERANCE_DEG, _TURN_TOLERANCE = 3.0, 0.05


class Proof(Enum):
    """What the state stream must show before an answer is believed."""

    NONE = "none"  # of a setting
    MOVED = "moved"
    TURNED = "turned"
    FLYING = "flying"
    LANDED = "landed"
    STANDING = "standing"  # of a stop: no answer is needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is sent, and how it ends.

    Attributes:
        text: The datagram.
        proof: Of its success.
        limit_s: After this long without a believable answer it has failed.
        answer: Judges an answer that is not an error.
        is_repeatable: Whether doing it twice is the same as doing it once.
        turn_deg: Of a turn.
    """

    text: str
    proof: Proof
    limit_s: float
    answer: Callable[[str], bool] = lambda text: text == _OK
    is_repeatable: bool = False
    turn_deg: float = 0.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended.

    Attributes:
        reason: Why it failed; empty if it did not.
        has_moved: Whether the drone was seen moving since it was sent.
        is_unknown: Whether the drone may have moved unseen, so that nobody knows where it is.
        is_answered: Whether the drone said ok.
        is_refused: Whether it said that it cannot do it.
    """

    reason: str = ""
    has_moved: bool = False
    is_unknown: bool = False
    is_answered: bool = False
    is_refused: bool = False

    @property
    def is_success(self) -> bool:
        """Whether there is no reason to think otherwise."""
        return not self.reason


class Transport(Protocol):
    """Carries datagrams to and from one drone; nothing blocks."""

    def send(self, text: str) -> None:
        """Sends a command."""
        ...

    def answers(self) -> list[str]:
        """Returns the answers that came since the last call."""
        ...

    def states(self) -> list[str]:
        """Returns the state lines that came since the last call."""
        ...

    def close(self) -> None:
        """Frees everything."""
        ...


@dataclass(slots=True)
class _Flight:
    """The command that is in flight."""

    command: Command
    sent_s: float | None = None  # None while it waits for its turn
    repeated_s: float = 0.0
    is_answered: bool = False
    answered_s: float = 0.0
    before: State | None = None
    texts: deque[str] = field(default_factory=lambda: deque(maxlen=3))  # that it did not believe


_KEEP_ALIVE = Command(text=KEEP_ALIVE, proof=Proof.NONE, limit_s=0.0)


class _Stops:
    """The orders to stop that the drone may not have received."""

    def __init__(self) -> None:
        self._num_unanswered = 0
        self._sent_s = float("-inf")

    def note_sent(self, now_s: float) -> None:
        """Counts an order."""
        if not self.may_come(now_s):
            self._num_unanswered = 0
        self._num_unanswered += 1
        self._sent_s = now_s

    def note_answered(self, now_s: float) -> None:
        """Counts an answer; one that is slow may be the double of another. Below 0, one came twice for certain."""
        if now_s - self._sent_s <= PROMPT_S:
            self._num_unanswered -= 1

    def may_come(self, now_s: float) -> bool:
        """Returns whether one may arrive later than what is sent now."""
        return self._num_unanswered != 0 and now_s - self._sent_s < LATE_S


class TelloLine:
    """Commands and states of one drone. Call ``poll`` often.

    Args:
        transport: To the drone; used by this object alone.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._flight: _Flight | None = None
        self._ending = Ending()
        self._last_datagram_s = float("-inf")
        self._sent_s = float("-inf")
        self._stops = _Stops()
        self.telemetry = Telemetry()

    @property
    def is_busy(self) -> bool:
        """Whether a command is in flight, or waits to be sent."""
        return self._flight is not None

    @property
    def sent_s(self) -> float | None:
        """When the command in flight was sent; None while it waits, or there is none."""
        return None if self._flight is None else self._flight.sent_s

    @property
    def is_taking_off(self) -> bool:
        """Whether the command in flight is a take-off that was sent."""
        return self.sent_s is not None and self._flight is not None and self._flight.command.proof is Proof.FLYING

    def may_have_moved(self, now_s: float) -> bool:
        """Returns False if the states that came since the command in flight was sent show that it was not obeyed."""
        flight = self._flight
        return flight is not None and (self._has_moved(flight) or self._has_gap(flight, now_s))

    def is_unknown(self, now_s: float) -> bool:
        """Returns whether the command in flight may have moved the drone unseen."""
        return self._flight is not None and self._is_unknown(self._flight, now_s)

    @property
    def ending(self) -> Ending:
        """How the last command ended."""
        return self._ending

    def begin(self, command: Command, now_s: float) -> None:
        """Sends a command as soon as the drone takes one; the command before it must have ended."""
        if self._flight is not None:
            raise RuntimeError(f"{command.text!r} while {self._flight.command.text!r} is in flight")
        self._flight = _Flight(command)
        self.poll(now_s)

    def interrupt(self, command: Command, now_s: float) -> None:
        """Sends a command at once, past the one in flight, which gets no answer any more."""
        self._flight = _Flight(command)
        self._launch(self._flight, now_s)

    def withdraw(self) -> None:
        """Drops a command that still waits to be sent."""
        if self.sent_s is None:
            self._flight = None

    def poll(self, now_s: float) -> None:
        """Reads what came, sends what is due, and ends the command in flight if its answer is believed."""
        for text in self._transport.states():
            self.telemetry.note(text, now_s)
        for text in self._transport.answers():
            self._receive(text, now_s)
        flight = self._flight
        if flight is None:
            return
        if flight.sent_s is None:
            is_motion = flight.command.proof is not Proof.NONE
            if now_s - self._last_datagram_s >= GAP_S and not (is_motion and self._stops.may_come(now_s)):
                self._launch(flight, now_s)
            return
        self._judge(flight, flight.sent_s, now_s)
        if self._flight is flight and flight.command.is_repeatable and now_s - flight.repeated_s >= REPEAT_S:
            flight.repeated_s = now_s
            self._send(flight.command, now_s)

    def keep_alive(self, now_s: float) -> None:
        """Asks something harmless if nothing was sent for a while, so that the drone does not land by itself."""
        if self._flight is None and now_s - self._sent_s >= KEEP_ALIVE_S:
            self._send(_KEEP_ALIVE, now_s)

    def say_goodbye(self) -> None:
        """Orders a landing without waiting for it: three times, because the loss of one would go unnoticed."""
        for _ in range(NUM_GOODBYES):
            self._transport.send("land")

    def close(self) -> None:
        """Frees the transport."""
        self._transport.close()

    def _launch(self, flight: _Flight, now_s: float) -> None:
        flight.sent_s = flight.repeated_s = now_s
        flight.before = self.telemetry.last
        self._send(flight.command, now_s)

    def _send(self, command: Command, now_s: float) -> None:
        self._sent_s = self._last_datagram_s = now_s
        if command.proof is Proof.STANDING:
            self._stops.note_sent(now_s)
        self._transport.send(command.text)

    def _receive(self, text: str, now_s: float) -> None:
        """Takes an answer: for the command in flight if it fits, else for a stray."""
        self._last_datagram_s = now_s
        flight, answer = self._flight, text.strip().lower()
        if answer == _OK and (flight is None or flight.sent_s is None or flight.command.proof is Proof.STANDING):
            self._stops.note_answered(now_s)
        if flight is None or flight.sent_s is None:
            return
        if flight.command.answer(answer):
            flight.is_answered, flight.answered_s = True, now_s
        elif flight.command.proof is not Proof.STANDING and answer.startswith(("error", "out of range", "unknown")):
            self._fail(flight, f"the drone answers {answer!r}", now_s, is_refused=True)
        else:
            flight.texts.append(answer[:40])

    def _judge(self, flight: _Flight, sent_s: float, now_s: float) -> None:
        command = flight.command
        is_needed = command.proof is not Proof.STANDING
        if (flight.is_answered or not is_needed) and self._is_proven(flight, sent_s):
            self._end(Ending(has_moved=command.proof is not Proof.NONE))
        elif now_s - sent_s >= command.limit_s:
            self._fail(flight, self._what_is_missing(flight), now_s)
        elif self.telemetry.age_s(now_s) >= STALE_S and now_s - sent_s >= STALE_S and command.proof is not Proof.NONE:
            has_risen = command.proof is Proof.FLYING  # for all that is known
            self._fail(flight, f"nothing was received from the drone for {STALE_S:g} s", now_s, has_moved=has_risen)

    def _is_proven(self, flight: _Flight, sent_s: float) -> bool:
        proof = flight.command.proof
        if proof is Proof.NONE:
            return True
        if not is_steady(self.telemetry.since(sent_s)):
            return False
        if proof is Proof.TURNED:
            return self._has_turned_all(flight, sent_s)
        if proof is Proof.FLYING and not self.telemetry.since(flight.answered_s):
            return False  # where it has risen to, only a newer state says
        return proof is Proof.STANDING or self._has_moved(flight)

    def _has_turned_all(self, flight: _Flight, sent_s: float) -> bool:
        before = [] if flight.before is None else [flight.before]
        turn_deg = flight.command.turn_deg
        missing_deg = turn_deg - abs(turned_deg([*before, *self.telemetry.since(sent_s)]))
        return missing_deg <= min(turn_deg / 2.0, max(_TURN_TOLERANCE_DEG, _TURN_TOLERANCE * turn_deg))

    def _has_moved(self, flight: _Flight) -> bool:
        """Whether the states since the command show what it does."""
        states = [] if flight.sent_s is None else self.telemetry.since(flight.sent_s)
        match flight.command.proof:
            case Proof.TURNED:
                least_deg = min(5.0, flight.command.turn_deg / 2.0)
                seen = states if flight.before is None else [flight.before, *states]
                return any(apart_deg(state.yaw_deg, seen[0].yaw_deg) >= least_deg for state in seen)
            case Proof.FLYING:
                return bool(states) and states[-1].height_m > FALLEN_M
            case Proof.LANDED:
                return bool(states) and states[-1].height_m <= FALLEN_M
            case _:
                return any(state.speed_dm_s >= MOVING_DM_S for state in states)

    def _has_gap(self, flight: _Flight, now_s: float) -> bool:
        """Whether no state came for so long since the command that it may have been obeyed unseen."""
        if flight.sent_s is None:
            return False
        times_s = (flight.sent_s, *(state.at_s for state in self.telemetry.since(flight.sent_s)), now_s)
        return any(after_s - before_s >= BLIND_S for before_s, after_s in pairwise(times_s))

    def _is_unknown(self, flight: _Flight, now_s: float) -> bool:
        is_way = flight.command.proof in (Proof.MOVED, Proof.TURNED)
        return is_way and not self._has_moved(flight) and self._has_gap(flight, now_s)

    def _what_is_missing(self, flight: _Flight) -> str:
        text, limit_s = flight.command.text, flight.command.limit_s
        if flight.is_answered:
            return f"the drone answers {text!r} with ok, but its state does not show that it did it"
        said = f"; it said {', '.join(map(repr, flight.texts))}" if flight.texts else ""
        return f"no answer to {text!r} within {limit_s:g} s{said}"

    def _fail(
        self, flight: _Flight, reason: str, now_s: float, *, has_moved: bool = False, is_refused: bool = False
    ) -> None:
        has_moved, is_unknown = has_moved or self._has_moved(flight), self._is_unknown(flight, now_s)
        self._end(Ending(reason, has_moved, is_unknown, is_answered=flight.is_answered, is_refused=is_refused))

    def _end(self, ending: Ending) -> None:
        self._flight = None
        self._ending = ending
