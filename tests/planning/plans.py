# SPDX-License-Identifier: Apache-2.0
"""Random plans: well-typed ones, and hostile ones."""

import math

from llm_planner.core.skill import ArgumentType
from llm_planner.language.syntax import (
    And,
    Assign,
    Boolean,
    Call,
    Closing,
    Comparison,
    If,
    Loop,
    Name,
    Number,
    Opening,
    Or,
    Return,
    Text,
    Variable,
)
from llm_planner.robots.model import ReturnType

NAMES = ("cat", "red_box", "chair_1", "A", "_x", "true", "table", "bin")
TEXTS = ("cat", "it's here", "a\\b", "é€", "x" * 60, "mf(9999);", '"', "a\nb")


def in_parts(statement):
    """Returns a statement as the parts in which it comes to a robot that takes open blocks."""
    if not isinstance(statement, If):
        return [statement]
    return [Opening(statement.condition), *(part for inner in statement.body for part in in_parts(inner)), Closing()]


def cut_off(parts):
    """Returns the plan that is carried out of parts if nothing follows: their blocks end there."""
    parts, num_open = list(parts), 0
    for part in parts:
        num_open += isinstance(part, Opening) - isinstance(part, Closing)
    blocks, conditions = [[]], []
    for part in [*parts, *[Closing()] * num_open]:
        if isinstance(part, Opening):
            blocks.append([])
            conditions.append(part.condition)
        elif isinstance(part, Closing):
            body = tuple(blocks.pop())
            blocks[-1].append(If(conditions.pop(), body))
        else:
            blocks[-1].append(part)
    (plan,) = blocks
    return tuple(plan)


class PlanMaker:
    """Makes well-typed plans, printed the way the grammar wants them. ``Hostile`` overrides what can be wrong."""

    def __init__(self, rng, model):
        self.rng = rng
        self.skills = list(model.skills.values())
        self.moves = [s for s in self.skills if s.number is not None]
        self.types = {}

    def plan(self, max_statements=6):
        self.types = {}
        return tuple(self.statement(0) for _ in range(self.rng.randint(1, max_statements)))

    def statement(self, depth):
        kind = self.rng.choice(("call", "move", "call", "move", "assign", "loop", "if"))
        values = self.returning(ReturnType.BOOLEAN, ReturnType.NUMBER, ReturnType.TEXT)
        if kind == "assign" and values:
            skill = self.rng.choice(values)
            free = [i for i in range(1, 5) if self.types.get(i, skill.returns) is skill.returns]
            if free:
                call = self.call(skill)
                index = self.rng.choice(free)
                self.types[index] = skill.returns
                return Assign(Variable(index), call)
        if kind == "loop" and depth < 3:
            return Loop(self.count(), self.body(depth))
        if kind == "if" and depth < 3:
            condition, before = self.condition(), dict(self.types)
            body = self.body(depth)
            self.types = before
            return If(condition, body)
        return self.call(self.rng.choice(self.moves if kind == "move" else self.skills))

    def count(self):
        return self.rng.choice((1, 2, 3, 8, 100))

    def body(self, depth):
        statements = [self.statement(depth + 1) for _ in range(self.rng.randint(1, 3))]
        if self.rng.random() < 0.15:
            statements.append(Return(Boolean(True)))
        return tuple(statements)

    def returning(self, *types):
        return [s for s in self.skills if s.returns in types]

    def call(self, skill):
        return Call(skill.name, tuple(self.argument(a) for a in skill.arguments))

    def argument(self, argument):
        if argument.type is ArgumentType.NUMBER:
            return Number(self.number(argument))
        known = [i for i, kind in self.types.items() if kind is ReturnType.TEXT]
        if known and self.rng.random() < 0.2:
            return Variable(self.rng.choice(known))
        if argument.type is ArgumentType.IDENTIFIER:
            return self.rng.choice([Name(self.rng.choice(NAMES)), Text("red box")])
        return Text(self.rng.choice(TEXTS))

    def number(self, argument):
        low, high = argument.minimum, argument.maximum
        inside = [low, high, math.ceil(self.rng.uniform(low, high - 1)), round(self.rng.uniform(low, high), 2)]
        whole = [n for n in inside if n == int(n)]
        return float(self.rng.choice(whole if argument.is_integer else inside))

    def condition(self):
        if self.rng.random() < 0.6:
            return self.test()
        if self.rng.random() < 0.5:
            return And((self.test(), self.test()))
        return Or((And((self.test(), self.test())), self.test()))

    def test(self):
        values = self.returning(ReturnType.BOOLEAN, ReturnType.NUMBER, ReturnType.TEXT)
        left, kind = Boolean(True), ReturnType.BOOLEAN
        if values:
            skill = self.rng.choice(values)
            left, kind = self.call(skill), skill.returns
        if self.types and self.rng.random() < 0.3:
            index = self.rng.choice(list(self.types))
            left, kind = Variable(index), self.types[index]
        if kind is ReturnType.NUMBER:
            return Comparison(
                left, self.rng.choice([">", "<", "==", "!="]), Number(self.rng.choice((0.5, -3.0, 100.0)))
            )
        if kind is ReturnType.TEXT:
            return Comparison(left, "!=", self.rng.choice((Boolean(False), Text("cat"), Name("cat"))))
        return self.rng.choice((left, Comparison(left, "==", Boolean(True))))


class Hostile(PlanMaker):
    """Plans that look for a gap: mostly well-typed with wild motions, now and then wrong in one way or another."""

    def __init__(self, rng, model, poison=0.02):
        super().__init__(rng, model)
        self.poison = poison

    def poisoned(self):
        return self.rng.random() < self.poison

    def count(self):
        return self.rng.choice((0, -1, 101, 10**6, 10**40)) if self.poisoned() else self.rng.choice((1, 2, 2, 3, 4, 30))

    def body(self, depth):
        return () if self.poisoned() else super().body(depth)

    def call(self, skill):
        call = super().call(skill)
        if not self.poisoned():
            return Call(skill.alias, call.arguments) if skill.alias and self.rng.random() < 0.1 else call
        wrong_name = Call(self.rng.choice(("rm", "mf2", "", "MF", "True", "__import__")), call.arguments)
        one_more = Call(call.name, (*call.arguments, self.rng.choice((Number(1.0), Name("x")))))
        return self.rng.choice((wrong_name, one_more, Call(call.name, call.arguments[1:]), Call(call.name, (call,))))

    def argument(self, argument):
        if self.poisoned():
            return self.rng.choice(
                (Number(1e9), Name("cat"), Text(""), Text("x" * 9999), Boolean(True), Variable(7), Text("a\x1b[2J"))
            )
        return super().argument(argument)

    def number(self, argument):
        low, high = argument.minimum, argument.maximum
        if self.poisoned():
            return self.rng.choice((low - 1e-3, low + 0.5, high + 1e-3, -high, math.nan, math.inf, -math.inf, 1e300))
        number = self.rng.choice(
            (low, high, self.rng.uniform(low, high), self.rng.uniform(low, min(high, 10 * low + 1)))
        )
        return float(round(number)) if argument.is_integer else number

    def statement(self, depth):
        if self.poisoned():
            nested = Call("tp")
            for _ in range(self.rng.randint(3, 30)):
                nested = Loop(2, (nested,))
            return nested
        if self.poisoned():
            return Return(self.rng.choice((Boolean(False), Variable(3), Number(math.nan))))
        return super().statement(depth)
