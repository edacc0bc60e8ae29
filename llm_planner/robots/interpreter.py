# SPDX-License-Identifier: Apache-2.0
"""Runs plans on a robot: loops, conditionals, variables, nested calls; step by step, without blocking."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from llm_planner.core.skill import SkillCall, Value
from llm_planner.language.syntax import (
    And,
    Assign,
    Boolean,
    Call,
    Comparison,
    Condition,
    Expression,
    Fail,
    If,
    Loop,
    Name,
    Number,
    Or,
    Return,
    Statement,
    Text,
    Unclear,
    Variable,
)
from llm_planner.robots.answer import answer_in_words
from llm_planner.robots.driver import (
    PlanFailedError,
    SkillDriver,
    SkillFailedError,
    SkillResult,
    SkillStatus,
    VirtualDriver,
)
from llm_planner.robots.effect import Ask, Replan, Say
from llm_planner.robots.model import RobotModel
from llm_planner.robots.values import compare, is_true, is_yes_or_no, yes_or_no

MAX_STEPS = 10_000  # calls and rounds of loops of one plan: whatever the gate let through, it ends


@dataclass(frozen=True, slots=True)
class ExecutedCall:
    """One call that a robot carried out or failed, with its evaluated arguments."""

    call: SkillCall
    result: SkillResult
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a plan, or a part of it, went.

    Attributes:
        is_success: Whether no skill failed.
        reason: Why it failed; empty otherwise.
        value: What the plan returned, else what the last call returned.
        calls: All calls in order.
        duration_s: From the first call to the end of the last.
        wants_replan: Whether the plan ended by asking for a new one.
        has_given_up: Whether the plan itself said that what was asked cannot be achieved.
    """

    is_success: bool
    reason: str
    value: Value | None
    calls: tuple[ExecutedCall, ...]
    duration_s: float
    wants_replan: bool
    has_given_up: bool = False


_Calls = Generator[SkillCall, Value | None, None]
_Evaluation = Generator[SkillCall, Value | None, Value]


