# SPDX-License-Identifier: Apache-2.0
"""What an engine process has been told and has not done yet: the urgent is not kept waiting by the many."""

import select
from collections import deque
from multiprocessing.connection import Connection

from llm_planner.core.request import Urgency
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.messages import Cancel, Look, ParentMessage, Report

_LOOK = ""  # no goal has this name


class DeferredTime:
    """Shares the time between two steps: what is deferred takes as long as the first of them, then waits for the next.

    So many goals that come at once slow a plan that is being written down by half, and do not stop it.
    """

    def __init__(self) -> None:
        self._step_s = self._deferred_s = 0.0

    def stepped(self, took_s: float) -> None:
        """Notes a step."""
        self._step_s, self._deferred_s = took_s, 0.0

    def used(self, took_s: float) -> None:
        """Notes something deferred that was done."""
        self._deferred_s += took_s

    @property
    def is_up(self) -> bool:
        """Whether a step comes first now, if one is due."""
        return self._deferred_s > self._step_s


class ParentGoneError(Exception):
    """There is nobody at the other end of the pipe."""


class Inbox:
    """Messages in the order in which they came, except that deferrable ones stand behind all others.

    A goal is deferrable if it is not urgent; of these, those with a time budget come first. Preparing one takes about a
    millisecond: when a whole fleet sends its goals at once, an emergency behind them, and every plan that is being
    written, would wait for all of them. A look is deferrable too: it shows the goals that came before it.

    A report about a goal that still stands behind brings that goal with it, so that of one goal nothing is overtaken.
    A goal that is cancelled before it was taken is dropped.

    Args:
        connection: To the parent. It is read between two turns of the loop, on its thread: one of its own would have to
            take the interpreter from the loop for every message.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._first: deque[ParentMessage] = deque()
        self._hurried: dict[str, GoalRecord | Look] = {}  # deferrable, with a time budget
        self._deferrable: dict[str, GoalRecord | Look] = {}  # without

    def has_message(self, timeout_s: float) -> bool:
        """Returns whether there is a message for ``take``, which does not stand behind others.

        Args:
            timeout_s: How long to wait for one, unless there are deferrable ones.

        Raises:
            ParentGoneError: If the parent is gone.
            Exception: Whatever a message raises that cannot be read.
        """
        self._receive(0.0)
        if not self._first and not self.has_deferrable:
            self._receive(timeout_s)
        return bool(self._first)

    def take(self) -> ParentMessage:
        """Returns the next message that does not stand behind others."""
        return self._first.popleft()

    def has_decision_due(self, from_s: float, to_s: float) -> bool:
        """Returns whether an emergency has come about whose time budget must be decided between two moments.

        Raises: as ``has_message``.
        """
        self._receive(0.0)
        goals = (message for message in self._first if isinstance(message, GoalRecord))
        decide_by_s = [goal.decide_by_s for goal in goals if goal.request.urgency is Urgency.URGENT]
        return any(time_s is not None and from_s < time_s < to_s for time_s in decide_by_s)

    @property
    def has_deferrable(self) -> bool:
        """Whether there is a message for ``take_deferrable``."""
        return bool(self._hurried or self._deferrable)

    @property
    def is_hurried(self) -> bool:
        """Whether the next message that is deferrable has a time budget."""
        return bool(self._hurried)

    def take_deferrable(self) -> GoalRecord | Look:
        """Returns the next message that is deferrable."""
        messages = self._hurried or self._deferrable
        return messages.pop(next(iter(messages)))

    def _receive(self, timeout_s: float) -> None:
        while select.select([self._connection], [], [], timeout_s)[0]:  # ``poll`` would wake up a millisecond late
            try:
                message = self._connection.recv()
            except (EOFError, OSError) as error:
                raise ParentGoneError from error
            self._sort_in(message)
            timeout_s = 0.0

    def _sort_in(self, message: ParentMessage) -> None:
        if isinstance(message, Look):
            self._deferrable[_LOOK] = message
            return
        if isinstance(message, GoalRecord) and message.request.urgency is not Urgency.URGENT:
            goals = self._deferrable if message.request.time_budget_s is None else self._hurried
            goals[message.request_id] = message
            return
        if isinstance(message, Cancel | Report):
            goal = self._hurried.pop(message.request_id, None) or self._deferrable.pop(message.request_id, None)
            if isinstance(message, Cancel):
                self._first = deque(one for one in self._first if not _opens(one, message.request_id))
            elif goal is not None:
                self._first.append(goal)
        self._first.append(message)


def _opens(message: ParentMessage, request_id: str) -> bool:
    return isinstance(message, GoalRecord) and message.request.request_id == request_id
