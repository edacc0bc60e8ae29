# SPDX-License-Identifier: Apache-2.0
"""The safety gate between the parser and a robot: deterministic, stateful, deny by default.

Nothing reaches a robot that the gate has not admitted, and it admits a statement only if it can show that in every
course the plan may take (whatever conditions turn out to be, wherever objects are) each call is known, fits its
types and ranges, and no motion leaves the robot's space. docs/safety.md explains what is shown and how.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.skill import Late, SkillCall
from llm_planner.language.syntax import (
    Assign,
    Call,
    Closing,
    Comparison,
    Condition,
    Expression,
    Fail,
    If,
    Loop,
    Name,
    Number,
    Opening,
    Part,
    Return,
    Statement,
    Text,
    Unclear,
)
from llm_planner.planning.limits import MAX_CALLS, MAX_DEPTH, MAX_LOOP_COUNT
from llm_planner.planning.safety.forecast import Alternatives, Forecast, joined
from llm_planner.planning.safety.harm import harm_of_call, harm_of_hand
from llm_planner.planning.safety.mentioned import Mentioned
from llm_planner.planning.safety.poses import hand_of
from llm_planner.planning.safety.types import TypeChecker, tests
from llm_planner.robots.model import ReturnType, RobotKind, RobotModel
from llm_planner.robots.motion_kind import MotionKind, motion_kind


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a gate stood: which variables had a value, and where the robot could be."""

    variables: Mapping[int, ReturnType]
    where: Alternatives


