# SPDX-License-Identifier: Apache-2.0
"""What the loop needs of a request before it can be scheduled."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import Segment
from llm_planner.core.step import Sequence as TokenSequence
from llm_planner.core.step import TokenChoice
from llm_planner.planning.session import Progress
from llm_planner.serving.awaited_length import AwaitedLength


class Session(Protocol):
    """Turns tokens into segments; ``planning.session.PlanSession`` is the real one."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to generate."""
        ...

    @property
    def is_closable(self) -> bool:
        """Whether closing the plan now would add a segment."""
        ...

    @property
    def confidence(self) -> float:
        """How sure the model is of its answer so far, 0 to 1."""
        ...

    def feed(self, token_ids: Iterable[int], choices: Sequence[TokenChoice] = ()) -> Progress:
        """Returns what the next tokens of the model brought about."""
        ...

    def finish(self) -> Progress:
        """Returns what the end of the generation brought about."""
        ...

    def close(self) -> Progress:
        """Ends the plan in the midst of the generation; returns what that adds."""
        ...


@dataclass(frozen=True, slots=True)
class Replan:
    """How a plan goes on another way.

    Attributes:
        segment: Tells the robot so.
        token_ids: What the model reads before it goes on.
        keeps_context: Whether it reads that behind all that it has read and written. Else it is a whole prompt.
    """

    segment: Segment
    token_ids: tuple[int, ...]
    keeps_context: bool = True


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request ready to be scheduled.

    Attributes:
        num_delivered_tokens: Trailing prompt tokens that are segments delivered before a restart: written by the model.
        num_inserted_tokens: Tokens between these that the planner inserted, about what failed: read by the model.
        length: How many tokens are to be generated, as soon as it is predicted; None if nothing predicts it.
        begin_replan: Makes the session begin another plan, for the request with what was delivered and what failed so
            far. None for what cannot be replanned.
        at_once: The plan behind what was delivered of it, where no model is needed for it.
        stop_skill: Of the robot model; empty for an answer in words.
    """

    sequence: TokenSequence
    session: Session
    num_delivered_tokens: int = 0
    num_inserted_tokens: int = 0
    length: AwaitedLength | None = None
    begin_replan: Callable[[PlanRequest], Replan] | None = None
    at_once: Progress | None = None
    stop_skill: str = ""


class Preparer(Protocol):
    """Prepares requests."""

    def prepare(self, request: PlanRequest) -> Prepared:
        """Returns the request ready to be scheduled, or raises PlannerError."""
        ...
