# SPDX-License-Identifier: Apache-2.0
"""A grammar for constrained decoding, generated from a robot model's skills.

The language is a subset of MiniSpec: canonical printing (no spaces, so that no model is lured into them), canonical
skill names, arguments of the declared type and range, values only where their type fits, bounded loops and nesting.
What a context-free grammar cannot know (variables, positions, the length of the plan) is the safety gate's business.
"""

from llm_planner.core.skill import ArgumentType
from llm_planner.planning.limits import MAX_DEPTH, MAX_LOOP_COUNT, MAX_VARIABLE
from llm_planner.planning.number_pattern import number_pattern
from llm_planner.robots.model import Argument, ReturnType, RobotModel, Skill

MAX_REASON_LENGTH = 120  # characters of what fail() and unclear() say
_MAX_LENGTH = 200  # characters of a text or name in a condition or return
_ANY_NUMBER = r"/0|-?([1-9][0-9]{0,5}(\.[0-9]{0,2}[1-9])?|0\.[0-9]{0,2}[1-9])/"  # in a condition or return

_PLAIN = r"[^'\\\x00-\x1f\x7f-\x9f]"  # a character of a quoted text that needs no backslash
_NAME = r"/([A-Za-z]|_[A-Za-z_])[A-Za-z0-9_]{{0,{rest}}}/ & ~/True|False/"


def lark_grammar(
    model: RobotModel,
    allowed: frozenset[str] | None = None,
    *,
    can_ask: bool = True,
) -> str:
    """Returns the grammar of all plans of a robot in llguidance's dialect of Lark.

    It accepts, and so lets a model end, after every complete plan of one statement or more.

    Args:
        model: Of the robot.
        allowed: Names of the skills that it may use; None for all.
        can_ask: Whether a plan may be ``unclear``.
    """
    grammar = _Grammar(can_ask=can_ask)
    for skill in model.skills.values():
        if allowed is None or skill.name in allowed:
            grammar.add_skill(skill)
    return grammar.text()


def continued(grammar: str, num_open_blocks: int = 0) -> str:
    """Returns the grammar of what may follow behind complete statements of a plan: another plan, or nothing.

    Args:
        grammar: As of ``lark_grammar``.
        num_open_blocks: Blocks in which these statements are: what is left of them comes first.
    """
    rests = (f'statement_{depth}* return? "}}" ' for depth in range(num_open_blocks, 0, -1))
    return f"start: {''.join(rests)}plan?\nplan:" + grammar.removeprefix("start:")