class SafetyGate:
    """Judges the parts of one plan in order. Once it has refused one, it refuses all that follow.

    A condition may come as a whole or in parts, with the same result behind it: while its block is open, what follows
    is judged as within it; behind its end, the robot may have gone either way.

    Args:
        model: Of the robot: skills, limits, space.
        start_pose: Where the robot is when the plan starts; the model's start pose by default.
        allowed: Names of the skills that it may use; None for all.
        unsupported: Skills of the model that this robot cannot carry out.
        mentioned: What objects a plan may name; None for any.
    """

    def __init__(
        self,
        model: RobotModel,
        start_pose: Pose | None = None,
        *,
        allowed: frozenset[str] | None = None,
        unsupported: Collection[str] = (),
        mentioned: Mentioned | None = None,
    ) -> None:
        self._mentioned = mentioned
        self._model, self._unsupported = model, frozenset(unsupported)
        self._motions: set[MotionKind] = set()  # of what was admitted
        self._permitted: frozenset[MotionKind] | None = None  # once a plan has failed; None for all
        self._types = TypeChecker(model, max_call_depth=MAX_DEPTH, allowed=allowed)
        self._forecast = Forecast(model)
        self._num_calls = 0
        self._variables: Mapping[int, ReturnType] = {}
        self._where = self._forecast.start(start_pose or model.start)
        self._is_grounded = self._must_take_off
        self._blocks: list[tuple[Mark, int]] = []  # where each open one began, and with how many calls
        self._refusal: PlannerError | None = None

    def admit(self, part: Part) -> tuple[SkillCall, ...]:
        """Returns the flat calls of a part of the plan in order of appearance, with canonical names.

        Raises:
            PlannerError: A 2xx code, or HARMFUL_REQUEST: the part must not reach the robot, nor must any after it.
        """
        if self._refusal is not None:
            raise PlannerError(self._refusal.code, self._refusal.message)
        self._refusal = PlannerError(ErrorCode.PLAN_SYNTAX, "a statement before could not be judged")  # until it was
        try:
            calls = self._judge(part)
        except PlannerError as refusal:
            self._refusal = refusal
            raise
        self._refusal = None
        return calls

    @property
    def mark(self) -> Mark:
        """Where it stands now."""
        return Mark(self._variables, self._where)

    def restart(self, mark: Mark, pose: Pose | None, *, is_whole: bool = True) -> None:
        """Goes on from where the robot is, because the statement behind ``mark`` has failed in its midst.

        Variables are known as far as they were then. What was admitted since counts as carried out, so that no plan
        gets longer than the limits by failing.

        Args:
            mark: Before the statement that failed.
            pose: Where the robot is; None for anywhere in its space.
            is_whole: Whether the plan that failed was there to its end.
        """
        # What the first whole plan had holds for all that follow. Of one that failed before its end, more was to come
        # if it moved, or a condition was open; one that moved nothing becomes no motion.
        goes_on = not is_whole and (self._motions or self._blocks)
        if self._permitted is None and not goes_on:
            implied = {MotionKind.TAKE_OFF} if MotionKind.TRAVEL in self._motions else set()
            self._permitted = frozenset(self._motions | implied)
        self._variables = mark.variables
        hand = hand_of((*mark.where, *self._where))
        self._where = self._forecast.anywhere(hand) if pose is None else self._forecast.start(pose, hand)
        self._is_grounded = self._must_take_off
        self._blocks.clear()

    def _judge(self, part: Part) -> tuple[SkillCall, ...]:
        if not (self._where or self._blocks):
            raise PlannerError(ErrorCode.PLAN_SYNTAX, "the plan goes on after it has returned")
        if isinstance(part, Unclear) and not (self._num_calls or self._blocks):
            self._where = ()
            return tuple(self._types.value_calls(Text(part.what), {}))
        if isinstance(part, Closing):
            self._close()
            return ()
        num_calls = self._num_calls + self._size(part, len(self._blocks))
        if num_calls > MAX_CALLS:
            problem = f"the plan has up to {num_calls} skill calls, more than {MAX_CALLS}; ask for less"
            raise PlannerError(ErrorCode.PLAN_TOO_LONG, problem)
        variables = dict(self._variables)
        calls = tuple(self._calls(part, variables))
        for call in calls:
            self._require_possible(call.name)
            self._require_mentioned(call)
            self._require_harmless(call)
        self._where = self._after(part, self._where)
        if isinstance(part, Opening):
            self._blocks.append((Mark(variables, self._where), self._num_calls))
        self._num_calls, self._variables = num_calls, variables
        return calls

    def _close(self) -> None:
        """Ends the block that was opened last: from here on, its condition may have been true or false."""
        if not self._blocks:
            raise PlannerError(ErrorCode.PLAN_SYNTAX, "a block ends that has not begun")
        before, num_calls = self._blocks.pop()
        self._where = joined(before.where, self._where)
        self._variables = before.variables
        self._num_calls = max(self._num_calls, num_calls + 1)

    @property
    def _must_take_off(self) -> bool:
        """Whether this is a drone that is on the floor for sure."""
        return self._model.kind is RobotKind.DRONE and all(poses.is_on_floor for poses in self._where)

    def _require_possible(self, name: str) -> None:
        """Refuses what this robot cannot do, and motions that the instruction did not ask for.

        Raises:
            PlannerError: NOT_ACHIEVED, or UNASKED_SKILL.
        """
        skill = self._types.skill(name)
        if name in self._unsupported:
            problem = f"this robot cannot {name}: {skill.description}; its driver does not support it"
            raise PlannerError(ErrorCode.NOT_ACHIEVED, problem)
        kind = motion_kind(skill, self._model.kind)
        if kind is None:
            return
        if self._permitted is not None and kind not in self._permitted:
            problem = (
                f"the new plan calls {name}, and no {kind.value} was planned before the failure; ask for that by itself"
            )
            raise PlannerError(ErrorCode.UNASKED_SKILL, problem)
        self._motions.add(kind)

    def _require_mentioned(self, call: SkillCall) -> None:
        """Refuses a name that neither the scene nor the task mentions.

        Raises:
            PlannerError: UNKNOWN_OBJECT.
        """
        if (mentioned := self._mentioned) is None:
            return
        for name in self._model.skills[call.name].names_in(call):
            if not (isinstance(name, Late) or mentioned.knows(name)):
                problem = f"the plan names {name[:40]!r}, which neither the scene nor the task mentions; name it there"
                raise PlannerError(ErrorCode.UNKNOWN_OBJECT, problem)

    def _require_harmless(self, call: SkillCall) -> None:
        """Refuses to grasp somebody, to bring a knife to somebody, and to go up to a fire (``planning.safety.harm``).

        Raises:
            PlannerError: HARMFUL_REQUEST.
        """
        skill = self._model.skills[call.name]
        _refuse(harm_of_call(skill.effect, skill.names_in(call)))

    def _size(self, statement: Statement | Opening, depth: int) -> int:
        """Returns how many skill calls a statement makes in the worst case, at least 1; of an opening, maybe none.

        Raises:
            PlannerError: LOOP_TOO_LONG, or PLAN_TOO_LONG for blocks that are nested too deep.
        """
        if not isinstance(statement, Loop | If | Opening):
            return 1 if isinstance(statement, Fail | Unclear) else max(1, sum(1 for _ in _calls_in(_value(statement))))
        if depth >= MAX_DEPTH:
            problem = f"blocks are nested deeper than {MAX_DEPTH}; write simpler steps"
            raise PlannerError(ErrorCode.PLAN_TOO_LONG, problem)
        if isinstance(statement, Opening):
            return sum(1 for test in tests(statement.condition) for _ in _calls_in(test))
        body = sum(self._size(inner, depth + 1) for inner in statement.body)
        if isinstance(statement, If):
            return max(1, body + self._size(Opening(statement.condition), depth))
        if not 1 <= statement.count <= MAX_LOOP_COUNT:
            problem = f"a loop of {_short(statement.count)} rounds is outside 1 to {MAX_LOOP_COUNT}"
            raise PlannerError(ErrorCode.LOOP_TOO_LONG, problem)
        return statement.count * max(1, body)

    def _calls(self, statement: Statement | Opening, variables: dict[int, ReturnType]) -> Iterator[SkillCall]:
        """Yields the flat calls of a statement after checking their types; adds the variables it surely assigns."""
        match statement:
            case Call():
                yield from self._types.calls(statement, variables)
            case Assign():
                yield from self._assignment_calls(statement, variables)
            case Return(value=value):
                yield from self._types.value_calls(value, variables)
            case Fail(reason=reason):
                yield from self._types.value_calls(Text(reason), variables)
            case Unclear():
                raise PlannerError(ErrorCode.PLAN_SYNTAX, "unclear() must stand alone, without any other statement")
            case Loop(body=body):
                yield from self._all_calls(body, variables)
            case Opening(condition=condition):
                yield from self._types.condition_calls(condition, variables)
            case If(condition=condition, body=body):
                yield from self._types.condition_calls(condition, variables)
                yield from self._all_calls(body, dict(variables))

    def _all_calls(self, statements: tuple[Statement, ...], variables: dict[int, ReturnType]) -> Iterator[SkillCall]:
        for statement in statements:
            yield from self._calls(statement, variables)

    def _assignment_calls(self, assignment: Assign, variables: dict[int, ReturnType]) -> Iterator[SkillCall]:
        yield from self._types.calls(assignment.call, variables)
        index, returned = assignment.variable.index, self._types.returned(assignment.call)
        if variables.setdefault(index, returned) is not returned:
            raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"the variable _{index} changes its type; use another one")

    def _after(self, statement: Statement | Opening, where: Alternatives) -> Alternatives:
        """Returns where the robot may be after a statement or an opening, if the plan goes on after it.

        Raises:
            PlannerError: GEOFENCE_VIOLATED.
        """
        match statement:
            case Loop(count=count, body=body):
                for _ in range(count):
                    before, where = where, self._after_all(body, where)
                    if where == before:  # so it stays
                        break
                return where
            case Opening(condition=condition):
                return self._after_condition(condition, where)
            case If(condition=condition, body=body):
                where = self._after_condition(condition, where)
                return joined(where, self._after_all(body, where))
            case Return(value=value):
                self._after_value(value, where)
                return ()
            case Fail() | Unclear():
                return ()
            case _:
                return self._after_value(_value(statement), where)

    def _after_all(self, statements: tuple[Statement, ...], where: Alternatives) -> Alternatives:
        for statement in statements:
            where = self._after(statement, where)
        return where

    def _after_condition(self, condition: Condition, where: Alternatives) -> Alternatives:
        """Returns where the robot may be once a condition is known: all but its first test may be skipped."""
        first, *others = tests(condition)
        where = self._after_value(first, where)
        for test in others:
            where = joined(where, self._after_value(test, where))
        return where

    def _after_value(self, value: Comparison | Expression, where: Alternatives) -> Alternatives:
        for call in _calls_in(value):
            where = self._after_call(call, where)
        return where

    def _after_call(self, call: Call, where: Alternatives) -> Alternatives:
        number = next((given.value for given in call.arguments if isinstance(given, Number)), 0.0)
        skill = self._types.skill(call.name)
        kind = motion_kind(skill, self._model.kind)
        if self._is_grounded and kind is MotionKind.TRAVEL:
            problem = f"the drone is on the floor and {skill.name} needs flight; tell it to take off first"
            raise PlannerError(ErrorCode.NOT_ACHIEVED, problem)
        self._is_grounded &= kind is not MotionKind.TAKE_OFF
        names = _names_in(call)
        for poses in where:
            _refuse(harm_of_hand(skill.effect, names, poses.hand))
        return self._forecast.after(skill, number, names, where)


def _refuse(harm: str) -> None:
    """Raises PlannerError HARMFUL_REQUEST if a call would do harm."""
    if harm:
        raise PlannerError(ErrorCode.HARMFUL_REQUEST, f"no plan may {harm}; ask for something else")


def _names_in(call: Call) -> list[str]:
    """Returns the names of the things of a call, in order; empty for one that only the robot will know."""
    return [a.name if isinstance(a, Name) else "" for a in call.arguments if not isinstance(a, Number)]


def _value(statement: Call | Assign | Return) -> Expression:
    """Returns what a statement without a body evaluates."""
    if isinstance(statement, Call):
        return statement
    return statement.call if isinstance(statement, Assign) else statement.value


def _calls_in(value: Comparison | Expression) -> Iterator[Call]:
    """Yields the calls of a value or a test in the order in which a robot makes them: those in arguments come first."""
    if isinstance(value, Comparison):
        yield from _calls_in(value.left)
        yield from _calls_in(value.right)
    elif isinstance(value, Call):
        for argument in value.arguments:
            yield from _calls_in(argument)
        yield value


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**9 else "more than 10^9"