class Interpreter:
    """Executes the statements of one plan, in as many parts as they come; variables live as long as it does.

    Args:
        model: Knows aliases and which skill ends a plan.
        driver: Does the work.

    Attributes:
        said: What the part that was started last has told people so far; where it returns, the answer in words.
        has_ended: Whether the plan has returned, failed or asked for a new one.
        wants_replan: Whether it asked for a new one.
        is_condition_met: Whether the condition that was evaluated by itself last is true.
    """

    def __init__(self, model: RobotModel, driver: SkillDriver) -> None:
        self._model = model
        self._driver = driver
        self._variables: dict[int, Value] = {}
        self._origins: dict[int, SkillCall] = {}  # of the values of variables
        self._last_call: SkillCall | None = None  # whose value was taken
        self._num_steps = 0
        self._calls: list[ExecutedCall] = []
        self._steps: _Calls | None = None
        self._pending: tuple[SkillCall, float] | None = None
        self._result = SkillResult(SkillStatus.SUCCEEDED)
        self._last_value: Value | None = None
        self.said: tuple[str, ...] = ()
        self.has_ended = False
        self.wants_replan = False
        self.is_condition_met = False

    @property
    def calls(self) -> tuple[ExecutedCall, ...]:
        """All calls so far, of all parts."""
        return tuple(self._calls)

    @property
    def running(self) -> tuple[SkillCall, float] | None:
        """The call that the driver is at, and since when; None if there is none."""
        return self._pending

    def start(self, statements: Sequence[Statement], now_s: float) -> None:
        """Begins the next part of the plan. After a return or replan it runs nothing and succeeds.

        Raises:
            RuntimeError: If a part is running.
        """
        self._begin(self._block(() if self.has_ended else statements), now_s)

    def start_condition(self, condition: Condition, now_s: float) -> None:
        """Begins to evaluate a condition; ``is_condition_met`` says how it ended. After a return or replan it is false.

        Raises:
            RuntimeError: If a part is running.
        """
        self._begin(self._test(condition), now_s)

    def _begin(self, steps: _Calls, now_s: float) -> None:
        if self._steps is not None:
            raise RuntimeError("the statements before are still running")
        self._result = SkillResult(SkillStatus.RUNNING)
        self.is_condition_met = False
        self.said = ()
        if not self.has_ended:
            self._last_value = None
        self._steps = steps
        self._advance(None, now_s)

    def tick(self, now_s: float) -> SkillResult:
        """Returns how the part that was started stands; its value is the return value or that of the last call."""
        while self._pending is not None:
            call, start_s = self._pending
            result = self._driver.tick(now_s)
            if result.status is SkillStatus.RUNNING:
                break
            self._pending = None
            self._calls.append(ExecutedCall(call, result, start_s, now_s))
            if result.status is SkillStatus.FAILED:
                self._end(SkillStatus.FAILED, f"{call.name}: {result.reason}", is_permanent=result.is_permanent)
            else:
                self._note_said(call)
                self._last_value = result.value
                self._advance(result.value, now_s)
        return self._result

    def _note_said(self, call: SkillCall) -> None:
        skill = self._model.skill(call.name)
        if skill is not None and isinstance(skill.effect, Say):
            texts = (text for text in call.arguments if isinstance(text, str))
            self.said = (*self.said, *texts)

    def _note_origin(self, index: int) -> None:
        if self._last_call is not None:
            self._origins[index] = self._last_call

    def _answer(self, returned: Expression, value: Value) -> None:
        """Tells people what the plan returns."""
        if words := answer_in_words(self._model, self._origin(returned), value):
            self.said = (*self.said, words)

    def _origin(self, expression: Expression) -> SkillCall | None:
        """Returns the call that the value of an expression, which has just been evaluated, came from."""
        match expression:
            case Call():
                return self._last_call
            case Variable(index=index):
                return self._origins.get(index)
            case _:
                return None

    def forgive(self) -> None:
        """Forgets that a part has failed: another plan follows. Variables stay as they are."""
        self.has_ended = self.wants_replan = False

    def halt(self, now_s: float, reason: str = "halted") -> None:
        """Stops the robot at once; the part and the plan have failed, whatever the driver does."""
        pending, self._pending = self._pending, None
        if self._steps is not None:
            self._end(SkillStatus.FAILED, reason)
        self.has_ended = True
        if pending is not None:
            call, start_s = pending
            self._calls.append(ExecutedCall(call, SkillResult(SkillStatus.FAILED, reason=reason), start_s, now_s))
            self._driver.halt(now_s)

    def _advance(self, value: Value | None, now_s: float) -> None:
        """Goes on to the next call and starts it."""
        if self._steps is None:
            return
        try:
            call = self._steps.send(value)
        except StopIteration:
            self._end(SkillStatus.SUCCEEDED)
        except SkillFailedError as failure:
            self._end(SkillStatus.FAILED, str(failure), is_permanent=isinstance(failure, PlanFailedError))
        else:
            self._pending = (call, now_s)
            self._driver.start(call, now_s)

    def _end(self, status: SkillStatus, reason: str = "", *, is_permanent: bool = False) -> None:
        self._steps = None
        self.has_ended |= status is SkillStatus.FAILED
        self._result = SkillResult(status, self._last_value, reason, is_permanent)

    def _step(self) -> None:
        self._num_steps += 1
        if self._num_steps > MAX_STEPS:
            raise SkillFailedError(f"the plan has more than {MAX_STEPS} steps")

    def _block(self, statements: Sequence[Statement]) -> _Calls:
        for statement in statements:
            if self.has_ended:
                return
            yield from self._statement(statement)

    def _test(self, condition: Condition) -> _Calls:
        is_met = not self.has_ended and (yield from self._condition(condition))
        self.is_condition_met = is_met and not self.has_ended

    def _statement(self, statement: Statement) -> _Calls:
        match statement:
            case Call():
                yield from self._call(statement)
            case Assign(variable=variable, call=call):
                self._variables[variable.index] = yield from self._call(call)
                self._note_origin(variable.index)
            case Loop(count=count, body=body):
                for _ in range(count):
                    self._step()
                    yield from self._block(body)
                    if self.has_ended:
                        return
            case If(condition=condition, body=body):
                if (yield from self._condition(condition)):
                    yield from self._block(body)
            case Return(value=expression):
                self._last_value = yield from self._value(expression)
                self._answer(expression, self._last_value)
                self.has_ended = True
            case Fail(reason=reason) | Unclear(what=reason):
                raise PlanFailedError(reason)

    def _condition(self, condition: Condition) -> Generator[SkillCall, Value | None, bool]:
        match condition:
            case Or(operands=operands):
                for operand in operands:
                    if (yield from self._condition(operand)):
                        return True
                return False
            case And(operands=operands):
                for operand in operands:
                    if not (yield from self._condition(operand)):
                        return False
                return True
            case Comparison(left=left, operator=operator, right=right):
                return (yield from self._comparison(left, operator, right))
            case _:
                value = yield from self._value(condition)
                return is_true(self._decided(self._origin(condition), value))

    def _comparison(
        self, left: Expression, operator: str, right: Expression
    ) -> Generator[SkillCall, Value | None, bool]:
        first = yield from self._value(left)
        origin = self._origin(left)
        second = yield from self._value(right)
        if is_yes_or_no(second):
            first = self._decided(origin, first)
        if is_yes_or_no(first):
            second = self._decided(self._origin(right), second)
        try:
            return compare(first, operator, second)
        except TypeError as error:
            raise SkillFailedError(str(error)) from error

    def _decided(self, origin: SkillCall | None, value: Value) -> Value:
        """Returns a value that decides something: of an answer to a question, the yes or no that it says.

        Raises:
            SkillFailedError: If it says neither. What is not understood is not executed.
        """
        skill = None if origin is None else self._model.skill(origin.name)
        if origin is None or skill is None or not isinstance(skill.effect, Ask):
            return value
        decided = yes_or_no(value)
        if decided is None:
            raise SkillFailedError(f"the answer to {origin.arguments[0]!r} is neither yes nor no: {value!r}")
        return decided

    def _value(self, value: Expression) -> _Evaluation:
        match value:
            case Number(value=literal) | Boolean(value=literal) | Text(text=literal) | Name(name=literal):
                return literal
            case Variable(index=index):
                if index not in self._variables:
                    raise SkillFailedError(f"variable _{index} has no value")
                return self._variables[index]
            case Call():
                return (yield from self._call(value))

    def _call(self, call: Call) -> _Evaluation:
        """Evaluates the arguments, runs the call, and returns its value; one that returns nothing was successful."""
        arguments = []
        for argument in call.arguments:
            arguments.append((yield from self._value(argument)))  # noqa: PERF401 (no yield in comprehensions)
        self._step()
        skill = self._model.skill(call.name)
        flat = SkillCall(skill.name if skill else call.name, tuple(arguments))
        value = yield flat
        self._last_call = flat
        if skill is not None and isinstance(skill.effect, Replan):
            self.wants_replan = self.has_ended = True
        return True if value is None else value


def run_plan(plan: Sequence[Statement], driver: VirtualDriver, now_s: float = 0.0) -> Outcome:
    """Returns how a whole plan goes, in virtual time: it jumps from call to call and never sleeps."""
    interpreter = Interpreter(driver.model, driver)
    start_s = now_s
    interpreter.start(plan, now_s)
    result = interpreter.tick(now_s)
    while result.status is SkillStatus.RUNNING:
        now_s = max(now_s, driver.end_s if driver.end_s is not None else now_s)
        result = interpreter.tick(now_s)
    return Outcome(
        is_success=result.status is SkillStatus.SUCCEEDED,
        reason=result.reason,
        value=result.value,
        calls=interpreter.calls,
        duration_s=now_s - start_s,
        wants_replan=interpreter.wants_replan,
        has_given_up=result.is_permanent,
    )
