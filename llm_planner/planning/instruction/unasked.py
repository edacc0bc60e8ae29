# SPDX-License-Identifier: Apache-2.0
"""Motions of which an instruction says nothing: a plan that lands where nobody speaks of the ground has guessed.

For a model that was taught English orders only, and writes a plan for whatever it is told ("a la derecha", "para").
Each kind of motion has words without which nobody orders it, or their beginnings: they are many, so that what passes
may still be wrong.
Not judged are warnings, which leave the motion to the robot, and instructions with a word that may be a misspelled one.
Nor is a thing thrown away where nobody speaks of that: "toss the can to me" is not about the bin.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.robots.effect import Ask, Delay, Home, Land, Place, Push, TakeOff, Translate
from llm_planner.robots.model import RobotModel

_LEFT_OR_RIGHT = r"left|right|lft|rgt|\brt\b|\brite\b|write|wright|reich|\bport\b|starboard|side|clock|\b[lr]\b"
_UP = (
    r"up|high|r[io]s(?:e|ing)|rais|lift|climb|ascen|elevat|hoist|levitat|soar|mount|height|altitude|above|over|off|hop|jump"
    r"|leap|roof|ceiling|sky|air|top|tall|loft|gain|low|add|increase|\bz\b|\bhi(?:re)?\b|more|before|back|undo|same|path"
)
_DOWN = (
    r"down|dwn|low|descen|drop|drap|duck|dip|sink|doon|dawn|deep|below|under|beneath|fall|floor|ground|squat|crouch|stoop|lose"
    r"|less|sett?l|close|bottom|height|come|dive|up|high|correct|reduc|plummet|subside|minus|climb|return|was|were|here|again"
    r"|undo|hop"
)
_GROUND = (
    r"land|down|ground|floor|touch|sit|park|rest|stop|perch|dock|deck|home|base|finish|done|end|pad|put|set|low|alight"
    r"|off|bed|roost|nest|earth|grass|feet|foot|sleep|enough|call it|day|d(?:awn|oon)|firma|tarmac|pose|air|bring|peace"
    r"|descen|lend"
)
_AIR = (
    r"off|up|air|ris(?:e|ing)|launch|lift|start|fly|flight|go|leave|hover|wake|take|get|climb|ascen|begin|sky|jump|hop|wing|spin"
    r"|rotor|motor|engine|ground|floor|aloft|chock|depart|aff|taking"
)
_HOME = (
    r"home|homing|hame|hous|back|return|retir|retreat|retract|withdr|repatriat|reset|base|start|beg[ai]n|origin|initial|launch|came"
    r"|dock|park|rest|roost|sleep|relax|eas|stow|tuck|fold|place|posi|pose|postur|repos|neutral|spot|corner|clear|scarce"
    r"|away|out of|off|finish|done|casa|bk|here|(?:with|to) me|come in|rth|round trip"
)
_WAIT = (
    r"wait|weight|wate|hold|hover|stay|stand|paus|remain|hang|rest|for|sec|delay|stop|still|keep|until|till|after|later|then"
    r"|minute(?! ago)|min\b|hour(?! ago)|half|long|time|count|idle|linger|loiter|dwell|sit|float|every|between|apart"
    r"|break|before|while|when|moment|patien|s\b|breath|\d ?s|one two"
)
_ASK = (
    r"^(?!(?:(?:hey|please|so|ok) )?(?:would|could|will|can) you\b)"
    r"|is\b|isnt|are\b|am\b|was|were|do\b|does|did|ha[sd]|have|can\b|could (?!you)|wh\w|how|any|there|see|look|check"
    r"|tell|told|say|let|report|know|if|read|count|find|spot|notice|verify|confirm|ask|inspect|examine"
    r"|describe|description|colou?r|number|inform|sure|true|stat[eu]|full|empty|open|close|closing|wonder|curious|guess|judge|answer|question|wots?"
)
_WARNING = re.compile(
    r"evad|escap|avoid|flee|away|dodg|pursu|chas|attack|colli|crash|injur|hurt|protect|beware|brace|danger|careful|caution|hazard"
    r"|prevent|threat|fire|smoke|(?:watch|look|mind) out|toward|\b(?:at you|mind your)\b"
    r"|(?:over|under(?:neath)?|above|below|beneath) you"
)
_AWAY = re.compile(
    r"\b(?:\w*bin\w*|been|rubbish|trash\w*|garbage|waste\w*|litter|away|a ?weigh|out|dispos\w*|discard\w*|"
    r"dump\w*|scrap\w*|junk\w*|skip|rid|shot|chuck\w*|toss\w*|throw\w*|threw|pitch\w*|sling\w*|ditch\w*|lob\w*|"
    r"fling\w*|flick\w*|bung\w*|gone|(?:can|must|may|should|to|gotta) go|(?:it|that|this|they) goe?s?|disappear\w*|"
    r"vanish\w*|clean\w*|clear\w*|tid(?:y|ie)\w*|tip|hurl\w*|heave\w*|recycl\w*|dispense|jettison\w*|deep|good|off|lose|"
    r"remov\w*|any ?more|used|empt\w*|old|broken|dead|cracked|dirty|expired|rotten|mould\w*|bad|finished|tired|sick|"
    r"sight|glad)\b"
)
"""What is said of things that are to go, or why."""
_THROWN_TO = re.compile(
    r"\b(?:throw|toss|fling|hurl|lob|chuck|sling|pitch)(?:s|es|ing)? (?!out\b|away\b|off\b)"
    r"(?:(?!and\b|then\b|that\b|while\b)\w+ ){1,5}"
    r"(?:at|to|towards?|against|across|over)(?! (?:eat|be|the side|one side|right|left)\b) (?:\w+)"
)
"""To throw something to somebody or at something is not to throw it away."""
_OFTEN_MISSPELLED = ("left", "right", "higher", "ascend", "lower", "descend", "land")
_CLOSE = 0.76  # of ``difflib``: "rgiht", "lannd"


@dataclass(slots=True)
class UnaskedCheck(PlanCheck):
    """Follows one plan call by call.

    Args:
        model: Of the robot: what its skills do.
        instruction: As it came; untrusted.
    """

    model: RobotModel
    instruction: str
    _said: str = field(init=False)
    _is_judged: bool = field(init=False)

    def __post_init__(self) -> None:
        self._said = self.instruction[:4096].lower()
        words = {*re.findall(r"[a-z]{4,}", self._said)}.difference(_OFTEN_MISSPELLED)
        self._is_judged = not _WARNING.search(self._said) and not any(
            difflib.get_close_matches(word, _OFTEN_MISSPELLED, n=1, cutoff=_CLOSE) for word in words
        )

    def feed(self, calls: Iterable[SkillCall], _text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        for call in calls:
            effect = self.model.skills[call.name].effect
            if isinstance(effect, Place | Push) and self._throws_away(call):
                return self.contradicted("the instruction says nothing of the bin")
            act, words = _act(effect)
            if act and self._is_judged and not re.search(rf"\b(?:{words})", self._said):
                return self.contradicted(f"the instruction says nothing of {act}")
        return Verdict.EXPLAINED

    def _throws_away(self, call: SkillCall) -> bool:
        """Returns whether a call that puts something somewhere has the robot's own bin, and nobody speaks of that."""
        is_own = "bin" in self.model.places and call.arguments[1:2] == ("bin",)
        return is_own and not _AWAY.search(_THROWN_TO.sub(" ", self._said))


_ACTS: Mapping[type, tuple[str, str]] = {
    TakeOff: ("taking off", _AIR),
    Land: ("landing", _GROUND),
    Home: ("going home", _HOME),
    Delay: ("waiting", _WAIT),
    Ask: ("asking anything", _ASK),
}


def _act(effect: object) -> tuple[str, str]:
    """Returns what an effect does, and the words of which one at least orders it; empty for what has no such words."""
    match effect:
        case Translate(axis=(_, y, z)) if abs(y) > abs(z):
            return f"going {'left' if y > 0 else 'right'}", _LEFT_OR_RIGHT
        case Translate(axis=(x, y, z)) if abs(z) > abs(x):
            return ("going up", _UP) if z > 0 else ("going down", _DOWN)
        case _:
            return _ACTS.get(type(effect), ("", ""))
