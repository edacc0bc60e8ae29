# SPDX-License-Identifier: Apache-2.0
"""Things that an instruction rules out or takes back: a plan that acts on one has understood the opposite.

"Not the blue folder, the other one", "everything except the pliers", "the bearing, no wait, the bushing". A thing
counts if the instruction speaks of it nowhere else. What may be asked about it or said of it is not judged.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.names import acted_on, bare_words
from llm_planner.planning.verdict import Verdict
from llm_planner.robots.model import RobotModel

_ARTICLE = r"(?:the|that|thi|those|these|my|your|our|his|her|their|an?)"  # as ``bare_words`` have them
_PREPOSITION = r"(?:to|in|into|on|onto|at|for|toward|with|by|over|from)"
_RULED_OUT = re.compile(
    r"(?<!\bif )(?<!\bthere )\b(?:not|never|except(?:ing)?(?: for)?|excluding|isnt|wasnt|instead of|rather than"
    rf"|(?:dont|do not) mean|(?:any|every|no)thing but|all but) (?:{_PREPOSITION} )?{_ARTICLE} "
)
_REGRETS = "no|nope|nein|sorry|rather|oop|i mean|i meant"
_TAKEN_BACK = re.compile(
    rf" (?:(?:or|um|uh|oh|er|wait|hang on|hold on) )*(?:{_REGRETS}|make that|scratch that|correction)"
    rf"(?: (?:{_REGRETS}|not|wait|actually|um|uh|oh|er|that))* the (?!other|same|thing|way)"
)


@dataclass(slots=True)
class ExclusionCheck:
    """Follows one plan call by call.

    Args:
        model: Of the robot: which arguments are names, and which skills act.
        instruction: As it came; untrusted.
    """

    model: RobotModel
    instruction: str
    problem: str = field(default="", init=False)
    _words: Sequence[str] = field(init=False)
    _starts: frozenset[int] = field(init=False)
    _ends: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self._words = bare_words(self.instruction)
        text = " ".join(self._words)
        self._starts = frozenset(text.count(" ", 0, match.end()) for match in _RULED_OUT.finditer(text))
        self._ends = frozenset(text.count(" ", 0, match.start()) + 1 for match in _TAKEN_BACK.finditer(text))

    def feed(self, calls: Iterable[SkillCall], _text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        if not (self._starts or self._ends):
            return Verdict.EXPLAINED
        names = (name for call in calls for name in acted_on(self.model, call))
        excluded = next(filter(self._is_excluded, names), "")
        if not excluded:
            return Verdict.EXPLAINED
        self.problem = f"the instruction rules out the {excluded.replace('_', ' ')}"
        return Verdict.CONTRADICTED

    def finish(self) -> Verdict:
        """Returns how the whole plan stands."""
        return Verdict.EXPLAINED

    def restarted(self) -> "ExclusionCheck":
        """Returns the check of a replan: what is ruled out stays so."""
        return self

    def _is_excluded(self, name: str) -> bool:
        words = [word for word in bare_words(name.replace("_", " ")) if not word.isdigit()]
        for said in (words, [*words[:1], "one"]) if len(words) > 1 else (words,):  # "not the big one"
            places = [place for place in range(len(self._words)) if self._words[place : place + len(said)] == said]
            if said and places and all(p in self._starts or p + len(said) in self._ends for p in places):
                return True
        return False
