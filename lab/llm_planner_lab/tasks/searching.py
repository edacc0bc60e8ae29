# SPDX-License-Identifier: Apache-2.0
"""What is not in view is searched for first: the plan that a person means, as one that a robot can carry out."""

from collections.abc import Iterator, Sequence

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
    Or,
    Return,
    Statement,
    Text,
    Variable,
)

_SEES = frozenset(("g", "o", "a", "od", "ow", "oh", "ox", "oy"))
_MEASURES = frozenset(("od", "ow", "oh", "ox", "oy"))
_MOTIONS = frozenset(("mf", "mb", "ml", "mr", "mu", "md", "tc", "tu", "tk", "ld"))


def with_decisions(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Returns a plan in which a condition and its opposite are decided once.

    ``?s(x){a}?s(x)==False{b}`` looks twice, and what a does may change the answer. So it becomes
    ``_1=s(x);?_1{a}?_1==False{b}``.
    """
    decided: list[Statement] = []
    rest = list(statements)
    index = 1
    while rest:
        one, two = rest[0], rest[1] if len(rest) > 1 else None
        test = _opposite(one, two)
        if test is None or not isinstance(one, If) or not isinstance(two, If):
            decided.append(rest.pop(0))
            continue
        known, index = Variable(index), index + 1
        no = Comparison(known, "==", Boolean(False))
        decided += [Assign(known, test)]
        decided += (
            [If(known, one.body), If(no, two.body)]
            if one.condition == test
            else [If(no, one.body), If(known, two.body)]
        )
        del rest[:2]
    return tuple(decided)


def _opposite(one: Statement, two: Statement | None) -> Call | None:
    """Returns the call that decides between two conditionals in a row; None if they are not each other's opposite."""
    if not (isinstance(one, If) and isinstance(two, If)):
        return None
    for yes, no in ((one.condition, two.condition), (two.condition, one.condition)):
        if isinstance(yes, Call) and no == Comparison(yes, "==", Boolean(False)):
            return yes
    return None


def with_searches(statements: Sequence[Statement], listed: frozenset[str]) -> tuple[Statement, ...]:
    """Returns a drone's plan in which everything that it looks at or flies to is in view by then.

    ``find(x)`` is a search and a flight. A plan whose object is nowhere ends there and says so.

    Args:
        statements: Of the plan.
        listed: Names of what is in view when the plan begins.
    """
    return tuple(_block(statements, set(listed)))


def _block(statements: Sequence[Statement], known: set[str]) -> Iterator[Statement]:
    """Yields the statements of a block; ``known`` is what is in view, and follows them."""
    looked: dict[Condition, str] = {}  # variable -> what it says to be in view
    for statement in statements:
        match statement:
            case Assign(variable=variable, call=Call(name="iv" | "s", arguments=(Name(name=name),))):
                looked[variable] = name
                known.clear()
                yield statement
            case If(condition=condition, body=body):
                condition = _measured_in_view(condition)
                inside = known | _seen_by(condition) | ({looked[condition]} if condition in looked else set())
                yield If(condition, tuple(_block(body, inside)))
                if _searches(condition) or not known <= inside:
                    known.clear()
                known &= inside
            case Loop(count=count, body=body):
                yield Loop(count, tuple(_block(body, set())))
                known.clear()
            case _:
                yield from _simple(statement, known)


def _simple(statement: Statement, known: set[str]) -> Iterator[Statement]:
    call = _call(statement)
    argument = call.arguments[0] if call is not None and call.arguments else None
    if call is None or (call.name not in _SEES and call.name != "find"):
        if call is not None and call.name in _MOTIONS | {"s"}:
            known.clear()
        yield statement
        return
    if isinstance(argument, Text):
        yield from _described(call, argument)
        known.clear()
        return
    name = argument.name if isinstance(argument, Name) else ""
    if name and name not in known:
        yield If(Comparison(Call("s", (Name(name),)), "==", Boolean(False)), (Fail(f"{name} not found"),))
    if name:
        known.clear()
        known.add(name)
    yield Call("g", call.arguments) if call.name == "find" else statement


def _described(call: Call, description: Text) -> Iterator[Statement]:
    """Yields the search for something that is known by its use only."""
    found = Variable(1)
    yield Assign(found, Call("sa", (description,)))
    yield If(Comparison(found, "==", Boolean(False)), (Fail("nothing found"),))
    yield Call("g" if call.name == "find" else call.name, (found,))


def _call(statement: Statement) -> Call | None:
    """Returns what a statement without a block calls."""
    if isinstance(statement, Assign):
        return statement.call
    value = statement.value if isinstance(statement, Return) else statement
    return value if isinstance(value, Call) else None


def _tests(condition: Condition) -> tuple[Comparison | Expression, ...]:
    if isinstance(condition, And | Or):
        return tuple(test for operand in condition.operands for test in _tests(operand))
    return (condition,)


def _names(test: Comparison | Expression, skills: frozenset[str]) -> Iterator[str]:
    for side in (test.left, test.right) if isinstance(test, Comparison) else (test,):
        if isinstance(side, Call) and side.name in skills and side.arguments and isinstance(side.arguments[0], Name):
            yield side.arguments[0].name


def _measured_in_view(condition: Condition) -> Condition:
    """Returns the condition with a look at what it measures in front: what is out of view cannot be measured."""
    if isinstance(condition, Or):
        return condition
    tests = _tests(condition)
    seen = {name for test in tests for name in _names(test, frozenset(("iv", "s")))}
    measured = list(dict.fromkeys(n for test in tests for n in _names(test, _MEASURES) if n not in seen))
    looks = tuple(Call("iv", (Name(name),)) for name in measured)
    joined = (*looks, *tests)
    return And(joined) if len(joined) > 1 else condition


def _seen_by(condition: Condition) -> set[str]:
    """Returns what is in view if a condition is true."""
    if isinstance(condition, Or):
        return set()
    positive = (test for test in _tests(condition) if not isinstance(test, Comparison))
    return {name for test in positive for name in _names(test, frozenset(("iv", "s")))}


def _searches(condition: Condition) -> bool:
    return any(True for test in _tests(condition) for _ in _names(test, frozenset(("s",))))
