# SPDX-License-Identifier: Apache-2.0
"""Whether a plan acts though nothing is ordered (``mood``), in another case, or another number of times than is said.

"Go, but not if somebody is there" must not be planned as "go if somebody is there", nor what is impossible in part.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.mood import said_in
from llm_planner.planning.instruction.names import acted_on, bare_words, name_words
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.robots.effect import (
    Approach,
    Ask,
    Delay,
    Effect,
    GoTo,
    Gripper,
    MoveTool,
    NoEffect,
    Perceive,
    Replan,
    Say,
    Scan,
    Stop,
    Translate,
    Turn,
)
from llm_planner.robots.model import RobotModel

_NO_ACTS = (Ask, Delay, NoEffect, Perceive, Replan, Say, Scan, Stop)
"""What a robot does without acting on anything."""
_TRAVELS = (Approach, GoTo, Translate)
_AT_ONCE = re.compile(
    r"\bat the (?:very )?same (?:time|moment|instant)\b|\bsimultaneous(?:ly)?\b"
    r"|\bwhile (?:you )?(?:also )?(?:go|fly|mov|turn|climb|ris|descend|back)\w*"
)
_FOREVER = re.compile(
    r"\b(?:go|going|fly|flying|keep|carry|move|moving|turn|turning|spin|spinning|climb|climbing|continue|wait|rise|repeat"
    r"|circle|back|forward|left|right|up|down|do|doing)\b(?: \w+){0,6} (?:forever|for ever|endlessly|indefinitely"
    r"|infinitely|for (?:all )?eternity|without (?:end|ever stopping)"
    r"|until (?:the end of time|you (?:crash|die)))\b"
)
_ITS_OWN = r"(?:your|ur|the (?:drone|robot|arm|tello)s)(?: (?:own|current|remaining|exact|present|flight))*"
_THE = (
    r"(?:(?:what|how)(?:s| is)(?: the)?|(?:tell me|check|report|say) the)"
    r"(?: (?:own|current|remaining|exact|present|flight))*"
)
_ITS_STATE = (
    r"batter(?:y|ies)|charge|altitude|height|speed|velocity|position|location|coordinates|signal|wifi|firmware"
    r"|serial|heading|payload|flight time"
)
_ASKS_OF_ITSELF = re.compile(
    rf"\b(?:{_ITS_OWN} (?:{_ITS_STATE})\b(?! (?:pack|rack|charger)\b)"
    rf"|{_THE} (?:{_ITS_STATE})\b(?! (?:of|on|in|at|shown|pack|rack|charger)\b)(?! \w+ (?:of|on|in|shown)\b)"
    rf"|how (?:high|fast|full|much (?:{_ITS_STATE}|power|juice))(?: \w+){{0,3}} you\b|where are you\b"
    r"|are you (?:charged|low on|full|hot|running (?:low|out)))"
)
_STATE = re.compile(rf"\b(?:{_ITS_STATE}|you|your|power|juice|how (?:high|fast))\b")
"""What a camera does not see: how the robot itself is."""
_NOT_IF = re.compile(r"\b(?:not|never|dont) (?:ever )?(?:if|when|whenever|while|in case)\b(?! (?:not|possible)\b)")
_IS_NOT = r"(?:(?:do|does|is|are|ca|have|has) ?no?t|cannot|is no|are no|have no|has no|see no|find no|see nothing)\b"
_IF_NOT = re.compile(
    r"^(?!.*\b(?:else|otherwise|unless|but|not only|anyway|should there|either|if so|if not|see if|maybe"
    r"|look|search|find|seek)\b)"
    r"(?!.*\b(?:if|when|in case)\b.*\b(?:if|when|in case)\b)"
    r".*\b(?:if|in case) (?:you|i|we|there|(?:the|my|our|your) \w+(?: (?!which|that|who)\w+)?)"
    rf" ?{_IS_NOT}(?! (?:mind|matter|object))"
)
"""The only case of an instruction, and it is that something is not so."""
_MAY_BE_NOT_SO = re.compile(r"==False|!=|[<>]|\bp\(")
"""What a plan has that acts in such a case, or may."""
_UNTIL_GONE = re.compile(
    r"\b(?:once|after|when|until|till|as soon as) (?:the|that|this|my|your|his|her|he|she|they|everybody|everyone|all) "
    r"(?:\w+ ){0,2}?(?:has|have|is|are) (?:left|gone|away)\b(?! (?:in|into|on|onto|to|down)\b)"
)
_IN_A_CASE = re.compile(r"\b(?:if|when|while|until|till|before|unless)\b")
_STAY = re.compile(
    r"(?:\b(?:and|but)|,) (?:please )?(?:do not|dont|never|without) mov(?:e|ing)(?: (?:at all|an inch|anywhere))?"
    r" ?(?=$|[.!])"
)
_OPPOSITE = re.compile(
    r"\b(?:do|the) (?:exact )?opposite (?:of|to) (?!the (?:side|end|corner|wall)\b)"
    r"|^(?:please )?undo (?:that|it|this|what|the last|your last|\d+)\b"
    r"|(?:(?:^|[-.,;!?] )(?:(?:no|oh|ah|oops|sorry|wait|hang|on|actually|i|ive|its|it|is|thats|that|mean|meant|had|have"
    r"|got|get|put|said|rather|them|those|these|two|2|names|silly|me)[ ,]+)+(?:the )?(?:wrong way (?:a?round|about)"
    r"|back to front|(?:mixed|muddled|confused|swap|switch|reverse) (?:that|it|them|those|up)(?: up)?)"
    r"|\b(?:sorry|oops|silly me|mean|meant|was|its)(?: (?:it|that|those|them))?[ ,]+(?:the )?(?:other way"
    r" a?(?:round|bout)|vice versa|(?<=the )reverse))(?=(?:[ .,!?]|\b(?:please|again|sorry|2|two|my mistake)\b)*$)"
)
_TOO_NEAR = re.compile(
    r"(?:(?:(?:^|[.,;!?] |\b(?:you|youre|(?:that|this|it)(?: i)?s|being?|get|go|come|fly|stay|hover)\b(?: \w+){0,3} )"
    r"(?:\w+ ){0,2}?(?:too|awfully|less)|(?<!you are )(?<!youre )\b(?:not|being|(?:do|did|were|could|would)nt|cant)"
    r"(?: \w+){0,2} (?:so|that|as)) (?:close|near)(?: to| by)?|\b(?:further|farther)(?: \w+)? from|\bcrowd(?:ing)?"
    r"|\b(?:more|some) (?:distance|space|room) (?:to|from|between you and)"
    r"|\bgive(?=(?: \w+){2,3} (?:a bit |some |a little )?(?:more )?(?:room|space)\b))"
    r" ((?:(?!(?:to|and|then|so|but)\b)\w+ ?){1,3})"
)
"""What the robot is, or would be, nearer to than somebody wants."""
_TIMES = re.compile(r"\b(\d{1,6}) times\b")
_CORRECTED = re.compile(r"\b(?:no|nope|sorry|actually|rather|make (?:it|that)|enough|plenty|once|twice|thrice|more)\b")
_LOOP = re.compile(r"(?<![\w.])(\d+)\{")
_HAS_STATE = re.compile(
    r"\b(?:if|whether|when|once|unless|until|is|are) (?:(?:the|my|your|our|his|her|its|that|this) )?(?:\w+ ){0,2}?"
    r"(\w+)(?: is| are)?(?: (?:still|already|really|all|not|completely))* "
    r"(?:empty|full|open|closed|shut|locked|clean|dirty|wet|dry|hot|cold|lit|running|ready|broken|free|taken"
    r"|(?:(?:switched|turned) )?(?:on|off)|plugged in)(?= ?(?:[,.;:!?]|$)| (?:and|or|then)\b)"
)
"""What is asked of a thing besides whether it is there."""
_NOBODY = frozenset(f"{which}{what}" for which in ("any", "some", "every", "no") for what in ("one", "body", "thing"))


@dataclass(slots=True)
class OrderCheck(PlanCheck):
    """Follows one plan statement by statement.

    Args:
        model: Of the robot: what its skills do.
        instruction: As it came; untrusted.
    """

    model: RobotModel
    instruction: str
    _said: str = field(init=False)
    _no_order: str = field(init=False)
    _quoted: Sequence[frozenset[str]] = field(init=False)  # the words of each quotation
    _cases: list[str] = field(default_factory=list, init=False)  # the conditions of blocks that are open
    _done: list[object] = field(default_factory=list, init=False)  # what the plan has done so far
    _acts_if_so: bool = field(default=False, init=False)
    _knows_not_so: bool = field(default=False, init=False)  # or compares, or asks
    _is_guarded: bool = field(default=False, init=False)  # an earlier statement waits, or ends the plan

    def __post_init__(self) -> None:
        self._said, self._quoted, self._no_order = said_in(self.instruction)

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        if text == "}":
            self._cases[-1:] = []
            return Verdict.EXPLAINED
        calls = list(calls)
        case, _, block = text[1:].partition("{") if text.startswith("?") else ("", "", text)
        effects = [self.model.skills[call.name].effect for call in calls]
        done = list(zip(effects, calls, strict=True))
        self.problem = (
            self._unnamed(calls)
            or self._unseen(done)
            or self._unasked_state(done)
            or self._without_order([effect for effect in effects if not isinstance(effect, _NO_ACTS)])
            or self._misplaced(done)
            or self._impossible(effects)
            or self._miscounted(text)
            or self._in_wrong_case([*self._cases, case], effects, block)
        )
        if text.startswith("?") and text.endswith("{"):
            self._cases.append(case)
        if self.problem:
            return Verdict.CONTRADICTED
        self._knows_not_so |= _MAY_BE_NOT_SO.search(text) is not None
        is_doubtful = self._done and (_AT_ONCE.search(self._said) or self._is_reversed)
        return Verdict.DOUBTFUL if is_doubtful else Verdict.EXPLAINED

    def finish(self) -> Verdict:
        """Returns how the whole plan stands: the case in which it acts must be the one that is said."""
        if not self._is_reversed:
            return Verdict.EXPLAINED
        problem = "the instruction says what to do if something is not so, and the plan does it if it is"
        return self.contradicted(problem)

    @property
    def _is_reversed(self) -> bool:
        """Whether the plan acts in a case, as yet in no other one, and the instruction has the other one only."""
        return self._acts_if_so and not self._knows_not_so and _IF_NOT.search(self._said) is not None

    def restarted(self) -> "OrderCheck":
        """Returns the check of a replan: what nobody orders stays so."""
        return OrderCheck(self.model, self.instruction)

    def _unnamed(self, calls: Iterable[SkillCall]) -> str:
        """Returns why a call speaks of nothing that can be seen; empty if it does not."""
        names = (name for call in calls for name in self.model.skills[call.name].names_in(call))
        return next((f"{name!r} is the name of no thing" for name in names if name in _NOBODY), "")

    def _misplaced(self, done: Iterable[tuple[Effect, SkillCall]]) -> str:
        """Returns why the robot is not sent to a thing: it is quoted only, or too near; empty if it may be."""
        for effect, call in done:
            for name in acted_on(self.model, call):
                words, said = {*name_words(name)}, bare_words(self._said)
                quoted = (each for each in self._quoted if words & each and not each <= words)  # not what is on a label
                if any(quoted) and words.isdisjoint(said):
                    return f"only a quotation speaks of the {name.replace('_', ' ')}"
                near = _TOO_NEAR.search(self._said)
                if near and isinstance(effect, (Approach, GoTo, MoveTool)):
                    elsewhere = bare_words(_TOO_NEAR.sub(" ", self._said))
                    if not words.isdisjoint(bare_words(near[1])) and words.isdisjoint(elsewhere):
                        return f"the instruction wants more distance from the {name.replace('_', ' ')}"
        return ""

    def _unseen(self, done: Iterable[tuple[Effect, SkillCall]]) -> str:
        """Returns why a question is none for a camera: it is about the robot itself; empty if it may be one."""
        asked = [str(call.arguments[0]) for effect, call in done if isinstance(effect, Ask)]
        is_of_itself = any(map(_STATE.search, asked)) and _ASKS_OF_ITSELF.search(self._said)
        return "a camera does not see how the robot itself is; look at its dashboard" if is_of_itself else ""

    def _unasked_state(self, done: Sequence[tuple[Effect, SkillCall]]) -> str:
        """Returns what of a thing is not asked, where a plan only looks whether it is there; empty if nothing is."""
        if any(isinstance(effect, Ask) for effect, _ in done):
            return ""
        looks = (call for effect, call in done if isinstance(effect, Perceive) and effect.quantity == "visible")
        things = {word for call in looks for word in name_words(str(call.arguments[0]))[-1:]}
        states = (state for state in _HAS_STATE.finditer(self._said) if things.intersection(bare_words(state[1])))
        return next((f"the plan only looks whether it is there, and not {state[0]!r}" for state in states), "")

    def _without_order(self, acts: Sequence[Effect]) -> str:
        """Returns why what a statement does is not ordered; empty if it is, or does nothing."""
        if acts and self._no_order:
            return self._no_order
        if not all(isinstance(act, Turn) for act in acts) and _OPPOSITE.search(self._said):
            return "what the opposite is, only a person can say"
        if (
            not _IN_A_CASE.search(self._said)
            and _STAY.search(self._said)
            and any(isinstance(act, _TRAVELS) for act in acts)
        ):
            return "the instruction says to move, and not to"
        return ""

    def _impossible(self, effects: Iterable[Effect]) -> str:
        """Returns why no plan does what is ordered: two opposites at once, or one thing for ever; empty if one may."""
        for effect in effects:
            if not isinstance(effect, (NoEffect, Perceive, Replan, Say, Stop)) and _FOREVER.search(self._said):
                return "no plan goes on for ever; say how far, how long or how often"
            if _opposite(effect) in self._done and _AT_ONCE.search(self._said):
                return "nothing can be done at the same time as its opposite"
            self._done.append(effect)
        return ""

    def _miscounted(self, text: str) -> str:
        """Returns why a statement repeats something another number of times than stated; empty if it does not."""
        times, loops = {int(number) for number in _TIMES.findall(self._said)}, [*map(int, _LOOP.findall(text))]
        if len(times) != 1 or not loops or _CORRECTED.search(self._said):
            return ""
        (stated,) = times
        if any(abs(stated - done) <= 1 for done in (math.prod(loops), *loops)):  # the last one may stand by itself
            return ""
        return f"the plan does it {math.prod(loops)} times, and the instruction says {stated}"

    def _in_wrong_case(self, cases: Iterable[str], effects: Sequence[Effect], block: str) -> str:
        """Returns why a statement acts where the instruction says not to; empty if it does not."""
        cases = [case for case in cases if case]
        if all(isinstance(effect, _NO_ACTS) for effect in effects):
            is_end = bool(cases) and ("->" in block or "fail(" in block)
            self._is_guarded |= is_end or any(isinstance(effect, Delay) for effect in effects)
            return ""
        if _NOT_IF.search(self._said) and not self._is_guarded and not any("==False" in case for case in cases):
            return "the instruction says when not to do that"
        self._acts_if_so |= bool(cases)
        if _UNTIL_GONE.search(self._said) and not self._is_guarded and not cases:
            return "the instruction says to wait for something"
        return ""


def _opposite(effect: object) -> object:
    """Returns what undoes an effect; ``...`` if nothing does."""
    match effect:
        case Translate(axis=(x, y, z)):
            return replace(effect, axis=(-x, -y, -z))
        case Turn():
            return replace(effect, direction=-effect.direction)
        case Gripper():
            return Gripper(is_open=not effect.is_open)
        case _:
            return ...
