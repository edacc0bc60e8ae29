# SPDX-License-Identifier: Apache-2.0
"""How often an instruction wants something, against how often its plan does it.

"Say hello three times" must not end after the first one, nor "two photos" at one. A plan may do more than once what is
to be done once; only stated counts are judged, and of several the last one if a word takes the others back. A loop
that goes round another number of times is judged by ``orders``.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.mood import said_besides
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.robots.effect import Say, TakePicture
from llm_planner.robots.model import RobotModel

_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTS = {word: count for count, word in enumerate(_WORDS, 1)} | {"twice": 2, "thrice": 3}
_COUNT = rf"(?<![\d.])(?P<count>\d{{1,2}}|{'|'.join(_WORDS)})"
_PICTURES = re.compile(
    rf"(?<!between )(?<!these )(?<!the )(?<!not )(?<!most )(?<!to )(?<!than )"
    rf"\b{_COUNT} (?:(?:good|nice|quick|close|clear|sharp|different|separate) )?"
    r"(?:photo(?:graph)?s|pictures|pics|shots|snap(?:shot)?s|images)\b"
)
_BEGINS = r"(?:^|[,.;:!?] |\b(?:and|then|please|now|just) )"
_ENDS = r"(?= ?[,.;:!?]|$| (?:please|and|then|with|in a row|for|to)\b)"
_TIMES = re.compile(
    rf"{_BEGINS}(?:say|repeat|shout|announce|call|nod|bob|hop|jump|tap|wiggle|beep)\b[^,.;:!?]*?"
    rf" (?P<times>{_COUNT} times|twice|thrice){_ENDS}"
)
"""Orders to do something so often. Elsewhere it is mostly what somebody tells: "he fell off the roof twice"."""
_NUMBERS = re.compile(
    rf"^[^.;:!?]{{0,20}}?\b(?P<count>{'|'.join(_WORDS)})\b(?! ?(?:s|sec\w*|min\w*|cm|m|met\w+|feet|deg\w*)\b)"
)
_TAKEN_BACK = re.compile(r"\b(?:no|make|sorry|actually|mean|meant|rather|instead|scratch|correction|minus|once)\b")
_IS_TOLD = re.compile(r"\b(?:said|hoped|wanted|asked|was|were|ha[ds]|have|took|got|already|another)\b")
_ROUNDS = re.compile(r"(?:^|(?<=[;{}]))(\d{1,3})\{")  # of a loop


@dataclass(slots=True)
class CountCheck(PlanCheck):
    """Follows one plan to its end.

    Args:
        model: Of the robot.
        instruction: As it came; untrusted.
    """

    model: RobotModel
    instruction: str
    _texts: list[str] = field(default_factory=list, init=False)  # that the plan says
    _calls: Counter[str] = field(default_factory=Counter, init=False)
    _num_pictures: int = field(default=0, init=False)

    def feed(self, calls: Iterable[SkillCall], statement: str, /) -> Verdict:
        """Counts the calls of another statement, each as often as its loops go round."""
        num_rounds = math.prod(map(int, _ROUNDS.findall(statement)))
        for call in calls:
            effect = self.model.skills[call.name].effect
            self._calls[call.name] += num_rounds
            if isinstance(effect, TakePicture):
                self._num_pictures += num_rounds
            if isinstance(effect, Say):
                self._texts.extend(str(text) for text in call.arguments)
        return Verdict.EXPLAINED

    def finish(self) -> Verdict:
        """Returns how the whole plan stands: what is to be done so often must be."""
        said = said_besides(self.instruction, self._texts)
        pictures = [] if _IS_TOLD.search(said) else [_number(found) for found in _PICTURES.finditer(said)]
        taken_back = _TAKEN_BACK.search(said)
        if pictures and taken_back:
            pictures = [_number(found) for found in _NUMBERS.finditer(said[taken_back.end() :])]
        if 0 < self._num_pictures < min(pictures, default=0):
            return self.contradicted(f"the plan takes {self._num_pictures} of {min(pictures)} pictures")
        order = None if taken_back else _TIMES.search(said)
        if order and max(self._calls.values(), default=2) < 2:
            return self.contradicted(f"the plan does nothing {order['times']}")
        return Verdict.EXPLAINED


def _number(found: "re.Match[str]") -> int:
    return _COUNTS.get(found["count"]) or int(found["count"])
