# SPDX-License-Identifier: Apache-2.0
"""Names and words of a plan against those of its instruction: a robot is sent to nothing that was not spoken of.

An object of a plan is in the scene, is a place that the robot model knows, or stands in the instruction word for word.
A robot that cannot search has no use for a name that its scene has in another form: "the clean cloth" is ``cloth``
there. But it may look whether there is a "big cup" beside a ``small_cup``. "Clean the desk" names nothing: where there
is no scene, either, a plan may act on what it has looked for.
Nothing is put on itself.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.quantities import with_plain_amounts
from llm_planner.planning.instruction.shown_scene import is_of_a_kind
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.plurals import singular
from llm_planner.planning.untrusted import ascii_letters, plain_task, scene_names
from llm_planner.robots.effect import Ask, Grasp, Perceive, Place, Push, Say
from llm_planner.robots.model import ReturnType, RobotKind, RobotModel

_VARIABLE = re.compile(r"_\d+")
_SOMEBODY = re.compile(r"\b(?:some|any|every|no) ?(?:body|one)\b|\bpeople\b")
"""Who has no name is a ``person``, as object detectors say."""
COLOURS = frozenset(re.findall(r"\w+", "red blue green yellow black white orange purple violet pink brown grey silver"))
_SPEAKER = (
    r"(?<!\bis )(?<!\bare )(?<!'s )(?:across|over|on|through|via) the "
    r"(?:(?:whole )?(?:room|hall)|speakers?|loudspeakers?|tannoy|intercom|radio|pa)"
)
_HOW_TO_SAY = re.compile(
    rf"\b(?:to (?:them|him|her|us)|aloud|out loud|in words|{_SPEAKER})$"
    rf"|^(?:it|that|this)(?: {_SPEAKER})\b"
)
"""What "say hi to them" does not ask to be said."""
_SAID_TWICE = re.compile(r"\b(\w+ \w+) \1\b", re.IGNORECASE)
_NO_WORDS = re.compile(
    r"(?:if|when|once|unless|as soon as|until|what|where|which|whether|how (?:many|much|far|high))"
    r" (?:you|it|he|she|they|there|that|this)\b"
    r"|(?:(?:just|only|to|me|us|him|her|them) )*(?:so|it|that|this|which(?: one)?|what|why|where|how|whether|if so"
    r"|as much|(?:an? )?yes or (?:an? )?no)(?:,? (?:please|then))?$",
    re.IGNORECASE,
)
"""When to say something, and what only stands for the words to say."""
_NO_NAMES = frozenset(
    ("ah", "eh", "er", "erm", "hm", "hmm", "uh", "uhm", "um", "photographed", "shall", "should", "must", "would")
)
"""Words that are in no name: sounds of people who think, and verbs ("the gear shall lie there")."""
_OWN_PARTS = frozenset(("arm", "gripper", "claw"))
"""What a robot arm has of its own: "move with the empty arm to the left" names no thing."""
_IN_QUOTES = re.compile(r'["\u201c]([^"\u201c\u201d]+)["\u201d]')


@dataclass(slots=True)
class NameCheck(PlanCheck):
    """Follows one plan call by call.

    Args:
        model: Of the robot: which arguments are names, and which places it always has.
        instruction: As it came; untrusted.
        scene: Likewise.
        says_only_what_is_asked: Whether what the robot says, and the numbers of what it asks, must stand in the
            instruction, too: for a model that was taught to copy and has nothing to say of its own.
    """

    model: RobotModel
    instruction: str
    scene: str = ""
    says_only_what_is_asked: bool = False
    _words: Sequence[str] = field(init=False)
    _numbers: frozenset[str] = field(init=False)
    _known: frozenset[str] = field(init=False)
    _seen: frozenset[str] = field(init=False)
    _is_of_a_kind: bool = field(init=False)
    _looked_for: set[str] = field(default_factory=set, init=False)
    _places: dict[str, str] = field(default_factory=dict, init=False)  # where the plan has put things

    def __post_init__(self) -> None:
        self._words = bare_words(self.instruction)
        self._numbers = _numbers(self.instruction).union(re.findall(r"\d+", self.instruction))
        self._seen = frozenset(scene_names(self.scene))
        people = ("person",) if _SOMEBODY.search(self.instruction[:4096].lower()) else ()
        self._known = self._seen.union(self.model.places, people)
        self._is_of_a_kind = not self.scene and is_of_a_kind(self.instruction, self.model)

    def feed(self, calls: Iterable[SkillCall], text: str, /) -> Verdict:
        """Returns how the plan stands with the calls of another statement."""
        for call in calls:
            skill = self.model.skills[call.name]
            effect, names = skill.effect, skill.names_in(call)
            if isinstance(effect, Perceive):
                self._looked_for.update(name for name in names if self._may_be_missing(name))
            problem = (
                self._misnamed(names)
                or self._misplaced(effect, names, is_sure=not text.startswith("?"))
                or (self._misspoken(effect, call) if self.says_only_what_is_asked else "")
            )
            if problem:
                return self.contradicted(problem)
        return Verdict.EXPLAINED

    def _misnamed(self, names: Sequence[str]) -> str:
        """Returns why one of the names of a call is none that a plan may have; empty if they may be."""
        unknown = [name for name in names if name not in self._looked_for]
        if self._is_of_a_kind and names and names[0] in self._looked_for:
            unknown = []  # nor is it named where it is brought
        if problem := next(filter(None, map(self._problem_of, unknown)), ""):
            return problem
        return f"the plan brings {names[0]} to itself" if len({*names}) < len(names) else ""

    def _misplaced(self, effect: object, names: Sequence[str], *, is_sure: bool) -> str:
        """Returns why a thing cannot be put where a call puts it; empty if it can, which is noted.

        Args:
            effect: Of the call.
            names: Its things.
            is_sure: Whether it is made in any case.
        """
        if isinstance(effect, (Grasp, Push)):
            self._places.pop(names[0], None)
        if isinstance(effect, Place) and is_sure:
            if self._lies_on(names[-1], names[0]):
                return f"the plan puts {names[0]} on what lies on it"
            self._places[names[0]] = names[-1]
        return ""

    def _misspoken(self, effect: object, call: SkillCall) -> str:
        """Returns what a call says, or asks, that the instruction does not; empty if nothing."""
        if isinstance(effect, Say) and (not self._is_said(call) or self._has_no_words(call)):
            return f"what to say: {call.arguments[0]!r} is not in the instruction as words to say"
        if isinstance(effect, Ask) and _SAID_TWICE.search(str(call.arguments[0])):
            return f"what to ask: {call.arguments[0]!r} says something twice"
        if isinstance(effect, Ask) and (others := _numbers(str(call.arguments[0])) - self._numbers) and self._numbers:
            return f"what to ask: the instruction says {min(self._numbers)}, and not {min(others)}"
        return ""

    def _lies_on(self, name: str, other: str) -> bool:
        """Whether the plan has put a thing on another one, if by way of others."""
        below = self._places.get(name)
        return below == other or (below is not None and self._lies_on(below, other))

    def _problem_of(self, name: str) -> str:
        """Returns why a name is none that a plan may have; empty if it may."""
        words = name_words(name)
        if not self._is_spoken_of(name) or (name not in self._known and not _NO_NAMES.isdisjoint(words)):
            return f"neither the scene nor the instruction has {name}"
        if self._is_own_part(name, words):
            return f"{name} is no thing, but the robot's own"
        if self.model.can_search or not self._known.isdisjoint((name, name.removeprefix("the_"))):
            return ""
        other = next((seen for seen in sorted(self._seen) if {*words}.intersection(name_words(seen))), "")
        return f"the scene has {other}, and no {name}" if other else ""

    def _is_own_part(self, name: str, words: Sequence[str]) -> bool:
        is_part = bool(words) and words[-1] in _OWN_PARTS and self.model.kind is RobotKind.ARM
        return is_part and name not in self._known

    def _may_be_missing(self, name: str) -> bool:
        """Whether a robot may look for what its scene does not have, and act on it where it is after all.

        "If the big cup is there, take it, otherwise the small one": what its scene has is another thing, and no other
        form of the name.
        """
        words = {*name_words(name)}
        is_another_form = any(seen <= words or words <= seen for seen in map(set, map(name_words, self._seen)))
        return self._is_of_a_kind or (self._is_spoken_of(name) and not is_another_form)

    def _is_spoken_of(self, name: str) -> bool:
        plain = name.strip("'\"").lower().removeprefix("the_")  # what begins with a digit is no identifier otherwise
        words = bare_words(plain)
        is_listed = len(words) == 2 and words[0] in COLOURS and {*words} <= {*self._words}  # "the red and blue cups"
        return bool(_VARIABLE.fullmatch(plain)) or plain in self._known or is_listed or self._has(words)

    def _is_said(self, call: SkillCall) -> bool:
        texts = [text for text in call.arguments if isinstance(text, str)]
        is_quoted = _IN_QUOTES.search(self.instruction) is not None
        return all(self._is_whole(bare_words(text)) and (is_quoted or not _HOW_TO_SAY.search(text)) for text in texts)

    def _has_no_words(self, call: SkillCall) -> bool:
        """Whether what a call says are no words to say: "shout if you find it", "just say so", "say yes or no"."""
        return not _IN_QUOTES.search(self.instruction) and any(_NO_WORDS.match(str(text)) for text in call.arguments)

    def _is_whole(self, words: Sequence[str]) -> bool:
        """Returns whether the instruction has these words, and if in quotes, nothing else within the same quotes."""
        quoted = [bare_words(text) for text in _IN_QUOTES.findall(self.instruction)]
        is_cut = words not in quoted and any(_contains(text, words) for text in quoted)
        return self._has(words) and (not is_cut or _contains(bare_words(_IN_QUOTES.sub(" ", self.instruction)), words))

    def _has(self, words: Sequence[str]) -> bool:
        """Returns whether the instruction has these words one behind the other."""
        return _contains(self._words, words)


def _numbers(text: str) -> frozenset[str]:
    """Returns the numbers of a text, in figures."""
    return frozenset(re.findall(r"\d+", with_plain_amounts(plain_task(text))))


def acted_on(model: RobotModel, call: SkillCall) -> list[str]:
    """Returns the names of a call that does something, instead of asking for something."""
    skill = model.skills[call.name]
    return skill.names_in(call) if skill.returns is ReturnType.NONE else []


def _contains(text: Sequence[str], words: Sequence[str]) -> bool:
    ends = range(len(words), len(text) + 1)
    return any(text[end - len(words) : end] == words for end in ends)


def name_words(name: str) -> list[str]:
    """Returns the words of an identifier, without its number."""
    return [word for word in bare_words(name) if not word.isdigit()]


def bare_words(text: str) -> list[str]:
    """Returns the words of a text, or of a name, without case, accents, apostrophes and the ending of a plural."""
    plain = ascii_letters(text[:4096]).lower().replace("\\", "").replace("'", "")
    return [singular(word) for word in re.findall(r"[a-z0-9]+", plain)]
