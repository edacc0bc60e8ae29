# SPDX-License-Identifier: Apache-2.0
"""Things that an instruction rules out or takes back: a plan that acts on one has understood the opposite.

"Not the blue folder, the other one", "everything except the pliers", "the bearing, no wait, the bushing". A thing
counts if the instruction speaks of it nowhere else. What may be asked about it or said of it is not judged. "Don't lift
the vase" rules out that it is lifted, and it may be pushed; where something is forbidden for a time or in a case only
("not until ..."), it is not judged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.names import acted_on, bare_words
from llm_planner.planning.verdict import Verdict
from llm_planner.robots.effect import Approach, GoTo, Grasp, Place, Push
from llm_planner.robots.model import RobotModel
from llm_planner.robots.record import Record

_ARTICLE = r"(?:the|that|thi|those|these|my|your|our|his|her|their|an?)"  # as ``bare_words`` have them
_PREPOSITION = r"(?:to|in|into|on|onto|at|for|toward|with|by|over|from)"
_RULED_OUT = re.compile(
    r"(?<!\bif )(?<!\bthere )\b(?:not|never|except(?:ing)?(?: for)?|excluding|isnt|wasnt|instead of|rather than"
    rf"|(?:dont|do not) mean|(?:any|every|no)thing but|all but) (?:{_PREPOSITION} )?{_ARTICLE} "
)
_FORBIDDEN = (
    r"\b(?:(?<!why )(?<!\bi )(?<!\bwe )(?<!\bthey )(?:dont(?: you)?(?: dare)?|(?:do|must) not|never)"
    r"|(?:dont|do not) want you to|mustnt|avoid|without)(?: (?:ever|(?:need|have|try|dare) to))? "
)
_TO = r"(?:(?:anywhere )?near(?: to)?|close to|up to|to|toward|in|into|at)"
_KEPT_AWAY = r"\b(?:avoid(?:ing)?|(?:keep|stay) (?:well )?(?:away from|clear of|off|out of))"
_ONLY = (
    rf"(?: {_ARTICLE}) (?!(?:(?!(?:go|fly|move|come|turn|look|drive|land) )\w+ ){{1,2}}"
    rf"(?:{_PREPOSITION}|of|off|out|near|next|behind|under|that|which|who|more|so|too|again)\b)"
)
"""A thing with nothing behind it: "don't take the cup to the kitchen" lets it be taken."""
_PROHIBITIONS: Sequence[tuple[re.Pattern[str], Sequence[type[Record]]]] = [
    (re.compile(rf"(?:{what}){_ONLY}"), effects)
    for what, effects in (
        (rf"{_FORBIDDEN}(?:go|fly|driv|head|mov|return)(?:ing|e)?(?: back| over)? {_TO}", (GoTo, Approach)),
        (rf"{_FORBIDDEN}approach(?:ing)?(?: to)?|{_KEPT_AWAY}", (GoTo, Approach)),
        (rf"{_FORBIDDEN}(?:pick|tak|lift|grab|grasp|grip|rais|fetch|get)(?:[bpt]?ing|e)?(?: up)?", (Grasp,)),
        (rf"{_FORBIDDEN}(?:touch|mov|us|handl|disturb)(?:ing|e)?", (Grasp, Push)),
        (rf"{_FORBIDDEN}(?:push|slid|shov|nudg)(?:ing|e)?", (Push,)),
        (rf"{_FORBIDDEN}(?:put|plac|lay|set|drop)(?:[bpt]?ing|e)? (?:it|them|that) (?:in|into|on|onto)", (Place,)),
    )
]
"""What an instruction forbids to do with a thing, and what would do so."""
_FOR_A_TIME = re.compile(r"\b(?:yet|until|till?|before|unless|if|when|while|once|first)\b")
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
    _forbidden: Mapping[type[Record], frozenset[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._words = bare_words(self.instruction)
        text = " ".join(self._words)
        self._starts = _ends_of(_RULED_OUT, text)
        forbidden: dict[type[Record], frozenset[int]] = {}
        for prohibition, effects in () if _FOR_A_TIME.search(text) else _PROHIBITIONS:
            for effect in effects:
                forbidden[effect] = forbidden.get(effect, frozenset()) | _ends_of(prohibition, text)
        self._forbidden = forbidden
        self._ends = frozenset(text.count(" ", 0, match.start()) + 1 for match in _TAKEN_BACK.finditer(text))

    def feed(self, calls: Iterable[SkillCall], _text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        excluded = next(
            (name for call in calls for name in acted_on(self.model, call) if self._rules_out(call, name)), ""
        )
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

    def _rules_out(self, call: SkillCall, name: str) -> bool:
        """Returns whether the instruction speaks of what a call acts on only to rule it out."""
        skill = self.model.skill(call.name)
        is_target = skill is not None and isinstance(skill.effect, Push) and name != call.arguments[0]
        starts = self._starts
        if skill is not None and not is_target:
            starts |= self._forbidden.get(type(skill.effect), frozenset())
        words = [word for word in bare_words(name.replace("_", " ")) if not word.isdigit()]
        for said in (words, [*words[:1], "one"]) if len(words) > 1 else (words,):  # "not the big one"
            places = [place for place in range(len(self._words)) if self._words[place : place + len(said)] == said]
            if said and places and all(p in starts or p + len(said) in self._ends for p in places):
                return True
        return False


def _ends_of(pattern: re.Pattern[str], text: str) -> frozenset[int]:
    """Returns before which words of a text matches of a pattern end."""
    return frozenset(text.count(" ", 0, match.end()) for match in pattern.finditer(text))
