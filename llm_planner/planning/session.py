# SPDX-License-Identifier: Apache-2.0
"""One plan in the making: tokens -> bytes -> text -> statements -> safety gate -> segments."""

import codecs
import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Tokenizer
from llm_planner.core.pose import Pose
from llm_planner.core.segment import BlockEdge, ExpectedDuration, Segment, SegmentReport, make_replan
from llm_planner.core.skill import SkillCall
from llm_planner.core.step import TokenChoice
from llm_planner.language.parser import MAX_STATEMENT_LENGTH, IncrementalParser, parse
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import Closing, Fail, If, Opening, Part, Return, Statement, Unclear
from llm_planner.planning.confidence import Confidence, Fork
from llm_planner.planning.failure_cause import is_lasting
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.repetition import StepWatch, TextWatch, WordWatch
from llm_planner.planning.safety.gate import Mark

MAX_CANDIDATES = 3
_EDGES = {Opening: BlockEdge.OPENS, Closing: BlockEdge.CLOSES}


class Gate(Protocol):
    """What a session requires of ``planning.safety.gate.SafetyGate``."""

    @property
    def mark(self) -> Mark:
        """Where it stands now."""
        ...

    def restart(self, mark: Mark, pose: Pose | None, *, is_whole: bool) -> None:
        """Goes on from where the robot is, because the statement behind ``mark`` has failed, of a whole plan or not."""
        ...

    def admit(self, part: Part) -> tuple[SkillCall, ...]:
        """Returns the flat calls of a part of the plan that may reach the robot, or raises PlannerError."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """What some tokens brought about.

    Attributes:
        segments: New segments, in order; they passed the gate, also if ``error`` follows.
        error: Why the plan cannot go on.
        is_complete: Whether the plan has ended, well or badly: further tokens mean nothing.
        candidates: With NOT_UNDERSTOOD: what may have been meant, in MiniSpec, the most probable first. It follows the
            segments that were handed out before; empty text if they are all.
    """

    segments: tuple[Segment, ...] = ()
    error: PlannerError | None = None
    is_complete: bool = False
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Unsure:
    """A part of which the model is not sure, its place among those that are held back, and what else it may be."""

    part: Part
    index: int
    variants: Sequence[str]


_SAY_IT_AGAIN = "say it in other words"
_SAY_WHAT_IS_MISSING = "say what is missing or, if nothing of it was sent, confirm it"
CONFIRM = f"confirm it, or {_SAY_IT_AGAIN}"


class NotUnderstoodError(PlannerError):
    """NOT_UNDERSTOOD.

    Args:
        what: Was not understood.
        way_on: What a person can do.
    """

    def __init__(self, what: str, way_on: str = _SAY_IT_AGAIN) -> None:
        super().__init__(ErrorCode.NOT_UNDERSTOOD, f"not understood: {what}; {way_on}")


class UnsureError(NotUnderstoodError):
    """The model is not sure of its plan, against which nothing else speaks."""


class ContradictedError(NotUnderstoodError):
    """The plan is not what was asked for."""


class _GivesUpError(PlannerError):
    """The plan itself says that the task cannot be achieved."""


class PlanSession:
    """Turns the tokens of one generation into segments, one per part that the parser hands out.

    That is a top-level statement, or with a parser that opens blocks, a part of one. What is judged of a whole
    statement besides the gate (how sure the model is, whether it repeats itself) is the same either way.

    However the tokens split the text, the segments are the same: the parser sees one character at a time. A model that
    is stuck in a word, or in steps that it repeats, is stopped there (``planning.repetition``).

    A statement of which the model is not sure, or that the instruction does not explain so far, is held back, with all
    that follow it. The end of the plan explains it, or the goal is not understood and nothing of it is executed. A plan
    may be too short, so the end token decides as others do.

    Args:
        tokenizer: Gives the bytes of a token.
        parser: Fresh.
        gate: Fresh.
        expected_duration: Duration of a part on the robot that was asked.
        delivered: Segments that the robot has from before a restart: replayed through parser and gate, so that both
            know the state of things, but not returned again.
        failures: Reports of the segments among them after which the plan was replanned.
        min_confidence: How sure the model must be of each statement, 0 to 1.
        reads: What a statement of this model means, if it has a spelling of its own.
        checks: Hold the plan against the words of its instruction.
        can_hold: Whether statements may be held back until the end; else what is doubtful is not understood.
        is_admissible: Whether a whole plan would pass the gate: asked of what may have been meant instead.
        equivalent_skills: Names of skills that are as good as each other for this request.
        can_ask: Whether the plan may be ``unclear``.
        in_words: Returns a plan in words, for people.
        missing: Returns the thing that is not there and that a model speaks of where it gives up; empty for none.

    Attributes:
        doubted: Of a plan that ended because the model is not sure of it: what was held back.

    Raises:
        PlannerError: If ``delivered`` itself does not pass.
    """

    def __init__(  # noqa: PLR0913 (one argument per thing that it combines)
        self,
        *,
        tokenizer: Tokenizer,
        parser: IncrementalParser,
        gate: Gate,
        expected_duration: Callable[[Part], ExpectedDuration],
        delivered: Sequence[Segment] = (),
        failures: Sequence[SegmentReport] = (),
        min_confidence: float = 0.0,
        reads: Callable[[Statement], Statement] | None = None,
        checks: Sequence[PlanCheck] = (),
        can_hold: bool = True,
        is_admissible: Callable[[str], bool] | None = None,
        equivalent_skills: Collection[str] = (),
        can_ask: bool = True,
        in_words: Callable[[str], str] = str,
        missing: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._tokenizer = tokenizer
        self._parser = parser
        self._gate = gate
        self._expected_duration = expected_duration
        self._min_confidence = min_confidence
        self._reads = reads
        self._checks, self._can_hold, self._is_admissible = checks, can_hold, is_admissible
        self._new_confidence = partial(Confidence, self._spelled, equivalent_skills, can_ask=can_ask)
        self._in_words, self._missing = in_words, missing
        self._held: list[Segment] = []
        self._num_open = 0  # blocks
        self._statement = ""  # the parts of a top-level statement that has not ended
        self._unsure_of: _Unsure | None = None  # the first of them
        self.doubted: tuple[Segment, ...] = ()
        self._is_watched = True  # else it is no model's, which may be stuck
        self._words, self._texts, self._steps = WordWatch(), TextWatch(), StepWatch()
        self._confidence = self._new_confidence()
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._num_tokens = 0
        self._num_written = 0  # segments since the last replan
        self._marks: list[Mark] = []  # by index of segment: where the gate stood before it
        self._sent: list[str] = []  # by index of segment: its text
        self._futile: SegmentReport | None = None  # of a segment that would fail again if it came next
        self._is_complete = False
        failed = iter(failures)
        self._is_resumed = bool(delivered)  # whether more was to come is not known of what an earlier engine wrote
        for segment in delivered:
            if segment.is_replan:
                self.begin_replan(next(failed))
            else:
                self._replay(segment)

    @property
    def is_complete(self) -> bool:
        """Whether the plan has ended: nothing is left to generate."""
        return self._is_complete

    def _replay(self, segment: Segment) -> None:
        self._marks.append(self._gate.mark)
        self._sent.append(segment.text)
        self._num_written += 1
        for part in self._parser.feed(segment.text):
            self._follow(part)
            self._note(part)
            calls = self._gate.admit(part)
            for check in self._checks:
                check.feed(calls, segment.text)
            self._is_complete = isinstance(part, Return) and not self._num_open

    def _follow(self, part: Part) -> None:
        """Notes which blocks are open behind a part."""
        self._num_open += isinstance(part, Opening) - isinstance(part, Closing)

    def _note(self, part: Part) -> None:
        """Notes the top-level statement that a part ends, if it does.

        Raises:
            PlannerError: PLAN_SYNTAX if the plan goes in circles, or it is too long to be read again.
        """
        self._statement += to_text(part)
        _require_short(self._statement)
        if not self._num_open:
            if self._is_watched:
                self._steps.feed(self._statement)
            self._statement = ""

    def begin_replan(self, failure: SegmentReport) -> Segment:
        """Begins to read another plan, from where the robot stands; returns the segment that says so.

        Args:
            failure: The robot's word on the segment that failed: what comes behind that is void.
        """
        self._parser.restart()
        self._decoder.reset()
        self._checks = [again for check in self._checks if (again := check.restarted()) is not None]
        self._drop_held()
        self._num_open, self._statement = 0, ""
        self._unsure_of, self._confidence = None, self._new_confidence()
        self._words, self._texts, self._steps = WordWatch(), TextWatch(), StepWatch()
        pose = None if failure.situation is None else failure.situation.pose
        self._gate.restart(self._marks[failure.index], pose, is_whole=self._is_complete or self._is_resumed)
        self._num_tokens = self._num_written = 0
        self._is_complete = False
        self._futile = failure if is_lasting(failure.reason) else None
        self._marks.append(self._gate.mark)
        self._sent.append("")
        return make_replan(len(self._sent) - 1)

    def _drop_held(self) -> None:
        """Takes back what was held back, numbers included: it was never sent."""
        num_sent = len(self._sent) - len(self._held)
        del self._marks[num_sent:], self._sent[num_sent:]
        self._held.clear()

    @property
    def confidence(self) -> float:
        """How sure the model is of its least sure statement since the last replan, 0 to 1; 1 if nothing says."""
        return self._confidence.probability

    @property
    def plan_logprob(self) -> float:
        """Natural logarithm of the probability of the plan since the last replan, as far as it decides."""
        return self._confidence.plan_logprob

    @property
    def forks(self) -> Sequence[Fork]:
        """Where the model could have written another plan."""
        return self._confidence.forks

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
                    self._confidence.feed("", choice)  # the end token
                    break
                self._num_tokens += 1
                text = self._decoder.decode(self._tokenizer.token_bytes(token_id))
                self._confidence.feed(text, choice or TokenChoice(token_id))
                self._read(text, segments)
        except UnicodeDecodeError as error:
            return self._failed(segments, PlannerError(ErrorCode.PLAN_SYNTAX, f"the plan is not UTF-8: {error}"))
        except PlannerError as error:
            return self._failed(segments, error)
        return self._ended(segments) if self._is_complete else Progress(tuple(segments))

    def write(self, plan: str) -> Progress:
        """Returns what a whole plan brings about that no model writes: an order that acts at once, a confirmed plan.

        It passes parser and gate as any other. As all of it is known, nothing is sent of one that is refused; one that
        says itself that the task cannot be achieved is carried out up to there.
        """
        segments: list[Segment] = []
        self._checks, self._min_confidence, self._reads, self._is_watched = (), 0.0, None, False
        try:
            self._read(plan, segments)
        except _GivesUpError as error:
            return self._failed(segments, error)
        except PlannerError as error:
            return self._failed([], error)
        end = self.finish()
        return end if end.error is not None else Progress((*segments, *end.segments), is_complete=True)

    def _read(self, text: str, segments: list[Segment]) -> None:
        for character in text:
            if self._is_watched:
                self._words.feed(character)
                self._texts.feed(character)
            if parts := self._parser.feed(character):
                self._take(parts, segments)

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
        return self._ended(segments)

    def _ended(self, segments: list[Segment]) -> Progress:
        """Returns what the end of the plan brings about: all that was held back, or why it must not be executed."""
        self._is_complete = True
        for check in self._checks:
            if check.finish() is Verdict.CONTRADICTED:
                return self._failed(segments, ContradictedError(check.problem))
        held, self._held = self._held, []
        if self._unsure_of is not None:
            error = self._doubt(self._unsure_of.part)
            candidates = self._candidates([segment.text for segment in held], self._unsure_of)
            self.doubted = tuple(held)
            return Progress(tuple(segments), error, is_complete=True, candidates=candidates)
        probability = self._confidence.end_statement()  # of the end token
        if self._can_hold and probability < self._min_confidence:
            plan = self._in_words("".join(self._sent[-self._num_written :]))
            rest = "".join(segment.text for segment in held)
            way_on = CONFIRM if rest else _SAY_WHAT_IS_MISSING
            error = UnsureError(f"only {probability:.0%} sure that this is all: {plan}", way_on)
            self.doubted = tuple(held)
            return Progress(tuple(segments), error, is_complete=True, candidates=(rest,))
        return Progress((*segments, *held), is_complete=True)

    def _doubt(self, part: Part) -> PlannerError:
        meant = "the end of a condition's block" if isinstance(part, Closing) else self._in_words(_statement_text(part))
        way_on = CONFIRM if self._can_hold else _SAY_IT_AGAIN
        return UnsureError(f"only {self.confidence:.0%} sure that this is meant: {meant}", way_on)

    def _candidates(self, texts: Sequence[str], unsure: "_Unsure") -> tuple[str, ...]:
        """Returns what was held back, and what it would be with another token where the model was least sure.

        Nothing where that is the rest of a block whose beginning the robot has: it is no plan by itself.
        """
        found = ["".join(texts)]
        if not _is_plan(found[0]):
            return ()
        for variant in unsure.variants:
            if len(found) == MAX_CANDIDATES:
                break
            with contextlib.suppress(PlannerError):
                parser = IncrementalParser(opens_blocks=isinstance(unsure.part, Opening))
                read = parser.feed(variant)
                parts = [self._understood(p) for p in (*read, *(() if parser.num_open_blocks else parser.finish()))]
                plan = "".join([*texts[: unsure.index], *map(to_text, parts), *texts[unsure.index + 1 :]])
                is_new = bool(parts) and plan not in found and _is_plan(plan)
                if is_new and (self._is_admissible is None or self._is_admissible(plan)):
                    found.append(plan)
        return tuple(found)

    def _understood(self, part: Part) -> Part:
        """Returns what a part means, if the model has a spelling of its own."""
        if self._reads is None or isinstance(part, Closing):
            return part
        if not isinstance(part, Opening):
            return self._reads(part)
        read = self._reads(If(part.condition, ()))
        assert isinstance(read, If)  # a spelling changes words, no structure
        return Opening(read.condition)

    def _spelled(self, token_id: int) -> str:
        return self._tokenizer.token_bytes(token_id).decode(errors="replace")

    @property
    def is_closable(self) -> bool:
        """Whether closing the plan here would add a segment."""
        return not self._is_complete and self._parser.closed() is not None

    def close(self) -> Progress:
        """Ends the plan behind its last whole statement; returns the segment, if any, that this adds.

        The language leads it to its end: if the last whole statement is in the block of a condition, the block ends
        there. What the model wrote behind is void, a number or a loop that is not whole above all. What the gate or a
        check refuses is not added, nor that of which the model is not sure.
        """
        statement = None if self._is_complete else self._parser.closed()
        self._is_complete, self._num_tokens = True, 0  # it is unknown how many of them belong to what is kept
        is_sure = statement is not None and self._confidence.end_statement() >= self._min_confidence
        if statement is None or not is_sure or self._held:
            return Progress(is_complete=True)
        try:
            part = self._understood(statement)
            _require_short(_statement_text(part))
            segment = self._admit(part)
            self._judge(segment)
        except PlannerError:  # the segments before it are a plan, too
            return Progress(is_complete=True)
        return Progress((segment,), is_complete=True)

    def _take(self, parts: Iterable[Part], segments: list[Segment]) -> None:
        """Appends a segment per part; a return at the top level ends the plan, what follows it is not read.

        Raises:
            PlannerError: NOT_UNDERSTOOD or NOT_ACHIEVED where the plan says so, NOT_ACHIEVED where it does again what
                has just failed for a reason that holds; what parser, gate and watches raise.
        """
        for written in parts:
            if self._is_complete:
                return
            part = self._understood(written)
            if isinstance(part, Unclear) and self._num_written == 0:
                self._gate.admit(Fail(part.what))  # its words reach people, as those of a fail do
                raise NotUnderstoodError(part.what)
            if isinstance(part, Fail) and not self._num_open:
                self._gate.admit(part)
                missing = self._missing(part.reason)  # what a model says of something that it does not see is no reason
                why = f"there is no {missing} in the scene" if missing else part.reason
                raise _GivesUpError(ErrorCode.NOT_ACHIEVED, why)
            self._require_another_way(part)
            self._follow(part)
            variants = self._confidence.variants()[1:]
            is_sure = self._confidence.end_statement(goes_on=self._num_open > 0) >= self._min_confidence
            if not is_sure and not self._can_hold:
                raise self._doubt(part)
            self._note(part)
            self._held.append(self._admit(part))
            if not is_sure and self._unsure_of is None:
                self._unsure_of = _Unsure(part, len(self._held) - 1, variants)
            if self._judge(self._held[-1]) is Verdict.EXPLAINED and self._unsure_of is None:
                segments += self._held
                self._held.clear()
            self._is_complete = isinstance(part, Return) and not self._num_open

    def _require_another_way(self, part: Part) -> None:
        """Refuses the very statement that has just failed, where the reason still holds.

        Raises:
            PlannerError: NOT_ACHIEVED.
        """
        failure = self._futile
        if failure is not None and self._num_written == 0 and to_text(part) == self._sent[failure.index]:
            raise PlannerError(ErrorCode.NOT_ACHIEVED, f"the new plan does the same again, but {failure.reason}")

    def _judge(self, segment: Segment) -> Verdict:
        """Returns what the checks say of the plan with another segment.

        Raises:
            PlannerError: NOT_UNDERSTOOD if it contradicts the instruction, or may, where nothing can be held back.
        """
        verdicts = []
        for check in self._checks:
            verdicts.append(check.feed(segment.calls, segment.text))
            if verdicts[-1] is Verdict.DOUBTFUL and not self._can_hold:
                verdicts[-1] = check.finish()
            if verdicts[-1] is Verdict.CONTRADICTED:
                raise ContradictedError(check.problem)
        return Verdict.DOUBTFUL if Verdict.DOUBTFUL in verdicts else Verdict.EXPLAINED

    def _admit(self, part: Part) -> Segment:
        mark, text = self._gate.mark, to_text(part)
        calls = self._gate.admit(part)
        self._marks.append(mark)
        self._sent.append(text)
        self._num_written += 1
        num_tokens, self._num_tokens = self._num_tokens, 0
        return Segment(
            index=len(self._sent) - 1,
            text=text,
            calls=calls,
            expected=self._expected_duration(part),
            num_tokens=num_tokens,
            block_edge=_EDGES.get(type(part), BlockEdge.NONE),
        )

    def _failed(self, segments: list[Segment], error: PlannerError) -> Progress:
        self._is_complete = True
        self._drop_held()
        return Progress(tuple(segments), error, is_complete=True)


def _statement_text(part: Part) -> str:
    """Returns a part as a statement; an opening with nothing in its block."""
    return to_text(If(part.condition, ()) if isinstance(part, Opening) else part)


def _require_short(statement: str) -> None:
    """Refuses what a robot, or this session after a restart, could not parse: the text may be longer than was written.

    A parser counts one character more: the ``;`` of the statement before.

    Raises:
        PlannerError: PLAN_SYNTAX.
    """
    if len(statement) >= MAX_STATEMENT_LENGTH:
        problem = f"a statement has {MAX_STATEMENT_LENGTH} characters or more; write simpler steps"
        raise PlannerError(ErrorCode.PLAN_SYNTAX, problem)


def _is_plan(text: str) -> bool:
    try:
        parse(text)
    except PlannerError:
        return False
    return True
