"""One plan in the making: tokens -> bytes -> text -> statements -> safety gate -> segments."""

import codecs
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Tokenizer
from llm_planner.core.pose import Pose
from llm_planner.core.segment import ExpectedDuration, Segment, SegmentReport, make_detour
from llm_planner.core.skill import SkillCall
from llm_planner.core.step import TokenChoice
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import Fail, Return, Statement, Unclear
from llm_planner.planning.confidence import Confidence
from llm_planner.planning.gate import Mark
from llm_planner.planning.repetition import StepWatch, TextWatch, WordWatch


class StatementParser(Protocol):
    """What a session requires of ``language.parser.IncrementalParser``."""

    def begin_anew(self) -> None:
        """Forgets all that it has read."""
        ...

    def feed(self, text: str) -> list[Statement]:
        """Returns the statements that ``text`` completed."""
        ...

    def finish(self) -> list[Statement]:
        """Returns what the end of the text completed."""
        ...

    def closed(self) -> Statement | None:
        """Returns what closing its open conditions here would add to the plan, if anything."""
        ...


class Gate(Protocol):
    """What a session requires of ``planning.gate.SafetyGate``."""

    @property
    def mark(self) -> Mark:
        """Where it stands now."""
        ...

    def begin_anew(self, mark: Mark, pose: Pose | None) -> None:
        """Goes on from where the robot is, because the statement behind ``mark`` has failed."""
        ...

    def admit(self, statement: Statement) -> tuple[SkillCall, ...]:
        """Returns the flat calls of a statement that may reach the robot, or raises PlannerError."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """What some tokens brought about.

    Attributes:
        segments: New segments, in order; they passed the gate, also if ``error`` follows.
        error: Why the plan cannot go on.
        is_complete: Whether the plan has ended, well or badly: further tokens mean nothing.
    """

    segments: tuple[Segment, ...] = ()
    error: PlannerError | None = None
    is_complete: bool = False


class PlanSession:
    """Turns the tokens of one generation into segments, one per top-level statement.

    However the tokens split the text, the segments are the same: the parser sees one character at a time. A model that
    is stuck in a word, or in steps that it repeats, is stopped there (``planning.repetition``).

    Args:
        tokenizer: Gives the bytes of a token.
        parser: Fresh.
        gate: Fresh.
        expected_duration: Duration of a statement on the robot that was asked.
        delivered: Segments that the robot has from before a restart: replayed through parser and gate, so that both
            know the state of things, but not returned again.
        failures: Reports of the segments among them from which the plan took a detour.
        min_confidence: How sure the model must be of each statement, 0 to 1.
        reads: What a statement of this model means, if it has a spelling of its own.

    Raises:
        PlannerError: If ``delivered`` itself does not pass.
    """

    def __init__(  # noqa: PLR0913 (one argument per thing that it combines)
        self,
        *,
        tokenizer: Tokenizer,
        parser: StatementParser,
        gate: Gate,
        expected_duration: Callable[[Statement], ExpectedDuration],
        delivered: Sequence[Segment] = (),
        failures: Sequence[SegmentReport] = (),
        min_confidence: float = 0.0,
        reads: Callable[[Statement], Statement] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._parser = parser
        self._gate = gate
        self._expected_duration = expected_duration
        self._min_confidence = min_confidence
        self._reads = reads
        self._words, self._texts, self._steps = WordWatch(), TextWatch(), StepWatch()
        self._confidence = Confidence()
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._num_segments = self._num_tokens = 0
        self._num_written = 0  # segments since the last detour
        self._marks: list[Mark] = []  # by index of segment: where the gate stood before it
        self._is_complete = False
        failed = iter(failures)
        for segment in delivered:
            if segment.is_detour:
                self.take_detour(next(failed))
            else:
                self._replay(segment)

    @property
    def is_complete(self) -> bool:
        """Whether the plan has ended: nothing is left to generate."""
        return self._is_complete

    def _replay(self, segment: Segment) -> None:
        self._marks.append(self._gate.mark)
        self._num_segments += 1
        self._num_written += 1
        for statement in self._parser.feed(segment.text):
            self._steps.feed(to_text(statement))
            self._gate.admit(statement)
            self._is_complete = isinstance(statement, Return)

    def take_detour(self, failure: SegmentReport) -> Segment:
        """Begins to read another plan, from where the robot stands; returns the segment that says so.

        Args:
            failure: The robot's word on the segment that failed: what comes behind that is void.
        """
        self._parser.begin_anew()
        self._decoder.reset()
        self._words, self._texts, self._steps = WordWatch(), TextWatch(), StepWatch()
        pose = None if failure.situation is None else failure.situation.pose
        self._gate.begin_anew(self._marks[failure.index], pose)
        self._num_tokens = self._num_written = 0
        self._is_complete = False
        self._marks.append(self._gate.mark)
        self._num_segments += 1
        return make_detour(self._num_segments - 1)

    @property
    def confidence(self) -> float:
        """How sure the model is of its least sure statement so far, 0 to 1; 1 if its backend does not say."""
        return self._confidence.probability

    def feed(self, token_ids: Iterable[int], choices: Sequence[TokenChoice] = ()) -> Progress:
        """Returns what the next tokens of the model brought about.

        Args:
            token_ids: Of the step.
            choices: How sure the model was of each of them; empty if its backend does not say.
        """
        segments: list[Segment] = []
        try:
            for token_id, choice in itertools.zip_longest(token_ids, choices):
                if token_id is None:
                    break  # the end token
                self._num_tokens += 1
                text = self._decoder.decode(self._tokenizer.token_bytes(token_id))
                self._confidence.feed(text, choice or TokenChoice(token_id))
                for character in text:
                    self._words.feed(character)
                    self._texts.feed(character)
                    self._take(self._parser.feed(character), segments)
        except UnicodeDecodeError as error:
            return self._failed(segments, PlannerError(ErrorCode.PLAN_SYNTAX, f"the plan is not UTF-8: {error}"))
        except PlannerError as error:
            return self._failed(segments, error)
        return Progress(tuple(segments), is_complete=self._is_complete)

    def finish(self) -> Progress:
        """Returns what the end of the generation brought about: the last segments, or why the plan is none."""
        if self._is_complete:
            return Progress(is_complete=True)
        segments: list[Segment] = []
        try:
            self._decoder.decode(b"", final=True)
            self._take(self._parser.finish(), segments)
        except UnicodeDecodeError as error:
            return self._failed(segments, PlannerError(ErrorCode.PLAN_SYNTAX, f"the plan is not UTF-8: {error}"))
        except PlannerError as error:
            return self._failed(segments, error)
        if self._num_written == 0:
            return self._failed([], PlannerError(ErrorCode.EMPTY_PLAN, "the model wrote no plan; rephrase the task"))
        self._is_complete = True
        return Progress(tuple(segments), is_complete=True)

    @property
    def is_closable(self) -> bool:
        """Whether closing the plan here would add a segment."""
        return not self._is_complete and self._parser.closed() is not None

    def close(self) -> Progress:
        """Ends the plan behind its last whole statement; returns the segment, if any, that this adds.

        The language leads it to its end: if the last whole statement is in the block of a condition, the block ends
        there. What the model wrote behind is void, a number or a loop that is not whole above all. What the gate
        refuses is not added.
        """
        statement = None if self._is_complete else self._parser.closed()
        self._is_complete, self._num_tokens = True, 0  # nobody knows how many of them are of what is kept
        try:
            return Progress(() if statement is None else (self._admit(statement),), is_complete=True)
        except PlannerError:  # the segments before it are a plan, too
            return Progress(is_complete=True)

    def _take(self, statements: Iterable[Statement], segments: list[Segment]) -> None:
        """Appends a segment per statement; a return at the top level ends the plan, what follows it is not read.

        Raises:
            PlannerError: NOT_UNDERSTOOD or NOT_ACHIEVED where the plan says so; what parser, gate and watches raise.
        """
        for written in statements:
            if self._is_complete:
                return
            statement = written if self._reads is None else self._reads(written)
            if isinstance(statement, Unclear) and self._num_written == 0:
                raise PlannerError(ErrorCode.NOT_UNDERSTOOD, f"not understood: {statement.what}")
            if isinstance(statement, Fail):
                self._gate.admit(statement)
                raise PlannerError(ErrorCode.NOT_ACHIEVED, statement.reason)
            self._check_confidence(statement)
            self._steps.feed(to_text(statement))
            segments.append(self._admit(statement))
            self._is_complete = isinstance(statement, Return)

    def _check_confidence(self, statement: Statement) -> None:
        """Raises NOT_UNDERSTOOD unless the model is sure enough of a statement."""
        probability = self._confidence.end_statement()
        if probability < self._min_confidence:
            message = f"not understood: the planner is only {probability:.0%} sure of {to_text(statement)}"
            raise PlannerError(ErrorCode.NOT_UNDERSTOOD, message)

    def _admit(self, statement: Statement) -> Segment:
        mark = self._gate.mark
        calls = self._gate.admit(statement)
        self._marks.append(mark)
        index = self._num_segments
        self._num_segments += 1
        self._num_written += 1
        num_tokens, self._num_tokens = self._num_tokens, 0
        expected = self._expected_duration(statement)
        return Segment(index=index, text=to_text(statement), calls=calls, expected=expected, num_tokens=num_tokens)

    def _failed(self, segments: list[Segment], error: PlannerError) -> Progress:
        self._is_complete = True
        return Progress(tuple(segments), error, is_complete=True)