class _Grammar:
    """Collects rules skill by skill; equal terminals are shared."""

    def __init__(self, *, can_ask: bool) -> None:
        self._can_ask = can_ask
        self._calls: dict[ReturnType, list[str]] = {kind: [] for kind in ReturnType}
        self._terminals: dict[str, str] = {}  # definition -> name

    def add_skill(self, skill: Skill) -> None:
        arguments = ' "," '.join(self._argument(argument) for argument in skill.arguments)
        opening = f'"{skill.name}("' if arguments else f'"{skill.name}()"'
        self._calls[skill.returns].append(f'{opening} {arguments} ")"' if arguments else opening)

    def text(self) -> str:
        rules = [*self._plan_rules(), *self._value_rules(), *self._call_rules()]
        terminals = [f"{name}: {definition}" for definition, name in self._terminals.items()]
        return "\n".join([*rules, *terminals]) + "\n"

    def _terminal(self, stem: str, definition: str) -> str:
        """Returns the name of the terminal with this definition."""
        return self._terminals.setdefault(definition, f"{stem}_{len(self._terminals)}")

    def _name(self, max_length: int) -> str:
        return self._terminal("NAME", _NAME.format(rest=max(0, max_length - 2)))

    def _quoted(self, max_length: int, escapes: str = r"['\\nt]") -> str:
        return self._terminal("TEXT", rf"/'({_PLAIN}|\\{escapes}){{1,{max_length}}}'/")

    def _variable(self) -> str:
        pattern = number_pattern(1, MAX_VARIABLE, is_integer=True)
        return self._terminal("VARIABLE", f"/_{pattern}/")

    def _number(self, low: float, high: float, *, is_integer: bool = False) -> str:
        return self._terminal("NUMBER", f"/{number_pattern(low, high, is_integer=is_integer)}/")

    def _argument(self, argument: Argument) -> str:
        """Returns what may stand for an argument. A number must be literal: the gate has to know it."""
        if argument.type is ArgumentType.NUMBER:
            assert argument.minimum is not None
            assert argument.maximum is not None
            return self._number(argument.minimum, argument.maximum, is_integer=argument.is_integer)
        options = [self._quoted(argument.max_length)]
        if argument.type is ArgumentType.IDENTIFIER:  # a name has no line breaks and tabs
            options = [self._name(argument.max_length), self._quoted(argument.max_length, r"['\\]")]
        return f"({' | '.join([*options, self._variable()])})"

    def _plan_rules(self) -> list[str]:
        """Returns the rules of statements, one set per depth: nesting is bounded, so nothing is recursive."""
        count = self._terminal("COUNT", f"/{number_pattern(1, MAX_LOOP_COUNT, is_integer=True)}/")
        simple = 'call ";"'
        if self._kinds(*_VALUES):
            simple += f' | {self._variable()} "=" ({self._kinds(*_VALUES)}) ";"'
        reason = self._quoted(MAX_REASON_LENGTH, r"['\\]")
        rules = [f"simple: {simple}", f'return: "->" value ";" | "fail(" {reason} ");"']
        rules.insert(0, f'start: body_0 | "unclear(" {reason} ");"' if self._can_ask else "start: body_0")
        for depth in range(MAX_DEPTH + 1):
            rules.append(f"body_{depth}: statement_{depth}+ return? | return")
            blocks = ""
            if depth < MAX_DEPTH:
                blocks = f' | {count} "{{" body_{depth + 1} "}}"'
                if self._kinds(*_VALUES):
                    blocks += f' | "?" condition "{{" body_{depth + 1} "}}"'
            rules.append(f"statement_{depth}: simple{blocks}")
        return rules

    def _value_rules(self) -> list[str]:
        """Returns the rules of conditions and returned values. A text may also spell a number, or be ``False``.

        Where no skill measures or sees anything, nothing but a truth value can be returned.
        """
        if not self._kinds(*_VALUES):
            return ["value: boolean", 'boolean: "True" | "False"']
        number, variable = self._terminal("NUMBER", _ANY_NUMBER), self._variable()
        text = f"{self._quoted(_MAX_LENGTH)} | {self._name(_MAX_LENGTH)}"
        rules = [f"value: boolean | {number} | {text} | {variable}{self._or(*_VALUES)}", 'boolean: "True" | "False"']
        boolean, quantity, words = ReturnType.BOOLEAN, ReturnType.NUMBER, ReturnType.TEXT
        return [
            *rules,
            'condition: conjunction ("|" conjunction)*',
            'conjunction: comparison ("&" comparison)*',
            "comparison: truth (equality boolean)? | quantity order (number|quantity) | words equality (text|words)",
            'equality: "==" | "!="',
            'order: ">" | "<" | equality',
            f"truth: {variable}{self._or(boolean, words)}",
            f"quantity: {variable}{self._or(quantity, words)}",
            f"words: {variable}{self._or(words)}",
            f"number: {number}",
            f"text: {text}",
        ]

    def _call_rules(self) -> list[str]:
        kinds = [kind for kind in ReturnType if self._calls[kind]]
        rules = [f"{_rule(kind)}: {' | '.join(self._calls[kind])}" for kind in kinds]
        return [*rules, f"call: {self._kinds(*kinds)}"]

    def _kinds(self, *kinds: ReturnType) -> str:
        """Returns an alternative of the calls that return one of these types; empty if there are none."""
        return " | ".join(_rule(kind) for kind in kinds if self._calls[kind])

    def _or(self, *kinds: ReturnType) -> str:
        return f" | {self._kinds(*kinds)}" if self._kinds(*kinds) else ""


_VALUES = (ReturnType.BOOLEAN, ReturnType.NUMBER, ReturnType.TEXT)


def _rule(kind: ReturnType) -> str:
    return f"call_{kind.value}"
