# SPDX-License-Identifier: Apache-2.0
"""Tokens to statements: recursive descent over tokens that have not arrived yet.

Every method is a generator; a ``yield`` waits for the next token. None looks at a token that it does not need, so a
statement is handed out at its last token.
"""

import math
from collections.abc import Callable, Generator
from typing import TypeVar

from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.lexer import BOOLEAN, END, NAME, NUMBER, TEXT, VARIABLE, Token
from llm_planner.language.syntax import (
    And,
    Assign,
    Boolean,
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
    Or,
    Part,
    Return,
    Statement,
    Text,
    Unclear,
    Variable,
)

MAX_DEPTH = 16  # blocks and calls inside one another: bounds the recursion of everything that walks the tree

_COMPARATORS = (">", "<", "==", "!=")
_STATEMENT = (NAME, VARIABLE, NUMBER, "?", "->", ";")
_ENDINGS: dict[str, type[Fail | Unclear]] = {"fail": Fail, "unclear": Unclear}
_VALUE = (NAME, VARIABLE, NUMBER, BOOLEAN, TEXT)

_T = TypeVar("_T")
_Reading = Generator[None, Token, _T]


class Descent:
    """Takes one token after the other and collects the parts of the plan that they complete.

    Args:
        opens_blocks: Whether a condition that is in no loop comes in parts: its opening, statement by statement, its
            end. Else a part is a whole top-level statement.

    Attributes:
        num_open_blocks: Openings that have no end yet.
    """

    def __init__(self, *, opens_blocks: bool = False) -> None:
        self._opens_blocks = opens_blocks
        self.num_open_blocks = 0
        self._ahead: Token | None = None  # looked at, not yet taken
        self._depth = 0
        self._open: list[tuple[Condition | None, list[Statement]]] = []  # blocks; no condition: of a loop
        self._ready: list[Part] = []
        self._run = self._plan()
        next(self._run)

    def push(self, token: Token) -> list[Part]:
        """Takes a token and returns the parts that it completed: at most one, but for a ``}`` behind a return.

        Raises:
            PlanSyntaxError: No plan goes on with this token.
        """
        self._ready = []
        self._run.send(token)
        return self._ready

    def closed(self) -> If | None:
        """Returns the condition that is being read as if its block ended behind its last whole statement.

        None if there is none, or nothing in it is whole. A loop that has no end yet is no whole statement: a part of
        its body, repeated, is another motion.
        """
        statement: If | None = None
        for condition, body in reversed(self._open):
            whole = (*body, *(() if statement is None else (statement,)))
            statement = If(condition, whole) if condition is not None and whole else None
        return statement

    def _plan(self) -> _Reading[None]:
        yield from self._statements(END, self._hand_out)
        yield

    def _hand_out(self, part: Part) -> None:
        self._ready.append(part)

    def _statements(self, end: str, emit: Callable[[Statement], None]) -> _Reading[None]:
        """Reads statements up to and including ``end``. A ``;`` may be missing before it, and after a block."""
        allowed: tuple[str, ...] = _STATEMENT
        while (token := (yield from self._take(*allowed, end))).kind != end:
            if token.kind == ";":
                allowed = _STATEMENT
            elif token.kind == NUMBER:
                emit((yield from self._loop(token)))
                allowed = _STATEMENT
            elif token.kind == "?":
                yield from self._if(emit)
                allowed = _STATEMENT
            else:
                follows_call = allowed is not _STATEMENT
                statement = yield from self._simple_statement(token, follows_call, end)
                emit(statement)
                allowed = (";", "->") if isinstance(statement, Call | Assign) else (";",)

    def _simple_statement(self, token: Token, follows_call: bool, end: str) -> _Reading[Statement]:
        """Reads the rest of a call, an assignment or a return, up to its last token."""
        if token.kind == NAME:
            call = yield from self._call(token)
            return _ending(token, call) if token.text in _ENDINGS else call
        if token.kind == VARIABLE:
            yield from self._take("=")
            name = yield from self._take(NAME)
            return Assign(Variable(int(token.text[1:])), (yield from self._call(name)))
        value = yield from self._expression()
        if follows_call and isinstance(value, Call):
            return value  # pick(a)->place(a,b): the arrow only separates
        yield from self._check(";", end)
        return Return(value)

    def _loop(self, token: Token) -> _Reading[Loop]:
        if not token.text.isdigit() or int(token.text) < 1:
            raise PlanSyntaxError(token.position, f"a loop count is a whole number from 1, not {token.text[:40]}")
        return Loop(int(token.text), (yield from self._block()))

    def _if(self, emit: Callable[[Statement], None]) -> _Reading[None]:
        condition = yield from self._condition()
        if not self._opens_blocks or emit != self._hand_out:
            emit(If(condition, (yield from self._block(condition))))
            return
        self._enter((yield from self._take("{")))
        self.num_open_blocks += 1
        self._hand_out(Opening(condition))
        yield from self._statements("}", self._hand_out)
        self.num_open_blocks -= 1
        self._hand_out(Closing())
        self._depth -= 1

    def _block(self, condition: Condition | None = None) -> _Reading[tuple[Statement, ...]]:
        self._enter((yield from self._take("{")))
        body: list[Statement] = []
        self._open.append((condition, body))
        yield from self._statements("}", body.append)
        self._open.pop()
        self._depth -= 1
        return tuple(body)

    def _condition(self) -> _Reading[Condition]:
        operands = [(yield from self._conjunction())]
        while (yield from self._peek()).kind == "|":
            yield from self._take("|")
            operands.append((yield from self._conjunction()))
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _conjunction(self) -> _Reading[And | Comparison | Expression]:
        operands = [(yield from self._comparison())]
        while (yield from self._peek()).kind == "&":
            yield from self._take("&")
            operands.append((yield from self._comparison()))
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _comparison(self) -> _Reading[Comparison | Expression]:
        left = yield from self._expression()
        if (yield from self._peek()).kind not in _COMPARATORS:
            return left
        operator = yield from self._take(*_COMPARATORS)
        return Comparison(left, operator.text, (yield from self._expression()))

    def _expression(self) -> _Reading[Expression]:
        token = yield from self._take(*_VALUE)
        if token.kind == NAME:
            is_call = (yield from self._peek()).kind == "("
            return (yield from self._call(token)) if is_call else Name(token.text)
        if token.kind == VARIABLE:
            return Variable(int(token.text[1:]))
        if token.kind == NUMBER:
            return _number(token)
        return Boolean(token.text == "True") if token.kind == BOOLEAN else Text(token.text)

    def _call(self, name: Token) -> _Reading[Call]:
        self._enter((yield from self._take("(")))
        arguments: list[Expression] = []
        if (yield from self._peek()).kind == ")":
            yield from self._take(")")
        else:
            arguments.append((yield from self._expression()))
            while (yield from self._take(",", ")")).kind == ",":
                arguments.append((yield from self._expression()))
        self._depth -= 1
        return Call(name.text, tuple(arguments))

    def _enter(self, token: Token) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PlanSyntaxError(token.position, f"nested deeper than {MAX_DEPTH}")

    def _peek(self) -> _Reading[Token]:
        if self._ahead is None:
            self._ahead = yield
        return self._ahead

    def _check(self, *kinds: str) -> _Reading[Token]:
        token = yield from self._peek()
        if token.kind not in kinds:
            expected = " or ".join(kind if " " in kind else repr(kind) for kind in kinds)
            raise PlanSyntaxError(token.position, f"expected {expected} but found {token}")
        return token

    def _take(self, *kinds: str) -> _Reading[Token]:
        token = yield from self._check(*kinds)
        self._ahead = None
        return token


def _ending(token: Token, call: Call) -> Fail | Unclear:
    """Returns the statement that ends a plan with a reason."""
    if len(call.arguments) == 1 and isinstance(given := call.arguments[0], Text):
        return _ENDINGS[call.name](given.text)
    raise PlanSyntaxError(token.position, f"{call.name} takes one quoted text")


def _number(token: Token) -> Number:
    """Returns the number that a token is; finite."""
    value = float(token.text)
    if math.isinf(value):
        raise PlanSyntaxError(token.position, f"a number of {len(token.text)} digits is too large")
    return Number(value)
