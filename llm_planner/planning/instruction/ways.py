# SPDX-License-Identifier: Apache-2.0
"""A way that an instruction orders and its plan leaves out: back, or to a thing.

"Fly to the letter box, see if the flag is up and come back" must not end at the letter box, nor one metre behind it.
How far it is depends on where the thing was found, so only a skill that returns to the start is a way back. Behind
ways of stated lengths alone another one may be, too: whether it is as long is a matter of amounts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.mood import said_besides
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.robots.effect import Approach, GoTo, Home, Orient, Say, Translate, Turn
from llm_planner.robots.model import RobotModel

_START = (
    r"(?:home|to (?:the |your |our )?"
    r"(?:home|base|start(?:ing)?|launch|take ?off|own|usual|old|initial|original|place|spot|post)"
    r"(?: (?:place|point|spot|position|pose|pad|base))?"
    r"|(?:to )?(?:where(?:ver)?|the (?:place|point|spot)) you (?:\w+ )?"
    r"(?:started|start|began|begin|came|set|took|left|were))"
)
_SPEAKER = r"(?: here| to (?:me|us))"
_ADVERBS = r"(?: (?:on|off|over|right|straight|all the way|along|now|safely|then|yourself|only|first))*"
_BEGINS = (
    r"(?:^|[,.;:!?] ?|\b(?:and|then|please|kindly|so|also|finally|first|only|or|otherwise|just|now|you to|way"
    r"|(?:can|could|will|would) you) )"
)
_END = (
    r"(?: (?:again|please|then|now|safely|straight ?away|afterwards|after that|only|first|quick(?:ly)?|at once))*"
    r"(?: ?[,.;:!?]|$| (?:and|then|before|if|unless|when|once|as soon|to (?:tell|say|report|land|let|show))\b)"
)
_ORDERED = re.compile(
    rf"{_BEGINS}(?:(?:come|fly|go|head|get|move|return|make (?:it|your way)){_ADVERBS}(?: back)? {_START}"
    rf"|(?:come|head){_ADVERBS} back{_SPEAKER}?|(?:get|fly){_ADVERBS} back{_SPEAKER}|return{_SPEAKER}?){_END}"
    rf"|(?:\b(?:and|then)|,) (?:its |thats )?(?:straight )?(?:home|back (?:{_START}|here|to (?:me|us))){_END}"
)
"""Orders to return to the start, or to whom the robot has left. "Go back" alone may be backwards."""
_THERE = re.compile(
    r"(?:^|[,.;:!?] ?|\b(?:and|then|please|kindly|so|just|now) )(?:(?:can|could|will|would) you )?(?:please )?"
    r"(?:go|fly|move|head|travel)(?: over| straight| directly| on)? (?:there|to it|up to it)"
    r"(?= ?[,.;:!?]|$| please| and\b)"
)
"""Orders to go to what was named; a look at it is none."""
_CHANGED = re.compile(
    r"\b(?:mean|meant|actually|well|not?|dont|instead|sorry|scratch|rather|tell you what|im|i am|i stand|home is)\b"
)
"""What may take such an order back, or say where that is."""
_NEAR_M = 0.3
_LOOP = re.compile(r"\d+\{")


@dataclass(slots=True)
class WayCheck(PlanCheck):
    """Follows one plan to its end.

    Args:
        model: Of the robot.
        instruction: As it came; untrusted.
    """

    model: RobotModel
    instruction: str
    _texts: list[str] = field(default_factory=list, init=False)  # that the plan says
    _has_come_back: bool = field(default=False, init=False)
    _has_visited: bool = field(default=False, init=False)
    _has_looked: bool = field(default=False, init=False)
    _num_stated_ways: int = field(default=0, init=False)
    _away: complex = field(default=0j, init=False)  # m from the start
    _adds_up: bool = field(default=True, init=False)  # nothing turns, or is done in a case or a loop

    def feed(self, calls: Iterable[SkillCall], statement: str, /) -> Verdict:
        """Notes where the calls of another statement lead."""
        for call in calls:
            match self.model.skills[call.name].effect:
                case Orient():
                    self._has_looked = True
                case Home():
                    self._has_come_back = True
                case GoTo() | Approach():
                    self._has_visited = True
                case Translate(axis=(x, y, _), unit_m=unit_m):
                    self._num_stated_ways += 2 if _LOOP.match(statement) else 1
                    amount, is_surely_once = call.arguments[0], not (_LOOP.search(statement) or "?" in statement)
                    if isinstance(amount, int | float) and is_surely_once:
                        self._away += complex(x, y) * amount * unit_m
                    else:
                        self._adds_up = False
                case Turn():
                    self._adds_up = False
                case Say():
                    self._texts.extend(str(text) for text in call.arguments)
                case _:
                    pass
        return Verdict.EXPLAINED

    @property
    def _may_be_back(self) -> bool:
        """Whether stated ways may have led back."""
        return not self._adds_up or abs(self._away) < _NEAR_M

    def finish(self) -> Verdict:
        """Returns how the whole plan stands: where a way back is ordered, it must have one."""
        said = said_besides(self.instruction, self._texts)
        only_looks = self._has_looked and not (self._has_come_back or self._has_visited or self._num_stated_ways)
        if only_looks and _THERE.search(said) and not _CHANGED.search(said):
            return self.contradicted("the plan only looks, and does not go there")
        if self._has_come_back or (self._num_stated_ways > 1 and not self._has_visited and self._may_be_back):
            return Verdict.EXPLAINED
        order = _ORDERED.search(said)
        if order is None or _CHANGED.search(said, order.end()):
            return Verdict.EXPLAINED
        return self.contradicted("the plan leaves out the way back")
