# SPDX-License-Identifier: Apache-2.0
"""Scripted plans: what a model would write, token by token, and which token completes which segment."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.segment import Segment, make_replan
from llm_planner.core.step import TokenChoice
from llm_planner.language.parser import IncrementalParser
from llm_planner.language.prose import ProseUnit
from llm_planner.planning.chat import ChatSession
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.planning.session import PlanSession, Progress
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.preparation import Session

_PIECE = re.compile(r" ?_?[A-Za-z]{1,8}|\d{1,3}|_|[^\w\s]+|\s+")


def split_tokens(text: str) -> list[str]:
    """Returns ``text`` cut as the vocabulary of a large model cuts it, near enough to count tokens.

    Words in pieces of up to eight letters, numbers by three digits, runs of punctuation together: ``mb(100);`` has
    four tokens, as with Llama 3.
    """
    return _PIECE.findall(text)


@dataclass(frozen=True, slots=True)
class Script:
    """One plan, compiled.

    Attributes:
        num_tokens: Length, without the token that ends the sequence.
        segments: In order.
        ends: Per segment, after how many tokens it is complete.
    """

    num_tokens: int
    segments: tuple[Segment, ...]
    ends: tuple[int, ...]

    def rest(self, first: int, index: int) -> "Script":
        """Returns what is left of the plan from its segment ``first`` on; its segments are counted from ``index``."""
        before = self.ends[first - 1] if first else 0
        segments = tuple(replace(s, index=number) for number, s in enumerate(self.segments[first:], index))
        return Script(self.num_tokens - before, segments, tuple(end - before for end in self.ends[first:]))


class ScriptLibrary:
    """Compiles plans, each once: parser, gate and duration model see it as they would see a model's."""

    def __init__(self, robots: RobotLibrary) -> None:
        self.robots = robots
        self.script = lru_cache(maxsize=4096)(self._compile)
        self.prose = lru_cache(maxsize=4096)(_compile_prose)

    def _compile(
        self, robot_model: str, plan: str, segment_tokens: tuple[int, ...] = (), start_pose: Pose | None = None
    ) -> Script:
        """Returns the script of a plan, or raises what its parser or its gate raises.

        Args:
            robot_model: The robot model that was asked.
            plan: MiniSpec.
            segment_tokens: Per segment, how many tokens the model wrote; empty to count as ``split_tokens`` does.
            start_pose: Where the safety gate begins to count; None for the robot model's.
        """
        model = self.robots.get(robot_model)
        session = PlanSession(
            tokenizer=_PieceTokenizer(split_tokens(plan)),
            parser=IncrementalParser(),
            gate=SafetyGate(model, start_pose),
            expected_duration=partial(expected_duration, model),
        )
        return _run(session, plan, segment_tokens)


def _compile_prose(text: str, unit: ProseUnit, segment_tokens: tuple[int, ...] = ()) -> Script:
    """Returns the script of an answer in words; as ``ScriptLibrary.script``."""
    session = ChatSession(tokenizer=_PieceTokenizer(split_tokens(text)), unit=unit)
    return _run(session, text, segment_tokens)


def _run(session: Session, plan: str, segment_tokens: tuple[int, ...]) -> Script:
    """Feeds a plan to its session, token by token."""
    num_tokens = len(split_tokens(plan))
    segments: list[Segment] = []
    ends: list[int] = []
    for position in range(num_tokens):
        _collect(session.feed((position,)), position + 1, segments, ends)
    _collect(session.finish(), num_tokens, segments, ends)
    if not segment_tokens:
        return Script(num_tokens, tuple(segments), tuple(ends))
    if len(segment_tokens) != len(segments):
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"trace: a plan of {len(segments)} segments has {len(segment_tokens)} segment_tokens: {plan}",
        )
    counted = [replace(s, num_tokens=count) for s, count in zip(segments, segment_tokens, strict=True)]
    return Script(sum(segment_tokens), tuple(counted), tuple(accumulate(segment_tokens)))


def _collect(progress: Progress, num_tokens: int, segments: list[Segment], ends: list[int]) -> None:
    if progress.error is not None:
        raise PlannerError(progress.error.code, f"scripted plan: {progress.error.message}")
    segments += progress.segments
    ends += [num_tokens] * len(progress.segments)


@dataclass(frozen=True, slots=True)
class _PieceTokenizer:
    """The token id is the position in one text."""

    pieces: Sequence[str]

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return frozenset()

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        if text:
            raise PlannerError(ErrorCode.INVALID_CONFIG, "a scripted plan cannot go on from delivered segments")
        return []

    def token_bytes(self, token_id: int) -> bytes:
        return self.pieces[token_id].encode()


_NOTHING = Progress()


class ScriptedSession:
    """Stands in for ``PlanSession``: knows beforehand what the tokens mean, so that a step costs next to nothing."""

    __slots__ = ("_num_fed", "_num_segments", "_plan", "_script", "is_complete")

    def __init__(self, script: Script) -> None:
        self._plan = self._script = script
        self._num_fed = 0
        self._num_segments = 0
        self.is_complete = False

    @property
    def confidence(self) -> float:
        """1: what is scripted is sure."""
        return 1.0

    def feed(self, token_ids: Iterable[int], _: Sequence[TokenChoice] = ()) -> Progress:
        """Returns the segments that these tokens completed."""
        script, first = self._script, self._num_segments
        self._num_fed += len(tuple(token_ids))
        if first == len(script.ends) or script.ends[first] > self._num_fed:
            return _NOTHING
        while self._num_segments < len(script.ends) and script.ends[self._num_segments] <= self._num_fed:
            self._num_segments += 1
        return Progress(script.segments[first : self._num_segments])

    @property
    def script(self) -> Script:
        """What the model writes now."""
        return self._script

    def begin_replan(self, first: int) -> Segment:
        """Begins what is left of the plan from its segment ``first`` on; returns the segment that says so."""
        index = self._script.segments[0].index + self._num_segments
        self._script = self._plan.rest(first, index + 1)
        self._num_fed = self._num_segments = 0
        self.is_complete = False
        return make_replan(index)

    def finish(self) -> Progress:
        """Returns the end of the plan."""
        self.is_complete = True
        return Progress(is_complete=True)

    @property
    def is_closable(self) -> bool:
        """False: a script knows whole segments only."""
        return False

    def close(self) -> Progress:
        """Ends the plan behind its last segment."""
        return self.finish()
